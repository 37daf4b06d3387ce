package activation

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// An argument chooses the form of an activation.
func TestActivationForms(t *testing.T) {
	y, out := optest.Tensor(t, dtype.Float32, []int64{3}, 2, -2, 2), optest.Tensor(t, dtype.Float32, []int64{3})
	optest.Run(t, "Elu", optest.Args{"self": y, "alpha": optest.Scalar(1.), "scale": optest.Scalar(1.), "inputScale": optest.Scalar(1.), "out": out})
	assert.InDeltaSlice(t, []float64{2, -.8646647, 2}, optest.Values(out), 1e-6)
	grad := optest.Tensor(t, dtype.Float32, []int64{3}, 10)
	fromInput, fromResult := optest.Tensor(t, dtype.Float32, []int64{3}), optest.Tensor(t, dtype.Float32, []int64{3})
	a := optest.Args{"gradOutput": grad, "alpha": optest.Scalar(1.), "scale": optest.Scalar(1.), "inputScale": optest.Scalar(1.), "selfOrResult": y, "gradInput": fromInput}
	optest.Run(t, "EluBackward", a)
	a["isResult"], a["selfOrResult"], a["gradInput"] = true, out, fromResult
	optest.Run(t, "EluBackward", a)
	assert.InDeltaSlice(t, []float64{10, 1.353353, 10}, optest.Values(fromInput), 1e-5)
	assert.InDeltaSlice(t, optest.Values(fromInput), optest.Values(fromResult), 1e-5)
	a["alpha"] = optest.Scalar(-1.)
	optest.Refused(t, op.InvalidParam, "EluBackward", a, "alpha is -1")
	optest.Run(t, "Celu", optest.Args{"self": y, "alpha": optest.Scalar(2.), "out": out})
	assert.InDeltaSlice(t, []float64{2, -1.2642411, 2}, optest.Values(out), 1e-6)
	optest.Refused(t, op.InvalidParam, "Celu", optest.Args{"self": y, "alpha": optest.Scalar(0.), "out": out}, "alpha is 0")
	whole := optest.Tensor(t, dtype.Complex64, y.Shape, 7)
	optest.Run(t, "Celu", optest.Args{"self": y, "alpha": optest.Scalar(2.), "out": whole})
	re, im := whole.Parts()
	assert.Equal(t, optest.Values(out), kerneltest.Values(re), "CANN casts real results to complex64")
	assert.Equal(t, make([]float64, len(optest.Values(out))), kerneltest.Values(im))

	for form, want := range []float64{1.9544997, 1.9545977} {
		optest.Run(t, "GeluV2", optest.Args{"x": y, "approximate": form, "y": out})
		assert.InDelta(t, want, optest.Values(out)[0], 1e-6)
	}
	optest.Refused(t, op.InvalidParam, "GeluV2", optest.Args{"x": y, "approximate": 2, "y": out}, "approximate is 2")
	optest.Run(t, "Swish", optest.Args{"self": y, "betaOptional": optest.Scalar(.5), "out": out})
	assert.InDelta(t, 1.4621172, optest.Values(out)[0], 1e-6)
}

// At the limits -3 and 3 the first version has the slope of the middle piece, the second version
// that of the outer pieces.
func TestHardswishBackwardLimits(t *testing.T) {
	inf := math.Inf(1)
	for _, d := range op.FloatTypes {
		grad := optest.Tensor(t, d, []int64{8}, 2)
		self := optest.Tensor(t, d, []int64{8}, -3, 3, 0, -3.5, 3.5, -inf, inf, math.NaN())
		for name, want := range map[string][]float64{
			"HardswishBackward":   {-1, 3, 1, 0, 2, 0, 2, 2},
			"HardswishBackwardV2": {0, 2, 1, 0, 2, 0, 2, 2},
		} {
			out := optest.Tensor(t, d, []int64{8})
			optest.Run(t, name, optest.Args{"gradOutput": grad, "self": self, "out": out})
			assert.Equal(t, want, optest.Values(out), "%s %v", name, d)
		}
	}
}

func TestSquaredRelu(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			x, y := optest.TensorIn(t, d, l, []int64{2, 3}, -2, 0, 1.5, math.Inf(1), math.Inf(-1), 3), optest.TensorIn(t, d, l, []int64{2, 3})
			optest.Run(t, "SquaredRelu", optest.Args{"input": x, "out": y})
			assert.Equal(t, []float64{0, 0, 2.25, math.Inf(1), 0, 9}, optest.Values(y), "%v %v", d, l)
		}
	}
	optest.Refused(t, op.InvalidParam, "SquaredRelu", optest.Args{"input": optest.Tensor(t, dtype.Int32, []int64{1}, 1), "out": optest.Tensor(t, dtype.Int32, []int64{1})}, "dtype")
}

func TestActivations(t *testing.T) { optest.VerifyPointwise(t, activations) }

func TestActivationValues(t *testing.T) {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	gelu := func(x float64) float64 { return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) }
	optest.VerifyValues(t, map[string]func(x, y float64) float64{
		"SigmoidBackward": func(x, y float64) float64 { return x * y * (1 - y) }, "TanhBackward": func(x, y float64) float64 { return x * (1 - y*y) },
		"SiluBackward": func(x, y float64) float64 { return x * (sigmoid(y) + y*sigmoid(y)*(1-sigmoid(y))) },
		"GeluBackward": func(x, y float64) float64 { return x * (gelu(y+1e-5) - gelu(y-1e-5)) / 2e-5 },
		"FastGeluBackward": func(x, y float64) float64 {
			return x * optest.Slope(func(v float64) float64 { return v * sigmoid(1.702*v) }, y)
		},
		"MishBackward": func(x, y float64) float64 {
			return x * optest.Slope(func(v float64) float64 { return v * math.Tanh(math.Log1p(math.Exp(v))) }, y)
		},
		"SoftsignBackward": func(x, y float64) float64 { return x / math.Pow(1+math.Abs(y), 2) },
		"HardswishBackward": func(x, y float64) float64 {
			return x * optest.Slope(func(v float64) float64 { return v * min(max(v+3, 0), 6) / 6 }, y)
		},
	})
	optest.VerifyValues(t, optest.OfOne(map[string]func(x float64) float64{
		"Relu":    func(x float64) float64 { return max(x, 0) },
		"Sigmoid": sigmoid, "Silu": func(x float64) float64 { return x * sigmoid(x) }, "Gelu": gelu,
		"FastGelu": func(x float64) float64 { return x * sigmoid(1.702*x) },
		"Mish":     func(x float64) float64 { return x * math.Tanh(math.Log1p(math.Exp(x))) }, "Softsign": func(x float64) float64 { return x / (1 + math.Abs(x)) },
		"Hardsigmoid": func(x float64) float64 { return min(max(x+3, 0), 6) / 6 }, "Hardswish": func(x float64) float64 { return x * min(max(x+3, 0), 6) / 6 },
		"LogSigmoid": func(x float64) float64 { return math.Log(sigmoid(x)) },
		"Selu": func(x float64) float64 {
			if x > 0 {
				return seluScale * x
			}
			return seluScale * seluAlpha * math.Expm1(x)
		},
	}))
	x := optest.Tensor(t, dtype.Float32, []int64{2}, 1, 2)
	optest.Refused(t, op.InvalidParam, "GeluBackwardV2", optest.Args{"gradOutput": x, "self": x, "approximate": "exact", "gradInput": x}, `"exact"`)
}

// Integers are computed as floating-point numbers, of which the integer part is kept.
func TestActivationsOfIntegers(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Int32, dtype.Int8} {
		x := func() *op.Tensor { return optest.Tensor(t, d, []int64{5}, -9, -1, 0, 20, 100) }
		out := optest.Tensor(t, d, []int64{5})
		optest.Run(t, "Selu", optest.Args{"self": x(), "out": out})
		assert.Equal(t, []float64{-1, -1, 0, 21, 105}, optest.Values(out), "%v", d)
		same := x()
		optest.Run(t, "InplaceSelu", optest.Args{"selfRef": same})
		assert.Equal(t, []float64{-1, -1, 0, 21, 105}, optest.Values(same), "%v", d)
		optest.Run(t, "SeluBackward", optest.Args{"gradOutput": x(), "result": optest.Tensor(t, d, []int64{5}, -1, 0, 0, 21, 105), "gradInput": out})
		assert.Equal(t, []float64{-6, -1, 0, 21, 105}, optest.Values(out), "%v", d)
	}
	out := optest.Tensor(t, dtype.Int32, []int64{4})
	optest.Run(t, "Hardsigmoid", optest.Args{"self": optest.Tensor(t, dtype.Int32, []int64{4}, -3, 0, 2, 3), "out": out})
	assert.Equal(t, []float64{0, 0, 0, 1}, optest.Values(out))
}

// The second version takes integers, and the same type for both tensors.
func TestHardsigmoidV2(t *testing.T) {
	x, out := optest.Tensor(t, dtype.Int32, []int64{4}, -3, 0, 2, 3), optest.Tensor(t, dtype.Int32, []int64{4})
	optest.Run(t, "HardsigmoidV2", optest.Args{"self": x, "out": out})
	assert.Equal(t, []float64{0, 0, 0, 1}, optest.Values(out))
	optest.Run(t, "InplaceHardsigmoidV2", optest.Args{"self": x})
	assert.Equal(t, []float64{0, 0, 0, 1}, optest.Values(x))
	optest.Refused(t, op.InvalidParam, "HardsigmoidV2", optest.Args{"self": x, "out": optest.Tensor(t, dtype.Float32, []int64{4})}, "dtypes differ")
	optest.Refused(t, op.InvalidParam, "InplaceHardsigmoidV2", optest.Args{"self": optest.Tensor(t, dtype.Float64, []int64{4}, 1)}, "float64")
}
