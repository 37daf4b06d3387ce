package ops

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/mask"
)

// Registry holds the operators of one environment. Make one per device, or share one among
// devices of the same kind; it is safe for concurrent use. Close it before the devices.
type Registry struct {
	log   *slog.Logger
	epoch atomic.Uint64 // incremented when the environment changes
	mu    sync.Mutex
	env   Env
	err   error

	templates templates

	operators operators
}

// Option configures a new registry.
type Option func(*Registry)

// WithLogger logs each choice of a kernel once, with the key of the arguments; after 1024 choices
// of an operator it logs a warning and stops. Choices are logged again after a change of the
// environment or of the operator's kernels. Without this option, or with nil, nothing is logged.
func WithLogger(log *slog.Logger) Option { return func(r *Registry) { r.log = log } }

// NewRegistry makes the operators for an environment. It fails when the environment
// variable CANN_OPS_<OPERATOR> names a kernel that does not exist.
func NewRegistry(env Env, options ...Option) (*Registry, error) {
	r := &Registry{env: env}
	for _, o := range options {
		o(r)
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	o := &r.operators
	o.linear, o.linearGrad = newLinear(r), newLinearGrad(r)
	o.matMul, o.matMulGrad = newMatMul(r), newMatMulGrad(r)
	o.groupedMatmul, o.groupedMatmulGrad = newGroupedMatmul(r), newGroupedMatmulGrad(r)
	o.weightQuantGrouped, o.sliceToNZ = newWeightQuantGroupedMatmul(r), newSliceToNZ(r)
	o.embedding, o.embeddingGrad = newEmbedding(r), newEmbeddingGrad(r)
	o.moeRouting, o.moeRoutingGrad = newMoERouting(r), newMoERoutingGrad(r)
	o.moePermute, o.moePermuteGrad = newMoEPermute(r), newMoEPermuteGrad(r)
	o.moeExperts, o.moeExpertsGrad = newMoEExperts(r), newMoEExpertsGrad(r)
	o.moeUnpermute, o.moeUnpermuteGrad = newMoEUnpermute(r), newMoEUnpermuteGrad(r)
	o.loadBalance, o.loadBalanceGrad = newLoadBalance(r), newLoadBalanceGrad(r)
	o.rmsNorm, o.rmsNormGrad = newRMSNorm(r), newRMSNormGrad(r)
	o.addRMSNorm = newAddRMSNorm(r)
	o.rope, o.ropeGrad = newRoPE(r), newRoPEGrad(r)
	o.swiGLU, o.swiGLUGrad = newSwiGLU(r), newSwiGLUGrad(r)
	o.clippedSwiGLU, o.clippedSwiGLUGrad = newClippedSwiGLU(r), newClippedSwiGLUGrad(r)
	o.attention, o.attentionGrad = newAttention(r), newAttentionGrad(r)
	o.ringUpdate = newRingAttentionUpdate(r)
	o.attentionSink, o.attentionSinkGrad = newAttentionSink(r), newAttentionSinkGrad(r)
	o.gatedDelta, o.gatedDeltaGrad = newGatedDelta(r), newGatedDeltaGrad(r)
	o.deltaGate, o.deltaGateGrad = newDeltaGate(r), newDeltaGateGrad(r)
	o.causalConv, o.causalConvGrad = newCausalConv(r), newCausalConvGrad(r)
	o.gatedNorm, o.gatedNormGrad = newGatedNorm(r), newGatedNormGrad(r)
	o.crossEntropy, o.crossEntropyGrad = newCrossEntropy(r), newCrossEntropyGrad(r)
	o.adamW, o.adamWList, o.clipGradNorm = newAdamW(r), newAdamWList(r), newClipGradNorm(r)
	if r.err != nil {
		return nil, r.err
	}
	return r, nil
}

// Close frees the attention masks on the devices. The operators can still be used; they would make
// the masks again.
func (r *Registry) Close() error {
	if r == nil {
		return nil
	}
	return r.templates.close()
}

// CausalMask returns the bool tensor [2048,2048], nonzero above the diagonal, that CANN's attention
// takes for every causal mask, complete for all work queued on the stream from now on. The registry
// keeps it until Close.
func (r *Registry) CausalMask(st *acl.Stream) (*aclnn.Tensor, error) {
	if r == nil || r.log == nil || st == nil {
		return nil, invalid("causal mask: the registry was not made, or the stream is nil")
	}
	return r.templates.compressed(st, mask.Triangle)
}

// fail collects the errors of construction.
func (r *Registry) fail(err error) { r.err = errors.Join(r.err, err) }

// Env returns the environment by which kernels are chosen.
func (r *Registry) Env() Env {
	if r == nil {
		return Env{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.env
}

// SetParallel changes how work is split among ranks. All choices are made and logged again; pinned
// operators stay pinned.
func (r *Registry) SetParallel(p Parallel) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.env.Parallel != p {
		r.env.Parallel = p
		r.epoch.Add(1)
	}
}
