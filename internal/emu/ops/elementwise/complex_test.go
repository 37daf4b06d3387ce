package elementwise

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestAngle(t *testing.T) {
	for _, d := range append([]dtype.Type{dtype.Int8, dtype.Int32, dtype.Int64}, op.FloatTypes...) {
		out := dtype.Float32
		if floating := kerneltest.Round(d, 0.5) == 0.5; floating {
			out = d
		}
		for _, l := range kerneltest.Layouts {
			x, y := optest.TensorIn(t, d, l, []int64{2, 2}, -2, 0, 3, math.Copysign(0, -1)), optest.TensorIn(t, out, l, []int64{2, 2})
			optest.Run(t, "AngleV2", optest.Args{"x": x, "out": y})
			optest.CloseTo(t, fmt.Sprintf("%v %v", d, l), []float64{math.Pi, 0, 0, 0}, optest.Values(y), optest.ResultLimit(out))
		}
	}
	x, y := optest.Tensor(t, dtype.Float32, []int64{3}, math.NaN(), math.Inf(1), math.Inf(-1)), optest.Tensor(t, dtype.Float32, []int64{3})
	optest.Run(t, "AngleV2", optest.Args{"x": x, "out": y})
	assert.True(t, math.IsNaN(optest.Values(y)[0]))
	assert.InDeltaSlice(t, []float64{0, math.Pi}, optest.Values(y)[1:], 1e-6)
	z := optest.Tensor(t, dtype.Complex64, []int64{2}, 0)
	optest.Run(t, "Complex", optest.Args{"real": optest.Tensor(t, dtype.Float32, []int64{2}, 0, -1), "imag": optest.Tensor(t, dtype.Float32, []int64{2}, 2, -1), "out": z})
	angles := optest.Tensor(t, dtype.Float32, []int64{2})
	optest.Run(t, "AngleV2", optest.Args{"x": z, "out": angles})
	assert.InDeltaSlice(t, []float64{math.Pi / 2, -3 * math.Pi / 4}, optest.Values(angles), 1e-6)
	optest.Refused(t, op.InvalidParam, "AngleV2", optest.Args{"x": z, "out": optest.Tensor(t, dtype.Float16, []int64{2})}, "complex64")
	optest.Refused(t, op.InvalidParam, "AngleV2", optest.Args{"x": x, "out": optest.Tensor(t, dtype.Int32, []int64{3})}, "dtype")
}

func TestComplex(t *testing.T) {
	for c, d := range map[dtype.Type]dtype.Type{dtype.Complex64: dtype.Float32, dtype.Complex128: dtype.Float64, dtype.Complex32: dtype.Float16} {
		x, y := optest.Filled(t, 1, d, kerneltest.Gapped, []int64{3, 1}), optest.Filled(t, 2, d, kerneltest.Contiguous, []int64{4})
		both := optest.Tensor(t, d, []int64{3, 4, 2}, 9)
		out := optest.Of(both.View())
		out.DType, out.Shape, out.Strides = c, []int64{3, 4}, []int64{4, 1}
		optest.Run(t, "Complex", optest.Args{"real": x, "imag": y, "out": out})
		for i, v := range optest.Values(both) {
			want := optest.Values(x)[i/8]
			if i%2 == 1 {
				want = optest.Values(y)[i/2%4]
			}
			assert.Equal(t, want, v)
		}
		re := optest.Tensor(t, d, []int64{3, 4})
		optest.Run(t, "Real", optest.Args{"self": out, "out": re})
		assert.Equal(t, optest.Values(both)[6], optest.Values(re)[3])
		if same := (optest.Args{"self": re, "out": re}); d == dtype.Float64 {
			optest.Refused(t, op.InvalidParam, "Real", same, "dtype")
		} else {
			optest.Run(t, "Real", same)
		}
		optest.Refused(t, op.InvalidParam, "Complex", optest.Args{"real": x, "imag": y, "out": re}, "complex type")
		if c == dtype.Complex64 {
			optest.Run(t, "Polar", optest.Args{"input": x, "angle": y, "out": out})
			for i, v := range optest.Values(both) {
				part := math.Cos
				if i%2 == 1 {
					part = math.Sin
				}
				assert.InDelta(t, optest.Values(x)[i/8]*part(optest.Values(y)[i/2%4]), v, 1e-6)
			}
		}
	}
}

// Functions without a form for complex numbers refuse them, whatever parameters they have.
func TestComplexIsRefused(t *testing.T) {
	z, x := optest.Tensor(t, dtype.Complex64, []int64{2}, 1, 2), optest.Tensor(t, dtype.Float32, []int64{2}, 1, 2)
	optest.Refused(t, op.InvalidParam, "Logit", optest.Args{"input": z, "eps": 0.0, "out": z}, "complex64")
	optest.Refused(t, op.InvalidParam, "LogitGrad", optest.Args{"x": x, "dy": z, "eps": 0.0, "out": z}, "complex64")
	optest.Refused(t, op.InvalidParam, "MaskedScale", optest.Args{"self": z, "mask": x, "scale": 2.0, "out": z}, "complex64")
}

// TestComplexResultsOfReals stores the values of real functions, whose imaginary parts are 0, in complex tensors.
func TestComplexResultsOfReals(t *testing.T) {
	for name, f := range map[string]func(float64) float64{
		"Sin": math.Sin, "Cos": math.Cos, "Tan": math.Tan, "Sinh": math.Sinh, "Cosh": math.Cosh, "Asinh": math.Asinh, "Acosh": math.Acosh, "Exp": math.Exp,
		"Log": math.Log, "Log2": math.Log2, "Sqrt": math.Sqrt, "Rsqrt": func(x float64) float64 { return 1 / math.Sqrt(x) }, "Reciprocal": func(x float64) float64 { return 1 / x },
	} {
		self := "self"
		if name == "Asinh" || name == "Cos" {
			self = "input"
		}
		for _, d := range []dtype.Type{dtype.Float32, dtype.Int64} {
			for _, c := range []dtype.Type{dtype.Complex64, dtype.Complex128} {
				out, parts := complexOf(t, 1, c, 2)
				optest.Run(t, name, optest.Args{self: optest.Tensor(t, d, []int64{2}, 1, 3), "out": out})
				got := numbers(parts)
				what := fmt.Sprintf("%s of %v in %v", name, d, c)
				optest.CloseTo(t, what, []float64{f(1), f(3)}, []float64{real(got[0]), real(got[1])}, 1e-6)
				assert.Zero(t, [2]float64{imag(got[0]), imag(got[1])}, what)
			}
		}
	}
}
