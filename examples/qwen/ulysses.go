package qwen

import "github.com/goascend/cann/aclnn"

// toHeads turns this rank's positions of all heads, [batch, length, heads, ·], into all
// positions of its share of the heads. Heads that are fewer than the ranks go to several.
func (p *pass) toHeads(t *aclnn.Tensor) *aclnn.Tensor {
	if p.err != nil || p.ulysses.Size() == 1 {
		return t
	}
	out := p.tensor(t.DType(), t.Dim(0), t.Dim(1)*p.ulysses.Size(), p.share(t.Dim(2)), t.Dim(3))
	p.intoHeads(t, out)
	return out
}

// intoHeads is toHeads with a place for the result.
func (p *pass) intoHeads(t, out *aclnn.Tensor) {
	if p.err != nil {
		return
	}
	if copies := p.copies(t.Dim(2)); copies > 1 {
		repeated := p.tensor(t.DType(), t.Dim(0), t.Dim(1), t.Dim(2), copies, t.Dim(3))
		if p.err != nil {
			return
		}
		p.copy(repeated, t.Unsqueeze(3))
		t = repeated.Reshape(t.Dim(0), t.Dim(1), -1, t.Dim(3))
	}
	if p.err == nil {
		p.err = p.ulysses.ToHeads(p.st, t, out)
	}
}

// toSequence undoes toHeads, of so many heads over all ranks; as the gradient of toHeads it
// sums over the ranks that had the same head.
func (p *pass) toSequence(t *aclnn.Tensor, heads int64) *aclnn.Tensor {
	if p.err != nil || p.ulysses.Size() == 1 {
		return t
	}
	out := p.tensor(t.DType(), t.Dim(0), t.Dim(1)/p.ulysses.Size(), heads, t.Dim(3))
	p.intoSequence(t, out)
	return out
}

// intoSequence is toSequence with a place for the result.
func (p *pass) intoSequence(t, out *aclnn.Tensor) {
	if p.err != nil {
		return
	}
	copies := p.copies(out.Dim(2))
	if copies == 1 {
		p.err = p.ulysses.ToSequence(p.st, t, out)
		return
	}
	all := p.tensor(t.DType(), out.Dim(0), out.Dim(1), out.Dim(2)*copies, out.Dim(3))
	if p.err == nil {
		p.err = p.ulysses.ToSequence(p.st, t, all)
	}
	if p.err != nil {
		return
	}
	sum := p.tensor(t.DType(), out.Shape()...)
	launch(p, aclnn.ReduceSum, aclnn.ReduceSumParams{Self: all.Unflatten(2, out.Dim(2), copies), Dims: []int64{3}, Dtype: t.DType(), Out: sum})
	p.copy(out, sum)
}

// share is how many of so many heads a rank has, copies to how many ranks each goes.
func (p *pass) share(heads int64) int64  { return max(heads/p.ulysses.Size(), 1) }
func (p *pass) copies(heads int64) int64 { return max(p.ulysses.Size()/heads, 1) }

// first is the first of this rank's heads.
func (p *pass) first(heads int64) int64 { return p.ulysses.Rank() * heads / p.ulysses.Size() }

// own is this rank's share of a vector with an element for each head.
func (p *pass) own(t *aclnn.Tensor) *aclnn.Tensor {
	if p.ulysses.Size() == 1 {
		return t
	}
	return t.Narrow(0, p.first(t.Dim(0)), p.share(t.Dim(0)))
}
