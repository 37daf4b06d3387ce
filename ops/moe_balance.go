package ops

import (
	"context"
	"math"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// LoadBalanceArgs describes the auxiliary loss that balances the load of experts: Loss = experts ·
// Σ_e f_e·P_e, where f_e is how many of the tokens chose expert e and P_e is the mean of its
// probability, both over all rows given. It is the loss of Switch Transformers (arXiv:2101.03961,
// equation 4) as Hugging Face computes it; to average over layers as Hugging Face does, pass the
// rows of all layers at once.
type LoadBalanceArgs struct {
	Probs   *aclnn.Tensor // [tokens, experts], float32, of MoERouting
	Experts *aclnn.Tensor // [tokens, k], int32, of MoERouting
	Loss    *aclnn.Tensor // [1], float32
}

func (a *LoadBalanceArgs) validate() error {
	var c args
	c.Tensor("Loss", a.Loss, aclnn.Float32)
	if c.OK() && a.Loss.Len() != 1 {
		c.Fail("Loss is %v; it must be [1]", a.Loss)
	}
	c.balance(a.Probs, a.Experts)
	return c.Err
}

func (c *args) balance(probs, experts *aclnn.Tensor) {
	c.Tensor("Probs", probs, aclnn.Float32)
	c.Tensor("Experts", experts, aclnn.Int32)
	if !c.OK() {
		return
	}
	if probs.Rank() != 2 || experts.Rank() != 2 || probs.Dim(0) != experts.Dim(0) || probs.Dim(0) == 0 {
		c.Fail("Probs is %v and Experts %v; they must be [tokens, experts] and [tokens, k], with tokens", probs, experts)
	}
}

// chosen counts how many times each expert was chosen, in float32.
func (s *steps) chosen(experts *aclnn.Tensor, n int64) *aclnn.Tensor {
	once, sums := s.Tensor(aclnn.Float32, experts.Len()), s.Tensor(aclnn.Float32, n)
	s.Fill(once, aclnn.Float(1))
	s.Zero(sums)
	counts := s.Tensor(aclnn.Float32, n)
	launch(s, aclnn.ScatterAdd, aclnn.ScatterAddParams{
		Self: sums, Index: s.Cast(s.Contiguous(experts).Reshape(-1), aclnn.Int64), Src: once, Out: counts,
	})
	return counts
}

func (a *LoadBalanceArgs) key() key.LoadBalance { return balanceKey(a.Probs, a.Experts) }

func (a *LoadBalanceGradArgs) key() key.LoadBalance { return balanceKey(a.DProbs, a.Experts) }

func balanceKey(probs, experts *aclnn.Tensor) key.LoadBalance {
	return key.LoadBalance{Experts: probs.Dim(1), K: experts.Dim(1), Tokens: key.ExtentOf(probs.Dim(0)), Contiguous: contiguous(probs, experts)}
}

func newLoadBalance(reg *Registry) *Op[LoadBalanceArgs, key.LoadBalance] {
	return op(reg, "load_balance", (*LoadBalanceArgs).validate, (*LoadBalanceArgs).key,
		Kernel[LoadBalanceArgs, key.LoadBalance]{
			Name: "composite",
			Run: func(_ context.Context, st *acl.Stream, a *LoadBalanceArgs) error {
				return compose(st, func(s *steps) {
					tokens, experts := a.Probs.Dim(0), a.Probs.Dim(1)
					product := s.mul(s.sum(a.Probs, 0).Reshape(-1), s.chosen(a.Experts, experts))
					total := s.sum(product, 0)
					s.scale(total, float64(experts)/(float64(tokens)*float64(tokens)))
					s.Copy(a.Loss.Reshape(1), total)
				})
			},
		})
}

// LoadBalanceGradArgs describes the gradient of LoadBalance times Scale, which is the DProbs of
// MoERoutingGrad. The choice of experts has no gradient.
type LoadBalanceGradArgs struct {
	Scale   float64       // weight of the loss in the total, such as router_aux_loss_coef
	Experts *aclnn.Tensor // [tokens, k], int32
	DProbs  *aclnn.Tensor // [tokens, experts], float32
}

func (a *LoadBalanceGradArgs) validate() error {
	var c args
	c.balance(a.DProbs, a.Experts)
	if c.OK() && (a.Scale == 0 || math.IsNaN(a.Scale) || math.IsInf(a.Scale, 0)) {
		c.Fail("Scale is %g; it must be the weight of the loss in the total, a number other than 0", a.Scale)
	}
	return c.Err
}

func newLoadBalanceGrad(reg *Registry) *Op[LoadBalanceGradArgs, key.LoadBalance] {
	return op(reg, "load_balance_grad", (*LoadBalanceGradArgs).validate, (*LoadBalanceGradArgs).key,
		Kernel[LoadBalanceGradArgs, key.LoadBalance]{
			Name: "composite",
			Run: func(_ context.Context, st *acl.Stream, a *LoadBalanceGradArgs) error {
				return compose(st, func(s *steps) {
					tokens, experts := a.DProbs.Dim(0), a.DProbs.Dim(1)
					row := s.chosen(a.Experts, experts)
					s.scale(row, a.Scale*float64(experts)/(float64(tokens)*float64(tokens)))
					s.Copy(a.DProbs, row.Unsqueeze(0))
				})
			},
		})
}
