package ops

import (
	"context"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// MoERoutingArgs chooses the experts of each token: those with the k largest probabilities of
// softmax(Logits), in descending order, each weighted by its probability.
type MoERoutingArgs struct {
	Logits *aclnn.Tensor // [tokens, experts]; float32, float16 or bfloat16
	// Normalize divides the weights of a token by their sum (norm_topk_prob).
	Normalize bool
	Weights   *aclnn.Tensor // [tokens, k], dtype of Logits
	Experts   *aclnn.Tensor // [tokens, k], int32
	// Probs is [tokens, experts], float32. LoadBalance needs it, and MoERoutingGrad if Normalize is
	// false. It may be nil.
	Probs *aclnn.Tensor
}

func (a *MoERoutingArgs) validate() error {
	var c args
	c.Tensor("Logits", a.Logits, floats...)
	if !c.OK() {
		return c.Err
	}
	if a.Logits.Rank() != 2 {
		c.Fail("Logits is %v; it must be [tokens, experts]", a.Logits)
	}
	c.choices(a.Weights, a.Experts, a.Logits.DType())
	if c.OK() && (a.Weights.Dim(0) != a.Logits.Dim(0) || a.Weights.Dim(1) > a.Logits.Dim(1)) {
		c.Fail("Weights is %v and Logits %v; of the experts of each token at most all can be chosen", a.Weights, a.Logits)
	}
	if c.Optional("Probs", a.Probs, aclnn.Float32) {
		c.Like("Probs", a.Probs, "Logits", a.Logits)
	}
	return c.Err
}

// choices checks the weights and the experts chosen for each token.
func (c *args) choices(weights, experts *aclnn.Tensor, dtypes ...aclnn.DType) {
	c.Tensor("Weights", weights, dtypes...)
	c.Tensor("Experts", experts, aclnn.Int32)
	if c.OK() && (weights.Rank() != 2 || weights.Dim(1) < 1) {
		c.Fail("Weights is %v; it must be [tokens, k]", weights)
	}
	c.Like("Experts", experts, "Weights", weights)
}

func (a *MoERoutingArgs) key() key.MoERouting {
	return key.MoERouting{
		Logits: a.Logits.DType(), Experts: a.Logits.Dim(1), K: a.Weights.Dim(1), Tokens: key.ExtentOf(a.Logits.Dim(0)), Normalize: a.Normalize,
		Probs: a.Probs != nil, Contiguous: contiguous(a.Logits, a.Weights, a.Experts, a.Probs),
	}
}

func newMoERouting(reg *Registry) *Op[MoERoutingArgs, key.MoERouting] {
	return op(reg, "moe_routing", (*MoERoutingArgs).validate, (*MoERoutingArgs).key,
		Kernel[MoERoutingArgs, key.MoERouting]{
			Name: "MoeGatingTopKSoftmaxV2", Supports: trains[key.MoERouting](&aclnn.MoeGatingTopKSoftmaxV2Params{}),
			Run: func(_ context.Context, st *acl.Stream, a *MoERoutingArgs) error {
				if a.Logits.Dim(0) == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					renorm := aclnn.RenormSoftmaxFirst
					if a.Normalize {
						renorm = aclnn.RenormTopKFirst
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
		Kernel[MoERoutingArgs, key.MoERouting]{
			Name: "composite",
			Run: func(_ context.Context, st *acl.Stream, a *MoERoutingArgs) error {
				if a.Logits.Dim(0) == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					probs := a.Probs
					if probs == nil {
						probs = s.Tensor(aclnn.Float32, a.Logits.Shape()...)
					}
					launch(s, aclnn.Softmax, aclnn.SoftmaxParams{Self: s.float(a.Logits), Dim: 1, Out: probs})
					best, index := s.Tensor(aclnn.Float32, a.Weights.Shape()...), s.Tensor(aclnn.Int64, a.Weights.Shape()...)
					launch(s, aclnn.Topk, aclnn.TopkParams{Self: probs, K: a.Weights.Dim(1), Dim: 1, Largest: true, Sorted: true, ValuesOut: best, IndicesOut: index})
					if a.Normalize {
						launch(s, aclnn.InplaceDiv, aclnn.InplaceDivParams{Self: best, Other: s.sum(best, 1)})
					}
					s.Copy(a.Weights, best)
					s.Copy(a.Experts, index)
				})
			},
		})
}

// MoERoutingGradArgs describes the gradient of MoERouting with respect to the logits.
type MoERoutingGradArgs struct {
	DWeights  *aclnn.Tensor // [tokens, k]
	Weights   *aclnn.Tensor // [tokens, k], of MoERouting
	Experts   *aclnn.Tensor // [tokens, k], int32, of MoERouting
	Normalize bool
	// Probs is [tokens, experts], float32, of MoERouting; it is needed with DProbs or if Normalize
	// is false.
	Probs *aclnn.Tensor
	// DProbs is a gradient of all probabilities, [tokens, experts], float32, such as that of
	// LoadBalance; it may be nil.
	DProbs  *aclnn.Tensor
	DLogits *aclnn.Tensor // [tokens, experts], dtype of Weights
}

func (a *MoERoutingGradArgs) validate() error {
	var c args
	c.choices(a.Weights, a.Experts, floats...)
	if !c.OK() {
		return c.Err
	}
	c.Same("DWeights", a.DWeights, "Weights", a.Weights)
	c.Tensor("DLogits", a.DLogits, a.Weights.DType())
	if c.OK() && (a.DLogits.Rank() != 2 || a.DLogits.Dim(0) != a.Weights.Dim(0)) {
		c.Fail("DLogits is %v; it must have a row of experts for each of the %d tokens", a.DLogits, a.Weights.Dim(0))
	}
	if c.Optional("Probs", a.Probs, aclnn.Float32) {
		c.Like("Probs", a.Probs, "DLogits", a.DLogits)
	}
	if c.Optional("DProbs", a.DProbs, aclnn.Float32) {
		c.Like("DProbs", a.DProbs, "DLogits", a.DLogits)
	}
	if a.Probs == nil && (!a.Normalize || a.DProbs != nil) {
		c.Fail("Probs is nil; the gradient needs the probabilities of all experts, which MoERouting gives")
	}
	return c.Err
}

func (a *MoERoutingGradArgs) key() key.MoERoutingGrad {
	return key.MoERoutingGrad{
		Weights: a.Weights.DType(), Experts: a.DLogits.Dim(1), K: a.Weights.Dim(1), Tokens: key.ExtentOf(a.Weights.Dim(0)), Normalize: a.Normalize,
		Probs: a.Probs != nil, DProbs: a.DProbs != nil, Contiguous: contiguous(a.DWeights, a.Weights, a.Experts, a.Probs, a.DProbs, a.DLogits),
	}
}

func newMoERoutingGrad(reg *Registry) *Op[MoERoutingGradArgs, key.MoERoutingGrad] {
	return op(reg, "moe_routing_grad", (*MoERoutingGradArgs).validate, (*MoERoutingGradArgs).key,
		Kernel[MoERoutingGradArgs, key.MoERoutingGrad]{
			Name: "composite",
			Run: func(_ context.Context, st *acl.Stream, a *MoERoutingGradArgs) error {
				if a.Weights.Dim(0) == 0 {
					return nil
				}
				return compose(st, a.run)
			},
		})
}

func (a *MoERoutingGradArgs) run(s *steps) {
	all := s.Tensor(aclnn.Float32, a.DLogits.Shape()...)
	s.Zero(all)
	chosen := s.float(a.DWeights)
	if a.Normalize {
		// Normalised weights are the softmax of the chosen logits alone.
		chosen = s.softmaxGrad(chosen, s.float(a.Weights))
	}
	launch(s, aclnn.InplaceScatter, aclnn.InplaceScatterParams{Self: all, Dim: 1, Index: s.Cast(a.Experts, aclnn.Int64), Src: chosen})
	switch {
	case !a.Normalize:
		if a.DProbs != nil {
			s.add(all, a.DProbs, 1)
		}
		all = s.softmaxGrad(all, a.Probs)
	case a.DProbs != nil:
		s.add(all, s.softmaxGrad(a.DProbs, a.Probs), 1)
	}
	s.Copy(a.DLogits, all)
}

// softmaxGrad computes the gradient of a softmax over rows.
func (s *steps) softmaxGrad(dy, y *aclnn.Tensor) *aclnn.Tensor {
	dx := s.Tensor(aclnn.Float32, y.Shape()...)
	launch(s, aclnn.SoftmaxBackward, aclnn.SoftmaxBackwardParams{GradOutput: dy, Output: y, Dim: 1, Out: dx})
	return dx
}
