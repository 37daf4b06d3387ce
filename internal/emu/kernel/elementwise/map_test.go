package elementwise_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

type formula func(x, y, z, u, v, w float64) float64

// mapCase tests an operator against its definition in double precision.
type mapCase struct {
	name    string
	op      elementwise.Op
	inputs  int
	f       formula
	lo, hi  float64 // of the inputs
	ulps    float64 // allowed beyond the rounding of the result
	ulps64  float64 // the same for float64, where Go's own function is less accurate
	params  []elementwise.Number
	special []float64 // further values of x
}

var weird = []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 1, -1, 1e-40, -1e-40, 3e38, 1e-8, 88.7, -87.4, -103.5, 0.5, 1e5}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
func cdf(x float64) float64     { return 0.5 * math.Erfc(-x/math.Sqrt2) }
func pdf(x float64) float64     { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }

var floatCases = []mapCase{
	{name: "identity", op: elementwise.Identity, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return x }, lo: -9, hi: 9, special: weird},
	{name: "neg", op: elementwise.Neg, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return -x }, lo: -9, hi: 9, special: weird},
	{name: "abs", op: elementwise.Abs, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Abs(x) }, lo: -9, hi: 9, special: weird},
	{name: "square", op: elementwise.Square, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return x * x }, lo: -9, hi: 9, ulps: .5},
	{name: "relu", op: elementwise.Relu, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 {
		if x < 0 {
			return 0
		}
		return x
	}, lo: -9, hi: 9, special: weird},
	{name: "sqrt", op: elementwise.Sqrt, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Sqrt(x) }, lo: 0, hi: 1e4, ulps: .5, special: weird},
	{name: "rsqrt", op: elementwise.Rsqrt, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return 1 / math.Sqrt(x) }, lo: 1e-3, hi: 1e4, ulps: 1.5, special: weird},
	{name: "reciprocal", op: elementwise.Reciprocal, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return 1 / x }, lo: 1e-3, hi: 1e4, ulps: .5},
	{name: "floor", op: elementwise.Floor, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Floor(x) }, lo: -9, hi: 9, special: weird},
	{name: "ceil", op: elementwise.Ceil, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Ceil(x) }, lo: -9, hi: 9, special: weird},
	{name: "trunc", op: elementwise.Trunc, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Trunc(x) }, lo: -9, hi: 9, special: weird},
	{name: "round", op: elementwise.Round, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.RoundToEven(x) }, lo: -9, hi: 9, special: []float64{.5, 1.5, 2.5, -.5}},
	{name: "add", op: elementwise.Add, inputs: 2, f: func(x, y, _, u, _, _ float64) float64 { return x + u*y }, lo: -9, hi: 9, ulps: 8, params: []elementwise.Number{elementwise.Real(1)}},
	{name: "add alpha", op: elementwise.Add, inputs: 2, f: func(x, y, _, u, _, _ float64) float64 { return x + u*y }, lo: 1, hi: 9, ulps: 1, params: []elementwise.Number{elementwise.Real(2.5)}},
	{name: "mul", op: elementwise.Mul, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return x * y }, lo: -9, hi: 9, ulps: .5},
	{name: "div", op: elementwise.Div, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return x / y }, lo: 1, hi: 9, ulps: .5},
	{name: "floor div", op: elementwise.FloorDiv, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return math.Floor(x / y) }, lo: 2, hi: 3},
	{name: "maximum", op: elementwise.Max, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return math.Max(x, y) }, lo: -9, hi: 9, special: []float64{math.NaN()}},
	{name: "minimum", op: elementwise.Min, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return math.Min(x, y) }, lo: -9, hi: 9, special: []float64{math.NaN()}},
	{name: "less", op: elementwise.Less, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return kerneltest.Truth(x < y) }, lo: -2, hi: 2, special: weird},
	{name: "where", op: elementwise.Where, inputs: 3, f: func(x, y, z, _, _, _ float64) float64 {
		if x != 0 {
			return y
		}
		return z
	}, lo: -2, hi: 2, special: []float64{0, 0, 0}},
	{name: "clamp", op: elementwise.Clamp, inputs: 3, f: func(x, y, z, _, _, _ float64) float64 { return math.Min(math.Max(x, y), z) }, lo: -2, hi: 2},
	{name: "sub mul", op: elementwise.SubMul, inputs: 3, f: func(x, y, z, _, _, _ float64) float64 { return (x - y) * z }, lo: 1, hi: 2, ulps: 2},
	{name: "addcmul", op: elementwise.Addcmul, inputs: 3, f: func(x, y, z, u, _, _ float64) float64 { return x + u*y*z }, lo: 1, hi: 2, ulps: 2, params: []elementwise.Number{elementwise.Real(.5)}},
	{name: "addcdiv", op: elementwise.Addcdiv, inputs: 3, f: func(x, y, z, u, _, _ float64) float64 { return x + u*y/z }, lo: 1, hi: 2, ulps: 2, params: []elementwise.Number{elementwise.Real(.5)}},
	{name: "lerp", op: elementwise.Lerp, inputs: 3, f: func(x, y, z, _, _, _ float64) float64 { return x + z*(y-x) }, lo: .2, hi: 1, ulps: 8},
	{name: "exp", op: elementwise.Exp, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Exp(x) }, lo: -100, hi: 89, ulps: 1, special: weird},
	{name: "exp2", op: elementwise.Exp2, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Exp2(x) }, lo: -149, hi: 129, ulps: 1, special: weird},
	{name: "expm1", op: elementwise.Expm1, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Expm1(x) }, lo: -3, hi: 10, ulps: 2, special: weird},
	{name: "log", op: elementwise.Log, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Log(x) }, lo: 0, hi: 3, ulps: 1, special: weird},
	{name: "log2", op: elementwise.Log2, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Log2(x) }, lo: 0, hi: 1e5, ulps: 2, special: append(weird, 8, 1024, .25)},
	{name: "log10", op: elementwise.Log10, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Log10(x) }, lo: 0, hi: 1e5, ulps: 2, special: weird},
	{name: "log1p", op: elementwise.Log1p, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Log1p(x) }, lo: -1, hi: 3, ulps: 2, special: weird},
	{name: "sin", op: elementwise.Sin, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Sin(x) }, lo: -1000, hi: 1000, ulps: 2, ulps64: 300, special: weird},
	{name: "cos", op: elementwise.Cos, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Cos(x) }, lo: -1000, hi: 1000, ulps: 2, ulps64: 300, special: weird},
	{name: "tanh", op: elementwise.Tanh, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Tanh(x) }, lo: -4, hi: 4, ulps: 2, special: weird},
	{name: "erf", op: elementwise.Erf, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Erf(x) }, lo: -4, hi: 4, ulps: 2, special: weird},
	{name: "sigmoid", op: elementwise.Sigmoid, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return sigmoid(x) }, lo: -20, hi: 20, ulps: 2},
	{name: "silu", op: elementwise.Swish, inputs: 1, f: func(x, _, _, u, _, _ float64) float64 { return x * sigmoid(u*x) }, lo: -20, hi: 20, ulps: 3, params: []elementwise.Number{elementwise.Real(1)}},
	{name: "silu grad", op: elementwise.SwishGrad, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return x * (sigmoid(y) + y*sigmoid(y)*(1-sigmoid(y))) }, lo: 0, hi: 5, ulps: 6, params: []elementwise.Number{elementwise.Real(1)}},
	{name: "gelu", op: elementwise.Gelu, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return x * cdf(x) }, lo: 0, hi: 6, ulps: 4},
	{name: "gelu grad", op: elementwise.GeluGrad, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return x * (cdf(y) + y*pdf(y)) }, lo: 0, hi: 5, ulps: 8},
	{name: "gelu tanh", op: elementwise.GeluTanh, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 {
		return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}, lo: 0, hi: 6, ulps: 4},
	{name: "softplus", op: elementwise.Softplus, inputs: 1, f: func(x, _, _, u, v, _ float64) float64 {
		if u*x > v {
			return x
		}
		return math.Log1p(math.Exp(u*x)) / u
	}, lo: -10, hi: 12, ulps: 6, params: []elementwise.Number{elementwise.Real(2), elementwise.Real(20)}},
	{name: "elu", op: elementwise.Elu, inputs: 1, f: func(x, _, _, u, v, w float64) float64 {
		if x > 0 {
			return v * x
		}
		return v * u * math.Expm1(w*x)
	}, lo: -4, hi: 4, ulps: 6, params: []elementwise.Number{elementwise.Real(1.5), elementwise.Real(2), elementwise.Real(.5)}},
	{name: "pow", op: elementwise.Pow, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return math.Pow(x, y) }, lo: .1, hi: 4, ulps: 1, ulps64: 4},
	{name: "erfinv", op: elementwise.Erfinv, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Erfinv(x) }, lo: -1, hi: 1, ulps: 64},
	{name: "cube", op: elementwise.Cube, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return x * x * x }, lo: -9, hi: 9, ulps: 2, special: []float64{math.NaN(), math.Inf(-1), 0}},
	{name: "tan", op: elementwise.Tan, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Tan(x) }, lo: -20, hi: 20, ulps: 2, special: weird, ulps64: 300},
	{name: "sinh", op: elementwise.Sinh, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Sinh(x) }, lo: -9, hi: 9, ulps: 2, special: weird, ulps64: 8},
	{name: "cosh", op: elementwise.Cosh, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Cosh(x) }, lo: -9, hi: 9, ulps: 2, special: weird, ulps64: 16},
	{name: "atan", op: elementwise.Atan, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Atan(x) }, lo: -9, hi: 9, ulps: 2, special: weird, ulps64: 16},
	{name: "atanh", op: elementwise.Atanh, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Atanh(x) }, lo: -1, hi: 1, ulps: 2, special: weird, ulps64: 16},
	{name: "atan2", op: elementwise.Atan2, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return math.Atan2(x, y) }, lo: -9, hi: 9, ulps: 2, special: weird, ulps64: 16},
	{name: "erfc", op: elementwise.Erfc, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Erfc(x) }, lo: -4, hi: 9, ulps: 3, special: weird, ulps64: 16},
	{name: "soft margin", op: elementwise.SoftMargin, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 {
		return math.Max(-x*y, 0) + math.Log1p(math.Exp(-math.Abs(x*y)))
	}, lo: -9, hi: 9, ulps: 3, special: weird},
	{name: "remainder", op: elementwise.Remainder, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return x - y*math.Floor(x/y) }, lo: 1, hi: 2, ulps: 16},
}

func (c mapCase) want(in [][]float64, i int) float64 {
	var a, p [3]float64
	for k := range in {
		a[k] = in[k][i]
	}
	for k := range c.params {
		p[k] = c.params[k].F
	}
	return c.f(a[0], a[1], a[2], p[0], p[1], p[2])
}

func TestMapFloats(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		for _, c := range floatCases {
			for _, d := range kerneltest.Floats {
				for n, shape := range kerneltest.Shapes {
					layout := kerneltest.Layouts[n%len(kerneltest.Layouts)]
					var in [][]float64
					var inputs []elementwise.Input
					for k := range c.inputs {
						x := kerneltest.Sample(d, n+k, kerneltest.Count(shape), c.lo, c.hi)
						for i, s := range c.special {
							if k == 0 && i < len(x) {
								x[i] = kerneltest.Round(d, s)
							}
						}
						in = append(in, x)
						inputs = append(inputs, elementwise.Of(kerneltest.New(t, d, kerneltest.Layouts[(n+k)%4], shape, x)))
					}
					out := kerneltest.New(t, d, layout, shape, nil)
					require.NoError(t, elementwise.Map(c.op, d, out, inputs, c.params...), c.name)
					want := make([]float64, kerneltest.Count(shape))
					for i := range want {
						want[i] = c.want(in, i)
					}
					// Rounding to a narrow type adds half an ulp.
					ulps := c.ulps
					if d == dtype.Float64 {
						ulps = max(ulps, c.ulps64)
					}
					kerneltest.Within(t, d, ulps+.51, want, kerneltest.Values(out), fmt.Sprintf("%s %v %v %v", c.name, d, shape, layout))
				}
			}
		}
	})
}

// integerCases tests integer arithmetic against exact results reduced to the type.
var integerCases = []mapCase{
	{name: "add", op: elementwise.Add, inputs: 2, f: func(x, y, _, u, _, _ float64) float64 { return x + u*y }, params: []elementwise.Number{elementwise.Whole(3)}},
	{name: "mul", op: elementwise.Mul, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return x * y }},
	{name: "max", op: elementwise.Max, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return math.Max(x, y) }},
	{name: "abs", op: elementwise.Abs, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Abs(x) }},
	{name: "trunc div", op: elementwise.TruncDiv, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 {
		if y == 0 {
			return 0
		}
		return math.Trunc(x / y)
	}},
	{name: "floor div", op: elementwise.FloorDiv, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 {
		if y == 0 {
			return 0
		}
		return math.Floor(x / y)
	}},
	{name: "remainder", op: elementwise.Remainder, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 {
		if y == 0 {
			return x
		}
		return x - y*math.Floor(x/y)
	}},
	{name: "pow", op: elementwise.Pow, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return math.Trunc(math.Pow(x, y)) }},
	{name: "bit and", op: elementwise.BitAnd, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return float64(int64(x) & int64(y)) }},
	{name: "bit xor", op: elementwise.BitXor, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return float64(int64(x) ^ int64(y)) }},
	{name: "where", op: elementwise.Where, inputs: 3, f: func(x, y, z, _, _, _ float64) float64 {
		if x != 0 {
			return y
		}
		return z
	}},
}

func TestMapIntegers(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		for _, c := range integerCases {
			for _, d := range kerneltest.Integers {
				for n, shape := range kerneltest.Shapes {
					var in [][]float64
					var inputs []elementwise.Input
					for k := range c.inputs {
						hi := 9.0
						if k == 0 {
							hi = 5
						}
						x := kerneltest.Sample(d, n+k, kerneltest.Count(shape), -hi, hi)
						if c.name == "pow" && k == 0 {
							for i := range x { // 0 to a negative power is infinite
								x[i] = max(math.Abs(x[i]), 1)
							}
						}
						in = append(in, x)
						inputs = append(inputs, elementwise.Of(kerneltest.New(t, d, kerneltest.Layouts[(n+k)%4], shape, x)))
					}
					out := kerneltest.New(t, d, kerneltest.Contiguous, shape, nil)
					require.NoError(t, elementwise.Map(c.op, d, out, inputs, c.params...), c.name)
					got := kerneltest.Values(out)
					for i := range got {
						want := kerneltest.Round(d, c.want(in, i))
						if got[i] != want {
							t.Fatalf("%s %v %v: element %d is %v, want %v", c.name, d, shape, i, got[i], want)
						}
					}
				}
			}
		}
	})
}

func TestMapKeepsLargeIntegers(t *testing.T) {
	big := int64(1)<<62 + 1
	for _, d := range []dtype.Type{dtype.Int64, dtype.Uint64} {
		out := kerneltest.New(t, d, kerneltest.Contiguous, []int64{3}, nil)
		require.NoError(t, elementwise.Fill(out, elementwise.Whole(big)))
		require.NoError(t, elementwise.Map(elementwise.Add, d, out, []elementwise.Input{elementwise.Of(out), elementwise.Const(elementwise.Whole(2))}, elementwise.Whole(1)))
		same := kerneltest.New(t, dtype.Bool, kerneltest.Contiguous, []int64{3}, nil)
		require.NoError(t, elementwise.Map(elementwise.Equal, d, same, []elementwise.Input{elementwise.Of(out), elementwise.Const(elementwise.Whole(big + 2))}))
		assert.Equal(t, []float64{1, 1, 1}, kerneltest.Values(same))
	}
	// An unsigned number from 2^63 on must not be treated as negative.
	u := kerneltest.New(t, dtype.Uint64, kerneltest.Contiguous, []int64{1}, []float64{1 << 63})
	half := kerneltest.New(t, dtype.Uint64, kerneltest.Contiguous, []int64{1}, nil)
	require.NoError(t, elementwise.Map(elementwise.TruncDiv, dtype.Uint64, half, []elementwise.Input{elementwise.Of(u), elementwise.Const(elementwise.Whole(2))}))
	assert.Equal(t, []float64{1 << 62}, kerneltest.Values(half))
}

func TestCast(t *testing.T) {
	all := append(append([]dtype.Type{dtype.Bool}, kerneltest.Floats...), kerneltest.Integers...)
	kerneltest.EachVariant(t, func(t *testing.T) {
		for _, from := range all {
			for _, to := range all {
				for n, shape := range kerneltest.Shapes {
					x := kerneltest.Sample(from, n, kerneltest.Count(shape), -100, 100)
					if from.IsFloat() && len(x) > 6 {
						copy(x, []float64{kerneltest.Round(from, 1e6), kerneltest.Round(from, -1e6), math.Inf(1), math.Inf(-1), math.NaN(), 0.5, -0.5})
					}
					src := kerneltest.New(t, from, kerneltest.Layouts[n%4], shape, x)
					dst := kerneltest.New(t, to, kerneltest.Layouts[(n+1)%4], shape, nil)
					require.NoError(t, elementwise.Copy(dst, src))
					for i, got := range kerneltest.Values(dst) {
						want := cast(from, to, x[i])
						if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
							t.Fatalf("%v %v to %v is %v, want %v", from, x[i], to, got, want)
						}
					}
				}
			}
		}
	})
}

// cast defines the conversion rules: floats to integers truncate and saturate, and NaN becomes 0.
func cast(from, to dtype.Type, x float64) float64 {
	switch {
	case to == dtype.Bool:
		return kerneltest.Truth(x != 0)
	case to.IsFloat() || !from.IsFloat():
		return kerneltest.Round(to, x)
	case math.IsNaN(x):
		return 0
	}
	bits := to.Bits()
	lo, hi := -math.Ldexp(1, bits-1), math.Ldexp(1, bits-1)-1
	if slices.Contains([]dtype.Type{dtype.Uint8, dtype.Uint16, dtype.Uint32, dtype.Uint64}, to) {
		lo, hi = 0, math.Ldexp(1, bits)-1
	}
	return math.Trunc(min(max(x, lo), hi))
}

// TestBitsOfWords: bitwise operations go by words of 64 bits where memory allows it, for any number of elements.
func TestBitsOfWords(t *testing.T) {
	ops := map[elementwise.Op]func(x, y int8) int8{
		elementwise.BitAnd: func(x, y int8) int8 { return x & y },
		elementwise.BitOr:  func(x, y int8) int8 { return x | y },
		elementwise.BitXor: func(x, y int8) int8 { return x ^ y },
		elementwise.BitNot: func(x, _ int8) int8 { return ^x },
	}
	for _, d := range kerneltest.Integers[:4] {
		for _, n := range []int64{1, 3, 7, 8, 9, 63, 1031} {
			for _, layout := range []kerneltest.Layout{kerneltest.Contiguous, kerneltest.Reversed} {
				values := make([]float64, n)
				for i := range values {
					values[i] = float64(int8(i*37 - 91))
				}
				x, out := kerneltest.New(t, d, layout, []int64{n}, values), kerneltest.New(t, d, kerneltest.Contiguous, []int64{n}, nil)
				for op, f := range ops {
					for _, c := range []int8{0, 1, 100, -1, -86} {
						in := []elementwise.Input{elementwise.Of(x), elementwise.Const(elementwise.Whole(int64(c)))}
						if op == elementwise.BitNot {
							in = in[:1]
						}
						require.NoError(t, elementwise.Map(op, d, out, in))
						for i, got := range kerneltest.Values(out) {
							require.EqualValues(t, f(int8(values[i]), c), got, "op %d of %d %v and %d: element %d", op, n, d, c, i)
						}
					}
				}
			}
		}
	}
}
