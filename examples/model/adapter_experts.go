package model

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/autograd"
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
		p.b.spread.Blocks = append(p.b.spread.Blocks, n)
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

// forwardRows returns y, the product of rows x of experts and their weight w, plus the adapter's products.
func (a *Adapter) forwardRows(p *pass, w *Parameter, x, y *autograd.Var, groups autograd.Groups) *autograd.Var {
	if !a.adaptsExperts(w) {
		return y
	}
	l := a.pairs[w][0]
	inner := p.scaled(p.GroupedMatmul(x, p.viewOf(l.a, l.inward), nil, groups), l.scale)
	more := p.GroupedMatmul(inner, p.Contiguous(p.viewOf(l.b, l.outward)), nil, groups)
	return p.AddTo(y, more, func(t *aclnn.Tensor) *aclnn.Tensor { return t })
}
