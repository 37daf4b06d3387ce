package indexing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// TestCombination compares combinations and their gradients with the definition, in every variant,
// type and layout and with terms left out. The number of threads must not matter.
func TestCombination(t *testing.T) {
	const tokens, choices, width, rows, groups = 6, 3, 1031, 15, 4
	index, group := make([]int64, tokens*choices), make([]int64, tokens*choices)
	for i := range index {
		index[i], group[i] = int64(i*4%(rows+1))-1, int64(i%groups)
	}
	kerneltest.EachVariant(t, func(t *testing.T) {
		for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16} {
			x, bias := kerneltest.Sample(d, 1, rows*width, -1, 1), kerneltest.Sample(d, 2, groups*width, -1, 1)
			scale, add, grad := kerneltest.Sample(d, 3, tokens*choices, -1, 1), kerneltest.Sample(d, 4, tokens*width, -1, 1), kerneltest.Sample(d, 5, tokens*width, -1, 1)
			for _, full := range []bool{false, true} {
				want, wantScale := make([]float64, tokens*width), make([]float64, tokens*choices)
				for r := range tokens {
					for i := range width {
						at := r*width + i
						if full {
							want[at] = 2 * add[at]
						}
						for j := r * choices; j < (r+1)*choices; j++ {
							if index[j] < 0 {
								continue
							}
							s, v := 1.0, x[int(index[j])*width+i]
							if full {
								s, v = scale[j], v+bias[int(group[j])*width+i]
							}
							want[at] += s * v
							wantScale[j] += grad[at] * v
						}
					}
				}
				for _, l := range kerneltest.Layouts {
					view := func(v []float64, shape ...int64) kernel.View { return kerneltest.New(t, d, l, shape, v) }
					c := indexing.Combination{X: view(x, rows, width), Choices: choices, Index: index}
					if full {
						c.Bias, c.Group = view(bias, groups, width), group
						for _, s := range scale {
							c.Scale = append(c.Scale, float32(s))
						}
						c.Addends = []kernel.View{view(add, tokens, width), view(add, tokens, width)}
					}
					var first []float64
					for _, threads := range []int{1, 2, 5} {
						kerneltest.Threads(t, threads)
						out := view(nil, tokens, width)
						require.NoError(t, c.Into(out))
						got := kerneltest.Values(out)
						if first == nil {
							first = got
							nearly(t, d, want, got)
						}
						require.Equal(t, first, got)
					}
					out := kerneltest.New(t, dtype.Float32, l, []int64{tokens, choices}, nil)
					require.NoError(t, c.ScaleGrad(out, view(grad, tokens, width)))
					nearly(t, dtype.Float32, wantScale, kerneltest.Values(out))
				}
			}
		}
	})
}

// nearly asserts that values of order one agree to the precision of a type.
func nearly(t testing.TB, d dtype.Type, want, got []float64) {
	t.Helper()
	tolerance := map[dtype.Type]float64{dtype.Float32: 2e-5, dtype.Float16: 4e-3, dtype.BFloat16: 3e-2}[d]
	require.InDeltaSlice(t, want, got, tolerance)
}

// TestCombinationOfNothing checks that an empty combination writes nothing. Under the address
// sanitizer it also detects leaks.
func TestCombinationOfNothing(t *testing.T) {
	x := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{4, 2}, kerneltest.Iota(8))
	none := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{0, 2}, nil)
	c := indexing.Combination{X: x, Choices: 2, Index: []int64{}}
	require.NoError(t, c.Into(none))
	require.NoError(t, c.ScaleGrad(none, none))
}

func TestCombinationRefuses(t *testing.T) {
	x := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{4, 2}, kerneltest.Iota(8))
	out := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{1, 2}, kerneltest.Iota(2))
	c := indexing.Combination{X: x, Choices: 2, Index: []int64{1, 4}}
	require.ErrorContains(t, c.Into(out), "row index 4 at position 1 is out of range for 4 rows")
	c = indexing.Combination{X: x, Choices: 2, Index: []int64{1, 3}, Bias: x, Group: []int64{0, 5}}
	require.ErrorContains(t, c.Into(out), "group 5 at position 1")
	c = indexing.Combination{X: x, Choices: 1, Index: []int64{1, 3}}
	require.ErrorContains(t, c.Into(out), "no result of shape")
	require.Equal(t, kerneltest.Iota(2), kerneltest.Values(out))
}
