package elementwise

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// Integers that are divided give an output of integers the integer part. A float operand needs a float
// output.
func TestIntegerQuotients(t *testing.T) {
	x, y := optest.Tensor(t, dtype.Int32, []int64{4}, 7, -7, 8, 0), optest.Tensor(t, dtype.Int32, []int64{4}, 2, 2, 4, 3)
	for _, d := range []dtype.Type{dtype.Int32, dtype.Int64} {
		out := optest.Tensor(t, d, []int64{4})
		optest.Run(t, "Div", optest.Args{"self": x, "other": y, "out": out})
		assert.Equal(t, []float64{3, -3, 2, 0}, optest.Values(out))
	}
	optest.Refused(t, op.InvalidParam, "Div", optest.Args{"self": x, "other": optest.Tensor(t, dtype.Float32, []int64{4}, 1), "out": optest.Tensor(t, dtype.Int32, []int64{4})})
	optest.Run(t, "InplaceAtan2", optest.Args{"selfRef": y, "other": x})
	assert.Equal(t, []float64{0, 2, 0, 1}, optest.Values(y))
	out := optest.Tensor(t, dtype.Int32, []int64{4}, 9)
	optest.Run(t, "Frac", optest.Args{"input": x, "out": out})
	assert.Equal(t, []float64{0, 0, 0, 0}, optest.Values(out))
	big := optest.Tensor(t, dtype.Int64, []int64{1}, 1<<40+1)
	sum, one := optest.Tensor(t, dtype.Int64, []int64{1}), optest.Tensor(t, dtype.Int64, []int64{1}, 1)
	optest.Run(t, "Addcdiv", optest.Args{"self": big, "tensor1": one, "tensor2": one, "value": optest.Scalar(1), "out": sum})
	assert.Equal(t, []float64{1<<40 + 2}, optest.Values(sum))
}

// A bool gets whether the quotient of bools is not 0.
func TestQuotientsOfBools(t *testing.T) {
	x, y, want := []float64{1, 0, 1, 0}, []float64{1, 1, 0, 1}, []float64{1, 0, 1, 0}
	of := func(v []float64) *op.Tensor { return optest.Tensor(t, dtype.Bool, []int64{4}, v...) }
	for name, a := range map[string]optest.Args{
		"Div": {"other": of(y)}, "Divs": {"other": optest.Scalar(true)}, "DivMod": {"other": of(y), "mode": 0},
	} {
		out := optest.Tensor(t, dtype.Bool, []int64{4})
		optest.Run(t, name, a.With(optest.Args{"self": of(x), "out": out}))
		assert.Equal(t, want, optest.Values(out), name)
	}
	for name, other := range map[string]any{"InplaceDiv": of(y), "InplaceDivs": optest.Scalar(true), "InplaceAtan2": of(y)} {
		self := of(x)
		optest.Run(t, name, optest.Args{"selfRef": self, "other": other})
		assert.Equal(t, want, optest.Values(self), name)
	}
}
