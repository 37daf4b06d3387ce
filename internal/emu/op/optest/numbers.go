package optest

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
)

// Fill sets every element to value.
func Fill(x *op.Tensor, value float64) {
	kerneltest.Each(x.View(), func(p unsafe.Pointer) { kerneltest.Set(x.DType, p, value) })
}

// Floats converts numbers to float64.
func Floats[T float32 | int64 | int](v []T) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

// ShapeOf converts the shape of a golden case to the shape of a tensor.
func ShapeOf(shape []int) []int64 {
	out := make([]int64, len(shape))
	for i, d := range shape {
		out[i] = int64(d)
	}
	return out
}

// Row returns row i of a matrix with the given width.
func Row(x []float64, width, i int) []float64 { return x[i*width : (i+1)*width] }

// Laid returns a tensor with the given layout and values. It may be empty.
func Laid(t *testing.T, d dtype.Type, l kerneltest.Layout, v []float64, shape ...int) *op.Tensor {
	s := make([]int64, len(shape))
	for i, n := range shape {
		s[i] = int64(n)
	}
	return TensorIn(t, d, l, s, v...)
}

// counting returns 0, 1, 2, … rounded to type d.
func counting(d dtype.Type, n int64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = kerneltest.Round(d, float64(i%100))
	}
	return v
}

// Numbers returns a tensor with the values 0, 1, 2, … as far as its type can represent them.
func Numbers(t testing.TB, d dtype.Type, l kerneltest.Layout, shape ...int64) *op.Tensor {
	return TensorIn(t, d, l, shape, counting(d, max(Elements(shape), 1))...)
}

// Int8s returns n small integers.
func Int8s(seed, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64((i*i*7+seed*13+i)%31 - 15)
	}
	return v
}

// Repeated returns the values of a tensor broadcast to a shape.
func Repeated(t testing.TB, x *op.Tensor, shape []int64) []float64 {
	t.Helper()
	v, err := x.View().Broadcast(shape)
	require.NoError(t, err)
	return kerneltest.Values(v)
}

// Added returns scale·a + b element by element; b repeats if it is shorter.
func Added(a, b []float64, scale float64) []float64 {
	sum := make([]float64, len(a))
	for i, v := range a {
		sum[i] = scale*v + b[i%len(b)]
	}
	return sum
}

// ToInt8 rounds half to even and saturates to int8.
func ToInt8(x float64) float64 { return min(max(math.RoundToEven(x), -128), 127) }

// OrderedTypes are the element types whose values can be ordered.
var OrderedTypes = []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64, dtype.Int8, dtype.Int32, dtype.Int64, dtype.Uint8}
