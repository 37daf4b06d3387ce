package ops_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/mask"
)

// TestRefused checks that invalid arguments are refused before a launch, with their shapes.
func TestRefused(t *testing.T) {
	b := opstest.New(t)
	f := func(shape ...int64) *aclnn.Tensor { return b.Empty(aclnn.Float32, shape...) }
	h := func(shape ...int64) *aclnn.Tensor { return b.Empty(aclnn.BFloat16, shape...) }
	ids := b.Empty(aclnn.Int32, 4)
	attend := func(change func(a *ops.AttentionArgs)) func() error {
		return func() error {
			a := &ops.AttentionArgs{
				Query: f(2, 4, 5, 8), Key: f(2, 2, 6, 8), Value: f(2, 2, 6, 8), Layout: ops.BNSD, Scale: 1, Out: f(2, 4, 5, 8),
			}
			change(a)
			return b.Attention().Run(t.Context(), b.Stream, a)
		}
	}
	attendBack := func(change func(a *ops.AttentionGradArgs)) func() error {
		return func() error {
			a := &ops.AttentionGradArgs{
				AttentionArgs: ops.AttentionArgs{
					Query: f(2, 4, 5, 8), Key: f(2, 2, 6, 8), Value: f(2, 2, 6, 8), Layout: ops.BNSD, Scale: 1, Out: f(2, 4, 5, 8),
					SoftmaxMax: f(2, 4, 5, 8), SoftmaxSum: f(2, 4, 5, 8),
				},
				DOut: f(2, 4, 5, 8), DQuery: f(2, 4, 5, 8), DKey: f(2, 2, 6, 8), DValue: f(2, 2, 6, 8),
			}
			change(a)
			return b.AttentionGrad().Run(t.Context(), b.Stream, a)
		}
	}
	adam := func(change func(a *ops.AdamWArgs)) func() error {
		return func() error {
			a := &ops.AdamWArgs{Param: f(3), Grad: f(3), ExpAvg: f(3), ExpAvgSq: f(3), Step: 1, LR: 1, Beta1: .9, Beta2: .9, Epsilon: 1}
			change(a)
			return b.AdamW().Run(t.Context(), b.Stream, a)
		}
	}
	run := func(err error) func() error { return func() error { return err } }
	ctx := t.Context()
	for _, c := range []struct {
		name string
		run  func() error
		text string
	}{
		{"nil", run(b.Linear().Run(ctx, b.Stream, &ops.LinearArgs{})), "linear: ops: invalid argument: X is nil"},
		{"attention without a scale", attendBack(func(a *ops.AttentionGradArgs) { a.Scale = 0 }), "Scale is 0; it must be a number other than 0, usually ops.ScaleOf(8)"},
		{"attention with a scale that is no number", attendBack(func(a *ops.AttentionGradArgs) { a.Scale = math.NaN() }), "Scale is NaN"},
		{"a norm without an epsilon", run(b.RMSNorm().Run(ctx, b.Stream, &ops.RMSNormArgs{X: f(2, 3), Weight: f(3), Out: f(2, 3)})), "Epsilon is 0; it must be positive"},
		{"an update without an epsilon", adam(func(a *ops.AdamWArgs) { a.Epsilon = 0 }), "Epsilon is 0; it must be positive"},
		{"an update without Beta2", adam(func(a *ops.AdamWArgs) { a.Beta2 = 0 }), "Beta2 in (0, 1), usually 0.999"},
		{"a norm of gradients that nobody wants", run(b.ClipGradNorm().Run(ctx, b.Stream, &ops.ClipGradNormArgs{})), "there is nothing to compute"},
		{"a view out of range", run(b.Linear().Run(ctx, b.Stream, &ops.LinearArgs{X: f(2, 3).Select(0, 5)})), "out of range"},
		{"a private format", run(b.Linear().Run(ctx, b.Stream, &ops.LinearArgs{X: f(16, 16).AsNZ()})), "convert it to ND"},
		{"integers", run(b.Linear().Run(ctx, b.Stream, &ops.LinearArgs{X: ids})), "X is int32[4]ND"},
		{"dtypes", run(b.Linear().Run(ctx, b.Stream, &ops.LinearArgs{X: f(2, 3), Weight: h(4, 3), Out: f(2, 4)})), "Weight is bfloat16[4,3]ND and X float32[2,3]ND"},
		{"columns", run(b.Linear().Run(ctx, b.Stream, &ops.LinearArgs{X: f(2, 3), Weight: f(4, 5), Out: f(2, 4)})), "the 5 columns of Weight"},
		{"output", run(b.Linear().Run(ctx, b.Stream, &ops.LinearArgs{X: f(2, 3), Weight: f(4, 3), Out: f(2, 5)})), "the 4 rows of Weight"},
		{"output rows", run(b.Linear().Run(ctx, b.Stream, &ops.LinearArgs{X: f(2, 3), Weight: f(4, 3), Out: f(3, 4)})), "do not fit"},
		{"bias", run(b.Linear().Run(ctx, b.Stream, &ops.LinearArgs{X: f(2, 3), Weight: f(4, 3), Bias: f(3), Out: f(2, 4)})), "Bias is float32[3]ND; its shape must be [4]"},
		{"weight for the gradient", run(b.LinearGrad().Run(ctx, b.Stream, &ops.LinearGradArgs{X: f(2, 3), DOut: f(2, 4), DX: f(2, 3)})), "Weight is nil"},
		{"gradient with gaps", run(b.LinearGrad().Run(ctx, b.Stream, &ops.LinearGradArgs{X: f(2, 3), DOut: f(2, 4), DWeight: f(3, 4).Transpose(0, 1)})), "must be contiguous"},
		{"product", run(b.MatMul().Run(ctx, b.Stream, &ops.MatMulArgs{A: f(2, 3), B: f(4, 2), Out: f(2, 2)})), "columns of A must be the rows of B"},
		{"batch", run(b.MatMul().Run(ctx, b.Stream, &ops.MatMulArgs{A: f(2, 2, 3), B: f(3, 3, 2), Out: f(3, 2, 2)})), "do not broadcast"},
		{"broadcast gradient", run(b.MatMulGrad().Run(ctx, b.Stream, &ops.MatMulGradArgs{A: f(1, 2, 3), B: f(3, 3, 2), DOut: f(3, 2, 2)})), "equal batch dimensions"},
		{"lookup", run(b.Embedding().Run(ctx, b.Stream, &ops.EmbeddingArgs{Weight: f(9, 3), IDs: ids, Out: f(5, 3)})), "a row of 3 for each of IDs int32[4]ND"},
		{"float ids", run(b.Embedding().Run(ctx, b.Stream, &ops.EmbeddingArgs{Weight: f(9, 3), IDs: f(4), Out: f(4, 3)})), "IDs is float32[4]ND"},
		{"vocabulary", run(b.EmbeddingGrad().Run(ctx, b.Stream, &ops.EmbeddingGradArgs{DOut: f(4, 3), IDs: ids, DWeight: f(9, 2)})), "a row of 2"},
		{"scale of the norm", run(b.RMSNorm().Run(ctx, b.Stream, &ops.RMSNormArgs{X: f(2, 3), Weight: f(2), Out: f(2, 3), Epsilon: 1e-6})), "Weight is float32[2]ND; its shape must be [3]"},
		{"statistics", run(b.RMSNorm().Run(ctx, b.Stream, &ops.RMSNormArgs{X: f(2, 3), Weight: f(3), Out: f(2, 3), RStd: f(2, 3), Epsilon: 1e-6})), "last dimension must be 1"},
		{"rotation", run(b.RoPE().Run(ctx, b.Stream, &ops.RoPEArgs{X: f(2, 3, 4, 8), Cos: f(1, 3, 1, 6), Sin: f(1, 3, 1, 8), Out: f(2, 3, 4, 8)})), "Sin is float32[1,3,1,8]ND and Cos"},
		{"odd rotation", run(b.RoPE().Run(ctx, b.Stream, &ops.RoPEArgs{X: f(2, 3, 4, 8), Cos: f(1, 3, 1, 5), Sin: f(1, 3, 1, 5), Out: f(2, 3, 4, 8)})), "must be even"},
		{"positions", run(b.RoPE().Run(ctx, b.Stream, &ops.RoPEArgs{X: f(2, 3, 4, 8), Cos: f(1, 4, 1, 8), Sin: f(1, 4, 1, 8), Out: f(2, 3, 4, 8)})), "does not broadcast"},
		{"rotation in place", func() error {
			x := f(2, 3, 4, 8)
			return b.RoPE().Run(ctx, b.Stream, &ops.RoPEArgs{X: x, Cos: f(1, 3, 1, 8), Sin: f(1, 3, 1, 8), Out: x})
		}, "is X"},
		{"odd gate", run(b.SwiGLU().Run(ctx, b.Stream, &ops.SwiGLUArgs{X: f(2, 3), Out: f(2, 1)})), "must be even"},
		{"gate twice", run(b.SwiGLU().Run(ctx, b.Stream, &ops.SwiGLUArgs{X: f(2, 4), Gate: f(2, 2), Out: f(2, 2)})), "either X or Gate and Up"},
		{"gradients of the gate", run(b.SwiGLUGrad().Run(ctx, b.Stream, &ops.SwiGLUGradArgs{DOut: f(2, 2), X: f(2, 4), DGate: f(2, 2), DUp: f(2, 2)})), "as the inputs are"},
		{"labels", run(b.CrossEntropy().Run(ctx, b.Stream, &ops.CrossEntropyArgs{Logits: f(3, 9), Labels: ids, Loss: f(1)})), "Labels is int32[4]ND; its shape must be [3]"},
		{"loss", run(b.CrossEntropy().Run(ctx, b.Stream, &ops.CrossEntropyArgs{Logits: f(4, 9), Labels: ids, Loss: h(1)})), "Loss is bfloat16"},
		{"log probabilities", run(b.CrossEntropyGrad().Run(ctx, b.Stream, &ops.CrossEntropyGradArgs{CrossEntropyArgs: ops.CrossEntropyArgs{Logits: f(4, 9), Labels: ids}, DLogits: f(4, 9)})), "LogProb is nil"},
		{"step", adam(func(a *ops.AdamWArgs) { a.Step = 0 }), "the first update is step 1"},
		{"beta", adam(func(a *ops.AdamWArgs) { a.Beta2 = 1 }), "must be in [0, 1)"},
		{"rate", adam(func(a *ops.AdamWArgs) { a.LR = math.NaN() }), "LR is NaN"},
		{"moments", adam(func(a *ops.AdamWArgs) { a.ExpAvg = f(4) }), "ExpAvg is float32[4]ND and Param float32[3]ND"},
		{"dtype of moments", adam(func(a *ops.AdamWArgs) { a.ExpAvgSq = h(3) }), "ExpAvgSq is bfloat16"},
		{"clipping", run(b.ClipGradNorm().Run(ctx, b.Stream, &ops.ClipGradNormArgs{Grads: []*aclnn.Tensor{f(3), nil}})), "Grads[1] is nil"},
		{"bound", run(b.ClipGradNorm().Run(ctx, b.Stream, &ops.ClipGradNormArgs{MaxNorm: -1})), "MaxNorm is -1"},
		{"norm", run(b.ClipGradNorm().Run(ctx, b.Stream, &ops.ClipGradNormArgs{Norm: f(2)})), "one element"},

		{"layout", attend(func(a *ops.AttentionArgs) { a.Layout = "bnsd" }), "Layout is \"bnsd\""},
		{"layout with merged heads", attend(func(a *ops.AttentionArgs) { a.Layout = ops.BSH }), "layout BSH has 3 dimensions"},
		{"heads", attend(func(a *ops.AttentionArgs) { a.Heads = 3 }), "Heads is 3"},
		{"merged heads", attend(func(a *ops.AttentionArgs) {
			a.Layout, a.Query, a.Key, a.Value = ops.BSH, f(2, 5, 32), f(2, 6, 16), f(2, 6, 16)
		}), "does not show the number of query heads"},
		{"merged heads that do not divide", attend(func(a *ops.AttentionArgs) {
			a.Layout, a.Heads, a.Query, a.Key, a.Value = ops.BSH, 3, f(2, 5, 32), f(2, 6, 16), f(2, 6, 16)
		}), "not a multiple of 3 heads"},
		{"groups", attend(func(a *ops.AttentionArgs) { a.Key, a.Value = f(2, 3, 6, 8), f(2, 3, 6, 8) }), "4 query heads and 3 key heads"},
		{"head dimension", attend(func(a *ops.AttentionArgs) { a.Key = f(2, 2, 6, 4) }), "head dimensions must be equal"},
		{"value heads", attend(func(a *ops.AttentionArgs) { a.Value = f(2, 1, 6, 8) }), "as many heads"},
		{"value length", attend(func(a *ops.AttentionArgs) { a.Value = f(2, 2, 7, 8) }), "must be as long"},
		{"wide values", attend(func(a *ops.AttentionArgs) { a.Value = f(2, 2, 6, 9) }), "must not exceed"},
		{"batch of keys", attend(func(a *ops.AttentionArgs) { a.Key, a.Value = f(1, 2, 6, 8), f(1, 2, 6, 8) }), "one batch size"},
		{"output of attention", attend(func(a *ops.AttentionArgs) { a.Out = f(2, 4, 5, 7) }), "last dimension must be 8"},
		{"dtypes of attention", attend(func(a *ops.AttentionArgs) { a.Key = h(2, 2, 6, 8) }), "dtypes must be equal"},
		{"softmax statistics", attend(func(a *ops.AttentionArgs) { a.SoftmaxMax = f(2, 4, 5, 1) }), "SoftmaxMax is float32[2,4,5,1]ND; its shape must be [2 4 5 8]"},
		{"mask", attend(func(a *ops.AttentionArgs) { a.Mask = mask.Padding{Lengths: []int64{7, 1}} }), "Lengths[0] is 7"},
		{"bias of attention", attend(func(a *ops.AttentionArgs) { a.Bias = f(2, 2, 5, 6) }), "Bias is float32[2,2,5,6]ND"},
		{"kind of bias", attend(func(a *ops.AttentionArgs) { a.Bias, a.BiasKind = f(4), 9 }), "BiasKind is 9"},
		{"slopes", attend(func(a *ops.AttentionArgs) { a.Bias, a.BiasKind = f(4), ops.BiasDistance }), "as many queries as keys"},
		{"dropout without mask", attend(func(a *ops.AttentionArgs) { a.KeepProb = 0.5 }), "needs both"},
		{"mask without dropout", attend(func(a *ops.AttentionArgs) { a.DropMask = b.Empty(aclnn.Uint8, 30) }), "needs both"},
		{"small drop mask", attend(func(a *ops.AttentionArgs) { a.DropMask, a.KeepProb = b.Empty(aclnn.Uint8, 29), 0.5 }), "240 probabilities"},
		{"keep probability", attend(func(a *ops.AttentionArgs) { a.KeepProb = 1.5 }), "KeepProb is 1.5"},
		{"no statistics", attendBack(func(a *ops.AttentionGradArgs) { a.SoftmaxSum = nil }), "SoftmaxSum is nil"},
		{"gradient of keys", attendBack(func(a *ops.AttentionGradArgs) { a.DKey = f(2, 4, 6, 8) }), "DKey is float32[2,4,6,8]ND"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.run()
			require.ErrorIs(t, err, ops.ErrInvalid)
			require.ErrorContains(t, err, c.text)
		})
	}
	require.ErrorIs(t, attend(func(a *ops.AttentionArgs) { a.Mask = mask.Varlen{CuQueries: []int64{5}} })(), mask.ErrRefused)
	require.Empty(t, b.Stream.Recent(), "nothing was launched")
}

// TestChips checks that on chips without the training operators the composites are chosen, and that
// the explanation says why.
func TestChips(t *testing.T) {
	b := opstest.New(t)
	x, w, y := b.Empty(aclnn.Float32, 2, 3), b.Empty(aclnn.Float32, 3), b.Empty(aclnn.Float32, 2, 3)
	norm := &ops.RMSNormArgs{X: x, Weight: w, Out: y, Epsilon: 1e-6}
	q := b.Empty(aclnn.BFloat16, 1, 4, 2, 8)
	attend := &ops.AttentionArgs{Query: q, Key: q, Value: q, Layout: ops.BSND, Out: q, Scale: 1}
	for _, c := range []struct {
		soc, norm, attention string
	}{
		{"Ascend910B3", "rms_norm: RmsNorm; composite comes after it",
			"attention: FlashAttentionScore; not FlashAttentionScoreV3: the heads have no sinks; not FlashAttentionVarLenScoreV5: layout BSND is not packed; FlashAttentionScoreV2 comes after it; FlashAttentionVarLenScore comes after it; FlashAttentionVarLenScoreV2 comes after it; composite comes after it"},
		{"", "rms_norm: RmsNorm; composite comes after it",
			"attention: FlashAttentionScore; not FlashAttentionScoreV3: the heads have no sinks; not FlashAttentionVarLenScoreV5: layout BSND is not packed; FlashAttentionScoreV2 comes after it; FlashAttentionVarLenScore comes after it; FlashAttentionVarLenScoreV2 comes after it; composite comes after it"},
		{"Ascend310P3", "rms_norm: composite; not RmsNorm: Ascend310P3 has no RmsNorm; Atlas A2 and A3 do",
			"attention: composite; not FlashAttentionScoreV3: the heads have no sinks; not FlashAttentionVarLenScoreV5: layout BSND is not packed; not FlashAttentionScore: Ascend310P3 has no FlashAttentionScore; Atlas A2 and A3 do; not FlashAttentionScoreV2: Ascend310P3 has no FlashAttentionScoreV2; Atlas A2 and A3 do; not FlashAttentionVarLenScore: layout BSND is not packed; not FlashAttentionVarLenScoreV2: layout BSND is not packed"},
	} {
		reg, err := ops.NewRegistry(ops.Env{SoC: c.soc})
		require.NoError(t, err)
		require.Equal(t, c.norm, reg.RMSNorm().Explain(norm).String())
		require.Equal(t, c.attention, reg.Attention().Explain(attend).String())
	}
	reg, err := ops.NewRegistry(ops.Env{SoC: "Ascend910B1"})
	require.NoError(t, err)
	attend.Bias = b.Empty(aclnn.BFloat16, 1, 2, 4, 4)
	require.Equal(t, "FlashAttentionScoreV2", reg.Attention().Explain(attend).Kernel)
	require.Contains(t, reg.Attention().Explain(attend).String(), "not FlashAttentionScore: it adds a bias before the scale only")
	d, err := attend.Decide()
	require.NoError(t, err)
	require.Equal(t, "sparseMode 0, no mask tensor: full attention", d.String())
}

// TestMasksAcrossStreams checks that the compressed mask is made once per device and is complete
// for every stream that uses it.
func TestMasksAcrossStreams(t *testing.T) {
	b := opstest.New(t)
	want := [][]float32{}
	for range 3 {
		st, err := b.Stream.Device().NewStream()
		require.NoError(t, err)
		on := &opstest.Bench{Registry: b.Registry, T: t, Stream: st}
		q, _ := on.Input(aclnn.Float32, 1, 2, 16, 2, 8)
		out := on.Empty(aclnn.Float32, 2, 16, 2, 8)
		opstest.Run(on, b.Attention(), &ops.AttentionArgs{Query: q, Key: q, Value: q, Layout: ops.BSND, Mask: mask.Causal{}, Scale: 1, Out: out})
		opstest.Run(on, b.Attention(), &ops.AttentionArgs{Query: q, Key: q, Value: q, Layout: ops.BSND, Mask: mask.Prefix{Lengths: []int64{3, 4}}, Scale: 1, Out: out})
		opstest.Run(on, b.Attention(), &ops.AttentionArgs{Query: q, Key: q, Value: q, Layout: ops.BSND, Mask: mask.Causal{}, Scale: 1, Out: out})
		want = append(want, on.Read(out))
		t.Cleanup(func() { require.NoError(t, st.Close()) })
	}
	require.Equal(t, want[0], want[1])
	require.Equal(t, want[0], want[2])
	// The operators work on after Close, and make their masks anew.
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	q, _ := b.Input(aclnn.Float32, 1, 2, 16, 2, 8)
	out := b.Empty(aclnn.Float32, 2, 16, 2, 8)
	opstest.Run(b, b.Attention(), &ops.AttentionArgs{Query: q, Key: q, Value: q, Layout: ops.BSND, Mask: mask.Causal{}, Scale: 1, Out: out})
	require.Equal(t, want[0], b.Read(out))
}
