package model

import (
	"fmt"
	"math"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/autograd"
)

// BalanceExperts lets each update of an Optimizer of the model's weights balance the load of the experts by the bias of their choice, as DeepSeek V3 was trained
// (arXiv:2412.19437, section 2.1.2): an expert that more tokens than the mean chose in the step, over all ranks and micro-batches, loses rate, one that fewer chose gains
// it, and no gradient comes from it. 0 leaves the biases as they are, which is how a model starts. It is refused for models without such a bias
// (gate.e_score_correction_bias), and for frozen ones. A checkpoint has the biases and not the rate.
func (m *Model) BalanceExperts(rate float64) error {
	switch {
	case rate == 0:
	case !(rate > 0) || math.IsInf(rate, 1):
		return fmt.Errorf("model: the rate of experts' biases is %g; it must be positive, such as 0.001: %w", rate, acl.ErrInvalidArgument)
	case !m.Config.family().sigmoid:
		return fmt.Errorf("model: %s has no bias of the choice of experts (e_score_correction_bias), by which their load could be balanced: %w", m.Config.ModelType, acl.ErrInvalidArgument)
	case m.Config.Frozen:
		return errFrozen
	}
	m.biasRate = rate
	return nil
}

// imbalance returns the weights of a routing. In the backward pass it makes the gradient of the bias what the tokens lack for balance: how many of them chose each expert,
// less the mean. As a gradient it is added up over micro-batches and ranks, and kept by their storage, like any other.
func (f experts) imbalance(p *pass, r autograd.Routing) *autograd.Var {
	if !p.balances || f.bias == nil || p.Err() != nil {
		return r.Weights
	}
	chosen := r.Vars()[1]
	return p.Record("load of experts", []*autograd.Var{r.Weights, f.bias.Var, chosen}, func(c *autograd.Call) {
		c.View(r.Weights, r.Weights.Value)
		c.Keep(chosen)
		c.Backward(func(g *autograd.Gradients) {
			load, add := g.Weight(1)
			g.Do(func() error { return surplus(p.Stream(), r.Experts, load, add) })
			g.Pass(0, 0, nil)
		})
	})[0]
}

// surplus writes how many more of the choices [tokens, k] than the mean each expert has, or adds it.
func surplus(st *acl.Stream, chosen, load *aclnn.Tensor, add bool) error {
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		n, experts := chosen.Len(), load.Len()
		once, start, counts := s.Tensor(aclnn.Float32, n), s.Tensor(aclnn.Float32, experts), s.Tensor(aclnn.Float32, experts)
		s.Fill(once, aclnn.Float(1))
		s.Fill(start, aclnn.Float(-float64(n)/float64(experts)))
		aclnn.Launch(s, aclnn.ScatterAdd, aclnn.ScatterAddParams{Self: start, Index: s.Cast(chosen.Reshape(-1), aclnn.Int64), Src: once, Out: counts})
		if add {
			aclnn.Launch(s, aclnn.InplaceAdd, aclnn.InplaceAddParams{Self: load, Other: counts, Alpha: aclnn.Float(1)})
		} else {
			s.Copy(load, counts)
		}
	})
}

// balance moves the biases of experts: gradients of theirs are loads.
func (o *Optimizer) balance(s *aclnn.Scope, w slot) {
	sign := s.Like(w.grad)
	aclnn.Launch(s, aclnn.Sign, aclnn.SignParams{Self: w.grad, Result: sign})
	aclnn.Launch(s, aclnn.InplaceAdd, aclnn.InplaceAddParams{Self: w.master, Other: sign, Alpha: aclnn.Float(-o.m.biasRate)})
	if w.copy != nil {
		s.Copy(w.copy, w.master)
	}
}

// overflow says how often experts had no room for their rows, so that the step was computed once more.
type overflow struct{ steps, most int }

// Overflows returns how many steps were computed twice because the experts of a rank got more rows than Parallel.ExpertCapacity has room for, and the most rows that
// ranks of one step lacked together.
func (m *Model) Overflows() (steps, rows int) { return m.overflow.steps, m.overflow.most }
