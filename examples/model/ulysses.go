package model

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/autograd"
)

// toHeads exchanges this rank's positions of all heads, [batch, length, heads, ·], for all
// positions of its share of the heads. If there are fewer heads than ranks, several ranks get the
// same head.
func (p *pass) toHeads(x *autograd.Var) *autograd.Var {
	if p.ulysses.Size() == 1 {
		return x
	}
	return p.ToHeads(p.ulysses, p.Repeat(x, 2, max(p.ulysses.Size()/max(x.Dim(2), 1), 1)))
}

// toSequence is the inverse of toHeads for heads of which each rank has its own.
func (p *pass) toSequence(x *autograd.Var) *autograd.Var {
	if p.ulysses.Size() == 1 {
		return x
	}
	return p.ToSequence(p.ulysses, x)
}

// share returns how many of the heads a rank has.
func (p *pass) share(heads int64) int64 { return max(heads/p.ulysses.Size(), 1) }

// first returns the first of this rank's heads.
func (p *pass) first(heads int64) int64 { return p.ulysses.Rank() * heads / p.ulysses.Size() }

// own returns this rank's share of a vector with one element per head.
func (p *pass) own(w *Parameter) *autograd.Var {
	if p.ulysses.Size() == 1 {
		return w.Var
	}
	return p.viewOf(w, func(t *aclnn.Tensor) *aclnn.Tensor { return t.Narrow(0, p.first(t.Dim(0)), p.share(t.Dim(0))) })
}
