package matrix

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/order"
)

// Dense is a matrix in double precision, row by row.
type Dense struct {
	Rows, Cols int
	Data       []float64
}

// New returns a matrix of zeros.
func New(rows, cols int) Dense { return Dense{rows, cols, make([]float64, rows*cols)} }

// identity returns the n×n identity matrix.
func identity(n int) Dense {
	m := New(n, n)
	for i := range n {
		m.Data[i*n+i] = 1
	}
	return m
}

func (m Dense) at(i, j int) *float64 { return &m.Data[i*m.Cols+j] }

func (m Dense) row(i int) []float64 { return m.Data[i*m.Cols:][:m.Cols] }

// minus subtracts f·x from y.
func minus(y []float64, f float64, x []float64) {
	x = x[:len(y)]
	for len(y) >= 4 && len(x) >= 4 {
		y[0] -= f * x[0]
		y[1] -= f * x[1]
		y[2] -= f * x[2]
		y[3] -= f * x[3]
		y, x = y[4:], x[4:]
	}
	for i, v := range x {
		y[i] -= f * v
	}
}

// T returns the transpose.
func (m Dense) T() Dense {
	t := New(m.Cols, m.Rows)
	for i := range m.Rows {
		for j := range m.Cols {
			*t.at(j, i) = *m.at(i, j)
		}
	}
	return t
}

// Left returns the first n columns.
func (m Dense) Left(n int) Dense {
	out := New(m.Rows, n)
	for i := range m.Rows {
		copy(out.Data[i*n:], m.Data[i*m.Cols:][:n])
	}
	return out
}

// QR factors m into an orthogonal and an upper triangular matrix of its own shape, by
// Householder reflections with LAPACK's signs.
func (m Dense) QR() (q, r Dense) {
	r = Dense{m.Rows, m.Cols, slices.Clone(m.Data)}
	q = identity(m.Rows)
	v, dots := make([]float64, m.Rows), make([]float64, max(m.Rows, m.Cols))
	for k := range min(m.Rows-1, m.Cols) {
		norm := 0.0
		for i := k; i < m.Rows; i++ {
			v[i] = *r.at(i, k)
			norm = math.Hypot(norm, v[i])
		}
		if norm == math.Abs(v[k]) {
			continue // nothing below the diagonal
		}
		v[k] += math.Copysign(norm, v[k])
		square := 0.0
		for _, x := range v[k:] {
			square += x * x
		}
		reflect := func(a Dense, from int) { // row by row, for all columns at once
			dots := dots[from:a.Cols]
			clear(dots)
			for i := k; i < a.Rows; i++ {
				minus(dots, -v[i], a.row(i)[from:])
			}
			for j := range dots {
				dots[j] *= 2
				dots[j] /= square
			}
			for i := k; i < a.Rows; i++ {
				minus(a.row(i)[from:], v[i], dots)
			}
		}
		reflect(r, k)
		for i := k + 1; i < m.Rows; i++ {
			*r.at(i, k) = 0
		}
		reflect(q, 0) // q accumulates the transpose
	}
	return q.T(), r
}

// LogDet returns the sign of the determinant of a square matrix and the logarithm of its
// absolute value, or 0 and -Inf for a singular matrix.
func (m Dense) LogDet() (sign, log float64) {
	a := Dense{m.Rows, m.Cols, slices.Clone(m.Data)}
	sign = 1
	for k := range a.Rows {
		pivot := k
		for i := k + 1; i < a.Rows; i++ {
			if math.Abs(*a.at(i, k)) > math.Abs(*a.at(pivot, k)) {
				pivot = i
			}
		}
		p := *a.at(pivot, k)
		if p == 0 {
			return 0, math.Inf(-1)
		}
		if pivot != k {
			sign = -sign
			swap(a.row(pivot), a.row(k))
		}
		if p < 0 {
			sign = -sign
		}
		log += math.Log(math.Abs(p))
		for i := k + 1; i < a.Rows; i++ {
			minus(a.row(i)[k:], *a.at(i, k)/p, a.row(k)[k:])
		}
	}
	return sign, log
}

// Cholesky returns the lower triangular l with l·lᵀ = m. It reads only the lower half of m and
// fails unless m is positive definite.
func (m Dense) Cholesky() (Dense, error) {
	l := New(m.Rows, m.Cols)
	for i := range m.Rows {
		for j := range i + 1 {
			sum, other := *m.at(i, j), l.row(j)
			for k, x := range l.row(i)[:j] {
				sum -= x * other[k]
			}
			if i != j {
				*l.at(i, j) = sum / *l.at(j, j)
				continue
			}
			if !(sum > 0) {
				return l, errors.New("the matrix is not positive definite")
			}
			*l.at(i, i) = math.Sqrt(sum)
		}
	}
	return l, nil
}

// SVD factors m into u · diag(sigma) · vᵀ. The singular values are in descending order, and u and
// v are square and orthogonal. It rotates pairs of columns until they are orthogonal (one-sided
// Jacobi).
func (m Dense) SVD() (u Dense, sigma []float64, v Dense) {
	if m.Rows < m.Cols {
		v, sigma, u = m.T().SVD()
		return u, sigma, v
	}
	a := m.T() // columns are rows here
	v = identity(m.Cols)
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
		for _, x := range a.row(j) {
			norms[j] = math.Hypot(norms[j], x)
		}
	}
	left, right := New(m.Rows, m.Cols), New(m.Cols, m.Cols)
	for k, j := range order.Descending(norms) {
		sigma = append(sigma, norms[j])
		for i := range m.Rows {
			if norms[j] > 0 {
				*left.at(i, k) = *a.at(int(j), i) / norms[j]
			}
		}
		for i := range m.Cols {
			*right.at(i, k) = *v.at(int(j), i)
		}
	}
	return left.completed(sigma), sigma, right
}

// orthogonalise rotates rows p and q of m, and of v, so that those of m are orthogonal. It
// reports whether they were not.
func (m Dense) orthogonalise(v Dense, p, q int) bool {
	alpha, beta, gamma := 0.0, 0.0, 0.0
	other := m.row(q)
	for i, x := range m.row(p) {
		y := other[i]
		alpha, beta, gamma = alpha+x*x, beta+y*y, gamma+x*y
	}
	if math.Abs(gamma) <= 1e-15*math.Sqrt(alpha*beta) {
		return false
	}
	zeta := (beta - alpha) / (2 * gamma)
	t := math.Copysign(1, zeta) / (math.Abs(zeta) + math.Sqrt(1+zeta*zeta))
	c := 1 / math.Sqrt(1+t*t)
	s := c * t
	for _, a := range []Dense{m, v} {
		first, second := a.row(p), a.row(q)
		for i, x := range first {
			y := second[i]
			first[i], second[i] = c*x-s*y, s*x+c*y
		}
	}
	return true
}

// completed returns a square orthogonal matrix whose first columns are those of m with a nonzero
// singular value.
func (m Dense) completed(sigma []float64) Dense {
	rank := 0
	for _, s := range sigma {
		if s > 0 {
			rank++
		}
	}
	q, r := m.Left(rank).QR()
	for k := range rank {
		if *r.at(k, k) < 0 { // QR may have flipped the sign of a column
			for i := range q.Rows {
				*q.at(i, k) = -*q.at(i, k)
			}
		}
	}
	return q
}

// Inverse returns the inverse of a square matrix by Gauss-Jordan elimination with column pivots.
// It fails if the matrix is singular. The columns of the inverse take the place of those that are eliminated.
// A block of them is eliminated by itself first, and then from the others by one product.
func (m Dense) Inverse() (Dense, error) {
	const block = 16
	n := m.Rows
	a, pivots := Dense{n, n, slices.Clone(m.Data)}, make([]int, 0, n)
	for first := 0; first < n; first += block {
		width := min(block, n-first)
		part := New(n, width)
		for i := range n {
			copy(part.row(i), a.row(i)[first:])
		}
		for j := range width {
			k := first + j
			pivot := k
			for i := k + 1; i < n; i++ {
				if math.Abs(*part.at(i, j)) > math.Abs(*part.at(pivot, j)) {
					pivot = i
				}
			}
			pivots = append(pivots, pivot)
			swap(a.row(k), a.row(pivot))
			swap(part.row(k), part.row(pivot))
			top := part.row(k)
			p := top[j]
			if p == 0 {
				return a, errors.New("the matrix is singular")
			}
			top[j] = 1
			for x := range top {
				top[x] /= p
			}
			for i := range n {
				if f := *part.at(i, j); i != k && f != 0 {
					*part.at(i, j) = 0
					minus(part.row(i), f, top)
				}
			}
		}
		if width < n {
			if err := part.spread(a, first); err != nil {
				return a, err
			}
		}
		for i := range n {
			copy(a.row(i)[first:], part.row(i))
		}
	}
	for k, pivot := range slices.Backward(pivots) {
		for i := range n {
			row := a.row(i)
			row[k], row[pivot] = row[pivot], row[k]
		}
	}
	return a, nil
}

// swap exchanges two rows, which may be one and the same.
func swap(x, y []float64) {
	for i, v := range x {
		x[i], y[i] = y[i], v
	}
}

// spread applies the elimination of the columns of m, from the given one of a on, to all columns of a.
func (m Dense) spread(a Dense, first int) error {
	top := Dense{m.Cols, a.Cols, slices.Clone(a.Data[first*a.Cols:][:m.Cols*a.Cols])}
	clear(a.Data[first*a.Cols:][:m.Cols*a.Cols])
	var pin runtime.Pinner
	defer pin.Unpin()
	view := func(x Dense) kernel.View {
		pin.Pin(&x.Data[0])
		return kernel.View{Data: unsafe.Pointer(&x.Data[0]), DType: dtype.Float64, Shape: []int64{int64(x.Rows), int64(x.Cols)}, Strides: []int64{int64(x.Cols), 1}}
	}
	out := view(a)
	return gemm.Gemm(gemm.Product{Out: out, A: view(m), B: view(top), Add: &out, Alpha: 1, Beta: 1})
}
