package matrix

import (
	"math"
	"math/cmplx"
	"slices"

	"github.com/goascend/cann/internal/emu/kernel/order"
)

// Complex is a matrix of complex numbers, row by row.
type Complex struct {
	Rows, Cols int
	Data       []complex128
}

func newComplex(rows, cols int) Complex { return Complex{rows, cols, make([]complex128, rows*cols)} }

func complexIdentity(n int) Complex {
	m := newComplex(n, n)
	for i := range n {
		m.Data[i*n+i] = 1
	}
	return m
}

func (m Complex) at(i, j int) *complex128 { return &m.Data[i*m.Cols+j] }

// H returns the conjugate transpose.
func (m Complex) H() Complex {
	t := newComplex(m.Cols, m.Rows)
	for i := range m.Rows {
		for j := range m.Cols {
			*t.at(j, i) = cmplx.Conj(*m.at(i, j))
		}
	}
	return t
}

// Left returns the first n columns.
func (m Complex) Left(n int) Complex {
	out := newComplex(m.Rows, n)
	for i := range m.Rows {
		copy(out.Data[i*n:], m.Data[i*m.Cols:][:n])
	}
	return out
}

// QR factors m into a unitary and an upper triangular matrix, as [Dense.QR]. The diagonal of r is
// real.
func (m Complex) QR() (q, r Complex) {
	r = Complex{m.Rows, m.Cols, slices.Clone(m.Data)}
	q = complexIdentity(m.Rows)
	v := make([]complex128, m.Rows)
	for k := range min(m.Rows, m.Cols) {
		alpha, below := *r.at(k, k), 0.0
		for i := k + 1; i < m.Rows; i++ {
			below = math.Hypot(below, cmplx.Abs(*r.at(i, k)))
		}
		if below == 0 && imag(alpha) == 0 {
			continue
		}
		beta := complex(-math.Copysign(math.Hypot(cmplx.Abs(alpha), below), real(alpha)), 0)
		tau := (beta - alpha) / beta
		v[k] = 1
		for i := k + 1; i < m.Rows; i++ {
			v[i] = *r.at(i, k) / (alpha - beta)
		}
		for j := k; j < m.Cols; j++ { // r becomes (1 - τ̄·v·vᴴ)·r
			dot := complex128(0)
			for i := k; i < m.Rows; i++ {
				dot += cmplx.Conj(v[i]) * *r.at(i, j)
			}
			for i := k; i < m.Rows; i++ {
				*r.at(i, j) -= cmplx.Conj(tau) * v[i] * dot
			}
		}
		*r.at(k, k) = beta
		for i := k + 1; i < m.Rows; i++ {
			*r.at(i, k) = 0
		}
		for i := range m.Rows { // q becomes q·(1 - τ·v·vᴴ)
			dot := complex128(0)
			for j := k; j < m.Rows; j++ {
				dot += *q.at(i, j) * v[j]
			}
			for j := k; j < m.Rows; j++ {
				*q.at(i, j) -= tau * dot * cmplx.Conj(v[j])
			}
		}
	}
	return q, r
}

// LogDet returns the determinant of a square matrix as a number of magnitude 1 and the logarithm of
// its magnitude, or 0 and -Inf for a singular matrix.
func (m Complex) LogDet() (sign complex128, log float64) {
	a := Complex{m.Rows, m.Cols, slices.Clone(m.Data)}
	sign = 1
	for k := range a.Rows {
		pivot := k
		for i := k + 1; i < a.Rows; i++ {
			if cmplx.Abs(*a.at(i, k)) > cmplx.Abs(*a.at(pivot, k)) {
				pivot = i
			}
		}
		p := *a.at(pivot, k)
		if p == 0 {
			return 0, math.Inf(-1)
		}
		if pivot != k {
			sign = -sign
			for j := range a.Cols {
				*a.at(pivot, j), *a.at(k, j) = *a.at(k, j), *a.at(pivot, j)
			}
		}
		size := cmplx.Abs(p)
		sign *= p / complex(size, 0)
		log += math.Log(size)
		for i := k + 1; i < a.Rows; i++ {
			f := *a.at(i, k) / p
			for j := k; j < a.Cols; j++ {
				*a.at(i, j) -= f * *a.at(k, j)
			}
		}
	}
	return sign, log
}

// SVD factors m into u · diag(sigma) · vᴴ, as [Dense.SVD].
func (m Complex) SVD() (u Complex, sigma []float64, v Complex) {
	if m.Rows < m.Cols {
		v, sigma, u = m.H().SVD()
		return u, sigma, v
	}
	a := Complex{m.Rows, m.Cols, slices.Clone(m.Data)}
	v = complexIdentity(m.Cols)
	for range 60 {
		rotated := false
		for p := range m.Cols {
			for q := p + 1; q < m.Cols; q++ {
				rotated = a.orthogonalise(v, p, q) || rotated
			}
		}
		if !rotated {
			break
		}
	}
	norms := make([]float64, m.Cols)
	for j := range norms {
		for i := range m.Rows {
			norms[j] = math.Hypot(norms[j], cmplx.Abs(*a.at(i, j)))
		}
	}
	left, right := newComplex(m.Rows, m.Cols), newComplex(m.Cols, m.Cols)
	for k, j := range order.Descending(norms) {
		sigma = append(sigma, norms[j])
		for i := range m.Rows {
			if norms[j] > 0 {
				*left.at(i, k) = *a.at(i, int(j)) / complex(norms[j], 0)
			}
		}
		for i := range m.Cols {
			*right.at(i, k) = *v.at(i, int(j))
		}
	}
	return left.completed(sigma), sigma, right
}

// orthogonalise rotates columns p and q of m, and of v, so that those of m are orthogonal. It
// reports whether they were not.
func (m Complex) orthogonalise(v Complex, p, q int) bool {
	alpha, beta, gamma := 0.0, 0.0, complex128(0)
	for i := range m.Rows {
		x, y := *m.at(i, p), *m.at(i, q)
		alpha += real(x)*real(x) + imag(x)*imag(x)
		beta += real(y)*real(y) + imag(y)*imag(y)
		gamma += cmplx.Conj(x) * y
	}
	size := math.Copysign(cmplx.Abs(gamma), real(gamma)) // the sign makes real matrices rotate as in Dense
	if math.Abs(size) <= 1e-15*math.Sqrt(alpha*beta) {
		return false
	}
	zeta := (beta - alpha) / (2 * size)
	t := math.Copysign(1, zeta) / (math.Abs(zeta) + math.Sqrt(1+zeta*zeta))
	c := complex(1/math.Sqrt(1+t*t), 0)
	s := c * complex(t, 0)
	phase := cmplx.Conj(gamma) / complex(size, 0)
	for _, a := range []Complex{m, v} {
		for i := range a.Rows {
			x, y := *a.at(i, p), *a.at(i, q)*phase
			*a.at(i, p), *a.at(i, q) = c*x-s*y, s*x+c*y
		}
	}
	return true
}

// completed returns a square unitary matrix whose first columns are those of m with a nonzero
// singular value.
func (m Complex) completed(sigma []float64) Complex {
	rank := 0
	for _, s := range sigma {
		if s > 0 {
			rank++
		}
	}
	q, r := m.Left(rank).QR()
	for k := range rank {
		if real(*r.at(k, k)) < 0 { // QR may have flipped the sign of a column
			for i := range q.Rows {
				*q.at(i, k) = -*q.at(i, k)
			}
		}
	}
	return q
}

// Solve returns x with m·x = b for a triangular matrix m, of which only the triangle is read.
func (m Complex) Solve(b Complex, upper bool) Complex {
	x := Complex{b.Rows, b.Cols, slices.Clone(b.Data)}
	for step := range m.Rows {
		i := step
		if upper {
			i = m.Rows - 1 - step
		}
		for j := range b.Cols {
			sum := *x.at(i, j)
			for done := range step {
				k := done
				if upper {
					k = m.Rows - 1 - done
				}
				sum -= *m.at(i, k) * *x.at(k, j)
			}
			*x.at(i, j) = sum / *m.at(i, i)
		}
	}
	return x
}
