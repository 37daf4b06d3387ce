package ops

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// MoERoutingArgs chooses the experts of each token: those with the largest probabilities
// softmax(Logits), the largest first, each weighted by its probability.
type MoERoutingArgs struct {
	Logits *aclnn.Tensor // [tokens, experts]; float32, float16 or bfloat16
	// Normalize divides the weights of a token by their sum (norm_topk_prob).
	Normalize bool
	Weights   *aclnn.Tensor // [tokens, k], dtype of Logits
	Experts   *aclnn.Tensor // [tokens, k], int32
	// Probs is [tokens, experts], float32: what LoadBalance needs, and MoERoutingGrad without
	// Normalize. It may be nil.
	Probs *aclnn.Tensor
}

func (a *MoERoutingArgs) validate() error {
	var c check
	c.tensor("Logits", a.Logits, floats...)
	if !c.ok() {
		return c.err
	}
	if a.Logits.Rank() != 2 {
		c.fail("Logits is %v; it must be [tokens, experts]", a.Logits)
	}
	c.choices(a.Weights, a.Experts, a.Logits.DType())
	if c.ok() && (a.Weights.Dim(0) != a.Logits.Dim(0) || a.Weights.Dim(1) > a.Logits.Dim(1)) {
		c.fail("Weights is %v and Logits %v; of the experts of each token at most all can be chosen", a.Weights, a.Logits)
	}
	if c.optional("Probs", a.Probs, aclnn.Float32) {
		c.like("Probs", a.Probs, "Logits", a.Logits)
	}
	return c.err
}

// choices checks the weights and the experts chosen for each token.
func (c *check) choices(weights, experts *aclnn.Tensor, dtypes ...aclnn.DType) {
	c.tensor("Weights", weights, dtypes...)
	c.tensor("Experts", experts, aclnn.Int32)
	if c.ok() && (weights.Rank() != 2 || weights.Dim(1) < 1) {
		c.fail("Weights is %v; it must be [tokens, k]", weights)
	}
	c.like("Experts", experts, "Weights", weights)
}

func newMoERouting(reg *Registry) *Op[MoERoutingArgs] {
	return op(reg, "moe_routing", (*MoERoutingArgs).validate,
		func(a *MoERoutingArgs) Signature { return dtypeSignature(a.Logits) },
		Kernel[MoERoutingArgs]{
			Name: "MoeGatingTopKSoftmaxV2",
			Supports: func(env *Env, _ *MoERoutingArgs) error {
				return errors.Join(trainingChip(env, "MoeGatingTopKSoftmaxV2"), available(&aclnn.MoeGatingTopKSoftmaxV2Params{}))
			},
			Run: func(_ context.Context, st *acl.Stream, a *MoERoutingArgs) error {
				if a.Logits.Dim(0) == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					renorm := int64(0)
					if a.Normalize {
						renorm = 1
					}
					launch(s, aclnn.MoeGatingTopKSoftmaxV2, aclnn.MoeGatingTopKSoftmaxV2Params{
						X: a.Logits, K: a.Weights.Dim(1), Renorm: renorm, YOut: a.Weights, ExpertIdxOut: a.Experts,
					})
					if a.Probs != nil {
						launch(s, aclnn.Softmax, aclnn.SoftmaxParams{Self: s.float(a.Logits), Dim: 1, Out: a.Probs})
					}
				})
			},
		},
		Kernel[MoERoutingArgs]{
			Name: "composite", Supports: Always[MoERoutingArgs],
			Run: func(_ context.Context, st *acl.Stream, a *MoERoutingArgs) error {
				if a.Logits.Dim(0) == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					probs := a.Probs
					if probs == nil {
						probs = s.tensor(aclnn.Float32, a.Logits.Shape()...)
					}
					launch(s, aclnn.Softmax, aclnn.SoftmaxParams{Self: s.float(a.Logits), Dim: 1, Out: probs})
					best, index := s.tensor(aclnn.Float32, a.Weights.Shape()...), s.tensor(aclnn.Int64, a.Weights.Shape()...)
					launch(s, aclnn.Topk, aclnn.TopkParams{Self: probs, K: a.Weights.Dim(1), Dim: 1, Largest: true, Sorted: true, ValuesOut: best, IndicesOut: index})
					if a.Normalize {
						launch(s, aclnn.InplaceDiv, aclnn.InplaceDivParams{SelfRef: best, Other: s.sum(best, 1)})
					}
					s.store(a.Weights, best)
					s.store(a.Experts, index)
				})
			},
		})
}

// MoERoutingGradArgs is the gradient of MoERouting with respect to the logits.
type MoERoutingGradArgs struct {
	DWeights  *aclnn.Tensor // [tokens, k]
	Weights   *aclnn.Tensor // [tokens, k], of MoERouting
	Experts   *aclnn.Tensor // [tokens, k], int32, of MoERouting
	Normalize bool
	// Probs is [tokens, experts], float32, of MoERouting: needed without Normalize, and with
	// DProbs.
	Probs *aclnn.Tensor
	// DProbs is a gradient of all probabilities, [tokens, experts], float32, such as that of
	// LoadBalance; nil for none.
	DProbs  *aclnn.Tensor
	DLogits *aclnn.Tensor // [tokens, experts], dtype of Weights
}

func (a *MoERoutingGradArgs) validate() error {
	var c check
	c.choices(a.Weights, a.Experts, floats...)
	if !c.ok() {
		return c.err
	}
	c.tensor("DWeights", a.DWeights, a.Weights.DType())
	c.like("DWeights", a.DWeights, "Weights", a.Weights)
	c.tensor("DLogits", a.DLogits, a.Weights.DType())
	if c.ok() && (a.DLogits.Rank() != 2 || a.DLogits.Dim(0) != a.Weights.Dim(0)) {
		c.fail("DLogits is %v; it must have a row of experts for each of the %d tokens", a.DLogits, a.Weights.Dim(0))
	}
	if c.optional("Probs", a.Probs, aclnn.Float32) {
		c.like("Probs", a.Probs, "DLogits", a.DLogits)
	}
	if c.optional("DProbs", a.DProbs, aclnn.Float32) {
		c.like("DProbs", a.DProbs, "DLogits", a.DLogits)
	}
	if a.Probs == nil && (!a.Normalize || a.DProbs != nil) {
		c.fail("Probs is nil; the gradient needs the probabilities of all experts, which MoERouting gives")
	}
	return c.err
}

func newMoERoutingGrad(reg *Registry) *Op[MoERoutingGradArgs] {
	return op(reg, "moe_routing_grad", (*MoERoutingGradArgs).validate,
		func(a *MoERoutingGradArgs) Signature { return dtypeSignature(a.Weights) },
		Kernel[MoERoutingGradArgs]{
			Name: "composite", Supports: Always[MoERoutingGradArgs],
			Run: func(_ context.Context, st *acl.Stream, a *MoERoutingGradArgs) error {
				if a.Weights.Dim(0) == 0 {
					return nil
				}
				return compose(st, a.run)
			},
		})
}

func (a *MoERoutingGradArgs) run(s *steps) {
	all := s.tensor(aclnn.Float32, a.DLogits.Shape()...)
	s.zero(all)
	chosen := s.float(a.DWeights)
	if a.Normalize {
		// Normalised weights are the softmax of the chosen logits alone.
		chosen = s.softmaxGrad(chosen, s.float(a.Weights))
	}
	launch(s, aclnn.InplaceScatter, aclnn.InplaceScatterParams{SelfRef: all, Dim: 1, Index: s.cast(a.Experts, aclnn.Int64), Src: chosen})
	switch {
	case !a.Normalize:
		if a.DProbs != nil {
			s.add(all, a.DProbs, 1)
		}
		all = s.softmaxGrad(all, a.Probs)
	case a.DProbs != nil:
		s.add(all, s.softmaxGrad(a.DProbs, a.Probs), 1)
	}
	s.store(a.DLogits, all)
}

// softmaxGrad is the gradient of a softmax of rows.
func (s *steps) softmaxGrad(dy, y *aclnn.Tensor) *aclnn.Tensor {
	dx := s.tensor(aclnn.Float32, y.Shape()...)
	launch(s, aclnn.SoftmaxBackward, aclnn.SoftmaxBackwardParams{GradOutput: dy, Output: y, Dim: 1, Out: dx})
	return dx
}
