package model

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/autograd"
)

// Ranks of tensor parallelism without sequence parallelism have the same rows. Each then computes those of its
// own experts, and the sum over the ranks has them all. The host need not know how many there are.

// shares reports whether the ranks that have the same rows divide the experts.
func (f experts) shares(p *pass) bool {
	return p.ep.Size() > 1 && p.tp.Size() > 1 && !p.tp.Sequence()
}

// ownFirst numbers the experts anew so that those of this rank come first.
func (f experts) ownFirst(s *aclnn.Scope, chosen *aclnn.Tensor) *aclnn.Tensor {
	first := f.gateUp.spread.part * f.gateUp.local()[0]
	if first == 0 {
		return chosen
	}
	shifted, wrapped := s.Like(chosen), s.Like(chosen)
	aclnn.Launch(s, aclnn.Adds, aclnn.AddsParams{Self: chosen, Other: aclnn.Int(f.count - first), Alpha: aclnn.Int(1), Out: shifted})
	aclnn.Launch(s, aclnn.FmodScalar, aclnn.FmodScalarParams{Self: shifted, Other: aclnn.Int(f.count), Out: wrapped})
	return wrapped
}

// share runs this rank's experts and adds up the results of all ranks. It has no gradient: the ranks would count each token
// several times (errCounted).
func (f experts) share(p *pass, x, shared *autograd.Var, routing autograd.Routing) *autograd.Var {
	y := p.Record("experts of this rank", []*autograd.Var{x, routing.Weights}, func(c *autograd.Call) {
		out := c.Output(p.dt, x.Shape()...)
		c.Do(func() error {
			return aclnn.Compose(p.Stream(), func(s *aclnn.Scope) { f.shareOf(p, s, x.Value, routing, out) })
		})
	})[0]
	y = p.leave(y)
	if shared != nil {
		y = p.Add(y, shared)
	}
	return y
}

func (f experts) shareOf(p *pass, s *aclnn.Scope, x *aclnn.Tensor, routing autograd.Routing, out *aclnn.Tensor) {
	rows, h, own := x.Dim(0)*f.perToken, x.Dim(1), f.gateUp.local()[0]
	sums, places, permuted, results := s.Tensor(aclnn.Int32, f.count), s.Tensor(aclnn.Int32, rows), s.Tensor(p.dt, rows, h), s.Tensor(p.dt, rows, h)
	ops.Queue(p.ctx, s, p.reg.MoEPermute(), &ops.MoEPermuteArgs{X: x, Experts: f.ownFirst(s, routing.Experts), Rows: permuted, Places: places, Sums: sums})
	groups := ops.Groups{Device: sums.Narrow(0, 0, own), Cumulative: true}
	if f.clipped != nil {
		s.Zero(results)
		f.clipped.compute(p, s, permuted, groups, f.read(p, s, f.gateUp.Value), f.read(p, s, f.down.Value), results)
		ops.Queue(p.ctx, s, p.reg.MoEUnpermute(), &ops.MoEUnpermuteArgs{Rows: results, Places: places, Weights: routing.Weights.Value, Out: out})
		return
	}
	unit := ops.MoEExpertsArgs{Rows: permuted, GateUp: f.read(p, s, f.gateUp.Value), Down: f.read(p, s, f.down.Value), Out: results}
	inner := f.down.Value.Dim(2)
	unit.Groups = groups
	unit.Hidden, unit.Active = s.Tensor(p.dt, rows, 2*inner), s.Tensor(p.dt, rows, inner)
	s.Zero(unit.Hidden) // the products write no rows of other ranks
	s.Zero(results)
	ops.Queue(p.ctx, s, p.reg.MoEExperts(), &unit)
	ops.Queue(p.ctx, s, p.reg.MoEUnpermute(), &ops.MoEUnpermuteArgs{Rows: results, Places: places, Weights: routing.Weights.Value, Out: out})
}
