package optest

import (
	"slices"

	"github.com/goascend/cann/internal/emu/op"
)

// MatrixProduct returns x·w for row-major matrices x [m, k] and w [k, n].
func MatrixProduct(x, w []float64, m, k, n int64) []float64 {
	out := make([]float64, m*n)
	for i := range m {
		for j := range n {
			for l := range k {
				out[i*n+j] += x[i*k+l] * w[l*n+j]
			}
		}
	}
	return out
}

// Add adds y to x in place; y repeats if it is shorter.
func Add(x, y []float64) {
	for i := range x {
		x[i] += y[i%len(y)]
	}
}

// Transposed returns the transpose of a row-major matrix with the given number of columns.
func Transposed[N int | int64](a []float64, columns N) []float64 {
	n := int(columns)
	out := make([]float64, len(a))
	for i := range a {
		out[i%n*(len(a)/n)+i/n] = a[i]
	}
	return out
}

// Flipped returns a view of the tensor with its last two dimensions swapped.
func Flipped(t *op.Tensor) *op.Tensor {
	f := *t
	n := len(t.Shape)
	f.Shape, f.Strides = slices.Clone(t.Shape), slices.Clone(t.Strides)
	f.Shape[n-1], f.Shape[n-2] = f.Shape[n-2], f.Shape[n-1]
	f.Strides[n-1], f.Strides[n-2] = f.Strides[n-2], f.Strides[n-1]
	return &f
}

// Times returns a·b for row-major matrices a [m, k] and b [k, n].
func Times(a, b []float64, k int) []float64 {
	return MatrixProduct(a, b, int64(len(a)/k), int64(k), int64(len(b)/k))
}
