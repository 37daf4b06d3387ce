package optest

import (
	"slices"

	"github.com/goascend/cann/internal/emu/op"
)

// Times returns a·b for row-major matrices a [m, k] and b [k, n].
func Times[N int | int64](a, b []float64, k N) []float64 {
	inner := int(k)
	m, n := len(a)/inner, len(b)/inner
	out := make([]float64, m*n)
	for i := range m {
		for j := range n {
			for l := range inner {
				out[i*n+j] += a[i*inner+l] * b[l*n+j]
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
