package ops

import (
	"errors"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
)

// Registry holds the operators of one environment. Make one per device, or share one among
// devices of the same kind; it is safe for concurrent use. Close it before the devices.
type Registry struct {
	log   *zap.Logger
	epoch atomic.Uint64 // grows when the environment changes
	mu    sync.Mutex
	env   Env
	err   error

	templates templates

	// The operators, each with its gradient.
	Linear            *Op[LinearArgs]
	LinearGrad        *Op[LinearGradArgs]
	MatMul            *Op[MatMulArgs]
	MatMulGrad        *Op[MatMulGradArgs]
	GroupedMatmul     *Op[GroupedMatmulArgs]
	GroupedMatmulGrad *Op[GroupedMatmulGradArgs]
	SliceToNZ         *Op[SliceToNZArgs]
	Embedding         *Op[EmbeddingArgs]
	EmbeddingGrad     *Op[EmbeddingGradArgs]
	MoERouting        *Op[MoERoutingArgs]
	MoERoutingGrad    *Op[MoERoutingGradArgs]
	MoEPermute        *Op[MoEPermuteArgs]
	MoEPermuteGrad    *Op[MoEPermuteGradArgs]
	MoEExperts        *Op[MoEExpertsArgs]
	MoEExpertsGrad    *Op[MoEExpertsGradArgs]
	MoEUnpermute      *Op[MoEUnpermuteArgs]
	MoEUnpermuteGrad  *Op[MoEUnpermuteGradArgs]
	LoadBalance       *Op[LoadBalanceArgs]
	LoadBalanceGrad   *Op[LoadBalanceGradArgs]
	RMSNorm           *Op[RMSNormArgs]
	RMSNormGrad       *Op[RMSNormGradArgs]
	RoPE              *Op[RoPEArgs]
	RoPEGrad          *Op[RoPEGradArgs]
	SwiGLU            *Op[SwiGLUArgs]
	SwiGLUGrad        *Op[SwiGLUGradArgs]
	Attention         *Op[AttentionArgs]
	AttentionGrad     *Op[AttentionGradArgs]
	CrossEntropy      *Op[CrossEntropyArgs]
	CrossEntropyGrad  *Op[CrossEntropyGradArgs]
	GatedDelta        *Op[GatedDeltaArgs]
	GatedDeltaGrad    *Op[GatedDeltaGradArgs]
	DeltaGate         *Op[DeltaGateArgs]
	DeltaGateGrad     *Op[DeltaGateGradArgs]
	CausalConv        *Op[CausalConvArgs]
	CausalConvGrad    *Op[CausalConvGradArgs]
	GatedNorm         *Op[GatedNormArgs]
	GatedNormGrad     *Op[GatedNormGradArgs]
	AdamW             *Op[AdamWArgs]
	ClipGradNorm      *Op[ClipGradNormArgs]
}

// Option changes a registry in the making.
type Option func(*Registry)

// WithLogger logs each choice of a kernel once per signature. Without it nothing is logged.
func WithLogger(log *zap.Logger) Option { return func(r *Registry) { r.log = log } }

// NewRegistry makes the operators for an environment. It fails when the environment
// variable CANN_OPS_<OPERATOR> names a kernel that does not exist.
func NewRegistry(env Env, options ...Option) (*Registry, error) {
	r := &Registry{log: zap.NewNop(), env: env}
	for _, o := range options {
		o(r)
	}
	r.Linear, r.LinearGrad = newLinear(r), newLinearGrad(r)
	r.MatMul, r.MatMulGrad = newMatMul(r), newMatMulGrad(r)
	r.GroupedMatmul, r.GroupedMatmulGrad = newGroupedMatmul(r), newGroupedMatmulGrad(r)
	r.SliceToNZ = newSliceToNZ(r)
	r.Embedding, r.EmbeddingGrad = newEmbedding(r), newEmbeddingGrad(r)
	r.MoERouting, r.MoERoutingGrad = newMoERouting(r), newMoERoutingGrad(r)
	r.MoEPermute, r.MoEPermuteGrad = newMoEPermute(r), newMoEPermuteGrad(r)
	r.MoEExperts, r.MoEExpertsGrad = newMoEExperts(r), newMoEExpertsGrad(r)
	r.MoEUnpermute, r.MoEUnpermuteGrad = newMoEUnpermute(r), newMoEUnpermuteGrad(r)
	r.LoadBalance, r.LoadBalanceGrad = newLoadBalance(r), newLoadBalanceGrad(r)
	r.RMSNorm, r.RMSNormGrad = newRMSNorm(r), newRMSNormGrad(r)
	r.RoPE, r.RoPEGrad = newRoPE(r), newRoPEGrad(r)
	r.SwiGLU, r.SwiGLUGrad = newSwiGLU(r), newSwiGLUGrad(r)
	r.Attention, r.AttentionGrad = newAttention(r), newAttentionGrad(r)
	r.GatedDelta, r.GatedDeltaGrad = newGatedDelta(r), newGatedDeltaGrad(r)
	r.DeltaGate, r.DeltaGateGrad = newDeltaGate(r), newDeltaGateGrad(r)
	r.CausalConv, r.CausalConvGrad = newCausalConv(r), newCausalConvGrad(r)
	r.GatedNorm, r.GatedNormGrad = newGatedNorm(r), newGatedNormGrad(r)
	r.CrossEntropy, r.CrossEntropyGrad = newCrossEntropy(r), newCrossEntropyGrad(r)
	r.AdamW, r.ClipGradNorm = newAdamW(r), newClipGradNorm(r)
	if r.err != nil {
		return nil, r.err
	}
	return r, nil
}

// Close frees the masks that attention has on its devices. The operators work on after it
// and would make them anew.
func (r *Registry) Close() error { return r.templates.close() }

// fail keeps the errors of construction.
func (r *Registry) fail(err error) { r.err = errors.Join(r.err, err) }

// Env is the environment kernels are chosen by.
func (r *Registry) Env() Env {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.env
}

// SetParallel changes how work is split among ranks. Every choice is made anew, once, and
// logged; pinned operators stay pinned.
func (r *Registry) SetParallel(p Parallel) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.env.Parallel != p {
		r.env.Parallel = p
		r.epoch.Add(1)
	}
}
