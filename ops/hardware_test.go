//go:build emu

package ops_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
	"go.uber.org/zap/zaptest/observer"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/mask"
)

// TestMasksAreMadeOnce checks that attention passes no expanded mask, which CANN would copy in each
// layer, and that calls with one mask share its tensor.
func TestMasksAreMadeOnce(t *testing.T) {
	const batch, heads, length = 3, 2, 40
	acltest.Trace(t, func(t *testing.T) {
		b := opstest.New(t)
		f := func() *aclnn.Tensor { x, _ := b.Input(aclnn.Float32, 1, batch, heads, length, 8); return x }
		hidden := b.Empty(aclnn.Bool, batch, 1, 1, length)
		require.NoError(t, aclnn.InplaceZero(b.Stream, aclnn.InplaceZeroParams{Self: hidden}))
		for _, m := range []mask.Mask{mask.Padding{Lengths: []int64{40, 7, 30}}, mask.Padding{Lengths: []int64{40, 7, 30}}, mask.Dense{Tensor: hidden, Meaning: mask.Hidden}} {
			opstest.Run(b, b.Attention(), &ops.AttentionArgs{Query: f(), Key: f(), Value: f(), Layout: ops.BNSD, Mask: m, Scale: 1, Out: f()})
		}
	}, func(t *testing.T, calls []acltest.Call) {
		var names []string
		for _, c := range calls {
			require.Empty(t, c.Expanded, c.Name)
			names = append(names, c.Name)
		}
		list := strings.Join(names, " ")
		require.Equal(t, 3, strings.Count(list, "aclnnFlashAttentionScore"), list)
		first := strings.Index(list, "aclnnFlashAttentionScore")
		second := list[first+1:][:strings.Index(list[first+1:], "aclnnFlashAttentionScore")]
		require.NotContains(t, list[first:][:len(second)], "aclnnInplaceCopy", "the second call makes its mask again")
	})
}

// TestExpandedTensorsAreReported checks the mark itself.
func TestExpandedTensorsAreReported(t *testing.T) {
	acltest.Trace(t, func(t *testing.T) {
		b := opstest.New(t)
		f := func(shape ...int64) *aclnn.Tensor { x, _ := b.Input(aclnn.Float32, 1, shape...); return x }
		hidden := b.Empty(aclnn.Bool, 1, 1, 1, 16)
		require.NoError(t, aclnn.InplaceZero(b.Stream, aclnn.InplaceZeroParams{Self: hidden}))
		require.NoError(t, aclnn.FlashAttentionScore(b.Stream, aclnn.FlashAttentionScoreParams{
			Query: f(2, 2, 16, 8), Key: f(2, 2, 16, 8), Value: f(2, 2, 16, 8), AttenMask: hidden.Expand(2, 1, 16, 16), ScaleValue: 1, KeepProb: 1,
			HeadNum: 2, InputLayout: "BNSD", SparseMode: aclnn.SparseAll, SoftmaxMaxOut: f(2, 2, 16, 8), SoftmaxSumOut: f(2, 2, 16, 8), AttentionOut: f(2, 2, 16, 8),
		}))
		order, ids := b.Empty(aclnn.Int64, 9), b.Empty(aclnn.Int32, 9)
		require.NoError(t, aclnn.InplaceZero(b.Stream, aclnn.InplaceZeroParams{Self: ids}))
		require.NoError(t, aclnn.Sort(b.Stream, aclnn.SortParams{Self: ids, Stable: true, ValuesOut: b.Empty(aclnn.Int32, 9), IndicesOut: order}))
	}, func(t *testing.T, calls []acltest.Call) {
		marked := map[string]acltest.Call{}
		for _, c := range calls {
			marked[c.Name] = c
		}
		require.Len(t, marked["aclnnFlashAttentionScore"].Expanded, 1)
		require.Contains(t, marked["aclnnFlashAttentionScore"].Expanded[0], "attenMaskOptional bool[2,1,16,16]ND")
		require.Contains(t, marked["aclnnFlashAttentionScore"].Expanded[0], "512 bytes")
		require.Equal(t, "Sort of int32", marked["aclnnSort"].AICPU)
		require.Empty(t, marked["aclnnInplaceZero"].AICPU)
	})
}

// TestUnpermuteOfOlderCANN runs in a process with CANN 8.1, whose kernel of the gradient takes rows
// and weights of one dtype only.
func TestUnpermuteOfOlderCANN(t *testing.T) {
	acltest.Rerun(t, func(t *testing.T) {
		b := opstest.New(t)
		rows, r := b.Input(aclnn.BFloat16, 1, 2, 4)
		dOut, d := b.Input(aclnn.BFloat16, 2, 2, 4)
		weights := b.Floats(aclnn.Float32, []float32{.5, .25}, 2, 1)
		places := b.Empty(aclnn.Int32, 2)
		require.NoError(t, aclnn.CopyToDevice(t.Context(), b.Stream, places, []int32{1, 0}))
		a := &ops.MoEUnpermuteGradArgs{
			DOut: dOut, Rows: rows, Places: places, Weights: weights, DRows: b.Empty(aclnn.BFloat16, 2, 4), DWeights: b.Empty(aclnn.Float32, 2, 1),
		}
		var e *acl.Error
		require.ErrorAs(t, aclnn.MoeTokenUnpermuteGrad(b.Stream, aclnn.MoeTokenUnpermuteGradParams{
			PermuteTokens: a.Rows, UnpermutedTokensGrad: a.DOut, SortedIndices: places, Probs: weights, PermutedTokensGradOut: a.DRows, ProbsGradOut: a.DWeights,
		}), &e)
		require.Equal(t, acl.Code(abi.ACLNN_ERR_INNER_FIND_KERNEL_ERROR), e.Code)
		explained := b.MoEUnpermuteGrad().Explain(a)
		require.Equal(t, "composite", explained.Kernel)
		require.Contains(t, explained.String(), "CANN 8.1 has no kernel for bfloat16 rows with float32 weights")
		opstest.Run(b, b.MoEUnpermuteGrad(), a)
		want := make([]float32, 8)
		dWeights := make([]float32, 2)
		for token, place := range []int{1, 0} {
			for i := range 4 {
				want[place*4+i] = []float32{.5, .25}[token] * d[token*4+i]
				dWeights[token] += d[token*4+i] * r[place*4+i]
			}
		}
		b.Near("rows", a.DRows, want, 1e-2)
		b.Near("weights", a.DWeights, dWeights, 1e-2)
	}, "CANN_EMU_API="+abi.V81RC1)
}

// TestAttentionLimits checks the numbers of heads and features beyond which the fused operators are
// refused by CANN and passed over by the dispatch.
func TestAttentionLimits(t *testing.T) {
	b := opstest.New(t)
	for _, c := range []struct {
		heads, dim int64
		kernel     string
		reason     string
	}{
		{256, 8, "FlashAttentionScore", ""}, {257, 8, "composite", "257 query heads are more than 256"},
		{1, 768, "FlashAttentionScore", ""}, {1, 776, "composite", "head dimension 776 is above 768"},
	} {
		f := func() *aclnn.Tensor { x, _ := b.Input(aclnn.Float32, 1, 1, c.heads, 3, c.dim); return x }
		a := &ops.AttentionArgs{Query: f(), Key: f(), Value: f(), Layout: ops.BNSD, Scale: .1, Out: f()}
		e := b.Attention().Explain(a)
		require.Equal(t, c.kernel, e.Kernel)
		require.Contains(t, e.String(), c.reason)
		opstest.Run(b, b.Attention(), a)
		got := b.Read(a.Out)
		if c.kernel == "composite" {
			require.NoError(t, b.Attention().Pin("FlashAttentionScore"))
			require.ErrorIs(t, b.Attention().Run(t.Context(), b.Stream, a), ops.ErrNoKernel)
			require.NoError(t, b.Attention().Unpin())
			continue
		}
		require.NoError(t, b.Attention().Pin("composite"))
		opstest.Run(b, b.Attention(), a)
		b.Near("composite", a.Out, got, 1e-4)
		require.NoError(t, b.Attention().Unpin())
	}
}

// TestExplainNamesTheAICPU: once a kernel has run, Explain names its calls that leave the AI Core, and
// those of kernels that it runs itself. The kernels of this package have none.
func TestExplainNamesTheAICPU(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	type key struct{ rows int64 }
	sorting := func(env ops.Env) (inner, outer *ops.Op[aclnn.SortParams, key]) {
		reg, err := ops.NewRegistry(env, ops.WithLogger(slog.New(zapslog.NewHandler(core))))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, reg.Close()) })
		valid := func(*aclnn.SortParams) error { return nil }
		rows := func(a *aclnn.SortParams) key { return key{a.Self.Len()} }
		inner, err = ops.NewOp(reg, "sort", valid, rows, ops.Kernel[aclnn.SortParams, key]{
			Name: "Sort", Run: func(_ context.Context, st *acl.Stream, a *aclnn.SortParams) error { return aclnn.Sort(st, *a) },
		})
		require.NoError(t, err)
		outer, err = ops.NewOp(reg, "sorted", valid, rows, ops.Kernel[aclnn.SortParams, key]{Name: "twice", Run: func(ctx context.Context, st *acl.Stream, a *aclnn.SortParams) error {
			return errors.Join(inner.Run(ctx, st, a), inner.Run(ctx, st, a))
		}})
		require.NoError(t, err)
		return inner, outer
	}
	s := aclnn.Scope{Stream: st}
	defer func() { require.NoError(t, s.Close()) }()
	for _, c := range []struct {
		dt   aclnn.DType
		soc  string
		want []string
	}{
		{aclnn.Int64, "Ascend910B1", []string{"aclnnSort: Sort of int64"}}, {aclnn.Float32, "Ascend910B1", nil}, {aclnn.Int64, "Ascend310P3", nil},
	} {
		inner, outer := sorting(ops.Env{SoC: c.soc})
		a := &aclnn.SortParams{Self: s.Tensor(c.dt, 4), ValuesOut: s.Tensor(c.dt, 4), IndicesOut: s.Tensor(aclnn.Int64, 4)}
		s.Zero(a.Self)
		require.NoError(t, s.Err())
		require.Empty(t, outer.Explain(a).AICPU, "it has not run")
		for range 2 {
			require.NoError(t, outer.Run(t.Context(), st, a))
			require.Equal(t, c.want, outer.Explain(a).AICPU)
			require.Equal(t, c.want, inner.Explain(a).AICPU)
		}
		if c.want != nil {
			require.Equal(t, "sorted: twice; on the AI CPU aclnnSort: Sort of int64", outer.Explain(a).String())
			require.Equal(t, 2, logs.FilterMessage("a kernel leaves the AI Core").Len())
		}
	}
	require.Equal(t, 2, logs.Len())
	require.NoError(t, st.Synchronize(t.Context()))
}
