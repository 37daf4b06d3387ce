package ops

import (
	"context"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// LoadBalanceArgs is the auxiliary loss that keeps experts equally busy:
// Loss = experts · Σ_e f_e·P_e, where f_e is how many of the tokens chose expert e and P_e
// the mean of its probability, both over all rows given. It is the loss of Switch
// Transformers (arXiv:2101.03961, equation 4) as Hugging Face computes it; give the rows of
// all layers at once to average over layers as it does.
type LoadBalanceArgs struct {
	Probs   *aclnn.Tensor // [tokens, experts], float32, of MoERouting
	Experts *aclnn.Tensor // [tokens, k], int32, of MoERouting
	Loss    *aclnn.Tensor // [1], float32
}

func (a *LoadBalanceArgs) validate() error {
	var c check
	c.tensor("Loss", a.Loss, aclnn.Float32)
	if c.ok() && a.Loss.Len() != 1 {
		c.fail("Loss is %v; it must be [1]", a.Loss)
	}
	c.balance(a.Probs, a.Experts)
	return c.err
}

func (c *check) balance(probs, experts *aclnn.Tensor) {
	c.tensor("Probs", probs, aclnn.Float32)
	c.tensor("Experts", experts, aclnn.Int32)
	if !c.ok() {
		return
	}
	if probs.Rank() != 2 || experts.Rank() != 2 || probs.Dim(0) != experts.Dim(0) || probs.Dim(0) == 0 {
		c.fail("Probs is %v and Experts %v; they must be [tokens, experts] and [tokens, k], with tokens", probs, experts)
	}
}

// chosen is how many times each expert was chosen, in float32.
func (s *steps) chosen(experts *aclnn.Tensor, n int64) *aclnn.Tensor {
	once, sums := s.tensor(aclnn.Float32, experts.Len()), s.tensor(aclnn.Float32, n)
	s.fill(once, aclnn.Float(1))
	s.zero(sums)
	counts := s.tensor(aclnn.Float32, n)
	launch(s, aclnn.ScatterAdd, aclnn.ScatterAddParams{
		Self: sums, Index: s.cast(s.dense(experts).Reshape(-1), aclnn.Int64), Src: once, Out: counts,
	})
	return counts
}

func newLoadBalance(reg *Registry) *Op[LoadBalanceArgs] {
	return op(reg, "load_balance", (*LoadBalanceArgs).validate,
		func(*LoadBalanceArgs) Signature { return Signature{} },
		Kernel[LoadBalanceArgs]{
			Name: "composite", Supports: Always[LoadBalanceArgs],
			Run: func(_ context.Context, st *acl.Stream, a *LoadBalanceArgs) error {
				return compose(st, func(s *steps) {
					tokens, experts := a.Probs.Dim(0), a.Probs.Dim(1)
					product := s.mul(s.sum(a.Probs, 0).Reshape(-1), s.chosen(a.Experts, experts))
					total := s.sum(product, 0)
					s.scale(total, float64(experts)/(float64(tokens)*float64(tokens)))
					s.store(a.Loss.Reshape(1), total)
				})
			},
		})
}

// LoadBalanceGradArgs is the gradient of LoadBalance times Scale: what MoERoutingGrad takes
// as DProbs. The choice of experts has no gradient.
type LoadBalanceGradArgs struct {
	Scale   float64       // of the loss in the total, such as router_aux_loss_coef
	Experts *aclnn.Tensor // [tokens, k], int32
	DProbs  *aclnn.Tensor // [tokens, experts], float32
}

func (a *LoadBalanceGradArgs) validate() error {
	var c check
	c.balance(a.DProbs, a.Experts)
	return c.err
}

func newLoadBalanceGrad(reg *Registry) *Op[LoadBalanceGradArgs] {
	return op(reg, "load_balance_grad", (*LoadBalanceGradArgs).validate,
		func(*LoadBalanceGradArgs) Signature { return Signature{} },
		Kernel[LoadBalanceGradArgs]{
			Name: "composite", Supports: Always[LoadBalanceGradArgs],
			Run: func(_ context.Context, st *acl.Stream, a *LoadBalanceGradArgs) error {
				return compose(st, func(s *steps) {
					tokens, experts := a.DProbs.Dim(0), a.DProbs.Dim(1)
					row := s.chosen(a.Experts, experts)
					s.scale(row, a.Scale*float64(experts)/(float64(tokens)*float64(tokens)))
					s.store(a.DProbs, row.Unsqueeze(0))
				})
			},
		})
}
