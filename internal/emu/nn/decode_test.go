package nn

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

// A scalar whose type the emulator cannot read is refused and must not crash the process.
func TestScalarWithoutValueIsRefused(t *testing.T) {
	l := New(rt.NewMachine(rt.Config{Devices: 1, Memory: 1 << 20}))
	for _, d := range []dtype.Type{dtype.String, dtype.Undefined, dtype.Int4, dtype.HiFloat8, dtype.Float8E4M3, 99} { // CANN makes scalars of some of them
		s := &op.Scalar{DType: d}
		assert.Zero(t, s.Int64(), d)
		assert.Zero(t, s.Float64(), d)

		handle := l.rt.Handles.New(rt.ScalarKind, s)
		list := l.rt.Handles.New(rt.ScalarListKind, &scalarList{values: []*op.Scalar{s}})
		for name, words := range map[string][]uint64{
			"Adds":                 {0, handle, handle, 0},
			"ForeachAddScalarList": {0, list, 0},
		} {
			_, err := l.decode(op.Find(name), words)
			var e *op.Error
			require.ErrorAs(t, err, &e, d)
			assert.Equal(t, op.InvalidParam, e.Code)
			assert.Contains(t, e.Text, "aclnn"+name)
			assert.Contains(t, e.Text, d.String())
		}
	}
}
