package model

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// Ranks of tensor parallelism without sequence parallelism have the same rows. Each then computes those of its
// own experts, and the sum over the ranks has them all. The host need not know how many there are.

// shares reports whether the ranks that have the same rows divide the experts.
func (f experts) shares(p *pass) bool {
	return p.ep.Size() > 1 && p.tp.Size() > 1 && !p.tp.Sequence()
}

// ownFirst numbers the experts anew, if the ranks share the rows, so that those of this rank come first.
func (f experts) ownFirst(p *pass, chosen *aclnn.Tensor) *aclnn.Tensor {
	first := f.gateUp.spread.part * f.gateUp.local()[0]
	if !f.shares(p) || first == 0 {
		return chosen
	}
	shifted, wrapped := p.Like(chosen), p.Like(chosen)
	aclnn.Launch(&p.Scope, aclnn.Adds, aclnn.AddsParams{Self: chosen, Other: aclnn.Int(f.count - first), Alpha: aclnn.Int(1), Out: shifted})
	aclnn.Launch(&p.Scope, aclnn.FmodScalar, aclnn.FmodScalarParams{Self: shifted, Other: aclnn.Int(f.count), Out: wrapped})
	return wrapped
}

// share runs this rank's experts, whose rows come first, and adds up the results of all ranks.
func (s *expertsState) share(p *pass, sums, shared *aclnn.Tensor) *aclnn.Tensor {
	rows, own := s.unit.Rows.Dim(0), s.gateUp.local()[0]
	s.unit.Groups.Device, s.unit.Out = sums.Narrow(0, 0, own), s.results
	s.readWeights(p)
	inner := s.down.Value.Dim(2)
	s.unit.Hidden, s.unit.Active = p.Tensor(p.dt, rows, 2*inner), p.Tensor(p.dt, rows, inner)
	p.Zero(s.unit.Hidden) // the products write no rows of other ranks
	p.Zero(s.results)
	ops.Queue(p.ctx, &p.Scope, p.reg.MoEExperts(), &s.unit)
	y := p.Like(s.x)
	ops.Queue(p.ctx, &p.Scope, p.reg.MoEUnpermute(), &ops.MoEUnpermuteArgs{Rows: s.results, Places: s.places, Weights: s.weights, Out: y})
	y = p.leave(y)
	if shared != nil {
		p.add(y, shared)
	}
	return y
}
