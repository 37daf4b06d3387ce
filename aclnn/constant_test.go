package aclnn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// onDevice is a float32 tensor of values.
func onDevice(t *testing.T, st *acl.Stream, values []float32, shape ...int64) *aclnn.Tensor {
	t.Helper()
	return made(t)(aclnn.FromSlice(t.Context(), st, aclnn.Float32, values, shape...))
}

// computed queues an operator on a new float32 tensor, and reads it.
func computed(t *testing.T, st *acl.Stream, operator func(out *aclnn.Tensor) error, shape ...int64) []float32 {
	t.Helper()
	out := made(t)(aclnn.Zeros(st, aclnn.Float32, shape...))
	require.NoError(t, operator(out))
	got, err := aclnn.ToSlice[float32](t.Context(), st, out)
	require.NoError(t, err)
	return got
}

// TestConstants gives each choice of the operators that the emulator computes, and looks for
// what its name says in the result.
func TestConstants(t *testing.T) {
	st := openStream(t)
	same := func(t *testing.T, want, got []float32) {
		t.Helper()
		require.InDeltaSlice(t, want, got, 1e-4)
	}
	t.Run("reduction", func(t *testing.T) {
		x, y := onDevice(t, st, []float32{1, 2, 3}, 3), onDevice(t, st, []float32{0, 0, 0}, 3)
		for reduction, want := range map[aclnn.Reduction][]float32{
			aclnn.ReductionNone: {1, 4, 9}, aclnn.ReductionMean: {14.0 / 3}, aclnn.ReductionSum: {14},
		} {
			shape := []int64{}
			if len(want) > 1 {
				shape = []int64{3}
			}
			same(t, want, computed(t, st, func(out *aclnn.Tensor) error {
				return aclnn.MseLoss(st, aclnn.MseLossParams{Self: x, Target: y, Reduction: reduction, Out: out})
			}, shape...))
		}
	})
	t.Run("gelu", func(t *testing.T) {
		x := onDevice(t, st, []float32{1, -2}, 2)
		for form, want := range map[aclnn.GeluApproximation][]float32{aclnn.GeluErf: {0.841345, -0.045500}, aclnn.GeluTanh: {0.841192, -0.045402}} {
			got := computed(t, st, func(out *aclnn.Tensor) error {
				return aclnn.GeluV2(st, aclnn.GeluV2Params{X: x, Approximate: form, Y: out})
			}, 2)
			require.InDeltaSlice(t, want, got, 2e-6)
		}
	})
	t.Run("division", func(t *testing.T) {
		x, y := onDevice(t, st, []float32{7, -7}, 2), onDevice(t, st, []float32{2, 2}, 2)
		for mode, want := range map[aclnn.DivMode][]float32{aclnn.DivTrue: {3.5, -3.5}, aclnn.DivTrunc: {3, -3}, aclnn.DivFloor: {3, -4}} {
			same(t, want, computed(t, st, func(out *aclnn.Tensor) error {
				return aclnn.DivMod(st, aclnn.DivModParams{Self: x, Other: y, Mode: mode, Out: out})
			}, 2))
		}
	})
	t.Run("rounding", func(t *testing.T) {
		x, one := onDevice(t, st, []float32{1.6, -1.6, 2.25}, 3), onDevice(t, st, []float32{1}, 1)
		for mode, want := range map[aclnn.RoundMode][]int8{
			aclnn.RoundRound: {2, -2, 2}, aclnn.RoundFloor: {1, -2, 2}, aclnn.RoundCeil: {2, -1, 3}, aclnn.RoundTrunc: {1, -1, 2},
		} {
			out := made(t)(aclnn.Zeros(st, aclnn.Int8, 3))
			require.NoError(t, aclnn.AscendQuant(st, aclnn.AscendQuantParams{X: x, Scale: one, RoundMode: mode, DstType: aclnn.Int8, Y: out}))
			got, err := aclnn.ToSlice[int8](t.Context(), st, out)
			require.NoError(t, err)
			require.Equal(t, want, got, mode)
		}
	})
	t.Run("grid", func(t *testing.T) {
		image := onDevice(t, st, []float32{1, 2, 3, 4}, 1, 1, 1, 4)
		at := func(x float32, interpolation aclnn.Interpolation, padding aclnn.PaddingMode) float32 {
			grid := onDevice(t, st, []float32{x, 0}, 1, 1, 1, 2)
			return computed(t, st, func(out *aclnn.Tensor) error {
				return aclnn.GridSampler2D(st, aclnn.GridSampler2DParams{
					Input: image, Grid: grid, InterpolationMode: interpolation, PaddingMode: padding, AlignCorners: true, Out: out,
				})
			}, 1, 1, 1, 1)[0]
		}
		require.InDelta(t, 2.2, at(-0.2, aclnn.InterpolationBilinear, aclnn.PaddingZeros), 1e-5)
		require.InDelta(t, 2, at(-0.2, aclnn.InterpolationNearest, aclnn.PaddingZeros), 1e-5)
		require.NotEqual(t, at(-0.7, aclnn.InterpolationBilinear, aclnn.PaddingBorder), at(-0.7, aclnn.InterpolationBicubic, aclnn.PaddingBorder))
		require.InDelta(t, 0, at(3, aclnn.InterpolationBilinear, aclnn.PaddingZeros), 1e-5)
		require.InDelta(t, 4, at(3, aclnn.InterpolationBilinear, aclnn.PaddingBorder), 1e-5)
		require.InDelta(t, 1, at(3, aclnn.InterpolationBilinear, aclnn.PaddingReflection), 1e-5)
	})
	t.Run("scatter", func(t *testing.T) {
		x, src := onDevice(t, st, []float32{10, 4}, 2), onDevice(t, st, []float32{3, 5}, 2)
		index := made(t)(aclnn.FromSlice(t.Context(), st, aclnn.Int64, []int{0, 0}, 2))
		for reduce, want := range map[aclnn.ScatterReduction]float32{
			aclnn.ScatterReductionReplace: 5, aclnn.ScatterReductionSum: 18, aclnn.ScatterReductionMultiply: 150, aclnn.ScatterReductionMax: 10, aclnn.ScatterReductionMin: 3, aclnn.ScatterReductionMean: 6,
		} {
			same(t, []float32{want, 4}, computed(t, st, func(out *aclnn.Tensor) error {
				return aclnn.ScatterReduce(st, aclnn.ScatterReduceParams{Self: x, Index: index, Src: src, Reduce: reduce, IncludeSelf: true, Out: out})
			}, 2))
			if reduce <= aclnn.ScatterReductionMultiply {
				same(t, []float32{want, 4}, computed(t, st, func(out *aclnn.Tensor) error {
					return aclnn.Scatter(st, aclnn.ScatterParams{Self: x, Index: index, Src: src, Reduce: reduce, Out: out})
				}, 2))
			}
		}
	})
	t.Run("rotary", func(t *testing.T) {
		x := onDevice(t, st, []float32{1, 2, 3, 4, 5, 6, 7, 8}, 1, 1, 1, 8)
		zero, one := onDevice(t, st, make([]float32, 8), 1, 1, 1, 8), onDevice(t, st, []float32{1, 1, 1, 1, 1, 1, 1, 1}, 1, 1, 1, 8)
		for mode, want := range map[aclnn.RotaryMode][]float32{
			aclnn.RotaryHalf: {-5, -6, -7, -8, 1, 2, 3, 4}, aclnn.RotaryInterleave: {-2, 1, -4, 3, -6, 5, -8, 7},
			aclnn.RotaryQuarter: {-5, -6, -7, -8, 1, 2, 3, 4}, aclnn.RotaryInterleaveHalf: {-5, -6, -7, -8, 1, 2, 3, 4},
		} {
			same(t, want, computed(t, st, func(out *aclnn.Tensor) error {
				return aclnn.RotaryPositionEmbedding(st, aclnn.RotaryPositionEmbeddingParams{X: x, Cos: zero, Sin: one, Mode: mode, Out: out})
			}, 1, 1, 1, 8))
		}
	})
	t.Run("products", func(t *testing.T) {
		a, b := onDevice(t, st, []float32{1, 2, 3, 4}, 2, 2), onDevice(t, st, []float32{1, 0, 0, 1}, 2, 2)
		for _, cube := range []aclnn.CubeMathType{aclnn.CubeKeepDType, aclnn.CubeAllowFP32DownPrecision, aclnn.CubeUseFP16, aclnn.CubeUseHF32} {
			same(t, []float32{1, 2, 3, 4}, computed(t, st, func(out *aclnn.Tensor) error {
				return aclnn.Matmul(st, aclnn.MatmulParams{Self: a, Mat2: b, Out: out, CubeMathType: cube})
			}, 2, 2))
		}
	})
}

// TestGroupConstants multiplies rows of two groups with a matrix each, in every way to say which
// rows are whose, and sums over groups.
func TestGroupConstants(t *testing.T) {
	ctx, st := t.Context(), openStream(t)
	x := onDevice(t, st, []float32{1, 2, 3}, 3, 1)
	w := onDevice(t, st, []float32{10, 100}, 2, 1, 1)
	for listType, list := range map[aclnn.GroupListType][]int{aclnn.GroupListCumsum: {1, 3}, aclnn.GroupListCount: {1, 2}} {
		groups := made(t)(aclnn.FromSlice(ctx, st, aclnn.Int64, list, 2))
		got := computed(t, st, func(out *aclnn.Tensor) error {
			return aclnn.GroupedMatmulV4(st, aclnn.GroupedMatmulV4Params{
				X: []*aclnn.Tensor{x}, Weight: []*aclnn.Tensor{w}, GroupList: groups, GroupListType: listType,
				GroupType: aclnn.GroupM, SplitItem: aclnn.OneOutput, ActType: aclnn.ActNone, Out: []*aclnn.Tensor{out},
			})
		}, 3, 1)
		require.Equal(t, []float32{10, 200, 300}, got)
	}
	groups := made(t)(aclnn.FromSlice(ctx, st, aclnn.Int64, []int{1, 2}, 2))
	sums := computed(t, st, func(out *aclnn.Tensor) error {
		return aclnn.GroupedMatmulV4(st, aclnn.GroupedMatmulV4Params{
			X: []*aclnn.Tensor{x.Transpose(0, 1)}, Weight: []*aclnn.Tensor{x}, GroupList: groups, GroupListType: aclnn.GroupListCount,
			GroupType: aclnn.GroupK, SplitItem: aclnn.OneOutput, Out: []*aclnn.Tensor{out},
		})
	}, 2, 1, 1)
	require.Equal(t, []float32{1, 13}, sums)
	lists := computed(t, st, func(out *aclnn.Tensor) error {
		return aclnn.GroupedMatmulV4(st, aclnn.GroupedMatmulV4Params{
			X: []*aclnn.Tensor{x.Narrow(0, 0, 1), x.Narrow(0, 1, 2)}, Weight: []*aclnn.Tensor{w.Select(0, 0), w.Select(0, 1)},
			GroupType: aclnn.GroupNone, SplitItem: aclnn.SplitOutputs, Out: []*aclnn.Tensor{out.Narrow(0, 0, 1), out.Narrow(0, 1, 2)},
		})
	}, 3, 1)
	require.Equal(t, []float32{10, 200, 300}, lists)
}

// TestSparseConstants counts the keys that each query sees: the values are 1, and keys that are
// hidden lower the mean of a column that only they have.
func TestSparseConstants(t *testing.T) {
	ctx, st := t.Context(), openStream(t)
	const queries, keys, d = 3, 5, 16
	q, k := made(t)(aclnn.Zeros(st, aclnn.Float32, 1, 1, queries, d)), made(t)(aclnn.Zeros(st, aclnn.Float32, 1, 1, keys, d))
	values := make([]float32, keys*d) // key j has a 1 in column j
	for j := range keys {
		values[j*d+j] = 1
	}
	v := onDevice(t, st, values, 1, 1, keys, d)
	triangle := make([]bool, 2048*2048)
	for i := range 2048 {
		for j := i + 1; j < 2048; j++ {
			triangle[i*2048+j] = true
		}
	}
	compressed := made(t)(aclnn.FromSlice(ctx, st, aclnn.Bool, triangle, 2048, 2048))
	dense := made(t)(aclnn.FromSlice(ctx, st, aclnn.Bool, []bool{
		false, true, true, true, true,
		false, true, false, true, true,
		false, false, false, false, true,
	}, queries, keys))
	for name, c := range map[string]struct {
		mode      aclnn.SparseMode
		pre, next int64
		mask      *aclnn.Tensor
		sees      [queries][]int
	}{
		"all":        {aclnn.SparseAll, 0, 0, dense, [queries][]int{{0}, {0, 2}, {0, 1, 2, 3}}},
		"dense":      {aclnn.SparseDense, 2147483647, 2147483647, dense, [queries][]int{{0}, {0, 2}, {0, 1, 2, 3}}},
		"causal":     {aclnn.SparseCausal, 0, 0, compressed, [queries][]int{{0}, {0, 1}, {0, 1, 2}}},
		"causal end": {aclnn.SparseCausalEnd, 0, 0, compressed, [queries][]int{{0, 1, 2}, {0, 1, 2, 3}, {0, 1, 2, 3, 4}}},
		"band":       {aclnn.SparseBand, 1, 0, compressed, [queries][]int{{1, 2}, {2, 3}, {3, 4}}},
	} {
		t.Run(name, func(t *testing.T) {
			stats := func() *aclnn.Tensor { return made(t)(aclnn.New(st, aclnn.Float32, 1, 1, queries, 8)) }
			got := computed(t, st, func(out *aclnn.Tensor) error {
				return aclnn.FlashAttentionScore(st, aclnn.FlashAttentionScoreParams{
					Query: q, Key: k, Value: v, AttenMask: c.mask, ScaleValue: 1, KeepProb: 1, PreTokens: c.pre, NextTokens: c.next,
					HeadNum: 1, InputLayout: aclnn.LayoutBNSD, InnerPrecise: aclnn.InnerHighPrecision, SparseMode: c.mode,
					SoftmaxMaxOut: stats(), SoftmaxSumOut: stats(), AttentionOut: out,
				})
			}, 1, 1, queries, d)
			for i, sees := range c.sees {
				var seen []int
				for j := range keys {
					if got[i*d+j] > 0 {
						require.InDelta(t, 1/float32(len(sees)), got[i*d+j], 1e-5)
						seen = append(seen, j)
					}
				}
				require.Equal(t, sees, seen, "query %d", i)
			}
		})
	}
}
