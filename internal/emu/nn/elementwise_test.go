package nn

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// arguments makes valid arguments for an element-wise operator: tensors of one shape whose
// values are in (0, 1), or small integers where the operator wants them.
func arguments(t *testing.T, name string, l kerneltest.Layout, shape []int64) args {
	op := find(name)
	require.NotNil(t, op, name)
	a := args{}
	for i, p := range op.params {
		d, v := dtype.Float32, []float64{.5, .25, .75, .125, .375, .625, .875}
		switch {
		case p.name == "condition" || p.name == "mask":
			d, v = dtype.Bool, []float64{1, 0, 0, 1, 1}
		case strings.Contains(name, "Bitwise") || strings.Contains(name, "Shift") || name == "Gcd":
			d, v = dtype.Int32, []float64{1, 2, 3, 5, 7}
		}
		switch p.class {
		case tensorClass:
			a[p.name] = tensorIn(t, d, l, shape, slices.Concat(v[i%len(v):], v[:i%len(v)])...)
			if name == "InplaceMaskedFillTensor" && p.name == "value" {
				a[p.name] = tensor(t, d, []int64{}, 2)
			}
		case scalarClass:
			a[p.name] = scalar(1)
		case doubleClass, floatClass:
			a[p.name] = .25
		case intClass:
			a[p.name] = 1
		case stringClass:
			a[p.name] = "none"
		}
	}
	return a
}

// outputOf is the tensor an element-wise operator writes.
func outputOf(name string, a args) *Tensor {
	op := find(name)
	out := -1
	for i, p := range op.params {
		if p.class == tensorClass && (out < 0 || !strings.HasPrefix(name, "Inplace")) && p.name != "buffer" {
			out = i
		}
	}
	return a[op.params[out].name].(*Tensor)
}

func elementwiseNames() []string {
	return slices.Sorted(maps.Keys(merge(unary, binaries, activations)))
}

func TestElementwiseLayoutsAgree(t *testing.T) {
	for _, name := range elementwiseNames() {
		t.Run(name, func(t *testing.T) {
			want := arguments(t, name, kerneltest.Contiguous, []int64{3, 5})
			run(t, name, want)
			for _, l := range kerneltest.Layouts {
				got := arguments(t, name, l, []int64{3, 5})
				run(t, name, got)
				require.Equal(t, fmt.Sprint(values(outputOf(name, want))), fmt.Sprint(values(outputOf(name, got))), "%v", l)
			}
			run(t, name, arguments(t, name, kerneltest.Contiguous, []int64{0, 5}))
			run(t, name, arguments(t, name, kerneltest.Contiguous, []int64{}))
		})
	}
}

// The in-place form of an operator computes what the other form does.
func TestInplaceAgrees(t *testing.T) {
	for _, name := range elementwiseNames() {
		base, ok := strings.CutPrefix(name, "Inplace")
		if !ok || implementations[base] == nil {
			continue
		}
		in, out := arguments(t, name, kerneltest.Contiguous, []int64{3, 5}), arguments(t, base, kerneltest.Contiguous, []int64{3, 5})
		run(t, base, out)
		run(t, name, in)
		assert.Equal(t, fmt.Sprint(values(outputOf(base, out))), fmt.Sprint(values(outputOf(name, in))), name)
	}
}

func TestElementwiseRefuses(t *testing.T) {
	for _, name := range elementwiseNames() {
		for _, p := range find(name).params {
			if p.class != tensorClass || p.name == "buffer" {
				continue
			}
			null := arguments(t, name, kerneltest.Contiguous, []int64{3, 5})
			null[p.name] = nil
			refused(t, nullPointer, name, null, p.name+" is null")
			shape := arguments(t, name, kerneltest.Contiguous, []int64{3, 5})
			shape[p.name] = tensor(t, shape[p.name].(*Tensor).DType, []int64{3, 4}, 1)
			_, err := prepared(t, name, shape)
			var e *Error
			if strings.HasPrefix(name, "Inplace") && len(arguments(t, name, 0, nil)) == 1 || onlyTensor(name) {
				continue
			}
			require.True(t, errors.As(err, &e), "%s with another shape of %s", name, p.name)
			require.Equal(t, invalidParam, e.Code)
			require.Contains(t, e.Text, "[3,4]")
		}
		text := arguments(t, name, kerneltest.Contiguous, []int64{2})
		outputOf(name, text).DType = dtype.String
		refused(t, invalidParam, name, text, "string")
	}
}

// onlyTensor reports whether an operator has a single tensor, which fits any shape.
func onlyTensor(name string) bool {
	n := 0
	for _, p := range find(name).params {
		if p.class == tensorClass {
			n++
		}
	}
	return n == 1
}

func TestElementwiseValues(t *testing.T) {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	gelu := func(x float64) float64 { return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) }
	x, y := []float64{-2.5, -1, -.5, .25, 1, 3.5}, []float64{1, 2, 4, -1, .5, 2.75}
	rows := map[string]func(x, y float64) float64{
		"Add": func(x, y float64) float64 { return x + 2*y }, "Sub": func(x, y float64) float64 { return x - 2*y },
		"Rsub": func(x, y float64) float64 { return y - 2*x }, "Mul": func(x, y float64) float64 { return x * y },
		"Div": func(x, y float64) float64 { return x / y }, "FloorDivide": func(x, y float64) float64 { return math.Floor(x / y) },
		"FmodTensor": math.Mod, "RemainderTensorTensor": func(x, y float64) float64 { return x - y*math.Floor(x/y) },
		"Maximum": math.Max, "Minimum": math.Min, "PowTensorTensor": math.Pow, "Atan2": math.Atan2,
		"LogAddExp":       func(x, y float64) float64 { return math.Log(math.Exp(x) + math.Exp(y)) },
		"LogAddExp2":      func(x, y float64) float64 { return math.Log2(math.Exp2(x) + math.Exp2(y)) },
		"SigmoidBackward": func(x, y float64) float64 { return x * y * (1 - y) }, "TanhBackward": func(x, y float64) float64 { return x * (1 - y*y) },
		"SiluBackward": func(x, y float64) float64 { return x * (sigmoid(y) + y*sigmoid(y)*(1-sigmoid(y))) },
		"GeluBackward": func(x, y float64) float64 { return x * (gelu(y+1e-5) - gelu(y-1e-5)) / 2e-5 },
		"FastGeluBackward": func(x, y float64) float64 {
			return x * slope(func(v float64) float64 { return v * sigmoid(1.702*v) }, y)
		},
		"MishBackward": func(x, y float64) float64 {
			return x * slope(func(v float64) float64 { return v * math.Tanh(math.Log1p(math.Exp(v))) }, y)
		},
		"SoftsignBackward": func(x, y float64) float64 { return x / math.Pow(1+math.Abs(y), 2) },
		"HardswishBackward": func(x, y float64) float64 {
			return x * slope(func(v float64) float64 { return v * min(max(v+3, 0), 6) / 6 }, y)
		},
		"SqrtBackward": func(x, y float64) float64 { return y / (2 * x) },
	}
	one := map[string]func(x float64) float64{
		"Abs": math.Abs, "Neg": func(x float64) float64 { return -x }, "Sign": func(x float64) float64 { return math.Copysign(1, x) },
		"Square": func(x float64) float64 { return x * x }, "Relu": func(x float64) float64 { return max(x, 0) },
		"Sqrt": math.Sqrt, "Rsqrt": func(x float64) float64 { return 1 / math.Sqrt(x) }, "Reciprocal": func(x float64) float64 { return 1 / x },
		"Exp": math.Exp, "Exp2": math.Exp2, "Expm1": math.Expm1, "Log": math.Log, "Log2": math.Log2, "Log10": math.Log10, "Log1p": math.Log1p,
		"Sin": math.Sin, "Cos": math.Cos, "Tan": math.Tan, "Asin": math.Asin, "Acos": math.Acos, "Atan": math.Atan, "Sinh": math.Sinh,
		"Cosh": math.Cosh, "Tanh": math.Tanh, "Asinh": math.Asinh, "Acosh": math.Acosh, "Atanh": math.Atanh, "Erf": math.Erf, "Erfc": math.Erfc,
		"Erfinv": math.Erfinv, "Lgamma": func(x float64) float64 { v, _ := math.Lgamma(x); return v },
		"Digamma": func(x float64) float64 {
			if x == -1 {
				return math.NaN()
			}
			return slope(func(v float64) float64 { l, _ := math.Lgamma(v); return l }, x)
		},
		"Floor": math.Floor, "Ceil": math.Ceil, "Trunc": math.Trunc, "Round": math.RoundToEven, "Frac": func(x float64) float64 { return x - math.Trunc(x) },
		"Sigmoid": sigmoid, "Silu": func(x float64) float64 { return x * sigmoid(x) }, "Gelu": gelu,
		"FastGelu": func(x float64) float64 { return x * sigmoid(1.702*x) },
		"Mish":     func(x float64) float64 { return x * math.Tanh(math.Log1p(math.Exp(x))) }, "Softsign": func(x float64) float64 { return x / (1 + math.Abs(x)) },
		"Hardsigmoid": func(x float64) float64 { return min(max(x+3, 0), 6) / 6 }, "Hardswish": func(x float64) float64 { return x * min(max(x+3, 0), 6) / 6 },
		"LogSigmoid": func(x float64) float64 { return math.Log(sigmoid(x)) }, "Sinc": func(x float64) float64 { return math.Sin(math.Pi*x) / (math.Pi * x) },
		"Selu": func(x float64) float64 {
			if x > 0 {
				return seluScale * x
			}
			return seluScale * seluAlpha * math.Expm1(x)
		},
	}
	for name, f := range one {
		rows[name] = func(x, _ float64) float64 { return f(x) }
	}
	for name, f := range rows {
		a := args{}
		in := [][]float64{x, y}
		for _, p := range find(name).params {
			switch {
			case p.class == scalarClass:
				a[p.name] = scalar(2)
			case p.class == tensorClass && len(in) > 0 && !slices.Contains([]string{"out", "result", "gradInput", "z"}, p.name):
				a[p.name], in = tensor(t, dtype.Float32, []int64{6}, in[0]...), in[1:]
			case p.class == tensorClass:
				a[p.name] = tensor(t, dtype.Float32, []int64{6})
			}
		}
		run(t, name, a)
		for i, got := range values(outputOf(name, a)) {
			want := f(x[i], y[i])
			if math.IsNaN(want) && math.IsNaN(got) || math.IsInf(want, 0) && want == got {
				continue
			}
			assert.InDelta(t, want, got, 1e-5*(1+math.Abs(want)), "%s(%v, %v)", name, x[i], y[i])
		}
	}
}

func slope(f func(float64) float64, x float64) float64 { return (f(x+1e-5) - f(x-1e-5)) / 2e-5 }

func TestPromotion(t *testing.T) {
	for _, c := range []struct{ a, b, want dtype.Type }{
		{dtype.Float32, dtype.Float16, dtype.Float32}, {dtype.Float16, dtype.BFloat16, dtype.Float32}, {dtype.Int64, dtype.Float16, dtype.Float16},
		{dtype.Uint8, dtype.Int8, dtype.Int16}, {dtype.Uint8, dtype.Int32, dtype.Int32}, {dtype.Uint32, dtype.Int32, dtype.Int64},
		{dtype.Bool, dtype.Uint8, dtype.Uint8}, {dtype.Complex64, dtype.Float64, dtype.Complex128}, {dtype.Complex32, dtype.Int64, dtype.Complex32},
		{dtype.Float64, dtype.Bool, dtype.Float64}, {dtype.Int16, dtype.Int16, dtype.Int16},
	} {
		assert.Equal(t, c.want, promote(c.a, c.b), "%v with %v", c.a, c.b)
		assert.Equal(t, c.want, promote(c.b, c.a), "%v with %v", c.b, c.a)
	}
	assert.Equal(t, dtype.Float16, promoteScalar(dtype.Float16, dtype.Float64))
	assert.Equal(t, dtype.Float32, promoteScalar(dtype.Int64, dtype.Float64))
	assert.Equal(t, dtype.Int64, promoteScalar(dtype.Bool, dtype.Int32))

	x, y := tensor(t, dtype.Int32, []int64{2, 1}, 1, 2), tensor(t, dtype.Float16, []int64{3}, .5, 1.5, 2.5)
	z := tensor(t, dtype.Float16, []int64{2, 3})
	run(t, "Add", args{"self": x, "other": y, "alpha": scalar(1), "out": z})
	assert.Equal(t, []float64{1.5, 2.5, 3.5, 2.5, 3.5, 4.5}, values(z))
	refused(t, invalidParam, "Add", args{"self": x, "other": y, "alpha": scalar(1), "out": tensor(t, dtype.Int32, []int64{2, 3})}, "float16", "int32[2,3]")
	refused(t, invalidParam, "Add", args{"self": x, "other": x, "alpha": scalar(1.5), "out": tensor(t, dtype.Int32, []int64{2, 1})}, "alpha")
	refused(t, invalidParam, "Add", args{"self": x, "other": tensor(t, dtype.Float32, []int64{4}), "alpha": scalar(1), "out": z}, "other float32[4]")

	half := tensor(t, dtype.Float32, []int64{4})
	run(t, "Divs", args{"self": tensor(t, dtype.Int64, []int64{4}, 1, 2, 3, 4), "other": scalar(2), "out": half})
	assert.Equal(t, []float64{.5, 1, 1.5, 2}, values(half))
	flags := tensor(t, dtype.Bool, []int64{4})
	run(t, "GtScalar", args{"self": half, "other": scalar(1.25), "out": flags})
	assert.Equal(t, []float64{0, 0, 1, 1}, values(flags))
	run(t, "InplaceAdds", args{"selfRef": half, "other": scalar(.5), "alpha": scalar(2)})
	assert.Equal(t, []float64{1.5, 2, 2.5, 3}, values(half))
	not := tensor(t, dtype.Bool, []int64{4})
	run(t, "BitwiseNot", args{"self": flags, "out": not})
	assert.Equal(t, []float64{1, 1, 0, 0}, values(not))
}

func TestClampAndMasks(t *testing.T) {
	x, out := tensor(t, dtype.Float32, []int64{5}, -2, -1, 0, 1, math.NaN()), tensor(t, dtype.Float32, []int64{5})
	run(t, "Clamp", args{"self": x, "clipValueMin": scalar(-1.5), "out": out})
	assert.Equal(t, []float64{-1.5, -1, 0, 1}, values(out)[:4])
	assert.True(t, math.IsNaN(values(out)[4]))
	run(t, "Clamp", args{"self": x, "clipValueMin": scalar(-1.5), "clipValueMax": scalar(.5), "out": out})
	assert.Equal(t, []float64{-1.5, -1, 0, .5}, values(out)[:4])
	refused(t, nullPointer, "Clamp", args{"self": x, "out": out}, "clipValueMax")

	mask := tensor(t, dtype.Bool, []int64{5}, 1, 0, 0, 0, 1)
	run(t, "InplaceMaskedFillScalar", args{"selfRef": x, "mask": mask, "value": scalar(7)})
	assert.Equal(t, []float64{7, -1, 0, 1, 7}, values(x))
	run(t, "SWhere", args{"condition": mask, "self": x, "other": tensor(t, dtype.Float32, []int64{1}, 9), "out": out})
	assert.Equal(t, []float64{7, 9, 9, 9, 7}, values(out))

	square := tensor(t, dtype.Float32, []int64{5})
	run(t, "PowTensorScalar", args{"self": x, "exponent": scalar(2), "out": square})
	assert.Equal(t, []float64{49, 1, 0, 1, 49}, values(square))
	refused(t, invalidParam, "DivMod", args{"self": x, "other": x, "mode": 3, "out": out}, "mode is 3")
	refused(t, invalidParam, "GeluBackwardV2", args{"gradOutput": x, "self": x, "approximate": "exact", "gradInput": out}, `"exact"`)
}

// A tensor in a private format is computed element by element of its storage.
func TestElementwisePrivateFormat(t *testing.T) {
	nz := func(v ...float64) *Tensor {
		x := tensor(t, dtype.Float16, []int64{1, 1, 16, 16}, v...)
		x.Shape, x.Strides, x.Format = []int64{3, 5}, []int64{5, 1}, dtype.FractalNZ
		return x
	}
	x, y := nz(2, 3), nz(0)
	run(t, "Muls", args{"self": x, "other": scalar(2), "out": y})
	y.Shape, y.Strides, y.Format = []int64{256}, []int64{1}, dtype.ND
	assert.Equal(t, []float64{4, 6, 4, 6}, values(y)[252:])
	refused(t, invalidParam, "Muls", args{"self": x, "other": scalar(2), "out": tensor(t, dtype.Float16, []int64{3, 5})}, "FRACTAL_NZ")
}
