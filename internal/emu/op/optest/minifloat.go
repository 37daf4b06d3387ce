package optest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/minifloat"
	"github.com/goascend/cann/internal/emu/op"
)

// Minifloat returns a contiguous tensor of a type of eight or four bits, with an even last dimension.
func Minifloat(t testing.TB, d dtype.Type, shape []int64, values ...float64) *op.Tensor {
	bytes := append([]int64{}, shape...)
	if d.Bits() == 4 {
		bytes[len(bytes)-1] /= 2
	}
	x := Tensor(t, dtype.Uint8, bytes, 0)
	x.DType, x.Shape, x.Storage, x.Strides = d, shape, shape, op.ContiguousStrides(shape)
	if len(values) > 0 {
		require.NoError(t, minifloat.Write(x.View(), values, minifloat.Even))
	}
	return x
}

// MinifloatValues returns the elements of a tensor of any floating-point type in row-major order.
func MinifloatValues(t testing.TB, x *op.Tensor) []float64 {
	v, err := minifloat.Read(x.View())
	require.NoError(t, err)
	return v
}
