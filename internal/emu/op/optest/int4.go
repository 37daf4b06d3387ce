package optest

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/fractal"
	"github.com/goascend/cann/internal/emu/op"
)

// Int4 makes a tensor of int4 whose last dimension is even.
func Int4(t testing.TB, shape ...int64) *op.Tensor {
	t.Helper()
	x := Tensor(t, dtype.Int8, []int64{op.Count(shape) / 2})
	x.DType, x.Shape, x.Strides, x.Storage = dtype.Int4, shape, op.ContiguousStrides(shape), shape
	return x
}

// StoreInt4 writes numbers from -8 to 7 to a tensor of int4, or of int32 that hold eight numbers
// each. The first number of a pair is in the low half of the byte.
func StoreInt4(t testing.TB, x *op.Tensor, v []float64) {
	t.Helper()
	packed, release := kernel.TemporaryInt8(int64(len(v) / 2))
	defer release()
	bytes := unsafe.Slice((*byte)(packed.Data), len(v)/2)
	for i := range bytes {
		bytes[i] = byte(int8(v[2*i]))&0xf | byte(int8(v[2*i+1]))<<4
	}
	if op.IsNZ(x.Format) {
		plain := kernel.View{Data: packed.Data, DType: dtype.Int4, Shape: x.Shape, Strides: op.ContiguousStrides(x.Shape)}
		require.NoError(t, fractal.Pack(x.Data, x.NZColumns(), plain))
		return
	}
	copy(unsafe.Slice((*byte)(x.Data), len(bytes)), bytes)
}

// LoadInt4 returns the numbers of a contiguous tensor of int4, or of int32 that hold eight numbers each.
func LoadInt4(x *op.Tensor) []float64 {
	n := x.Len() / 2
	if x.DType == dtype.Int32 {
		n = x.Len() * 4
	}
	out := make([]float64, 0, 2*n)
	for _, b := range unsafe.Slice((*byte)(x.Data), n) {
		out = append(out, float64(int8(b<<4)>>4), float64(int8(b)>>4))
	}
	return out
}
