package ops

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
	"go.uber.org/zap/zaptest/observer"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
	"github.com/goascend/cann/ops/mask"
)

// tensors makes scratch tensors for tests that launch nothing.
func tensors(t testing.TB) (*Registry, func(dt aclnn.DType, shape ...int64) *aclnn.Tensor) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	s := &aclnn.Scope{Stream: acltest.Stream(t, dev)}
	reg, err := NewRegistry(EnvOf(dev))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return reg, func(dt aclnn.DType, shape ...int64) *aclnn.Tensor {
		x := s.Tensor(dt, shape...)
		require.NoError(t, s.Err())
		return x
	}
}

// keyOf returns the key of valid arguments.
func keyOf[A any, K comparable](t *testing.T, o *Op[A, K], a *A) any {
	t.Helper()
	k, err := o.Key(a)
	require.NoError(t, err)
	return k
}

// TestKeys lists the properties that the operators' keys contain.
func TestKeys(t *testing.T) {
	reg, tensor := tensors(t)
	f32, bf16 := aclnn.Float32, aclnn.BFloat16
	f := func(shape ...int64) *aclnn.Tensor { return tensor(f32, shape...) }
	b := func(shape ...int64) *aclnn.Tensor { return tensor(bf16, shape...) }
	i := func(shape ...int64) *aclnn.Tensor { return tensor(aclnn.Int32, shape...) }
	tokens := key.ExtentOf(64)
	experts := MoEExpertsArgs{
		Rows: b(64, 32), GateUp: b(4, 48, 32).Transpose(1, 2), Down: b(4, 24, 32), Groups: Groups{Device: i(4), Cumulative: true},
		Hidden: b(64, 48), Active: b(64, 24), Out: b(64, 32),
	}
	delta := GatedDeltaArgs{
		Query: b(1, 12, 2, 8), Key: b(1, 12, 2, 8), Value: b(1, 12, 4, 6), Decay: f(1, 12, 4), Beta: f(1, 12, 4), CuSeqLens: []int64{0, 5, 12},
		Out: b(1, 12, 4, 6), FinalState: f(2, 4, 8, 6), Scale: 1,
	}
	gate := DeltaGateArgs{A: b(3, 5, 4), B: b(3, 5, 4), ALog: f(4), DTBias: b(4), Decay: f(3, 5, 4), Beta: b(3, 5, 4)}
	conv := CausalConvArgs{X: b(2, 24, 32), Weight: f(32, 4), SiLU: true, InitialState: b(2, 32, 4), Out: b(2, 24, 32)}
	loss := CrossEntropyArgs{Logits: b(64, 100), Labels: i(64), Loss: f(1), LogProb: f(64, 100)}
	attention := AttentionArgs{Query: b(2, 8, 3, 64), Key: b(2, 2, 50, 64), Value: b(2, 2, 50, 32), Layout: BNSD, Mask: mask.Causal{Anchor: mask.BottomRight}, Out: b(2, 8, 3, 32), Scale: 1}
	stats := func() *aclnn.Tensor { return f(2, 8, 3, 8) }

	for name, c := range map[string]struct{ got, want any }{
		"rms_norm": {keyOf(t, reg.RMSNorm(), &RMSNormArgs{X: b(4, 16, 128), Weight: f(128), Out: b(4, 16, 128), RStd: f(4, 16, 1), Epsilon: 1e-6}),
			key.RMSNorm{X: bf16, Weight: f32, Width: 128, Rows: tokens, RStd: true, Contiguous: true}},
		"rms_norm, views": {keyOf(t, reg.RMSNorm(), &RMSNormArgs{X: b(3, 256).Narrow(1, 0, 128), Weight: b(128), Out: b(3, 128), Epsilon: 1e-6}),
			key.RMSNorm{X: bf16, Weight: bf16, Width: 128, Rows: key.ExtentOf(4)}},
		"add_rms_norm": {keyOf(t, reg.AddRMSNorm(), &AddRMSNormArgs{X: b(3, 256).Narrow(1, 0, 128), Residual: b(3, 128), Weight: b(128), Sum: b(3, 128), Out: b(3, 128), Epsilon: 1e-6}),
			key.RMSNorm{X: bf16, Weight: bf16, Width: 128, Rows: key.ExtentOf(4)}},
		"rms_norm_grad": {keyOf(t, reg.RMSNormGrad(), &RMSNormGradArgs{DOut: b(64, 8), X: b(64, 8), RStd: f(64, 1), Weight: b(8), DX: b(64, 8), DWeight: f(8), Accumulate: true}),
			key.RMSNormGrad{X: bf16, Weight: bf16, DWeight: f32, Width: 8, Rows: tokens, Accumulate: true, Contiguous: true}},
		"gated_norm": {keyOf(t, reg.GatedNorm(), &GatedNormArgs{X: b(64, 8), Gate: b(8, 64).Transpose(0, 1), Weight: f(8), Out: b(64, 8), Epsilon: 1e-6}),
			key.GatedNorm{X: bf16, Weight: f32, Width: 8, Rows: tokens}},
		"gated_norm_grad": {keyOf(t, reg.GatedNormGrad(), &GatedNormGradArgs{DOut: b(64, 8), X: b(64, 8), Gate: b(64, 8), RStd: f(64, 1), Weight: f(8), DX: b(64, 8), DGate: b(64, 8), DWeight: f(8)}),
			key.GatedNormGrad{X: bf16, Weight: f32, DWeight: f32, Width: 8, Rows: tokens, Contiguous: true}},
		"rope": {keyOf(t, reg.RoPE(), &RoPEArgs{X: b(2, 4, 8, 64), Cos: f(1, 4, 1, 32), Sin: f(1, 4, 1, 32), Out: b(2, 4, 8, 64)}),
			key.RoPE{X: bf16, Cos: f32, Dim: 64, Rotated: 32, Heads: 8, Rows: tokens, Shared: [3]bool{true, false, true}, Contiguous: true}},
		"rope_grad": {keyOf(t, reg.RoPEGrad(), &RoPEGradArgs{DOut: b(2, 4, 8, 64), Cos: b(1, 1, 8, 64), Sin: b(1, 1, 8, 64), DX: b(2, 4, 8, 64)}),
			key.RoPE{X: bf16, Cos: bf16, Dim: 64, Rotated: 64, Heads: 8, Rows: tokens, Shared: [3]bool{true, true, false}, Contiguous: true}},
		"swiglu": {keyOf(t, reg.SwiGLU(), &SwiGLUArgs{X: b(64, 24), Out: b(64, 12)}),
			key.SwiGLU{DType: bf16, Width: 12, Rows: tokens, Joined: true, Contiguous: true}},
		"swiglu_grad, two tensors": {keyOf(t, reg.SwiGLUGrad(), &SwiGLUGradArgs{DOut: b(64, 12), Gate: b(64, 12), Up: b(64, 12), DGate: b(64, 12), DUp: b(64, 12)}),
			key.SwiGLU{DType: bf16, Width: 12, Rows: tokens, Contiguous: true}},
		"embedding": {keyOf(t, reg.Embedding(), &EmbeddingArgs{Weight: b(100, 8), IDs: i(4, 16), Out: b(4, 16, 8)}),
			key.Embedding{Weight: bf16, IDs: aclnn.Int32, Vocabulary: 100, Width: 8, Rows: tokens, Contiguous: true}},
		"embedding_grad": {keyOf(t, reg.EmbeddingGrad(), &EmbeddingGradArgs{DOut: b(64, 8), IDs: i(64), DWeight: f(100, 8), Accumulate: true}),
			key.EmbeddingGrad{DOut: bf16, IDs: aclnn.Int32, DWeight: f32, Vocabulary: 100, Width: 8, Rows: tokens, Accumulate: true, Contiguous: true}},
		"linear": {keyOf(t, reg.Linear(), &LinearArgs{X: b(4, 16, 8), Weight: b(8, 24).Transpose(0, 1), Bias: b(24), Out: b(4, 16, 24)}),
			key.Linear{DType: bf16, In: 8, Out: 24, Rows: tokens, Bias: true, Flat: true}},
		"linear_grad": {keyOf(t, reg.LinearGrad(), &LinearGradArgs{DOut: b(64, 24), X: b(64, 8), DWeight: f(24, 8)}),
			key.LinearGrad{X: bf16, DWeight: f32, DBias: aclnn.Undefined, In: 8, Out: 24, Rows: tokens, Contiguous: true}},
		"matmul": {keyOf(t, reg.MatMul(), &MatMulArgs{A: b(3, 5, 7), B: b(3, 9, 7).Transpose(1, 2), Out: b(3, 5, 9)}),
			key.MatMul{DType: bf16, Batch: key.ExtentOf(4), M: key.ExtentOf(8), K: key.ExtentOf(8), N: key.ExtentOf(15), BByColumns: true}},
		"matmul_grad": {keyOf(t, reg.MatMulGrad(), &MatMulGradArgs{DOut: b(5, 9), A: b(5, 7), B: b(7, 9), DB: b(7, 9)}),
			key.MatMulGrad{MatMul: key.MatMul{DType: bf16, Batch: key.ExtentOf(1), M: key.ExtentOf(8), K: key.ExtentOf(8), N: key.ExtentOf(15), Contiguous: true}, DB: true}},
		"grouped_matmul": {keyOf(t, reg.GroupedMatmul(), &GroupedMatmulArgs{X: b(64, 32), Weight: b(4, 48, 32).Transpose(1, 2), Groups: Groups{Host: []int64{16, 16, 16, 16}}, Activation: GELU, Out: b(64, 48)}),
			key.GroupedMatmul{DType: bf16, Format: aclnn.ND, Groups: 4, In: 32, Out: 48, Rows: tokens, ByColumns: true, Host: true, Activation: GELU, Contiguous: true}},
		"grouped_matmul, NZ": {keyOf(t, reg.GroupedMatmul(), &GroupedMatmulArgs{X: b(64, 32), Weight: b(4, 32, 48).AsNZ(), Bias: f(4, 48), Groups: Groups{Device: i(4), Cumulative: true}, Out: b(64, 48)}),
			key.GroupedMatmul{DType: bf16, Format: aclnn.FractalNZ, Groups: 4, In: 32, Out: 48, Rows: tokens, ByRows: true, Cumulative: true, Bias: true, Contiguous: true}},
		"grouped_matmul_grad": {keyOf(t, reg.GroupedMatmulGrad(), &GroupedMatmulGradArgs{DOut: b(64, 1), X: b(64, 32), Weight: b(4, 32, 1), Groups: Groups{Host: []int64{0, 64, 0, 0}}, DX: b(64, 32), DBias: f(4, 1)}),
			key.GroupedMatmulGrad{GroupedMatmul: key.GroupedMatmul{DType: bf16, Format: aclnn.ND, Groups: 4, In: 32, Out: 1, Rows: tokens, ByRows: true, ByColumns: true, Host: true, Contiguous: true}, DX: true, DWeight: aclnn.Undefined, DBias: f32}},
		"weight_quant_grouped_matmul": {keyOf(t, reg.WeightQuantGroupedMatmul(), &WeightQuantGroupedMatmulArgs{X: b(64, 32), Weight: tensor(aclnn.Int32, 4, 32, 6), Scale: b(4, 2, 48), Offset: b(4, 2, 48), Bias: f(4, 48), Groups: Groups{Device: i(4), Cumulative: true}, Out: b(64, 48)}),
			key.WeightQuantGroupedMatmul{DType: bf16, Bits: 4, Groups: 4, In: 32, Out: 48, Blocks: 2, Rows: tokens, ByRows: true, Cumulative: true, Offset: true, Bias: true, Contiguous: true}},
		"weight_quant_grouped_matmul, transposed": {keyOf(t, reg.WeightQuantGroupedMatmul(), &WeightQuantGroupedMatmulArgs{X: b(64, 32), Weight: tensor(aclnn.Int8, 4, 48, 32).Transpose(1, 2), Scale: b(4, 48), Groups: Groups{Host: []int64{64, 0, 0, 0}}, Out: b(64, 48)}),
			key.WeightQuantGroupedMatmul{DType: bf16, Bits: 8, Groups: 4, In: 32, Out: 48, Blocks: 1, Rows: tokens, Host: true, Contiguous: true}},
		"slice_to_nz": {keyOf(t, reg.SliceToNZ(), &SliceToNZArgs{Gathered: b(2, 1000), Start: 16, End: 528, Out: b(2, 16, 32).AsNZ()}),
			key.SliceToNZ{DType: bf16, Ranks: 2, Batch: 2, K: 16, N: 32, Whole: true, Aligned: true}},
		"slice_to_nz, odd": {keyOf(t, reg.SliceToNZ(), &SliceToNZArgs{Gathered: b(2, 1000), Start: 1, End: 900, Out: b(16, 32).AsNZ()}),
			key.SliceToNZ{DType: bf16, Ranks: 2, Batch: 1, K: 16, N: 32}},
		"attention": {keyOf(t, reg.Attention(), &attention),
			key.Attention{DType: bf16, Layout: BNSD, Heads: 8, KeyHeads: 2, Dim: 64, ValueDim: 32, Batch: key.ExtentOf(2), Queries: key.ExtentOf(4), Keys: key.ExtentOf(63), Mask: mask.KindCausalBottomRight, Contiguous: true}},
		"attention, packed": {keyOf(t, reg.Attention(), &AttentionArgs{Query: b(64, 4, 16), Key: b(64, 4, 16), Value: b(64, 4, 16), Layout: TND, Mask: mask.Varlen{CuQueries: []int64{10, 64}, Within: mask.Causal{}}, Bias: f(4), BiasKind: BiasDistance, Out: b(64, 4, 16), Scale: 1}),
			key.Attention{DType: bf16, Layout: TND, Heads: 4, KeyHeads: 4, Dim: 16, ValueDim: 16, Batch: key.ExtentOf(1), Queries: tokens, Keys: tokens, Mask: mask.KindCausal, Bias: true, BiasKind: BiasDistance, Contiguous: true}},
		"attention_grad": {keyOf(t, reg.AttentionGrad(), &AttentionGradArgs{
			AttentionArgs: AttentionArgs{Query: attention.Query, Key: attention.Key, Value: attention.Value, Layout: BNSD, DropMask: tensor(aclnn.Uint8, 2*8*3*50/8), KeepProb: 0.5, Out: attention.Out, SoftmaxMax: stats(), SoftmaxSum: stats(), Scale: 1},
			DOut:          b(2, 8, 3, 32), DQuery: b(2, 8, 3, 64), DKey: b(2, 2, 50, 64), DValue: b(2, 2, 50, 64).Narrow(3, 0, 32)}),
			key.Attention{DType: bf16, Layout: BNSD, Heads: 8, KeyHeads: 2, Dim: 64, ValueDim: 32, Batch: key.ExtentOf(2), Queries: key.ExtentOf(4), Keys: key.ExtentOf(63), Dropout: true, Stats: true}},
		"cross_entropy": {keyOf(t, reg.CrossEntropy(), &loss),
			key.CrossEntropy{Logits: bf16, Labels: aclnn.Int32, LogProb: f32, Classes: 100, Rows: tokens, Contiguous: true}},
		"cross_entropy_grad": {keyOf(t, reg.CrossEntropyGrad(), &CrossEntropyGradArgs{CrossEntropyArgs: loss, DLoss: f(1), DLogits: b(64, 100)}),
			key.CrossEntropyGrad{Logits: bf16, Labels: aclnn.Int32, LogProb: f32, Classes: 100, Rows: tokens, DLoss: true, Contiguous: true}},
		"moe_routing": {keyOf(t, reg.MoERouting(), &MoERoutingArgs{Logits: b(64, 16), Normalize: true, Weights: b(64, 2), Experts: i(64, 2)}),
			key.MoERouting{Logits: bf16, Experts: 16, K: 2, Tokens: tokens, Normalize: true, Contiguous: true}},
		"moe_routing_grad": {keyOf(t, reg.MoERoutingGrad(), &MoERoutingGradArgs{DWeights: b(64, 2), Weights: b(64, 2), Experts: i(64, 2), Probs: f(64, 16), DProbs: f(64, 16), DLogits: b(64, 16)}),
			key.MoERoutingGrad{Weights: bf16, Experts: 16, K: 2, Tokens: tokens, Probs: true, DProbs: true, Contiguous: true}},
		"moe_permute": {keyOf(t, reg.MoEPermute(), &MoEPermuteArgs{X: b(64, 8), Experts: i(64, 2), Rows: b(128, 8), Places: i(128), Sums: i(16)}),
			key.MoEPermute{X: bf16, Width: 8, Experts: 16, K: 2, Tokens: tokens, Contiguous: true}},
		"moe_permute_grad": {keyOf(t, reg.MoEPermuteGrad(), &MoEPermuteGradArgs{DRows: b(128, 8), Places: i(128), DX: b(64, 8)}),
			key.MoEPermuteGrad{DX: bf16, Width: 8, Tokens: tokens, Rows: key.ExtentOf(128), Contiguous: true}},
		"moe_experts": {keyOf(t, reg.MoEExperts(), &experts),
			key.MoEExperts{DType: bf16, GateUp: aclnn.ND, Down: aclnn.ND, Experts: 4, Width: 32, Inner: 24, Rows: tokens, Cumulative: true, Contiguous: true}},
		"moe_experts_grad": {keyOf(t, reg.MoEExpertsGrad(), &MoEExpertsGradArgs{MoEExpertsArgs: experts, DOut: b(64, 32), DRows: b(64, 32), DGateUp: f(4, 32, 48), Accumulate: true}),
			key.MoEExpertsGrad{MoEExperts: key.MoEExperts{DType: bf16, GateUp: aclnn.ND, Down: aclnn.ND, Experts: 4, Width: 32, Inner: 24, Rows: tokens, Cumulative: true, Contiguous: true}, DRows: true, DGateUp: f32, DDown: aclnn.Undefined, Accumulate: true}},
		"moe_unpermute": {keyOf(t, reg.MoEUnpermute(), &MoEUnpermuteArgs{Rows: b(128, 8), Places: i(128), Weights: f(64, 2), Out: b(64, 8)}),
			key.MoEUnpermute{Rows: bf16, Weights: f32, Width: 8, K: 2, Tokens: tokens, Contiguous: true}},
		"moe_unpermute_grad": {keyOf(t, reg.MoEUnpermuteGrad(), &MoEUnpermuteGradArgs{DOut: b(64, 8), Rows: b(128, 8), Places: i(128), Weights: f(64, 2), DRows: b(128, 8), DWeights: f(64, 2)}),
			key.MoEUnpermute{Rows: bf16, Weights: f32, Width: 8, K: 2, Tokens: tokens, Contiguous: true}},
		"load_balance": {keyOf(t, reg.LoadBalance(), &LoadBalanceArgs{Probs: f(64, 16), Experts: i(64, 2), Loss: f(1)}),
			key.LoadBalance{Experts: 16, K: 2, Tokens: tokens, Contiguous: true}},
		"load_balance_grad": {keyOf(t, reg.LoadBalanceGrad(), &LoadBalanceGradArgs{Scale: 1, Experts: i(64, 2), DProbs: f(64, 16)}),
			key.LoadBalance{Experts: 16, K: 2, Tokens: tokens, Contiguous: true}},
		"gated_delta": {keyOf(t, reg.GatedDelta(), &delta),
			key.GatedDelta{DType: bf16, Beta: f32, KeyHeads: 2, ValueHeads: 4, KeyDim: 8, ValueDim: 6, Tokens: key.ExtentOf(15), Length: key.ExtentOf(15), Packed: true, FinalState: true, Contiguous: true}},
		"gated_delta_grad": {keyOf(t, reg.GatedDeltaGrad(), &GatedDeltaGradArgs{GatedDeltaArgs: delta, DOut: delta.Value, DFinalState: delta.FinalState, DQuery: delta.Query, DKey: delta.Key, DValue: delta.Value, DDecay: delta.Decay, DBeta: delta.Beta}),
			key.GatedDeltaGrad{GatedDelta: key.GatedDelta{DType: bf16, Beta: f32, KeyHeads: 2, ValueHeads: 4, KeyDim: 8, ValueDim: 6, Tokens: key.ExtentOf(15), Length: key.ExtentOf(15), Packed: true, FinalState: true, Contiguous: true}, DFinalState: true}},
		"delta_gate": {keyOf(t, reg.DeltaGate(), &gate),
			key.DeltaGate{A: bf16, ALog: f32, DTBias: bf16, Heads: 4, Rows: key.ExtentOf(15), Contiguous: true}},
		"delta_gate_grad": {keyOf(t, reg.DeltaGateGrad(), &DeltaGateGradArgs{DeltaGateArgs: gate, DDecay: gate.Decay, DBeta: gate.Beta, DA: gate.A, DB: gate.B, DALog: f(4), DDTBias: f(4)}),
			key.DeltaGateGrad{DeltaGate: key.DeltaGate{A: bf16, ALog: f32, DTBias: bf16, Heads: 4, Rows: key.ExtentOf(15), Contiguous: true}, DALog: f32, DDTBias: f32}},
		"causal_conv": {keyOf(t, reg.CausalConv(), &conv),
			key.CausalConv{X: bf16, Weight: f32, Channels: 32, Taps: 4, Tokens: key.ExtentOf(64), Length: key.ExtentOf(31), SiLU: true, InitialState: true, Contiguous: true}},
		"causal_conv_grad": {keyOf(t, reg.CausalConvGrad(), &CausalConvGradArgs{CausalConvArgs: conv, DOut: conv.X, DX: conv.X, DWeight: conv.Weight}),
			key.CausalConvGrad{CausalConv: key.CausalConv{X: bf16, Weight: f32, Channels: 32, Taps: 4, Tokens: key.ExtentOf(64), Length: key.ExtentOf(31), SiLU: true, InitialState: true, Contiguous: true}, DWeight: f32}},
		"adamw": {keyOf(t, reg.AdamW(), &AdamWArgs{Param: f(64), Grad: b(64), ExpAvg: f(64), ExpAvgSq: f(64), Copy: b(64), Step: 1, Maximize: true, Beta2: .999, Epsilon: 1e-8}),
			key.AdamW{Param: f32, Grad: bf16, Copy: bf16, Elements: tokens, Maximize: true, Contiguous: true}},
		"adamw_list": {keyOf(t, reg.AdamWList(), &AdamWListArgs{Updates: []AdamWArgs{{Param: f(64), Grad: b(64), ExpAvg: f(64), ExpAvgSq: f(64), Step: 1, Beta2: .999, Epsilon: 1e-8}}}),
			key.AdamWList{Param: f32, Grad: bf16, Updates: key.ExtentOf(1)}},
		"clip_grad_norm": {keyOf(t, reg.ClipGradNorm(), &ClipGradNormArgs{Grads: []*aclnn.Tensor{f(3), b(4)}, MaxNorm: 1}),
			key.ClipGradNorm{Grads: 2, Clip: true}},
	} {
		require.Equal(t, c.want, c.got, name)
	}
}

// TestChoicesOfLengths checks that a convolution over sequences of every length up to 500 makes one
// choice and one log line per class of lengths.
func TestChoicesOfLengths(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	dev := acltest.Device(t, acltest.Open(t), 0)
	s := &aclnn.Scope{Stream: acltest.Stream(t, dev)}
	defer func() { require.NoError(t, s.Close()) }()
	reg, err := NewRegistry(EnvOf(dev), WithLogger(slog.New(zapslog.NewHandler(core))))
	require.NoError(t, err)
	x, w, out := s.Tensor(aclnn.BFloat16, 1, 500, 16), s.Tensor(aclnn.BFloat16, 16, 4), s.Tensor(aclnn.BFloat16, 1, 500, 16)
	for n := int64(1); n <= 500; n++ {
		k, err := reg.CausalConv().Key(&CausalConvArgs{X: x.Narrow(1, 0, n), Weight: w, Out: out.Narrow(1, 0, n)})
		require.NoError(t, err)
		made := reg.CausalConv().choose(k)
		require.NoError(t, made.err)
		require.Equal(t, "CausalConv1d", made.kernel.name)
	}
	require.Equal(t, 10+6, logs.Len(), "ten classes, and six of them with multiples of 16")
	require.Len(t, reg.CausalConv().dispatch.choices.Load().byKey, logs.Len())
}
