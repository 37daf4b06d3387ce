package kernel_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

var (
	floats   = []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64}
	integers = []dtype.Type{
		dtype.Int8, dtype.Int16, dtype.Int32, dtype.Int64, dtype.Uint8, dtype.Uint16, dtype.Uint32, dtype.Uint64,
	}
	// shapes cover empty, scalar, one, odd, sizes around the chunk of 1024 and many dimensions.
	shapes = [][]int64{{0}, {3, 0, 2}, {}, {1}, {7}, {1023}, {3, 1025}, {5, 1, 3, 2, 1, 2, 1, 2}}
)

// ulp returns the distance between neighbouring values of type d at x.
func ulp(d dtype.Type, x float64) float64 {
	bits, least := 52, -1074
	switch d {
	case dtype.Float32:
		bits, least = 23, -149
	case dtype.Float16:
		bits, least = 10, -24
	case dtype.BFloat16:
		bits, least = 7, -133
	}
	_, e := math.Frexp(x)
	return math.Ldexp(1, max(e-1-bits, least))
}

// within asserts that got is within n ulp of want in type d. NaN equals NaN.
func within(t testing.TB, d dtype.Type, n float64, want, got []float64, text string) {
	t.Helper()
	require.Equal(t, len(want), len(got), text)
	for i := range want {
		w := want[i]
		if d.IsFloat() {
			w = kerneltest.Round(d, w)
		}
		if w == got[i] || math.IsNaN(w) && math.IsNaN(got[i]) {
			continue
		}
		if !(math.Abs(got[i]-want[i]) <= n*ulp(d, want[i])) {
			t.Fatalf("%s: element %d is %v, want %v (%v, %.2f ulp)", text, i, got[i], want[i], d, math.Abs(got[i]-want[i])/ulp(d, want[i]))
		}
	}
}

// sample returns n values of type d from a fixed sequence that includes the special values.
func sample(d dtype.Type, seed, n int, lo, hi float64) []float64 {
	out := make([]float64, n)
	x := uint64(seed)*0x9E3779B97F4A7C15 + 1
	for i := range out {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		v := lo + (hi-lo)*float64(x>>11)/(1<<53)
		if !d.IsFloat() {
			v = math.Trunc(v)
			if v < 0 && slices.Contains([]dtype.Type{dtype.Uint8, dtype.Uint16, dtype.Uint32, dtype.Uint64, dtype.Bool}, d) {
				v = -v
			}
		}
		out[i] = kerneltest.Round(d, v)
	}
	return out
}

func count(shape []int64) int {
	n := 1
	for _, d := range shape {
		n *= int(d)
	}
	return n
}

type formula func(x, y, z, u, v, w float64) float64

// mapCase tests an operator against its definition in double precision.
type mapCase struct {
	name    string
	op      kernel.Op
	inputs  int
	f       formula
	lo, hi  float64 // of the inputs
	ulps    float64 // allowed beyond the rounding of the result
	ulps64  float64 // the same for float64, where Go's own function is less accurate
	params  []kernel.Number
	special []float64 // further values of x
}

var weird = []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 1, -1, 1e-40, -1e-40, 3e38, 1e-8, 88.7, -87.4, -103.5, 0.5, 1e5}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
func cdf(x float64) float64     { return 0.5 * math.Erfc(-x/math.Sqrt2) }
func pdf(x float64) float64     { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }
func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

var floatCases = []mapCase{
	{name: "identity", op: kernel.Identity, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return x }, lo: -9, hi: 9, special: weird},
	{name: "neg", op: kernel.Neg, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return -x }, lo: -9, hi: 9, special: weird},
	{name: "abs", op: kernel.Abs, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Abs(x) }, lo: -9, hi: 9, special: weird},
	{name: "square", op: kernel.Square, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return x * x }, lo: -9, hi: 9, ulps: .5},
	{name: "relu", op: kernel.Relu, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 {
		if x < 0 {
			return 0
		}
		return x
	}, lo: -9, hi: 9, special: weird},
	{name: "sqrt", op: kernel.Sqrt, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Sqrt(x) }, lo: 0, hi: 1e4, ulps: .5, special: weird},
	{name: "rsqrt", op: kernel.Rsqrt, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return 1 / math.Sqrt(x) }, lo: 1e-3, hi: 1e4, ulps: 1.5, special: weird},
	{name: "reciprocal", op: kernel.Reciprocal, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return 1 / x }, lo: 1e-3, hi: 1e4, ulps: .5},
	{name: "floor", op: kernel.Floor, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Floor(x) }, lo: -9, hi: 9, special: weird},
	{name: "ceil", op: kernel.Ceil, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Ceil(x) }, lo: -9, hi: 9, special: weird},
	{name: "trunc", op: kernel.Trunc, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Trunc(x) }, lo: -9, hi: 9, special: weird},
	{name: "round", op: kernel.Round, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.RoundToEven(x) }, lo: -9, hi: 9, special: []float64{.5, 1.5, 2.5, -.5}},
	{name: "add", op: kernel.Add, inputs: 2, f: func(x, y, _, u, _, _ float64) float64 { return x + u*y }, lo: -9, hi: 9, ulps: 8, params: []kernel.Number{kernel.Real(1)}},
	{name: "add alpha", op: kernel.Add, inputs: 2, f: func(x, y, _, u, _, _ float64) float64 { return x + u*y }, lo: 1, hi: 9, ulps: 1, params: []kernel.Number{kernel.Real(2.5)}},
	{name: "mul", op: kernel.Mul, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return x * y }, lo: -9, hi: 9, ulps: .5},
	{name: "div", op: kernel.Div, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return x / y }, lo: 1, hi: 9, ulps: .5},
	{name: "floor div", op: kernel.FloorDiv, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return math.Floor(x / y) }, lo: 2, hi: 3},
	{name: "maximum", op: kernel.Max, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return math.Max(x, y) }, lo: -9, hi: 9, special: []float64{math.NaN()}},
	{name: "minimum", op: kernel.Min, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return math.Min(x, y) }, lo: -9, hi: 9, special: []float64{math.NaN()}},
	{name: "less", op: kernel.Less, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return truth(x < y) }, lo: -2, hi: 2, special: weird},
	{name: "where", op: kernel.Where, inputs: 3, f: func(x, y, z, _, _, _ float64) float64 {
		if x != 0 {
			return y
		}
		return z
	}, lo: -2, hi: 2, special: []float64{0, 0, 0}},
	{name: "clamp", op: kernel.Clamp, inputs: 3, f: func(x, y, z, _, _, _ float64) float64 { return math.Min(math.Max(x, y), z) }, lo: -2, hi: 2},
	{name: "sub mul", op: kernel.SubMul, inputs: 3, f: func(x, y, z, _, _, _ float64) float64 { return (x - y) * z }, lo: 1, hi: 2, ulps: 2},
	{name: "addcmul", op: kernel.Addcmul, inputs: 3, f: func(x, y, z, u, _, _ float64) float64 { return x + u*y*z }, lo: 1, hi: 2, ulps: 2, params: []kernel.Number{kernel.Real(.5)}},
	{name: "addcdiv", op: kernel.Addcdiv, inputs: 3, f: func(x, y, z, u, _, _ float64) float64 { return x + u*y/z }, lo: 1, hi: 2, ulps: 2, params: []kernel.Number{kernel.Real(.5)}},
	{name: "lerp", op: kernel.Lerp, inputs: 3, f: func(x, y, z, _, _, _ float64) float64 { return x + z*(y-x) }, lo: .2, hi: 1, ulps: 8},
	{name: "exp", op: kernel.Exp, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Exp(x) }, lo: -100, hi: 89, ulps: 1, special: weird},
	{name: "exp2", op: kernel.Exp2, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Exp2(x) }, lo: -149, hi: 129, ulps: 1, special: weird},
	{name: "expm1", op: kernel.Expm1, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Expm1(x) }, lo: -3, hi: 10, ulps: 2, special: weird},
	{name: "log", op: kernel.Log, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Log(x) }, lo: 0, hi: 3, ulps: 1, special: weird},
	{name: "log2", op: kernel.Log2, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Log2(x) }, lo: 0, hi: 1e5, ulps: 2, special: append(weird, 8, 1024, .25)},
	{name: "log10", op: kernel.Log10, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Log10(x) }, lo: 0, hi: 1e5, ulps: 2, special: weird},
	{name: "log1p", op: kernel.Log1p, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Log1p(x) }, lo: -1, hi: 3, ulps: 2, special: weird},
	{name: "sin", op: kernel.Sin, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Sin(x) }, lo: -1000, hi: 1000, ulps: 2, ulps64: 300, special: weird},
	{name: "cos", op: kernel.Cos, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Cos(x) }, lo: -1000, hi: 1000, ulps: 2, ulps64: 300, special: weird},
	{name: "tanh", op: kernel.Tanh, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Tanh(x) }, lo: -4, hi: 4, ulps: 2, special: weird},
	{name: "erf", op: kernel.Erf, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Erf(x) }, lo: -4, hi: 4, ulps: 2, special: weird},
	{name: "sigmoid", op: kernel.Sigmoid, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return sigmoid(x) }, lo: -20, hi: 20, ulps: 2},
	{name: "silu", op: kernel.Swish, inputs: 1, f: func(x, _, _, u, _, _ float64) float64 { return x * sigmoid(u*x) }, lo: -20, hi: 20, ulps: 3, params: []kernel.Number{kernel.Real(1)}},
	{name: "silu grad", op: kernel.SwishGrad, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return x * (sigmoid(y) + y*sigmoid(y)*(1-sigmoid(y))) }, lo: 0, hi: 5, ulps: 6, params: []kernel.Number{kernel.Real(1)}},
	{name: "gelu", op: kernel.Gelu, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return x * cdf(x) }, lo: 0, hi: 6, ulps: 4},
	{name: "gelu grad", op: kernel.GeluGrad, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return x * (cdf(y) + y*pdf(y)) }, lo: 0, hi: 5, ulps: 8},
	{name: "gelu tanh", op: kernel.GeluTanh, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 {
		return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}, lo: 0, hi: 6, ulps: 4},
	{name: "softplus", op: kernel.Softplus, inputs: 1, f: func(x, _, _, u, v, _ float64) float64 {
		if u*x > v {
			return x
		}
		return math.Log1p(math.Exp(u*x)) / u
	}, lo: -10, hi: 12, ulps: 6, params: []kernel.Number{kernel.Real(2), kernel.Real(20)}},
	{name: "elu", op: kernel.Elu, inputs: 1, f: func(x, _, _, u, v, w float64) float64 {
		if x > 0 {
			return v * x
		}
		return v * u * math.Expm1(w*x)
	}, lo: -4, hi: 4, ulps: 6, params: []kernel.Number{kernel.Real(1.5), kernel.Real(2), kernel.Real(.5)}},
	{name: "pow", op: kernel.Pow, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return math.Pow(x, y) }, lo: .1, hi: 4, ulps: 1, ulps64: 4},
	{name: "erfinv", op: kernel.Erfinv, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Erfinv(x) }, lo: -1, hi: 1, ulps: 64},
	{name: "cube", op: kernel.Cube, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return x * x * x }, lo: -9, hi: 9, ulps: 2, special: []float64{math.NaN(), math.Inf(-1), 0}},
	{name: "tan", op: kernel.Tan, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Tan(x) }, lo: -20, hi: 20, ulps: 2, special: weird, ulps64: 300},
	{name: "sinh", op: kernel.Sinh, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Sinh(x) }, lo: -9, hi: 9, ulps: 2, special: weird, ulps64: 8},
	{name: "cosh", op: kernel.Cosh, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Cosh(x) }, lo: -9, hi: 9, ulps: 2, special: weird, ulps64: 16},
	{name: "atan", op: kernel.Atan, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Atan(x) }, lo: -9, hi: 9, ulps: 2, special: weird, ulps64: 16},
	{name: "atanh", op: kernel.Atanh, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Atanh(x) }, lo: -1, hi: 1, ulps: 2, special: weird, ulps64: 16},
	{name: "atan2", op: kernel.Atan2, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return math.Atan2(x, y) }, lo: -9, hi: 9, ulps: 2, special: weird, ulps64: 16},
	{name: "erfc", op: kernel.Erfc, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Erfc(x) }, lo: -4, hi: 9, ulps: 3, special: weird, ulps64: 16},
	{name: "soft margin", op: kernel.SoftMargin, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 {
		return math.Max(-x*y, 0) + math.Log1p(math.Exp(-math.Abs(x*y)))
	}, lo: -9, hi: 9, ulps: 3, special: weird},
	{name: "remainder", op: kernel.Remainder, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return x - y*math.Floor(x/y) }, lo: 1, hi: 2, ulps: 16},
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
			for _, d := range floats {
				for n, shape := range shapes {
					layout := kerneltest.Layouts[n%len(kerneltest.Layouts)]
					var in [][]float64
					var inputs []kernel.Input
					for k := range c.inputs {
						x := sample(d, n+k, count(shape), c.lo, c.hi)
						for i, s := range c.special {
							if k == 0 && i < len(x) {
								x[i] = kerneltest.Round(d, s)
							}
						}
						in = append(in, x)
						inputs = append(inputs, kernel.Of(kerneltest.New(t, d, kerneltest.Layouts[(n+k)%4], shape, x)))
					}
					out := kerneltest.New(t, d, layout, shape, nil)
					require.NoError(t, kernel.Map(c.op, d, out, inputs, c.params...), c.name)
					want := make([]float64, count(shape))
					for i := range want {
						want[i] = c.want(in, i)
					}
					// Rounding to a narrow type adds half an ulp.
					ulps := c.ulps
					if d == dtype.Float64 {
						ulps = max(ulps, c.ulps64)
					}
					within(t, d, ulps+.51, want, kerneltest.Values(out), fmt.Sprintf("%s %v %v %v", c.name, d, shape, layout))
				}
			}
		}
	})
}

// integerCases tests integer arithmetic against exact results reduced to the type.
var integerCases = []mapCase{
	{name: "add", op: kernel.Add, inputs: 2, f: func(x, y, _, u, _, _ float64) float64 { return x + u*y }, params: []kernel.Number{kernel.Whole(3)}},
	{name: "mul", op: kernel.Mul, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return x * y }},
	{name: "max", op: kernel.Max, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return math.Max(x, y) }},
	{name: "abs", op: kernel.Abs, inputs: 1, f: func(x, _, _, _, _, _ float64) float64 { return math.Abs(x) }},
	{name: "trunc div", op: kernel.TruncDiv, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 {
		if y == 0 {
			return 0
		}
		return math.Trunc(x / y)
	}},
	{name: "floor div", op: kernel.FloorDiv, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 {
		if y == 0 {
			return 0
		}
		return math.Floor(x / y)
	}},
	{name: "remainder", op: kernel.Remainder, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 {
		if y == 0 {
			return x
		}
		return x - y*math.Floor(x/y)
	}},
	{name: "pow", op: kernel.Pow, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return math.Trunc(math.Pow(x, y)) }},
	{name: "bit and", op: kernel.BitAnd, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return float64(int64(x) & int64(y)) }},
	{name: "bit xor", op: kernel.BitXor, inputs: 2, f: func(x, y, _, _, _, _ float64) float64 { return float64(int64(x) ^ int64(y)) }},
	{name: "where", op: kernel.Where, inputs: 3, f: func(x, y, z, _, _, _ float64) float64 {
		if x != 0 {
			return y
		}
		return z
	}},
}

func TestMapIntegers(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		for _, c := range integerCases {
			for _, d := range integers {
				for n, shape := range shapes {
					var in [][]float64
					var inputs []kernel.Input
					for k := range c.inputs {
						hi := 9.0
						if k == 0 {
							hi = 5
						}
						x := sample(d, n+k, count(shape), -hi, hi)
						if c.name == "pow" && k == 0 {
							for i := range x { // 0 to a negative power is infinite
								x[i] = max(math.Abs(x[i]), 1)
							}
						}
						in = append(in, x)
						inputs = append(inputs, kernel.Of(kerneltest.New(t, d, kerneltest.Layouts[(n+k)%4], shape, x)))
					}
					out := kerneltest.New(t, d, kerneltest.Contiguous, shape, nil)
					require.NoError(t, kernel.Map(c.op, d, out, inputs, c.params...), c.name)
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
		require.NoError(t, kernel.Fill(out, kernel.Whole(big)))
		require.NoError(t, kernel.Map(kernel.Add, d, out, []kernel.Input{kernel.Of(out), kernel.Const(kernel.Whole(2))}, kernel.Whole(1)))
		same := kerneltest.New(t, dtype.Bool, kerneltest.Contiguous, []int64{3}, nil)
		require.NoError(t, kernel.Map(kernel.Equal, d, same, []kernel.Input{kernel.Of(out), kernel.Const(kernel.Whole(big + 2))}))
		assert.Equal(t, []float64{1, 1, 1}, kerneltest.Values(same))
	}
	// An unsigned number from 2^63 on must not be treated as negative.
	u := kerneltest.New(t, dtype.Uint64, kerneltest.Contiguous, []int64{1}, []float64{1 << 63})
	half := kerneltest.New(t, dtype.Uint64, kerneltest.Contiguous, []int64{1}, nil)
	require.NoError(t, kernel.Map(kernel.TruncDiv, dtype.Uint64, half, []kernel.Input{kernel.Of(u), kernel.Const(kernel.Whole(2))}))
	assert.Equal(t, []float64{1 << 62}, kerneltest.Values(half))
}

func TestCast(t *testing.T) {
	all := append(append([]dtype.Type{dtype.Bool}, floats...), integers...)
	kerneltest.EachVariant(t, func(t *testing.T) {
		for _, from := range all {
			for _, to := range all {
				for n, shape := range shapes {
					x := sample(from, n, count(shape), -100, 100)
					if from.IsFloat() && len(x) > 6 {
						copy(x, []float64{kerneltest.Round(from, 1e6), kerneltest.Round(from, -1e6), math.Inf(1), math.Inf(-1), math.NaN(), 0.5, -0.5})
					}
					src := kerneltest.New(t, from, kerneltest.Layouts[n%4], shape, x)
					dst := kerneltest.New(t, to, kerneltest.Layouts[(n+1)%4], shape, nil)
					require.NoError(t, kernel.Copy(dst, src))
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
		return truth(x != 0)
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
	ops := map[kernel.Op]func(x, y int8) int8{
		kernel.BitAnd: func(x, y int8) int8 { return x & y },
		kernel.BitOr:  func(x, y int8) int8 { return x | y },
		kernel.BitXor: func(x, y int8) int8 { return x ^ y },
		kernel.BitNot: func(x, _ int8) int8 { return ^x },
	}
	for _, d := range integers[:4] {
		for _, n := range []int64{1, 3, 7, 8, 9, 63, 1031} {
			for _, layout := range []kerneltest.Layout{kerneltest.Contiguous, kerneltest.Reversed} {
				values := make([]float64, n)
				for i := range values {
					values[i] = float64(int8(i*37 - 91))
				}
				x, out := kerneltest.New(t, d, layout, []int64{n}, values), kerneltest.New(t, d, kerneltest.Contiguous, []int64{n}, nil)
				for op, f := range ops {
					for _, c := range []int8{0, 1, 100, -1, -86} {
						in := []kernel.Input{kernel.Of(x), kernel.Const(kernel.Whole(int64(c)))}
						if op == kernel.BitNot {
							in = in[:1]
						}
						require.NoError(t, kernel.Map(op, d, out, in))
						for i, got := range kerneltest.Values(out) {
							require.EqualValues(t, f(int8(values[i]), c), got, "op %d of %d %v and %d: element %d", op, n, d, c, i)
						}
					}
				}
			}
		}
	}
}
