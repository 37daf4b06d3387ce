package model

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// The adapter of a weight of experts has a product for each expert. A and B are stored as PEFT's
// target_parameters have them: A [experts·rank, in], with the rows of an expert together, and B [out,
// rank·experts], with the columns of all experts for the first of the rank together.

// expertPair describes the weights that an adapter adds to a weight [experts, out, in]. Ranks that divide the
// experts divide A by rows, and of B the columns for each of the rank.
func (a *Adapter) expertPair(q *Parameter, t target, module string) pair {
	n, out, in := q.shape[0], q.shape[1], q.shape[2]
	rank := int64(t.rank)
	p := pair{module: module, on: q, scale: t.scale, experts: q.local()[0]}
	p.a = a.weight(module+".lora_A.weight", kaiming(in), n*rank, in)
	p.b = a.weight(module+".lora_B.weight", zero, out, rank*n)
	p.a.spread, p.b.spread = q.spread, q.spread.along(1)
	for range rank {
		p.b.spread.blocks = append(p.b.spread.blocks, n)
	}
	return p
}

// inward views A, or its gradient, as [experts, in, rank].
func (l pair) inward(t *aclnn.Tensor) *aclnn.Tensor {
	return t.Unflatten(0, l.experts, t.Dim(0)/l.experts).Transpose(1, 2)
}

// outward views B, or its gradient, as [experts, rank, out].
func (l pair) outward(t *aclnn.Tensor) *aclnn.Tensor {
	return t.Unflatten(1, t.Dim(1)/l.experts, l.experts).Permute(2, 1, 0)
}

// adaptsExperts reports whether the adapter adds to a weight of experts.
func (a *Adapter) adaptsExperts(w *Parameter) bool { return a != nil && len(a.pairs[w]) > 0 }

// forwardRows adds the adapter's products to y, the product of rows x of experts and their weight w.
func (a *Adapter) forwardRows(p *pass, w *Parameter, x, y *aclnn.Tensor, groups ops.Groups) {
	if !a.adaptsExperts(w) || p.Err() != nil {
		return
	}
	l := a.pairs[w][0]
	wide := l.inward(l.a.Value)
	inner, more := p.Tensor(p.dt, x.Dim(0), wide.Dim(2)), p.Like(y)
	ops.Queue(p.ctx, &p.Scope, p.reg.GroupedMatmul(), &ops.GroupedMatmulArgs{X: x, Weight: wide, Groups: groups, Out: inner})
	inner = p.scaled(inner, l.scale)
	ops.Queue(p.ctx, &p.Scope, p.reg.GroupedMatmul(), &ops.GroupedMatmulArgs{X: inner, Weight: p.Contiguous(l.outward(l.b.Value)), Groups: groups, Out: more})
	if p.low == nil {
		p.low = map[*Parameter]lowRank{}
	}
	p.low[l.a] = lowRank{x: x, inner: inner}
	p.add(y, more)
}

// backwardRows computes the gradients of these products' weights, and adds that of x to dx.
func (a *Adapter) backwardRows(p *pass, w *Parameter, dy, dx *aclnn.Tensor, groups ops.Groups) {
	if !a.adaptsExperts(w) || p.Err() != nil {
		return
	}
	l := a.pairs[w][0]
	s := p.low[l.a]
	delete(p.low, l.a)
	narrow := p.Contiguous(l.outward(l.b.Value))
	dInner, dNarrow := p.Like(s.inner), p.Tensor(aclnn.Float32, narrow.Shape()...)
	ops.Queue(p.ctx, &p.Scope, p.reg.GroupedMatmulGrad(), &ops.GroupedMatmulGradArgs{DOut: p.Contiguous(dy), X: s.inner, Weight: narrow, Groups: groups, DX: dInner, DWeight: dNarrow})
	own := p.Like(dx)
	ops.Queue(p.ctx, &p.Scope, p.reg.GroupedMatmulGrad(), &ops.GroupedMatmulGradArgs{
		DOut: p.scaled(dInner, l.scale), X: s.x, Weight: l.inward(l.a.Value), Groups: groups, DX: own, DWeight: l.inward(l.a.Grad), Accumulate: p.accumulate,
	})
	if p.Err() != nil {
		return
	}
	if to := l.outward(l.b.Grad); p.accumulate {
		p.add(to, dNarrow)
	} else {
		p.Copy(to, dNarrow)
	}
	p.add(dx, own)
}

// forwardAdapted is the unit of experts in single products, with those of the adapter.
func (s *expertsState) forwardAdapted(p *pass) {
	u := s.unit
	ops.Queue(p.ctx, &p.Scope, p.reg.GroupedMatmul(), &ops.GroupedMatmulArgs{X: u.Rows, Weight: u.GateUp, Groups: u.Groups, Out: u.Hidden})
	p.adapter.forwardRows(p, s.gateUp, u.Rows, u.Hidden, u.Groups)
	ops.Queue(p.ctx, &p.Scope, p.reg.SwiGLU(), &ops.SwiGLUArgs{X: u.Hidden, Out: u.Active})
	ops.Queue(p.ctx, &p.Scope, p.reg.GroupedMatmul(), &ops.GroupedMatmulArgs{X: u.Active, Weight: u.Down, Groups: u.Groups, Out: u.Out})
	p.adapter.forwardRows(p, s.down, u.Active, u.Out, u.Groups)
}

// backwardAdapted computes the gradient of the rows from that of the results; the experts' own weights are
// frozen.
func (s *expertsState) backwardAdapted(p *pass, dOut, dRows *aclnn.Tensor) {
	u := s.unit
	dActive, dHidden := p.Like(u.Active), p.Like(u.Hidden)
	ops.Queue(p.ctx, &p.Scope, p.reg.GroupedMatmulGrad(), &ops.GroupedMatmulGradArgs{DOut: dOut, X: u.Active, Weight: u.Down, Groups: u.Groups, DX: dActive})
	p.adapter.backwardRows(p, s.down, dOut, dActive, u.Groups)
	ops.Queue(p.ctx, &p.Scope, p.reg.SwiGLUGrad(), &ops.SwiGLUGradArgs{DOut: dActive, X: u.Hidden, DX: dHidden})
	ops.Queue(p.ctx, &p.Scope, p.reg.GroupedMatmulGrad(), &ops.GroupedMatmulGradArgs{DOut: dHidden, X: u.Rows, Weight: u.GateUp, Groups: u.Groups, DX: dRows})
	p.adapter.backwardRows(p, s.gateUp, dHidden, dRows, u.Groups)
}
