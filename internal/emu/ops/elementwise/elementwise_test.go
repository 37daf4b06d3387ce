package elementwise

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestElementwise(t *testing.T) { optest.VerifyPointwise(t, op.Merge(unary, binaries, gradients)) }

func TestElementwiseValues(t *testing.T) {
	optest.VerifyValues(t, map[string]func(x, y float64) float64{
		"Add": func(x, y float64) float64 { return x + 2*y }, "Sub": func(x, y float64) float64 { return x - 2*y },
		"Rsub": func(x, y float64) float64 { return y - 2*x }, "Mul": func(x, y float64) float64 { return x * y },
		"Div": func(x, y float64) float64 { return x / y }, "FloorDivide": func(x, y float64) float64 { return math.Floor(x / y) },
		"FmodTensor": math.Mod, "RemainderTensorTensor": func(x, y float64) float64 { return x - y*math.Floor(x/y) },
		"Maximum": math.Max, "Minimum": math.Min, "PowTensorTensor": math.Pow, "Atan2": math.Atan2,
		"LogAddExp":    func(x, y float64) float64 { return math.Log(math.Exp(x) + math.Exp(y)) },
		"LogAddExp2":   func(x, y float64) float64 { return math.Log2(math.Exp2(x) + math.Exp2(y)) },
		"SqrtBackward": func(x, y float64) float64 { return y / (2 * x) },
	})
	optest.VerifyValues(t, optest.OfOne(map[string]func(x float64) float64{
		"Abs": math.Abs, "Neg": func(x float64) float64 { return -x }, "Sign": func(x float64) float64 { return math.Copysign(1, x) },
		"Square": func(x float64) float64 { return x * x },
		"Sqrt":   math.Sqrt, "Rsqrt": func(x float64) float64 { return 1 / math.Sqrt(x) }, "Reciprocal": func(x float64) float64 { return 1 / x },
		"Exp": math.Exp, "Exp2": math.Exp2, "Expm1": math.Expm1, "Log": math.Log, "Log2": math.Log2, "Log10": math.Log10, "Log1p": math.Log1p,
		"Sin": math.Sin, "Cos": math.Cos, "Tan": math.Tan, "Asin": math.Asin, "Acos": math.Acos, "Atan": math.Atan, "Sinh": math.Sinh,
		"Cosh": math.Cosh, "Tanh": math.Tanh, "Asinh": math.Asinh, "Acosh": math.Acosh, "Atanh": math.Atanh, "Erf": math.Erf, "Erfc": math.Erfc,
		"Erfinv": math.Erfinv, "Lgamma": func(x float64) float64 { v, _ := math.Lgamma(x); return v },
		"Digamma": func(x float64) float64 {
			if x == -1 {
				return math.NaN()
			}
			return optest.Slope(func(v float64) float64 { l, _ := math.Lgamma(v); return l }, x)
		},
		"Floor": math.Floor, "Ceil": math.Ceil, "Trunc": math.Trunc, "Round": math.RoundToEven, "Frac": func(x float64) float64 { return x - math.Trunc(x) },
		"Sinc": func(x float64) float64 { return math.Sin(math.Pi*x) / (math.Pi * x) },
	}))
}

func TestMixedTypes(t *testing.T) {
	x, y := optest.Tensor(t, dtype.Int32, []int64{2, 1}, 1, 2), optest.Tensor(t, dtype.Float16, []int64{3}, .5, 1.5, 2.5)
	z := optest.Tensor(t, dtype.Float16, []int64{2, 3})
	optest.Run(t, "Add", optest.Args{"self": x, "other": y, "alpha": optest.Scalar(1), "out": z})
	assert.Equal(t, []float64{1.5, 2.5, 3.5, 2.5, 3.5, 4.5}, optest.Values(z))
	optest.Refused(t, op.InvalidParam, "Add", optest.Args{"self": x, "other": y, "alpha": optest.Scalar(1), "out": optest.Tensor(t, dtype.Int32, []int64{2, 3})}, "float16", "int32[2,3]")
	optest.Refused(t, op.InvalidParam, "Add", optest.Args{"self": x, "other": x, "alpha": optest.Scalar(1.5), "out": optest.Tensor(t, dtype.Int32, []int64{2, 1})}, "alpha")
	optest.Refused(t, op.InvalidParam, "Add", optest.Args{"self": x, "other": optest.Tensor(t, dtype.Float32, []int64{4}), "alpha": optest.Scalar(1), "out": z}, "other float32[4]")

	half := optest.Tensor(t, dtype.Float32, []int64{4})
	optest.Run(t, "Divs", optest.Args{"self": optest.Tensor(t, dtype.Int64, []int64{4}, 1, 2, 3, 4), "other": optest.Scalar(2), "out": half})
	assert.Equal(t, []float64{.5, 1, 1.5, 2}, optest.Values(half))
	flags := optest.Tensor(t, dtype.Bool, []int64{4}, 0, 0, 1, 1)
	optest.Run(t, "InplaceAdds", optest.Args{"selfRef": half, "other": optest.Scalar(.5), "alpha": optest.Scalar(2)})
	assert.Equal(t, []float64{1.5, 2, 2.5, 3}, optest.Values(half))
	not := optest.Tensor(t, dtype.Bool, []int64{4})
	optest.Run(t, "BitwiseNot", optest.Args{"self": flags, "out": not})
	assert.Equal(t, []float64{1, 1, 0, 0}, optest.Values(not))
}

func TestClampAndPower(t *testing.T) {
	x, out := optest.Tensor(t, dtype.Float32, []int64{5}, -2, -1, 0, 1, math.NaN()), optest.Tensor(t, dtype.Float32, []int64{5})
	optest.Run(t, "Clamp", optest.Args{"self": x, "clipValueMin": optest.Scalar(-1.5), "out": out})
	assert.Equal(t, []float64{-1.5, -1, 0, 1}, optest.Values(out)[:4])
	assert.True(t, math.IsNaN(optest.Values(out)[4]))
	optest.Run(t, "Clamp", optest.Args{"self": x, "clipValueMin": optest.Scalar(-1.5), "clipValueMax": optest.Scalar(.5), "out": out})
	assert.Equal(t, []float64{-1.5, -1, 0, .5}, optest.Values(out)[:4])
	optest.Refused(t, op.NullPointer, "Clamp", optest.Args{"self": x, "out": out}, "clipValueMax")

	x = optest.Tensor(t, dtype.Float32, []int64{5}, 7, -1, 0, 1, 7)
	square := optest.Tensor(t, dtype.Float32, []int64{5})
	optest.Run(t, "PowTensorScalar", optest.Args{"self": x, "exponent": optest.Scalar(2), "out": square})
	assert.Equal(t, []float64{49, 1, 0, 1, 49}, optest.Values(square))
	optest.Refused(t, op.InvalidParam, "DivMod", optest.Args{"self": x, "other": x, "mode": 3, "out": out}, "mode is 3")
}

// A tensor in a private format is computed element by element of its storage.
func TestElementwisePrivateFormat(t *testing.T) {
	nz := func(v ...float64) *op.Tensor {
		x := optest.Tensor(t, dtype.Float16, []int64{1, 1, 16, 16}, v...)
		x.Shape, x.Strides, x.Format = []int64{3, 5}, []int64{5, 1}, dtype.FractalNZ
		return x
	}
	x, y := nz(2, 3), nz(0)
	optest.Run(t, "Muls", optest.Args{"self": x, "other": optest.Scalar(2), "out": y})
	y.Shape, y.Strides, y.Format = []int64{256}, []int64{1}, dtype.ND
	assert.Equal(t, []float64{4, 6, 4, 6}, optest.Values(y)[252:])
	optest.Refused(t, op.InvalidParam, "Muls", optest.Args{"self": x, "other": optest.Scalar(2), "out": optest.Tensor(t, dtype.Float16, []int64{3, 5})}, "FRACTAL_NZ")
}
