package layout

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestEmptyTensorsAsTheSourcesTakeThem(t *testing.T) {
	none, filled := optest.Tensor(t, dtype.Float32, []int64{2, 0}), optest.Tensor(t, dtype.Float32, []int64{2, 2}, 9)
	optest.Run(t, "Diag", optest.Args{"self": none, "diagonal": 2, "out": filled})
	assert.Equal(t, make([]float64, 4), optest.Values(filled))
	line := optest.Tensor(t, dtype.Int16, []int64{0})
	optest.Run(t, "Triu", optest.Args{"self": line, "out": line})
	channels, out := optest.Tensor(t, dtype.Float16, []int64{1, 0, 3, 3}), optest.Tensor(t, dtype.Float16, []int64{1, 0, 5, 5})
	optest.Refused(t, op.InvalidParam, "CircularPad2d", optest.Args{"self": channels, "padding": []int64{1, 1, 1, 1}, "out": out}, "only the batch")
	optest.Refused(t, op.NullPointer, "CircularPad2d", optest.Args{"self": channels, "out": out}, "padding")
	// Flatten computes the shape before it looks for empty tensors.
	empty := optest.Tensor(t, dtype.Float32, []int64{0})
	optest.Refused(t, op.InvalidParam, "Flatten", optest.Args{"self": empty, "axis": 0, "out": empty}, "")
	optest.Refused(t, op.InvalidParam, "Flatten", optest.Args{"self": filled, "axis": 0, "out": empty}, "")
	optest.Run(t, "Flatten", optest.Args{"self": empty, "axis": 0, "out": optest.Tensor(t, dtype.Float32, []int64{1, 0})})
}

func TestJoinsAsTheSourcesCheckThem(t *testing.T) {
	wide := optest.Tensor(t, dtype.Complex128, []int64{2})
	optest.Refused(t, op.InvalidParam, "Cat", optest.Args{"tensors": []*op.Tensor{wide}, "out": wide}, "dtype")
	x, y, out := optest.Tensor(t, dtype.Float32, []int64{1, 2}), optest.Tensor(t, dtype.Float32, []int64{1, 2}), optest.Tensor(t, dtype.Float32, []int64{2, 2})
	y.Format = dtype.NCHW
	optest.Refused(t, op.InvalidParam, "Cat", optest.Args{"tensors": []*op.Tensor{x, y}, "out": out}, "formats differ")
	small := optest.Tensor(t, dtype.Int8, []int64{2, 1, 2})
	optest.Refused(t, op.InvalidParam, "Stack", optest.Args{"tensors": []*op.Tensor{x, x}, "dim": 0, "out": small}, "")
	optest.Refused(t, op.NoStep, "Stack", optest.Args{"dim": 0, "out": small}, "tensors")
}

func TestFillComplexAndPrivate(t *testing.T) {
	x := optest.Tensor(t, dtype.Complex64, []int64{2, 2})
	optest.Run(t, "InplaceFillScalar", optest.Args{"selfRef": x, "value": optest.Scalar(2.5)})
	got, err := x.Numbers(x.Shape)
	require.NoError(t, err)
	assert.Equal(t, []complex128{2.5, 2.5, 2.5, 2.5}, got)
	// A private format whose storage is the view has its elements in order.
	y := optest.Tensor(t, dtype.Int32, []int64{2, 2})
	y.Format, y.Storage = dtype.NC1HWC0, []int64{2, 2}
	optest.Run(t, "InplaceFillTensor", optest.Args{"selfRef": y, "value": optest.Tensor(t, dtype.Int32, []int64{}, 7)})
	assert.Equal(t, []float64{7, 7, 7, 7}, optest.Values(y))
}

// Range leaves out the values for which out has no room.
func TestShortRange(t *testing.T) {
	out := optest.Tensor(t, dtype.Float32, []int64{3})
	optest.Run(t, "Range", optest.Args{"start": optest.Scalar(0), "end": optest.Scalar(3), "step": optest.Scalar(1), "out": out})
	assert.Equal(t, []float64{0, 1, 2}, optest.Values(out))
	optest.Refused(t, op.InvalidParam, "Range", optest.Args{"start": optest.Scalar(0), "end": optest.Scalar(1), "step": optest.Scalar(1), "out": out}, "2 elements")
}
