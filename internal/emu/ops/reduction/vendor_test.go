package reduction

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// CANN's sources cast to the argument dtype before they reduce, fill the output for no elements
// whatever its shape, and take one element with and without a dimension.
func TestReduceAsTheSourcesDo(t *testing.T) {
	x := optest.Tensor(t, dtype.Float32, []int64{2, 2}, 1.75, 2.5, 3.25, -4.5)
	whole := optest.Tensor(t, dtype.Int64, []int64{1, 2})
	optest.Run(t, "ReduceSum", optest.Args{"self": x, "dims": []int64{0}, "keepDims": true, "dtype": dtype.Int64, "out": whole})
	assert.Equal(t, []float64{4, -2}, optest.Values(whole))
	bools := optest.Tensor(t, dtype.Bool, []int64{2, 1})
	optest.Run(t, "ProdDim", optest.Args{"self": optest.Tensor(t, dtype.Uint8, []int64{2, 2}, 1, 0, 200, 3), "dim": -1, "keepDim": true, "dtype": dtype.Bool, "out": bools})
	assert.Equal(t, []float64{0, 1}, optest.Values(bools))
	none := optest.Tensor(t, dtype.Float32, []int64{2, 0, 4})
	filled := optest.Tensor(t, dtype.Float32, []int64{2, 4}, 9)
	optest.Run(t, "ReduceSum", optest.Args{"self": none, "dims": []int64{1}, "keepDims": true, "dtype": dtype.Float32, "out": filled})
	assert.Equal(t, make([]float64, 8), optest.Values(filled))
	optest.Run(t, "ProdDim", optest.Args{"self": none, "dim": 1, "keepDim": true, "dtype": dtype.Float32, "out": filled})
	assert.Equal(t, []float64{1, 1, 1, 1, 1, 1, 1, 1}, optest.Values(filled))
	one := optest.Tensor(t, dtype.Float32, []int64{})
	optest.Run(t, "ProdDim", optest.Args{"self": optest.Tensor(t, dtype.Float32, []int64{3}, 2, 3, 4), "dim": 0, "keepDim": true, "dtype": dtype.Float32, "out": one})
	assert.Equal(t, []float64{24}, optest.Values(one))
	optest.Refused(t, op.InvalidParam, "LogSumExp", optest.Args{"self": x, "dim": []int64{}, "out": optest.Tensor(t, dtype.Float32, []int64{1})}, "out")
}

// A private format whose storage is the view has its elements in order.
func TestReduceStoredAsSeen(t *testing.T) {
	x, out := optest.Tensor(t, dtype.Int32, []int64{2, 2}, 1, 2, 3, 4), optest.Tensor(t, dtype.Int32, []int64{})
	x.Format, x.Storage, out.Format, out.Storage = dtype.NC1HWC0, []int64{2, 2}, dtype.NC1HWC0, nil
	optest.Run(t, "Prod", optest.Args{"self": x, "dtype": dtype.Int32, "out": out})
	assert.Equal(t, []float64{24}, optest.Values(out))
	x.Storage = []int64{1, 1, 1, 2, 16}
	optest.Refused(t, op.InvalidParam, "Prod", optest.Args{"self": x, "dtype": dtype.Int32, "out": out}, "private format")
}

func TestSortOfManyDimensions(t *testing.T) {
	shape := []int64{1, 1, 2, 1, 1, 1, 1, 1, 1, 3}
	x := optest.Tensor(t, dtype.Float32, shape, 3, 1, 2, 6, 5, 4)
	values, places := optest.Tensor(t, dtype.Float16, shape), optest.Tensor(t, dtype.Int64, shape)
	optest.Run(t, "Sort", optest.Args{"self": x, "stable": true, "dim": -1, "descending": false, "valuesOut": values, "indicesOut": places})
	assert.Equal(t, []float64{1, 2, 3, 4, 5, 6}, optest.Values(values))
	assert.Equal(t, []float64{1, 2, 0, 2, 1, 0}, optest.Values(places))
	optest.Run(t, "Sort", optest.Args{"self": x, "dim": 2, "descending": true, "valuesOut": values, "indicesOut": places})
	assert.Equal(t, []float64{6, 5, 4, 3, 1, 2}, optest.Values(values))
}
