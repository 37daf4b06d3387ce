package nn

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/rt"
)

func TestScalarValue(t *testing.T) {
	for _, d := range []dtype.Type{
		dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64, dtype.Complex64, dtype.Complex128,
		dtype.Int8, dtype.Int16, dtype.Int32, dtype.Int64, dtype.Uint8, dtype.Uint16, dtype.Uint32, dtype.Uint64,
	} {
		s := &Scalar{DType: d}
		kerneltest.Set(d, unsafe.Pointer(&s.Bits), 77)
		assert.Equal(t, int64(77), s.Int64(), d)
		assert.Equal(t, 77.0, s.Float64(), d)
		assert.True(t, s.hasValue(), d)
	}
	negative := &Scalar{DType: dtype.Float32}
	kerneltest.Set(dtype.Float32, unsafe.Pointer(&negative.Bits), -2.75)
	assert.Equal(t, int64(-2), negative.Int64(), "towards zero")
}

// A C program may make a scalar of any type; one that has no value here must not take the
// process down.
func TestScalarWithoutValueIsRefused(t *testing.T) {
	l := New(rt.NewMachine(rt.Config{Devices: 1, Memory: 1 << 20}))
	bits := [16]byte{1}
	for _, d := range []dtype.Type{dtype.String, dtype.Undefined, dtype.Int4, dtype.HiFloat8, dtype.Float8E4M3, 99} {
		s := &Scalar{DType: d}
		assert.Zero(t, s.Int64(), d)
		assert.Zero(t, s.Float64(), d)

		handle := l.createScalar(nil, []uint64{uint64(uintptr(unsafe.Pointer(&bits))), uint64(d)})
		list := l.rt.Handles.New(rt.ScalarListKind, &scalarList{values: []*Scalar{s}})
		for name, words := range map[string][]uint64{
			"Adds":                 {0, handle, handle, 0},
			"ForeachAddScalarList": {0, list, 0},
		} {
			_, err := l.decode(find(name), words)
			var e *Error
			require.ErrorAs(t, err, &e, d)
			assert.Equal(t, invalidParam, e.Code)
			assert.Contains(t, e.Text, "aclnn"+name)
			assert.Contains(t, e.Text, d.String())
		}
	}
}
