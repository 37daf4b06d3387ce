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
