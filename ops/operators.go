package ops

import "github.com/goascend/cann/ops/key"

// operators are the operators of a registry. Methods return them, so that nobody can replace one.
type operators struct {
	linear             *Op[LinearArgs, key.Linear]
	linearGrad         *Op[LinearGradArgs, key.LinearGrad]
	matMul             *Op[MatMulArgs, key.MatMul]
	matMulGrad         *Op[MatMulGradArgs, key.MatMulGrad]
	groupedMatmul      *Op[GroupedMatmulArgs, key.GroupedMatmul]
	groupedMatmulGrad  *Op[GroupedMatmulGradArgs, key.GroupedMatmulGrad]
	weightQuantGrouped *Op[WeightQuantGroupedMatmulArgs, key.WeightQuantGroupedMatmul]
	sliceToNZ          *Op[SliceToNZArgs, key.SliceToNZ]
	embedding          *Op[EmbeddingArgs, key.Embedding]
	embeddingGrad      *Op[EmbeddingGradArgs, key.EmbeddingGrad]
	moeRouting         *Op[MoERoutingArgs, key.MoERouting]
	moeRoutingGrad     *Op[MoERoutingGradArgs, key.MoERoutingGrad]
	moePermute         *Op[MoEPermuteArgs, key.MoEPermute]
	moePermuteGrad     *Op[MoEPermuteGradArgs, key.MoEPermuteGrad]
	moeExperts         *Op[MoEExpertsArgs, key.MoEExperts]
	moeExpertsGrad     *Op[MoEExpertsGradArgs, key.MoEExpertsGrad]
	moeUnpermute       *Op[MoEUnpermuteArgs, key.MoEUnpermute]
	moeUnpermuteGrad   *Op[MoEUnpermuteGradArgs, key.MoEUnpermute]
	loadBalance        *Op[LoadBalanceArgs, key.LoadBalance]
	loadBalanceGrad    *Op[LoadBalanceGradArgs, key.LoadBalance]
	rmsNorm            *Op[RMSNormArgs, key.RMSNorm]
	addRMSNorm         *Op[AddRMSNormArgs, key.RMSNorm]
	rmsNormGrad        *Op[RMSNormGradArgs, key.RMSNormGrad]
	rope               *Op[RoPEArgs, key.RoPE]
	ropeGrad           *Op[RoPEGradArgs, key.RoPE]
	swiGLU             *Op[SwiGLUArgs, key.SwiGLU]
	swiGLUGrad         *Op[SwiGLUGradArgs, key.SwiGLU]
	clippedSwiGLU      *Op[ClippedSwiGLUArgs, key.SwiGLU]
	clippedSwiGLUGrad  *Op[ClippedSwiGLUGradArgs, key.SwiGLU]
	attention          *Op[AttentionArgs, key.Attention]
	attentionGrad      *Op[AttentionGradArgs, key.Attention]
	ringUpdate         *Op[RingAttentionUpdateArgs, key.RingAttentionUpdate]
	attentionSink      *Op[AttentionSinkArgs, key.AttentionSink]
	attentionSinkGrad  *Op[AttentionSinkGradArgs, key.AttentionSink]
	crossEntropy       *Op[CrossEntropyArgs, key.CrossEntropy]
	crossEntropyGrad   *Op[CrossEntropyGradArgs, key.CrossEntropyGrad]
	gatedDelta         *Op[GatedDeltaArgs, key.GatedDelta]
	gatedDeltaGrad     *Op[GatedDeltaGradArgs, key.GatedDeltaGrad]
	deltaGate          *Op[DeltaGateArgs, key.DeltaGate]
	deltaGateGrad      *Op[DeltaGateGradArgs, key.DeltaGateGrad]
	causalConv         *Op[CausalConvArgs, key.CausalConv]
	causalConvGrad     *Op[CausalConvGradArgs, key.CausalConvGrad]
	gatedNorm          *Op[GatedNormArgs, key.GatedNorm]
	gatedNormGrad      *Op[GatedNormGradArgs, key.GatedNormGrad]
	adamW              *Op[AdamWArgs, key.AdamW]
	adamWList          *Op[AdamWListArgs, key.AdamWList]
	clipGradNorm       *Op[ClipGradNormArgs, key.ClipGradNorm]
}

// all returns the operators; those of a registry that was never made are nil, and refuse.
func (r *Registry) all() *operators {
	if r == nil {
		return new(operators)
	}
	return &r.operators
}

// Linear is a projection of rows.
func (r *Registry) Linear() *Op[LinearArgs, key.Linear] { return r.all().linear }

// LinearGrad is the gradient of Linear.
func (r *Registry) LinearGrad() *Op[LinearGradArgs, key.LinearGrad] { return r.all().linearGrad }

// MatMul is a matrix product.
func (r *Registry) MatMul() *Op[MatMulArgs, key.MatMul] { return r.all().matMul }

// MatMulGrad is the gradient of MatMul.
func (r *Registry) MatMulGrad() *Op[MatMulGradArgs, key.MatMulGrad] { return r.all().matMulGrad }

// GroupedMatmul multiplies groups of rows by a matrix each.
func (r *Registry) GroupedMatmul() *Op[GroupedMatmulArgs, key.GroupedMatmul] {
	return r.all().groupedMatmul
}

// GroupedMatmulGrad is the gradient of GroupedMatmul.
func (r *Registry) GroupedMatmulGrad() *Op[GroupedMatmulGradArgs, key.GroupedMatmulGrad] {
	return r.all().groupedMatmulGrad
}

// WeightQuantGroupedMatmul multiplies groups of rows by a matrix in codes of int8 or int4 each.
func (r *Registry) WeightQuantGroupedMatmul() *Op[WeightQuantGroupedMatmulArgs, key.WeightQuantGroupedMatmul] {
	return r.all().weightQuantGrouped
}

// SliceToNZ makes a weight in FRACTAL_NZ of gathered shards.
func (r *Registry) SliceToNZ() *Op[SliceToNZArgs, key.SliceToNZ] { return r.all().sliceToNZ }

// Embedding looks up rows of a table.
func (r *Registry) Embedding() *Op[EmbeddingArgs, key.Embedding] { return r.all().embedding }

// EmbeddingGrad is the gradient of Embedding.
func (r *Registry) EmbeddingGrad() *Op[EmbeddingGradArgs, key.EmbeddingGrad] {
	return r.all().embeddingGrad
}

// MoERouting chooses the experts of tokens.
func (r *Registry) MoERouting() *Op[MoERoutingArgs, key.MoERouting] { return r.all().moeRouting }

// MoERoutingGrad is the gradient of MoERouting.
func (r *Registry) MoERoutingGrad() *Op[MoERoutingGradArgs, key.MoERoutingGrad] {
	return r.all().moeRoutingGrad
}

// MoEPermute sorts tokens by expert.
func (r *Registry) MoEPermute() *Op[MoEPermuteArgs, key.MoEPermute] { return r.all().moePermute }

// MoEPermuteGrad is the gradient of MoEPermute.
func (r *Registry) MoEPermuteGrad() *Op[MoEPermuteGradArgs, key.MoEPermuteGrad] {
	return r.all().moePermuteGrad
}

// MoEExperts computes experts with gated feed-forward layers.
func (r *Registry) MoEExperts() *Op[MoEExpertsArgs, key.MoEExperts] { return r.all().moeExperts }

// MoEExpertsGrad is the gradient of MoEExperts.
func (r *Registry) MoEExpertsGrad() *Op[MoEExpertsGradArgs, key.MoEExpertsGrad] {
	return r.all().moeExpertsGrad
}

// MoEUnpermute adds up the results of the experts of each token.
func (r *Registry) MoEUnpermute() *Op[MoEUnpermuteArgs, key.MoEUnpermute] {
	return r.all().moeUnpermute
}

// MoEUnpermuteGrad is the gradient of MoEUnpermute.
func (r *Registry) MoEUnpermuteGrad() *Op[MoEUnpermuteGradArgs, key.MoEUnpermute] {
	return r.all().moeUnpermuteGrad
}

// LoadBalance is the loss that balances experts.
func (r *Registry) LoadBalance() *Op[LoadBalanceArgs, key.LoadBalance] { return r.all().loadBalance }

// LoadBalanceGrad is the gradient of LoadBalance.
func (r *Registry) LoadBalanceGrad() *Op[LoadBalanceGradArgs, key.LoadBalance] {
	return r.all().loadBalanceGrad
}

// RMSNorm divides rows by their root mean square.
func (r *Registry) RMSNorm() *Op[RMSNormArgs, key.RMSNorm] { return r.all().rmsNorm }

// AddRMSNorm adds two tensors and normalises the sum; its gradient is RMSNormGrad.
func (r *Registry) AddRMSNorm() *Op[AddRMSNormArgs, key.RMSNorm] { return r.all().addRMSNorm }

// RMSNormGrad is the gradient of RMSNorm.
func (r *Registry) RMSNormGrad() *Op[RMSNormGradArgs, key.RMSNormGrad] { return r.all().rmsNormGrad }

// RoPE rotates pairs of features by the position.
func (r *Registry) RoPE() *Op[RoPEArgs, key.RoPE] { return r.all().rope }

// RoPEGrad is the gradient of RoPE.
func (r *Registry) RoPEGrad() *Op[RoPEGradArgs, key.RoPE] { return r.all().ropeGrad }

// SwiGLU is the gated activation of feed-forward layers.
func (r *Registry) SwiGLU() *Op[SwiGLUArgs, key.SwiGLU] { return r.all().swiGLU }

// SwiGLUGrad is the gradient of SwiGLU.
func (r *Registry) SwiGLUGrad() *Op[SwiGLUGradArgs, key.SwiGLU] { return r.all().swiGLUGrad }

// ClippedSwiGLU is a gated activation of limited values.
func (r *Registry) ClippedSwiGLU() *Op[ClippedSwiGLUArgs, key.SwiGLU] { return r.all().clippedSwiGLU }

// ClippedSwiGLUGrad is the gradient of ClippedSwiGLU.
func (r *Registry) ClippedSwiGLUGrad() *Op[ClippedSwiGLUGradArgs, key.SwiGLU] {
	return r.all().clippedSwiGLUGrad
}

// Attention is scaled dot-product attention.
func (r *Registry) Attention() *Op[AttentionArgs, key.Attention] { return r.all().attention }

// AttentionGrad is the gradient of Attention.
func (r *Registry) AttentionGrad() *Op[AttentionGradArgs, key.Attention] {
	return r.all().attentionGrad
}

// RingAttentionUpdate joins the attention to two parts of the keys.
func (r *Registry) RingAttentionUpdate() *Op[RingAttentionUpdateArgs, key.RingAttentionUpdate] {
	return r.all().ringUpdate
}

// AttentionSink takes the sinks of the heads into the attention to the keys.
func (r *Registry) AttentionSink() *Op[AttentionSinkArgs, key.AttentionSink] {
	return r.all().attentionSink
}

// AttentionSinkGrad is the gradient of the sinks.
func (r *Registry) AttentionSinkGrad() *Op[AttentionSinkGradArgs, key.AttentionSink] {
	return r.all().attentionSinkGrad
}

// CrossEntropy is the loss of class labels.
func (r *Registry) CrossEntropy() *Op[CrossEntropyArgs, key.CrossEntropy] {
	return r.all().crossEntropy
}

// CrossEntropyGrad is the gradient of CrossEntropy.
func (r *Registry) CrossEntropyGrad() *Op[CrossEntropyGradArgs, key.CrossEntropyGrad] {
	return r.all().crossEntropyGrad
}

// GatedDelta is the gated delta rule, a linear attention.
func (r *Registry) GatedDelta() *Op[GatedDeltaArgs, key.GatedDelta] { return r.all().gatedDelta }

// GatedDeltaGrad is the gradient of GatedDelta.
func (r *Registry) GatedDeltaGrad() *Op[GatedDeltaGradArgs, key.GatedDeltaGrad] {
	return r.all().gatedDeltaGrad
}

// DeltaGate computes the gates of the delta rule.
func (r *Registry) DeltaGate() *Op[DeltaGateArgs, key.DeltaGate] { return r.all().deltaGate }

// DeltaGateGrad is the gradient of DeltaGate.
func (r *Registry) DeltaGateGrad() *Op[DeltaGateGradArgs, key.DeltaGateGrad] {
	return r.all().deltaGateGrad
}

// CausalConv is a causal convolution of each channel.
func (r *Registry) CausalConv() *Op[CausalConvArgs, key.CausalConv] { return r.all().causalConv }

// CausalConvGrad is the gradient of CausalConv.
func (r *Registry) CausalConvGrad() *Op[CausalConvGradArgs, key.CausalConvGrad] {
	return r.all().causalConvGrad
}

// GatedNorm is an RMS norm with a gate.
func (r *Registry) GatedNorm() *Op[GatedNormArgs, key.GatedNorm] { return r.all().gatedNorm }

// GatedNormGrad is the gradient of GatedNorm.
func (r *Registry) GatedNormGrad() *Op[GatedNormGradArgs, key.GatedNormGrad] {
	return r.all().gatedNormGrad
}

// AdamW updates a parameter.
func (r *Registry) AdamW() *Op[AdamWArgs, key.AdamW] { return r.all().adamW }

// AdamWList updates many parameters.
func (r *Registry) AdamWList() *Op[AdamWListArgs, key.AdamWList] { return r.all().adamWList }

// ClipGradNorm computes the norm of all gradients and limits it.
func (r *Registry) ClipGradNorm() *Op[ClipGradNormArgs, key.ClipGradNorm] {
	return r.all().clipGradNorm
}
