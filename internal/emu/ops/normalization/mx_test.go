package normalization

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// mxType has what a quantisation to a type needs: the exponent of its largest number, the number, and
// half a step relative to a number and next to zero.
type mxType struct {
	d           dtype.Type
	exponent    float64
	most        float64
	step, least float64
	algorithm   int
	rounding    string
}

// Elements times their scales are the normalised rows, to half a step of the type (a step if it rounds
// down), and scales of blocks are those of their largest elements.
func TestMXNorms(t *testing.T) {
	types := []mxType{
		{dtype.Float8E4M3, 8, 448, 0x1p-4, 0x1p-10, 0, "rint"}, {dtype.Float8E4M3, 8, 448, 0x1p-4, 0x1p-10, 1, "rint"},
		{dtype.Float8E5M2, 15, 57344, 0x1p-3, 0x1p-17, 0, "rint"}, {dtype.Float8E5M2, 15, 57344, 0x1p-3, 0x1p-17, 1, "rint"},
		{dtype.Float4E2M1, 2, 6, 0x1p-2, 0.25, 0, "rint"}, {dtype.Float4E2M1, 2, 6, 0x1p-1, 0.5, 0, "floor"}, {dtype.Float4E1M2, 0, 1.75, 0x1p-3, 0.125, 0, "round"},
	}
	i := 0
	for _, to := range types {
		for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
			for _, shape := range [][]int64{{3, 40}, {2, 3, 64}, {70}, {1, 2}, {2, 130}} {
				for _, add := range []bool{false, true} {
					i++
					l, factors := kerneltest.Layouts[i%len(kerneltest.Layouts)], d
					if i%3 == 0 {
						factors = dtype.Float32
					}
					testMXNorm(t, to, d, factors, l, shape, add, i%4 < 2, i%5 > 0)
				}
			}
		}
	}
}

func testMXNorm(t *testing.T, to mxType, d, factors dtype.Type, l kerneltest.Layout, shape []int64, add, bias, statistics bool) {
	what := fmt.Sprintf("%v of %v by %v, %v %v, added %t, bias %t", to, d, factors, l, shape, add, bias)
	last := len(shape) - 1
	n, rows := shape[last], op.Count(shape[:last])
	x, gamma := optest.Filled(t, 1, d, l, shape), optest.Filled(t, 2, factors, kerneltest.Contiguous, []int64{n})
	v, gammas, betas := optest.Values(x), optest.Values(gamma), make([]float64, n)
	y, scale := optest.Minifloat(t, to.d, shape), optest.Minifloat(t, dtype.Float8E8M0, append(append([]int64{}, shape[:last]...), (n+63)/64, 2))
	rstd := optest.Tensor(t, dtype.Float32, append(append([]int64{}, shape[:last]...), 1))
	a := optest.Args{"x": x, "gamma": gamma, "epsilon": 1e-6, "scaleAlg": to.algorithm, "roundMode": to.rounding, "dstType": to.d, "outputRstd": statistics, "yOut": y, "mxscaleOut": scale, "rstdOut": rstd}
	name := "RmsNormDynamicMxQuant"
	if bias {
		beta := optest.Filled(t, 3, factors, kerneltest.Contiguous, []int64{n})
		a["beta"], betas = beta, optest.Values(beta)
	}
	sum := optest.TensorIn(t, d, l, shape)
	if add {
		name, a["x1"], a["x2"], a["xOut"] = "Add"+name, x, optest.Filled(t, 4, d, l, shape), sum
		delete(a, "x")
		optest.Add(v, optest.Values(a["x2"].(*op.Tensor)))
	}
	optest.RunOn(t, acceptance.Ascend950, name, a)
	if add {
		optest.CloseTo(t, what, v, optest.Values(sum), optest.ResultLimit(d))
	}
	got, scales, inverse := optest.MinifloatValues(t, y), optest.MinifloatValues(t, scale), optest.Values(rstd)
	for r := range rows {
		row := v[r*n : (r+1)*n]
		squares := 0.0
		for _, u := range row {
			squares += u * u
		}
		k := 1 / math.Sqrt(squares/float64(n)+1e-6)
		if statistics {
			require.InEpsilon(t, k, inverse[r], 1e-5, what)
		}
		pairs := scales[r*((n+63)/64*2) : (r+1)*((n+63)/64*2)]
		for from := int64(0); from < n; from += 32 {
			end, most := min(from+32, n), 0.0
			for j := from; j < end; j++ {
				row[j] = kerneltest.Round(d, row[j]*k*gammas[j]+betas[j])
				most = max(most, math.Abs(row[j]))
			}
			want := math.Exp2(math.Floor(math.Log2(most)) - to.exponent)
			if to.algorithm == 1 {
				want = math.Exp2(math.Ceil(math.Log2(most / to.most)))
			}
			s := pairs[from/32]
			require.Equal(t, want, s, "%s: scale of row %d from %d", what, r, from)
			for j := from; j < end; j++ {
				w := min(max(row[j], -to.most*s), to.most*s)
				require.InDelta(t, w, got[r*n+j]*s, max(math.Abs(w)*(to.step+0x1p-7), to.least*s), "%s: row %d element %d", what, r, j)
			}
		}
		if (n+31)/32%2 == 1 {
			require.Equal(t, 0x1p-127, pairs[len(pairs)-1], "%s: the missing block", what)
		}
	}
}

// Rows without elements have no scales, and NaN as their statistics. A row with an infinity has the
// scale NaN and zeros.
func TestMXNormExtremes(t *testing.T) {
	rstd := optest.Tensor(t, dtype.Float32, []int64{2, 1}, 1)
	a := optest.Args{"epsilon": 1e-6, "scaleAlg": 0, "roundMode": "rint", "dstType": dtype.Float8E4M3, "outputRstd": true, "rstdOut": rstd}
	shaped := func(n, pairs int64, x ...float64) optest.Args {
		return a.With(optest.Args{"x": optest.Tensor(t, dtype.Float16, []int64{2, n}, x...), "gamma": optest.Tensor(t, dtype.Float16, []int64{n}, 1), "yOut": optest.Minifloat(t, dtype.Float8E4M3, []int64{2, n}), "mxscaleOut": optest.Minifloat(t, dtype.Float8E8M0, []int64{2, pairs, 2})})
	}
	optest.RunOn(t, acceptance.Ascend950, "RmsNormDynamicMxQuant", shaped(0, 0))
	for _, v := range optest.Values(rstd) {
		require.True(t, math.IsNaN(v))
	}
	b := shaped(2, 1, math.Inf(1), 1, 1, 1)
	optest.RunOn(t, acceptance.Ascend950, "RmsNormDynamicMxQuant", b)
	require.Equal(t, []float64{0, 0, 256, 256}, optest.MinifloatValues(t, b["yOut"].(*op.Tensor)))
	scales := optest.MinifloatValues(t, b["mxscaleOut"].(*op.Tensor))
	require.True(t, math.IsNaN(scales[0]))
	require.Equal(t, []float64{0x1p-127, 0x1p-8, 0x1p-127}, scales[1:])
}

func TestMXNormsRefuse(t *testing.T) {
	f := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape, 1) }
	h, w := dtype.Float16, dtype.Float32
	a := optest.Args{
		"x1": f(h, 2, 34), "x2": f(h, 2, 34), "gamma": f(h, 34), "beta": f(h, 34), "epsilon": 1e-6, "scaleAlg": 0, "roundMode": "rint", "dstType": dtype.Float8E4M3, "outputRstd": true,
		"yOut": optest.Minifloat(t, dtype.Float8E4M3, []int64{2, 34}), "xOut": f(h, 2, 34), "mxscaleOut": optest.Minifloat(t, dtype.Float8E8M0, []int64{2, 1, 2}), "rstdOut": f(w, 2, 1),
	}
	four := optest.Args{"dstType": dtype.Float4E2M1, "yOut": optest.Minifloat(t, dtype.Float4E2M1, []int64{2, 34})}
	odd := optest.Minifloat(t, dtype.Float4E2M1, []int64{2, 4})
	odd.Shape, odd.Strides = []int64{2, 3}, []int64{3, 1}
	for text, set := range map[string]optest.Args{
		"x1":        {"x1": f(w, 2, 34), "x2": f(w, 2, 34), "xOut": f(w, 2, 34)},
		"x2":        {"x2": f(dtype.BFloat16, 2, 34)},
		"gamma":     {"gamma": f(h, 2, 34)},
		"beta":      {"beta": f(w, 34)},
		"mxscale":   {"mxscaleOut": optest.Minifloat(t, dtype.Float8E8M0, []int64{2, 2})},
		"rstd":      {"rstdOut": f(w, 2)},
		"float8":    {"yOut": optest.Minifloat(t, dtype.Float8E5M2, []int64{2, 34})},
		"roundMode": {"roundMode": "floor"},
		"scaleAlg":  {"scaleAlg": 2},
		"use 0":     four.With(optest.Args{"scaleAlg": 2}),
		"must be even": four.With(optest.Args{
			"x1": f(h, 2, 3), "x2": f(h, 2, 3), "xOut": f(h, 2, 3), "gamma": f(h, 3), "beta": nil, "yOut": odd,
		}),
		"1 to 7": {"x1": f(h), "x2": f(h), "xOut": f(h)},
	} {
		refuses(t, op.NoStep, text, a.With(set))
	}
	refuses(t, op.NullPointer, "rstdOut", a.With(optest.Args{"rstdOut": nil}))
	gapped := optest.Minifloat(t, dtype.Float4E2M1, []int64{2, 34})
	gapped.Strides = []int64{36, 1}
	refuses(t, op.InvalidParam, "contiguous", a.With(four).With(optest.Args{"yOut": gapped}))
}

func refuses(t *testing.T, code int32, text string, a optest.Args) {
	_, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend950}, "AddRmsNormDynamicMxQuant", a)
	var e *op.Error
	require.ErrorAs(t, err, &e, text)
	require.Equal(t, code, e.Code, e.Text)
	require.Contains(t, e.Text, text)
}
