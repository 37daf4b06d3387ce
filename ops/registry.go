package ops

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/logging"
	"github.com/goascend/cann/ops/mask"
)

// Registry holds the operators of one environment. Make one per device, or share one among
// devices of the same kind; it is safe for concurrent use. Close it before the devices.
type Registry struct {
	log   acl.Logger
	epoch atomic.Uint64 // incremented when the environment changes
	mu    sync.Mutex
	env   Env
	err   error

	templates templates

	// The operators, each with its gradient.
	Linear            *Op[LinearArgs, LinearKey]
	LinearGrad        *Op[LinearGradArgs, LinearGradKey]
	MatMul            *Op[MatMulArgs, MatMulKey]
	MatMulGrad        *Op[MatMulGradArgs, MatMulGradKey]
	GroupedMatmul     *Op[GroupedMatmulArgs, GroupedMatmulKey]
	GroupedMatmulGrad *Op[GroupedMatmulGradArgs, GroupedMatmulGradKey]
	SliceToNZ         *Op[SliceToNZArgs, SliceToNZKey]
	Embedding         *Op[EmbeddingArgs, EmbeddingKey]
	EmbeddingGrad     *Op[EmbeddingGradArgs, EmbeddingGradKey]
	MoERouting        *Op[MoERoutingArgs, MoERoutingKey]
	MoERoutingGrad    *Op[MoERoutingGradArgs, MoERoutingGradKey]
	MoEPermute        *Op[MoEPermuteArgs, MoEPermuteKey]
	MoEPermuteGrad    *Op[MoEPermuteGradArgs, MoEPermuteGradKey]
	MoEExperts        *Op[MoEExpertsArgs, MoEExpertsKey]
	MoEExpertsGrad    *Op[MoEExpertsGradArgs, MoEExpertsGradKey]
	MoEUnpermute      *Op[MoEUnpermuteArgs, MoEUnpermuteKey]
	MoEUnpermuteGrad  *Op[MoEUnpermuteGradArgs, MoEUnpermuteKey]
	LoadBalance       *Op[LoadBalanceArgs, LoadBalanceKey]
	LoadBalanceGrad   *Op[LoadBalanceGradArgs, LoadBalanceKey]
	RMSNorm           *Op[RMSNormArgs, RMSNormKey]
	AddRMSNorm        *Op[AddRMSNormArgs, RMSNormKey] // its gradient is RMSNormGrad
	RMSNormGrad       *Op[RMSNormGradArgs, RMSNormGradKey]
	RoPE              *Op[RoPEArgs, RoPEKey]
	RoPEGrad          *Op[RoPEGradArgs, RoPEKey]
	SwiGLU            *Op[SwiGLUArgs, SwiGLUKey]
	SwiGLUGrad        *Op[SwiGLUGradArgs, SwiGLUKey]
	Attention         *Op[AttentionArgs, AttentionKey]
	AttentionGrad     *Op[AttentionGradArgs, AttentionKey]
	CrossEntropy      *Op[CrossEntropyArgs, CrossEntropyKey]
	CrossEntropyGrad  *Op[CrossEntropyGradArgs, CrossEntropyGradKey]
	GatedDelta        *Op[GatedDeltaArgs, GatedDeltaKey]
	GatedDeltaGrad    *Op[GatedDeltaGradArgs, GatedDeltaGradKey]
	DeltaGate         *Op[DeltaGateArgs, DeltaGateKey]
	DeltaGateGrad     *Op[DeltaGateGradArgs, DeltaGateGradKey]
	CausalConv        *Op[CausalConvArgs, CausalConvKey]
	CausalConvGrad    *Op[CausalConvGradArgs, CausalConvGradKey]
	GatedNorm         *Op[GatedNormArgs, GatedNormKey]
	GatedNormGrad     *Op[GatedNormGradArgs, GatedNormGradKey]
	AdamW             *Op[AdamWArgs, AdamWKey]
	AdamWList         *Op[AdamWListArgs, AdamWListKey]
	ClipGradNorm      *Op[ClipGradNormArgs, ClipGradNormKey]
}

// Option configures a new registry.
type Option func(*Registry)

// WithLogger logs each choice of a kernel once, with the key of the arguments; after 1024 choices
// of an operator it logs a warning and stops. Choices are logged again after a change of the
// environment or of the operator's kernels. Without this option, or with nil, nothing is logged.
func WithLogger(log acl.Logger) Option { return func(r *Registry) { r.log = log } }

// NewRegistry makes the operators for an environment. It fails when the environment
// variable CANN_OPS_<OPERATOR> names a kernel that does not exist.
func NewRegistry(env Env, options ...Option) (*Registry, error) {
	r := &Registry{env: env}
	for _, o := range options {
		o(r)
	}
	if logging.Nil(r.log) {
		r.log = logging.Nop{}
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
	r.AddRMSNorm = newAddRMSNorm(r)
	r.RoPE, r.RoPEGrad = newRoPE(r), newRoPEGrad(r)
	r.SwiGLU, r.SwiGLUGrad = newSwiGLU(r), newSwiGLUGrad(r)
	r.Attention, r.AttentionGrad = newAttention(r), newAttentionGrad(r)
	r.GatedDelta, r.GatedDeltaGrad = newGatedDelta(r), newGatedDeltaGrad(r)
	r.DeltaGate, r.DeltaGateGrad = newDeltaGate(r), newDeltaGateGrad(r)
	r.CausalConv, r.CausalConvGrad = newCausalConv(r), newCausalConvGrad(r)
	r.GatedNorm, r.GatedNormGrad = newGatedNorm(r), newGatedNormGrad(r)
	r.CrossEntropy, r.CrossEntropyGrad = newCrossEntropy(r), newCrossEntropyGrad(r)
	r.AdamW, r.AdamWList, r.ClipGradNorm = newAdamW(r), newAdamWList(r), newClipGradNorm(r)
	if r.err != nil {
		return nil, r.err
	}
	return r, nil
}

// Close frees the attention masks on the devices. The operators can still be used; they would make
// the masks again.
func (r *Registry) Close() error { return r.templates.close() }

// CausalMask returns the bool tensor [2048,2048], nonzero above the diagonal, that CANN's attention
// takes for every causal mask, complete for all work queued on the stream from now on. The registry
// keeps it until Close.
func (r *Registry) CausalMask(st *acl.Stream) (*aclnn.Tensor, error) {
	return r.templates.compressed(st, mask.Triangle)
}

// fail collects the errors of construction.
func (r *Registry) fail(err error) { r.err = errors.Join(r.err, err) }

// Env returns the environment by which kernels are chosen.
func (r *Registry) Env() Env {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.env
}

// SetParallel changes how work is split among ranks. All choices are made and logged again; pinned
// operators stay pinned.
func (r *Registry) SetParallel(p Parallel) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.env.Parallel != p {
		r.env.Parallel = p
		r.epoch.Add(1)
	}
}
