package compare_test

import (
	"slices"

	"github.com/goascend/cann/aclnn"
)

var elementwise = slices.Concat(unaries(), binaries(), withNumber(), []operator{
	{"lerp.float32", func(d *data) arguments {
		return fill(&aclnn.LerpParams{}, d.normal(f32), d.normal(f32), d.uniform(f32, 0, 1), d.out(f32))
	}},
	{"lerp_scalar.float32", func(d *data) arguments {
		return fill(&aclnn.LerpsParams{}, d.normal(f32), d.normal(f32), .3, d.out(f32))
	}},
	{"addcmul.float32", func(d *data) arguments {
		return fill(&aclnn.AddcmulParams{}, d.normal(f32), d.normal(f32), d.normal(f32), .5, d.out(f32))
	}},
	{"addcdiv.float32", func(d *data) arguments {
		return fill(&aclnn.AddcdivParams{}, d.normal(f32), d.normal(f32), d.uniform(f32, 1, 2), .5, d.out(f32))
	}},
	{"clamp_tensor.float32", func(d *data) arguments {
		return fill(&aclnn.ClampTensorParams{}, d.normal(f32), d.uniform(f32, -1, 0), d.uniform(f32, 0, 1), d.out(f32))
	}},
	{"clamp.float32", func(d *data) arguments {
		return fill(&aclnn.ClampParams{}, d.normal(f32), -.5, .5, d.out(f32))
	}},
	{"clamp.bfloat16", func(d *data) arguments {
		return fill(&aclnn.ClampParams{}, d.normal(bf16), -.5, .5, d.out(bf16))
	}},
	{"clamp.int64", func(d *data) arguments {
		return fill(&aclnn.ClampParams{}, d.ints(i64, 1000), 100, 900, d.out(i64))
	}},
	{"where.float32", func(d *data) arguments {
		return fill(&aclnn.SWhereParams{}, d.ints(yes, 2), d.normal(f32), d.normal(f32), d.out(f32))
	}},
	{"where_column.float32", func(d *data) arguments {
		return fill(&aclnn.SWhereParams{}, d.ints(yes, 2, side, 1), d.normal(f32), d.normal(f32, side), d.out(f32))
	}},
	{"nan_to_num.float32", func(d *data) arguments {
		return fill(&aclnn.NanToNumParams{}, d.normal(f32), 0., 1., -1., d.out(f32))
	}},
	{"logit.float32", func(d *data) arguments {
		return fill(&aclnn.LogitParams{}, d.uniform(f32, 0, 1), 1e-3, d.out(f32))
	}},
	{"isclose.float32", func(d *data) arguments {
		return fill(&aclnn.IsCloseParams{}, d.normal(f32), d.normal(f32), 1e-5, 1e-8, false, d.out(yes))
	}},
	{"round_decimals.float32", func(d *data) arguments {
		return fill(&aclnn.RoundDecimalsParams{}, d.normal(f32), 2, d.out(f32))
	}},
	{"polar.float32", func(d *data) arguments {
		return fill(&aclnn.PolarParams{}, d.uniform(f32, 0, 1), d.normal(f32), d.out(aclnn.Complex64))
	}},
	{"complex.float32", func(d *data) arguments {
		return fill(&aclnn.ComplexParams{}, d.normal(f32), d.normal(f32), d.out(aclnn.Complex64))
	}},
	{"add_row.float32", func(d *data) arguments {
		return fill(&aclnn.AddParams{}, d.normal(f32), d.normal(f32, side), 1., d.out(f32))
	}},
	{"add_column.float32", func(d *data) arguments {
		return fill(&aclnn.AddParams{}, d.normal(f32), d.normal(f32, side, 1), 1., d.out(f32))
	}},
	{"add_transposed.float32", func(d *data) arguments {
		return fill(&aclnn.AddParams{}, d.normal(f32), d.normal(f32).Transpose(0, 1), 1., d.out(f32))
	}},
	{"add_mixed.float32", func(d *data) arguments {
		return fill(&aclnn.AddParams{}, d.normal(f32), d.normal(bf16), 1., d.out(f32))
	}},
	{"mul_strided.float32", func(d *data) arguments {
		half := func() *aclnn.Tensor { return d.normal(f32, side, 2*side).Slice(1, 0, 2*side, 2) }
		return fill(&aclnn.MulParams{}, half(), half(), d.out(f32))
	}},
})

// unary is an operator of one tensor, whose elements are between low and high, or normal if both are 0.
type unary struct {
	name      string
	args      arguments
	low, high float64
	dtypes    []aclnn.DType
	out       aclnn.DType // bool, or the operand's
}

var (
	single   = []aclnn.DType{f32}
	floats   = []aclnn.DType{f32, bf16, f16}
	numbers  = []aclnn.DType{f32, bf16, f16, i64, i32}
	integers = []aclnn.DType{i64, i32, u8}
)

func unaries() (list []operator) {
	for _, u := range []unary{
		{name: "abs", args: &aclnn.AbsParams{}, dtypes: numbers},
		{name: "acos", args: &aclnn.AcosParams{}, low: -1, high: 1, dtypes: single},
		{name: "acosh", args: &aclnn.AcoshParams{}, low: 1.1, high: 3, dtypes: single},
		{name: "asin", args: &aclnn.AsinParams{}, low: -1, high: 1, dtypes: floats},
		{name: "asinh", args: &aclnn.AsinhParams{}, dtypes: single},
		{name: "atan", args: &aclnn.AtanParams{}, dtypes: single},
		{name: "atanh", args: &aclnn.AtanhParams{}, low: -.9, high: .9, dtypes: single},
		{name: "bitwise_not", args: &aclnn.BitwiseNotParams{}, high: 100, dtypes: integers},
		{name: "ceil", args: &aclnn.CeilParams{}, dtypes: single},
		{name: "cos", args: &aclnn.CosParams{}, dtypes: floats},
		{name: "cosh", args: &aclnn.CoshParams{}, dtypes: single},
		{name: "digamma", args: &aclnn.DigammaParams{}, low: .1, high: 3, dtypes: single},
		{name: "erf", args: &aclnn.ErfParams{}, dtypes: floats},
		{name: "erfc", args: &aclnn.ErfcParams{}, dtypes: single},
		{name: "erfinv", args: &aclnn.ErfinvParams{}, low: -.9, high: .9, dtypes: single},
		{name: "exp", args: &aclnn.ExpParams{}, dtypes: append(floats[:3:3], f64)},
		{name: "exp2", args: &aclnn.Exp2Params{}, dtypes: single},
		{name: "expm1", args: &aclnn.Expm1Params{}, dtypes: single},
		{name: "floor", args: &aclnn.FloorParams{}, dtypes: floats},
		{name: "frac", args: &aclnn.FracParams{}, dtypes: single},
		{name: "gelu", args: &aclnn.GeluParams{}, dtypes: floats},
		{name: "hardsigmoid", args: &aclnn.HardsigmoidParams{}, dtypes: single},
		{name: "hardswish", args: &aclnn.HardswishParams{}, dtypes: single},
		{name: "isfinite", args: &aclnn.IsFiniteParams{}, dtypes: single, out: yes},
		{name: "isinf", args: &aclnn.IsInfParams{}, dtypes: single, out: yes},
		{name: "lgamma", args: &aclnn.LgammaParams{}, low: .1, high: 3, dtypes: single},
		{name: "log", args: &aclnn.LogParams{}, low: .1, high: 3, dtypes: append(floats[:3:3], f64)},
		{name: "log10", args: &aclnn.Log10Params{}, low: .1, high: 3, dtypes: single},
		{name: "log1p", args: &aclnn.Log1pParams{}, low: .1, high: 3, dtypes: single},
		{name: "log2", args: &aclnn.Log2Params{}, low: .1, high: 3, dtypes: single},
		{name: "log_sigmoid", args: &aclnn.LogSigmoidParams{}, dtypes: single},
		{name: "logical_not", args: &aclnn.LogicalNotParams{}, dtypes: single, out: yes},
		{name: "mish", args: &aclnn.MishParams{}, dtypes: single},
		{name: "neg", args: &aclnn.NegParams{}, dtypes: numbers},
		{name: "reciprocal", args: &aclnn.ReciprocalParams{}, low: .1, high: 3, dtypes: floats},
		{name: "relu", args: &aclnn.ReluParams{}, dtypes: numbers},
		{name: "round", args: &aclnn.RoundParams{}, dtypes: floats},
		{name: "rsqrt", args: &aclnn.RsqrtParams{}, low: .1, high: 3, dtypes: floats},
		{name: "selu", args: &aclnn.SeluParams{}, dtypes: single},
		{name: "sigmoid", args: &aclnn.SigmoidParams{}, dtypes: floats},
		{name: "sign", args: &aclnn.SignParams{}, dtypes: numbers},
		{name: "signbit", args: &aclnn.SignbitParams{}, dtypes: single, out: yes},
		{name: "silu", args: &aclnn.SiluParams{}, dtypes: floats},
		{name: "sin", args: &aclnn.SinParams{}, dtypes: floats},
		{name: "sinc", args: &aclnn.SincParams{}, dtypes: single},
		{name: "sinh", args: &aclnn.SinhParams{}, dtypes: single},
		{name: "sqrt", args: &aclnn.SqrtParams{}, low: .1, high: 3, dtypes: append(floats[:3:3], f64)},
		{name: "tan", args: &aclnn.TanParams{}, dtypes: floats},
		{name: "tanh", args: &aclnn.TanhParams{}, dtypes: floats},
		{name: "trunc", args: &aclnn.TruncParams{}, dtypes: single},
	} {
		for _, dt := range u.dtypes {
			list = append(list, operator{named(u.name, dt), func(d *data) arguments {
				out := dt
				if u.out == yes {
					out = yes
				}
				x := d.uniform
				switch {
				case dt == i64 || dt == i32:
					return fill(u.args, d.ints(dt, 100), d.out(out))
				case u.low != u.high:
					return fill(u.args, x(dt, u.low, u.high), d.out(out))
				}
				return fill(u.args, d.normal(dt), d.out(out))
			}})
		}
	}
	return list
}

// binaries have two tensors, the second positive.
func binaries() (list []operator) {
	for _, o := range []struct {
		name   string
		args   arguments
		dtypes []aclnn.DType
		out    aclnn.DType
	}{
		{name: "atan2", args: &aclnn.Atan2Params{}, dtypes: single},
		{name: "bitwise_and", args: &aclnn.BitwiseAndTensorParams{}, dtypes: integers},
		{name: "bitwise_xor", args: &aclnn.BitwiseXorTensorParams{}, dtypes: integers[:1]},
		{name: "div", args: &aclnn.DivParams{}, dtypes: floats},
		{name: "eq", args: &aclnn.EqTensorParams{}, dtypes: numbers, out: yes},
		{name: "floor_divide", args: &aclnn.FloorDivideParams{}, dtypes: numbers},
		{name: "fmod", args: &aclnn.FmodTensorParams{}, dtypes: numbers},
		{name: "gcd", args: &aclnn.GcdParams{}, dtypes: integers[:2]},
		{name: "heaviside", args: &aclnn.HeavisideParams{}, dtypes: single},
		{name: "le", args: &aclnn.LeTensorParams{}, dtypes: numbers, out: yes},
		{name: "logaddexp", args: &aclnn.LogAddExpParams{}, dtypes: single},
		{name: "logaddexp2", args: &aclnn.LogAddExp2Params{}, dtypes: single},
		{name: "logical_and", args: &aclnn.LogicalAndParams{}, dtypes: single, out: yes},
		{name: "logical_xor", args: &aclnn.LogicalXorParams{}, dtypes: single, out: yes},
		{name: "maximum", args: &aclnn.MaximumParams{}, dtypes: numbers},
		{name: "minimum", args: &aclnn.MinimumParams{}, dtypes: single},
		{name: "mul", args: &aclnn.MulParams{}, dtypes: append(numbers[:5:5], f64)},
		{name: "pow", args: &aclnn.PowTensorTensorParams{}, dtypes: numbers},
		{name: "remainder", args: &aclnn.RemainderTensorTensorParams{}, dtypes: numbers},
		{name: "xlogy", args: &aclnn.XLogYTensorParams{}, dtypes: single},
	} {
		for _, dt := range o.dtypes {
			list = append(list, operator{named(o.name, dt), func(d *data) arguments {
				out := dt
				if o.out == yes {
					out = yes
				}
				if slices.Contains(floats, dt) || dt == f64 {
					return fill(o.args, d.uniform(dt, .1, 3), d.uniform(dt, .5, 2), d.out(out))
				}
				return fill(o.args, d.ints(dt, 100), d.tensor(dt, nil, func() float64 { return float64(1 + d.rand.IntN(9)) }), d.out(out))
			}})
		}
	}
	for _, dt := range append(numbers[:5:5], f64) {
		list = append(list,
			operator{named("add", dt), func(d *data) arguments {
				return fill(&aclnn.AddParams{}, d.ints(dt, 100), d.ints(dt, 100), 1, d.out(dt))
			}},
			operator{named("sub_alpha", dt), func(d *data) arguments {
				return fill(&aclnn.SubParams{}, d.ints(dt, 100), d.ints(dt, 100), 2, d.out(dt))
			}})
	}
	return list
}

// withNumber are operators of a tensor and a number.
func withNumber() (list []operator) {
	for _, o := range []struct {
		name   string
		args   arguments
		number float64
		dtypes []aclnn.DType
		out    aclnn.DType
	}{
		{name: "mul_scalar", args: &aclnn.MulsParams{}, number: 3, dtypes: numbers},
		{name: "div_scalar", args: &aclnn.DivsParams{}, number: 3, dtypes: floats},
		{name: "pow2", args: &aclnn.PowTensorScalarParams{}, number: 2, dtypes: numbers},
		{name: "pow3", args: &aclnn.PowTensorScalarParams{}, number: 3, dtypes: single},
		{name: "pow_half", args: &aclnn.PowTensorScalarParams{}, number: .5, dtypes: single},
		{name: "pow_other", args: &aclnn.PowTensorScalarParams{}, number: 2.3, dtypes: single},
		{name: "fmod_scalar", args: &aclnn.FmodScalarParams{}, number: 3, dtypes: numbers},
		{name: "remainder_scalar", args: &aclnn.RemainderTensorScalarParams{}, number: 3, dtypes: numbers},
		{name: "floor_divide_scalar", args: &aclnn.FloorDividesParams{}, number: 3, dtypes: numbers},
		{name: "clamp_min", args: &aclnn.ClampMinParams{}, number: 1, dtypes: numbers},
		{name: "clamp_max", args: &aclnn.ClampMaxParams{}, number: 1, dtypes: single},
		{name: "eq_scalar", args: &aclnn.EqScalarParams{}, number: 1, dtypes: numbers, out: yes},
		{name: "gt_scalar", args: &aclnn.GtScalarParams{}, number: 1, dtypes: single, out: yes},
		{name: "bitwise_or_scalar", args: &aclnn.BitwiseOrScalarParams{}, number: 3, dtypes: integers},
		{name: "leaky_relu", args: &aclnn.LeakyReluParams{}, number: .1, dtypes: floats},
		{name: "celu", args: &aclnn.CeluParams{}, number: 1.5, dtypes: single},
		{name: "hardshrink", args: &aclnn.HardshrinkParams{}, number: .5, dtypes: single},
		{name: "softshrink", args: &aclnn.SoftshrinkParams{}, number: .5, dtypes: single},
	} {
		for _, dt := range o.dtypes {
			list = append(list, operator{named(o.name, dt), func(d *data) arguments {
				out, number := dt, any(o.number)
				if o.out == yes {
					out = yes
				}
				if slices.Contains(floats, dt) {
					return fill(o.args, d.uniform(dt, .1, 3), number, d.out(out))
				}
				return fill(o.args, d.ints(dt, 100), int(o.number), d.out(out))
			}})
		}
	}
	list = append(list,
		operator{"pow_scalar_tensor.float32", func(d *data) arguments {
			return fill(&aclnn.PowScalarTensorParams{}, 2.5, d.normal(f32), d.out(f32))
		}},
		operator{"remainder_scalar_tensor.float32", func(d *data) arguments {
			return fill(&aclnn.RemainderScalarTensorParams{}, 2.5, d.uniform(f32, .1, 1), d.out(f32))
		}})
	for _, dt := range numbers {
		list = append(list, operator{named("add_scalar", dt), func(d *data) arguments {
			return fill(&aclnn.AddsParams{}, d.ints(dt, 100), 3, 1, d.out(dt))
		}})
	}
	return list
}
