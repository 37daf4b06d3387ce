package reduction

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestCumulatives(t *testing.T) {
	x := optest.TensorIn(t, dtype.Float32, kerneltest.Transposed, []int64{2, 3}, 1, 3, 2, 4, 4, 0)
	out, place := optest.Tensor(t, dtype.Float32, []int64{2, 3}), optest.Tensor(t, dtype.Int64, []int64{2, 3})
	optest.Run(t, "Cumsum", optest.Args{"self": x, "dim": -1, "dtype": dtype.Float32, "out": out})
	assert.Equal(t, []float64{1, 4, 6, 4, 8, 8}, optest.Values(out))
	optest.Run(t, "CumsumV2", optest.Args{"self": x, "dim": 0, "exclusive": true, "reverse": true, "out": out})
	assert.Equal(t, []float64{4, 4, 0, 0, 0, 0}, optest.Values(out))
	optest.Run(t, "Cumprod", optest.Args{"input": x, "dim": optest.Scalar(1), "dtype": dtype.Float32, "out": out})
	assert.Equal(t, []float64{1, 3, 6, 4, 16, 0}, optest.Values(out))
	optest.Run(t, "Cummax", optest.Args{"self": x, "dim": 1, "valuesOut": out, "indicesOut": place})
	assert.Equal(t, []float64{1, 3, 3, 4, 4, 4, 0, 1, 1, 0, 1, 1}, append(optest.Values(out), optest.Values(place)...))
	optest.Run(t, "Cummin", optest.Args{"self": x, "dim": 1, "valuesOut": out, "indicesOut": place})
	assert.Equal(t, []float64{1, 1, 1, 4, 4, 0, 0, 0, 0, 0, 1, 2}, append(optest.Values(out), optest.Values(place)...))
	optest.Run(t, "InplaceCumprod", optest.Args{"input": x, "dim": optest.Scalar(0)})
	assert.Equal(t, []float64{1, 3, 2, 4, 12, 0}, optest.Values(x))

	optest.Refused(t, op.InvalidParam, "Cumsum", optest.Args{"self": x, "dim": 2, "dtype": dtype.Float32, "out": out}, "dimension 2")
	optest.Refused(t, op.InvalidParam, "Cumsum", optest.Args{"self": x, "dim": 0, "dtype": dtype.Float16, "out": out}, "float16")
	optest.Refused(t, op.InvalidParam, "Cumsum", optest.Args{"self": x, "dim": 0, "dtype": dtype.Int64, "out": place}, "cannot be stored")
	optest.Refused(t, op.InvalidParam, "Cummax", optest.Args{"self": x, "dim": 0, "valuesOut": out, "indicesOut": out}, "indicesOut float32")
}
