package op_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
)

func TestScalarValue(t *testing.T) {
	for _, d := range []dtype.Type{
		dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64, dtype.Complex64, dtype.Complex128,
		dtype.Int8, dtype.Int16, dtype.Int32, dtype.Int64, dtype.Uint8, dtype.Uint16, dtype.Uint32, dtype.Uint64,
	} {
		s := &op.Scalar{DType: d}
		kerneltest.Set(d, unsafe.Pointer(&s.Bits), 77)
		assert.Equal(t, int64(77), s.Int64(), d)
		assert.Equal(t, 77.0, s.Float64(), d)
		assert.True(t, s.HasValue(), d)
	}
	negative := &op.Scalar{DType: dtype.Float32}
	kerneltest.Set(dtype.Float32, unsafe.Pointer(&negative.Bits), -2.75)
	assert.Equal(t, int64(-2), negative.Int64(), "towards zero")
}
