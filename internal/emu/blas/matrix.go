package blas

import (
	"math/cmplx"

	"github.com/goascend/cann/internal/abi"
)

// applied returns op(a): a, its transpose, or its conjugate transpose.
func applied(a dense, op int32) dense {
	if op == abi.ACLBLAS_OP_N {
		return a
	}
	t := zeros(a.cols, a.rows)
	for c := range a.cols {
		for r := range a.rows {
			x := *a.at(r, c)
			if op == abi.ACLBLAS_OP_C {
				x = cmplx.Conj(x)
			}
			*t.at(c, r) = x
		}
	}
	return t
}

// product returns a times b.
func product(a, b dense) dense {
	y := zeros(a.rows, b.cols)
	for c := range b.cols {
		to := y.v[c*y.rows:][:y.rows]
		for k := range a.cols {
			f := *b.at(k, c)
			if imag(f) == 0 { // most are real, and infinities stay what they are
				for r, x := range a.v[k*a.rows:][:a.rows] {
					to[r] += complex(real(x)*real(f), imag(x)*real(f))
				}
				continue
			}
			for r, x := range a.v[k*a.rows:][:a.rows] {
				to[r] += x * f
			}
		}
	}
	return y
}

// mixed returns alpha x + beta y; y is not looked at if beta is 0.
func mixed(alpha complex128, x dense, beta complex128, y dense) dense {
	z := zeros(x.rows, x.cols)
	for i := range z.v {
		z.v[i] = times(alpha, x.v[i])
		if beta != 0 {
			z.v[i] += times(beta, y.v[i])
		}
	}
	return z
}

// times multiplies, and keeps real what two real numbers give.
func times(a, b complex128) complex128 {
	if imag(a) == 0 && imag(b) == 0 {
		return complex(real(a)*real(b), 0)
	}
	return a * b
}

// symmetric fills the other triangle.
func symmetric(a dense, p part) dense {
	for c := range a.cols {
		for r := range c {
			if p == upper {
				*a.at(c, r) = *a.at(r, c)
			} else {
				*a.at(r, c) = *a.at(c, r)
			}
		}
	}
	return a
}

// triangular keeps one triangle, with ones on the diagonal if diag says so.
func triangular(a dense, p part, diag int32) dense {
	for c := range a.cols {
		for r := range a.rows {
			switch {
			case r == c && diag == abi.ACLBLAS_UNIT:
				*a.at(r, c) = 1
			case p == upper && r > c, p == lower && r < c:
				*a.at(r, c) = 0
			}
		}
	}
	return a
}

// solved returns the x with a x = b for a triangle a.
func solved(a dense, isLower bool, b dense) dense {
	n := a.rows
	x := dense{b.rows, b.cols, append([]complex128(nil), b.v...)}
	for c := range b.cols {
		for i := range n {
			r := i
			if !isLower {
				r = n - 1 - i
			}
			sum := *x.at(r, c)
			for k := range n {
				if isLower && k < r || !isLower && k > r {
					sum -= times(*a.at(r, k), *x.at(k, c))
				}
			}
			*x.at(r, c) = sum / *a.at(r, r)
		}
	}
	return x
}

// packed returns the matrix whose triangle lies column by column in x, with zeros in the other.
func packed(x dense, n int, p part) dense {
	a := zeros(n, n)
	i := 0
	for c := range n {
		from, to := 0, c+1
		if p == lower {
			from, to = c, n
		}
		for r := from; r < to; r++ {
			*a.at(r, c) = x.v[i]
			i++
		}
	}
	return a
}

// repacked is the reverse of packed.
func repacked(a dense, p part) dense {
	x := zeros(a.rows*(a.rows+1)/2, 1)
	i := 0
	for c := range a.cols {
		from, to := 0, c+1
		if p == lower {
			from, to = c, a.rows
		}
		for r := from; r < to; r++ {
			x.v[i] = *a.at(r, c)
			i++
		}
	}
	return x
}

// banded returns the matrix of rows x cols whose diagonals, ku above the main one first, are the rows of x.
func banded(x dense, rows, cols, kl, ku int) dense {
	a := zeros(rows, cols)
	for c := range cols {
		for r := max(0, c-ku); r < min(rows, c+kl+1); r++ {
			*a.at(r, c) = *x.at(ku+r-c, c)
		}
	}
	return a
}
