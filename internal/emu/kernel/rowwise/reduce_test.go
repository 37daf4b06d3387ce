package rowwise_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
)

// reductions defines each reduction over a plain slice.
var reductions = map[rowwise.Reduction]func(x []float64, p float64) float64{
	rowwise.ReduceSum: func(x []float64, _ float64) float64 { return sum(x, func(v float64) float64 { return v }) },
	rowwise.ReduceMean: func(x []float64, _ float64) float64 {
		return sum(x, func(v float64) float64 { return v }) / float64(len(x))
	},
	rowwise.ReduceProd: func(x []float64, _ float64) float64 {
		y := 1.0
		for _, v := range x {
			y *= v
		}
		return y
	},
	rowwise.ReduceMax: func(x []float64, _ float64) float64 { return fold(x, math.Inf(-1), math.Max) },
	rowwise.ReduceMin: func(x []float64, _ float64) float64 { return fold(x, math.Inf(1), math.Min) },
	rowwise.ReduceAny: func(x []float64, _ float64) float64 { return kerneltest.Truth(slices.ContainsFunc(x, nonzero)) },
	rowwise.ReduceAll: func(x []float64, _ float64) float64 { return kerneltest.Truth(!slices.Contains(x, 0)) },
	rowwise.ReduceLogSumExp: func(x []float64, _ float64) float64 {
		m := fold(x, math.Inf(-1), math.Max)
		return m + math.Log(sum(x, func(v float64) float64 { return math.Exp(v - m) }))
	},
	rowwise.ReduceNorm: func(x []float64, p float64) float64 {
		switch {
		case p == 0:
			return sum(x, func(v float64) float64 { return kerneltest.Truth(v != 0) })
		case math.IsInf(p, 1):
			return fold(x, 0, func(a, b float64) float64 { return max(a, math.Abs(b)) })
		case math.IsInf(p, -1):
			return fold(x, math.Inf(1), func(a, b float64) float64 { return min(a, math.Abs(b)) })
		}
		return math.Pow(sum(x, func(v float64) float64 { return math.Pow(math.Abs(v), p) }), 1/p)
	},
	rowwise.ReduceVar: variance,
	rowwise.ReduceStd: func(x []float64, p float64) float64 { return math.Sqrt(variance(x, p)) },
}

func nonzero(v float64) bool { return v != 0 }

func sum(x []float64, f func(float64) float64) float64 {
	s := 0.0
	for _, v := range x {
		s += f(v)
	}
	return s
}

func fold(x []float64, s float64, f func(a, b float64) float64) float64 {
	for _, v := range x {
		s = f(s, v)
	}
	return s
}

func variance(x []float64, correction float64) float64 {
	mean := sum(x, func(v float64) float64 { return v }) / float64(len(x))
	return sum(x, func(v float64) float64 { return (v - mean) * (v - mean) }) / max(float64(len(x))-correction, 0)
}

// groups collects the elements of x, in row-major order, that reduce to each output.
func groups(shape []int64, x []float64, axes []int) (kept []int64, of [][]float64) {
	for i, d := range shape {
		if !slices.Contains(axes, i) {
			kept = append(kept, d)
		}
	}
	of = make([][]float64, kerneltest.Count(kept))
	for i, v := range x {
		out, scale, rest := 0, 1, i
		for d := len(shape) - 1; d >= 0; d-- {
			at := rest % int(shape[d])
			rest /= int(shape[d])
			if !slices.Contains(axes, d) {
				out += at * scale
				scale *= int(shape[d])
			}
		}
		of[out] = append(of[out], v)
	}
	return kept, of
}

var reduceCases = []struct {
	shape []int64
	axes  []int
}{
	{[]int64{7}, []int{0}}, {[]int64{1}, []int{0}}, {[]int64{}, nil}, {[]int64{3, 5}, nil},
	{[]int64{3, 1025}, []int{1}}, {[]int64{1025, 3}, []int{0}}, {[]int64{3, 0}, []int{1}}, {[]int64{0, 3}, []int{1}},
	{[]int64{4, 3, 5, 2}, []int{0, 2}}, {[]int64{4, 3, 5, 2}, []int{1, 3}}, {[]int64{4, 3, 5, 2}, []int{0, 1, 2, 3}},
	{[]int64{300, 1030}, []int{0}}, {[]int64{101, 700}, []int{0, 1}},
}

func TestReduce(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		for kind, f := range reductions {
			for _, parameter := range []float64{0, 1, 2, 3, math.Inf(1), math.Inf(-1)} {
				if parameter != 1 && kind != rowwise.ReduceNorm {
					continue
				}
				for n, c := range reduceCases {
					// The sizes that are reduced in parts test the loop that all reductions share.
					if kerneltest.Count(c.shape) > 20000 && kind != rowwise.ReduceSum {
						continue
					}
					d := kerneltest.Floats[n%len(kerneltest.Floats)]
					lo := -2.0
					if kind == rowwise.ReduceProd {
						lo = 0.9
					}
					x := kerneltest.Sample(d, n, kerneltest.Count(c.shape), lo, 1.1)
					for _, l := range kerneltest.Layouts {
						in := kerneltest.New(t, d, l, c.shape, x)
						kept, of := groups(c.shape, x, c.axes)
						out := kerneltest.New(t, dtype.Float64, l, kept, nil)
						require.NoError(t, rowwise.Reduce(kind, out, in, c.axes, parameter))
						for i, got := range kerneltest.Values(out) {
							want := f(of[i], parameter)
							if want == got || math.IsNaN(want) && math.IsNaN(got) {
								continue
							}
							require.InEpsilon(t, want, got, 1e-9, "reduction %d p %v of %v %v over %v, element %d", kind, parameter, d, c.shape, c.axes, i)
						}
					}
				}
			}
		}
	})
}

func TestReduceIntegers(t *testing.T) {
	for _, d := range append([]dtype.Type{dtype.Bool}, kerneltest.Integers...) {
		x := kerneltest.Sample(d, 3, 6*50, -9, 9)
		in := kerneltest.New(t, d, kerneltest.Transposed, []int64{6, 50}, x)
		for _, axes := range [][]int{{0}, {1}, {0, 1}} {
			kept, of := groups(in.Shape, x, axes)
			for _, kind := range []rowwise.Reduction{rowwise.ReduceSum, rowwise.ReduceMax, rowwise.ReduceMin, rowwise.ReduceAny, rowwise.ReduceAll} {
				out := kerneltest.New(t, dtype.Int64, kerneltest.Contiguous, kept, nil)
				require.NoError(t, rowwise.Reduce(kind, out, in, axes, 0))
				for i, got := range kerneltest.Values(out) {
					require.Equal(t, reductions[kind](of[i], 0), got, "%d %v", kind, d)
				}
			}
		}
	}
	// 64-bit sums are exact where a double would round.
	big := kerneltest.New(t, dtype.Int64, kerneltest.Contiguous, []int64{2}, []float64{1 << 60})
	require.NoError(t, elementwise.Map(elementwise.Add, dtype.Int64, big, []elementwise.Input{elementwise.Of(big), elementwise.Const(elementwise.Whole(1))}, elementwise.Whole(1)))
	total := kerneltest.New(t, dtype.Int64, kerneltest.Contiguous, []int64{}, nil)
	require.NoError(t, rowwise.Reduce(rowwise.ReduceSum, total, big, []int{0}, 0))
	assert.Equal(t, int64(1<<61+2), *(*int64)(total.Data))
}

func TestReduceArg(t *testing.T) {
	nan := math.NaN()
	x := []float64{3, 9, 9, -1, nan, 4, 2, 2, -5, -5, 0, 1}
	in := kerneltest.New(t, dtype.Float32, kerneltest.Transposed, []int64{3, 4}, x)
	value := kerneltest.New(t, dtype.Float32, kerneltest.Gapped, []int64{3}, nil)
	index := kerneltest.New(t, dtype.Int32, kerneltest.Contiguous, []int64{3}, nil)
	require.NoError(t, rowwise.ReduceArg(true, value, index, in, []int{1}))
	assert.Equal(t, []float64{1, 0, 3}, kerneltest.Values(index))
	assert.Equal(t, fmt.Sprint([]float64{9, nan, 1}), fmt.Sprint(kerneltest.Values(value)))
	require.NoError(t, rowwise.ReduceArg(false, kernel.View{}, index, in, []int{1}))
	assert.Equal(t, []float64{3, 0, 0}, kerneltest.Values(index))

	long := kerneltest.Sample(dtype.Float32, 1, 5000, 0, 1)
	long[4321] = 2
	in = kerneltest.New(t, dtype.Float32, kerneltest.Reversed, []int64{5000}, long)
	one := kerneltest.New(t, dtype.Int64, kerneltest.Contiguous, []int64{}, nil)
	require.NoError(t, rowwise.ReduceArg(true, kernel.View{}, one, in, []int{0}))
	assert.Equal(t, []float64{4321}, kerneltest.Values(one))

	none := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{0}, nil)
	assert.ErrorContains(t, rowwise.ReduceArg(true, kernel.View{}, one, none, []int{0}), "no elements")
	assert.ErrorContains(t, rowwise.Reduce(rowwise.ReduceSum, one, in, nil, 0), "gives [5000], not []")
}

func TestReduceExtremes(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct{ x, want float64 }{{inf, inf}, {-inf, -inf}, {1000, 1000 + math.Log(3)}, {-1000, -1000 + math.Log(3)}} {
		in := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{3}, []float64{c.x})
		out := kerneltest.New(t, dtype.Float64, kerneltest.Contiguous, []int64{}, nil)
		require.NoError(t, rowwise.Reduce(rowwise.ReduceLogSumExp, out, in, []int{0}, 0))
		got := kerneltest.Values(out)[0]
		assert.True(t, got == c.want || math.Abs(got-c.want) < 1e-9, "log-sum-exp of three times %v is %v, want %v", c.x, got, c.want)
	}
}
