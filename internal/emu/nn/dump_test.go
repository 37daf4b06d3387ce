package nn

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/rt"
)

// A view is dumped as it is seen, permuted storage as it lies.
func TestDumpedTensors(t *testing.T) {
	x := tensorIn(t, dtype.Float32, kerneltest.Transposed, []int64{2, 3}, 1, 2, 3, 4, 5, 6)
	d := x.dump(true)
	assert.Equal(t, rt.DumpTensor{Name: x.name, Output: true, DType: dtype.Float32, Format: x.Format, Shape: x.Shape, Strides: x.Strides, First: x.host}, d)

	nz := tensor(t, dtype.Float16, []int64{1, 1, 16, 16}, make([]float64, 256)...)
	base := nz.host
	nz.Format, nz.Storage, nz.Shape, nz.Strides = dtype.FractalNZ, nz.Shape, []int64{3, 4}, []int64{4, 1}
	d = nz.dump(false)
	assert.Equal(t, []int64{1, 1, 16, 16}, d.Shape)
	assert.Equal(t, []int64{256, 256, 16, 1}, d.Strides)
	assert.Equal(t, base, d.First)
}

// Nobody asks for dumps: the call's own Run is taken.
func TestNoDumps(t *testing.T) {
	l := New(rt.NewMachine(rt.Config{Devices: 1}))
	ran := false
	e := &executor{run: func(*Exec) error { ran = true; return nil }}
	require.NoError(t, l.dumped(nil, e)(nil))
	assert.True(t, ran)
}
