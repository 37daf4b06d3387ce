package model

import "github.com/goascend/cann/aclnn"

// toHeads exchanges this rank's positions of all heads, [batch, length, heads, ·], for all
// positions of its share of the heads. If there are fewer heads than ranks, several ranks get the
// same head.
func (p *pass) toHeads(t *aclnn.Tensor) *aclnn.Tensor {
	if p.ulysses.Size() == 1 {
		return t
	}
	out := p.Tensor(t.DType(), t.Dim(0), t.Dim(1)*p.ulysses.Size(), p.share(t.Dim(2)), t.Dim(3))
	p.intoHeads(t, out)
	return out
}

// intoHeads is toHeads with a given output tensor.
func (p *pass) intoHeads(t, out *aclnn.Tensor) {
	if copies := p.copies(t.Dim(2)); copies > 1 {
		repeated := p.Tensor(t.DType(), t.Dim(0), t.Dim(1), t.Dim(2), copies, t.Dim(3))
		p.Copy(repeated, t.Unsqueeze(3))
		t = repeated.Reshape(t.Dim(0), t.Dim(1), -1, t.Dim(3))
	}
	p.Do(func() error { return p.ulysses.ToHeads(p.Stream, t, out) })
}

// toSequence is the inverse of toHeads; heads is their number over all ranks. As the gradient of
// toHeads it sums over the ranks that had the same head.
func (p *pass) toSequence(t *aclnn.Tensor, heads int64) *aclnn.Tensor {
	if p.ulysses.Size() == 1 {
		return t
	}
	out := p.Tensor(t.DType(), t.Dim(0), t.Dim(1)/p.ulysses.Size(), heads, t.Dim(3))
	p.intoSequence(t, out)
	return out
}

// intoSequence is toSequence with a given output tensor.
func (p *pass) intoSequence(t, out *aclnn.Tensor) {
	copies := p.copies(out.Dim(2))
	if copies == 1 {
		p.Do(func() error { return p.ulysses.ToSequence(p.Stream, t, out) })
		return
	}
	all := p.Tensor(t.DType(), out.Dim(0), out.Dim(1), out.Dim(2)*copies, out.Dim(3))
	p.Do(func() error { return p.ulysses.ToSequence(p.Stream, t, all) })
	sum := p.Like(out)
	aclnn.Launch(&p.Scope, aclnn.ReduceSum, aclnn.ReduceSumParams{Self: all.Unflatten(2, out.Dim(2), copies), Dims: []int64{3}, Dtype: t.DType(), Out: sum})
	p.Copy(out, sum)
}

// share returns how many of the heads a rank has, copies how many ranks have each head.
func (p *pass) share(heads int64) int64  { return max(heads/p.ulysses.Size(), 1) }
func (p *pass) copies(heads int64) int64 { return max(p.ulysses.Size()/max(heads, 1), 1) }

// first returns the first of this rank's heads.
func (p *pass) first(heads int64) int64 { return p.ulysses.Rank() * heads / p.ulysses.Size() }

// own returns this rank's share of a vector with one element per head.
func (p *pass) own(t *aclnn.Tensor) *aclnn.Tensor {
	if p.ulysses.Size() == 1 {
		return t
	}
	return t.Narrow(0, p.first(t.Dim(0)), p.share(t.Dim(0)))
}
