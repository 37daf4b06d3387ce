package nn

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestCumulatives(t *testing.T) {
	x := tensorIn(t, dtype.Float32, kerneltest.Transposed, []int64{2, 3}, 1, 3, 2, 4, 4, 0)
	out, place := tensor(t, dtype.Float32, []int64{2, 3}), tensor(t, dtype.Int64, []int64{2, 3})
	run(t, "Cumsum", args{"self": x, "dim": -1, "dtype": dtype.Float32, "out": out})
	assert.Equal(t, []float64{1, 4, 6, 4, 8, 8}, values(out))
	run(t, "CumsumV2", args{"self": x, "dim": 0, "exclusive": true, "reverse": true, "out": out})
	assert.Equal(t, []float64{4, 4, 0, 0, 0, 0}, values(out))
	run(t, "Cumprod", args{"input": x, "dim": scalar(1), "dtype": dtype.Float32, "out": out})
	assert.Equal(t, []float64{1, 3, 6, 4, 16, 0}, values(out))
	run(t, "Cummax", args{"self": x, "dim": 1, "valuesOut": out, "indicesOut": place})
	assert.Equal(t, []float64{1, 3, 3, 4, 4, 4, 0, 1, 1, 0, 1, 1}, append(values(out), values(place)...))
	run(t, "Cummin", args{"self": x, "dim": 1, "valuesOut": out, "indicesOut": place})
	assert.Equal(t, []float64{1, 1, 1, 4, 4, 0, 0, 0, 0, 0, 1, 2}, append(values(out), values(place)...))
	run(t, "InplaceCumprod", args{"input": x, "dim": scalar(0)})
	assert.Equal(t, []float64{1, 3, 2, 4, 12, 0}, values(x))

	refused(t, invalidParam, "Cumsum", args{"self": x, "dim": 2, "dtype": dtype.Float32, "out": out}, "dimension 2")
	refused(t, invalidParam, "Cumsum", args{"self": x, "dim": 0, "dtype": dtype.Float16, "out": out}, "float16")
	refused(t, invalidParam, "Cumsum", args{"self": x, "dim": 0, "dtype": dtype.Int64, "out": place}, "cannot be stored")
	refused(t, invalidParam, "Cummax", args{"self": x, "dim": 0, "valuesOut": out, "indicesOut": out}, "indicesOut float32")
}

func TestEqual(t *testing.T) {
	x, same := tensor(t, dtype.Float16, []int64{2, 2}, 1, 2, 3, 4), tensor(t, dtype.Bool, []int64{1})
	for want, other := range map[float64]*Tensor{
		1: tensorIn(t, dtype.Float16, kerneltest.Transposed, []int64{2, 2}, 1, 2, 3, 4), 0: tensor(t, dtype.Float16, []int64{2, 2}, 1, 2, 3, 5),
	} {
		run(t, "Equal", args{"self": x, "other": other, "out": same})
		assert.Equal(t, []float64{want}, values(same))
	}
	run(t, "Equal", args{"self": x, "other": tensor(t, dtype.Float16, []int64{4}, 1), "out": same})
	assert.Equal(t, []float64{0}, values(same))
	refused(t, invalidParam, "Equal", args{"self": x, "other": x, "out": x}, "out float16")
}

// The forms that an argument chooses.
func TestForms(t *testing.T) {
	x, y := tensor(t, dtype.Float32, []int64{3}, -7, 7, 5), tensor(t, dtype.Float32, []int64{3}, 2, -2, 2)
	out := tensor(t, dtype.Float32, []int64{3})
	for mode, want := range [][]float64{{-3.5, -3.5, 2.5}, {-3, -3, 2}, {-4, -4, 2}} {
		run(t, "DivMod", args{"self": x, "other": y, "mode": mode, "out": out})
		assert.Equal(t, want, values(out))
	}
	run(t, "RoundDecimals", args{"self": tensor(t, dtype.Float32, []int64{3}, 1.26, -2.14, 15), "decimals": 1, "out": out})
	assert.InDeltaSlice(t, []float64{1.3, -2.1, 15}, values(out), 1e-6)
	run(t, "RoundDecimals", args{"self": tensor(t, dtype.Float32, []int64{3}, 126, -214, 15), "decimals": -1, "out": out})
	assert.InDeltaSlice(t, []float64{130, -210, 20}, values(out), 1e-6)

	run(t, "Elu", args{"self": y, "alpha": scalar(1.), "scale": scalar(1.), "inputScale": scalar(1.), "out": out})
	assert.InDeltaSlice(t, []float64{2, -.8646647, 2}, values(out), 1e-6)
	grad := tensor(t, dtype.Float32, []int64{3}, 10)
	fromInput, fromResult := tensor(t, dtype.Float32, []int64{3}), tensor(t, dtype.Float32, []int64{3})
	a := args{"gradOutput": grad, "alpha": scalar(1.), "scale": scalar(1.), "inputScale": scalar(1.), "selfOrResult": y, "gradInput": fromInput}
	run(t, "EluBackward", a)
	a["isResult"], a["selfOrResult"], a["gradInput"] = true, out, fromResult
	run(t, "EluBackward", a)
	assert.InDeltaSlice(t, []float64{10, 1.353353, 10}, values(fromInput), 1e-5)
	assert.InDeltaSlice(t, values(fromInput), values(fromResult), 1e-5)
	a["alpha"] = scalar(-1.)
	refused(t, invalidParam, "EluBackward", a, "alpha is -1")
	run(t, "Celu", args{"self": y, "alpha": scalar(2.), "out": out})
	assert.InDeltaSlice(t, []float64{2, -1.2642411, 2}, values(out), 1e-6)
	refused(t, invalidParam, "Celu", args{"self": y, "alpha": scalar(0.), "out": out}, "alpha is 0")

	for form, want := range []float64{1.9544997, 1.9545977} {
		run(t, "GeluV2", args{"x": y, "approximate": form, "y": out})
		assert.InDelta(t, want, values(out)[0], 1e-6)
	}
	refused(t, invalidParam, "GeluV2", args{"x": y, "approximate": 2, "y": out}, "approximate is 2")
	run(t, "Swish", args{"self": y, "betaOptional": scalar(.5), "out": out})
	assert.InDelta(t, 1.4621172, values(out)[0], 1e-6)
}
