package nn

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op/optest"
	"github.com/goascend/cann/internal/emu/rt/dump"
)

// A strided view is dumped with its own shape, a tensor in a private format with its storage shape.
func TestDumpedTensors(t *testing.T) {
	x := optest.TensorIn(t, dtype.Float32, kerneltest.Transposed, []int64{2, 3}, 1, 2, 3, 4, 5, 6)
	d := dumped(x, true)
	assert.Equal(t, dump.Tensor{Name: x.Name, Output: true, DType: dtype.Float32, Format: x.Format, Shape: x.Shape, Strides: x.Strides, First: x.Data}, d)

	nz := optest.Tensor(t, dtype.Float16, []int64{1, 1, 16, 16}, make([]float64, 256)...)
	base := nz.Data
	nz.Format, nz.Storage, nz.Shape, nz.Strides = dtype.FractalNZ, nz.Shape, []int64{3, 4}, []int64{4, 1}
	d = dumped(nz, false)
	assert.Equal(t, []int64{1, 1, 16, 16}, d.Shape)
	assert.Equal(t, []int64{256, 256, 16, 1}, d.Strides)
	assert.Equal(t, base, d.First)
}
