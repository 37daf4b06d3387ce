package model

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// Between the projections and the norm a delta net needs whole sequences but treats each head
// independently. With several ranks, each computes its share of the heads there, with the matching
// channels of the convolution.

// ours returns the delta net restricted to this rank's heads.
func (d deltaNet) ours(p *pass) deltaNet {
	d.keyHeads, d.heads = p.share(d.keyHeads), p.share(d.heads)
	return d
}

// channels returns the number of channels of the convolution.
func (d deltaNet) channels() int64 { return 2*d.keyHeads*d.keyDim + d.heads*d.dim }

// channelsToHeads exchanges the channels of the convolution, [batch, length, channels].
func (d deltaNet) channelsToHeads(p *pass, t *aclnn.Tensor) *aclnn.Tensor {
	if p.ulysses.Size() == 1 {
		return t
	}
	ours := d.ours(p)
	out := p.Tensor(t.DType(), t.Dim(0), t.Dim(1)*p.ulysses.Size(), ours.channels())
	q, k, v := d.parts(t)
	oq, ok, ov := ours.parts(out)
	p.intoHeads(q, oq)
	p.intoHeads(k, ok)
	p.intoHeads(v, ov)
	return out
}

// channelsToSequence computes the gradient of channelsToHeads.
func (d deltaNet) channelsToSequence(p *pass, t *aclnn.Tensor) *aclnn.Tensor {
	if p.ulysses.Size() == 1 {
		return t
	}
	out := p.Tensor(t.DType(), t.Dim(0), t.Dim(1)/p.ulysses.Size(), d.channels())
	q, k, v := d.ours(p).parts(t)
	oq, ok, ov := d.parts(out)
	p.intoSequence(q, oq)
	p.intoSequence(k, ok)
	p.intoSequence(v, ov)
	return out
}

// scalarsToHeads exchanges tensors with one number per head, [batch, length, heads].
func (p *pass) scalarsToHeads(t *aclnn.Tensor) *aclnn.Tensor {
	if p.ulysses.Size() == 1 {
		return t
	}
	return p.toHeads(t.Unsqueeze(-1)).Squeeze(-1)
}

// scalarsToSequence computes the gradient of scalarsToHeads.
func (p *pass) scalarsToSequence(t *aclnn.Tensor, heads int64) *aclnn.Tensor {
	if p.ulysses.Size() == 1 {
		return t
	}
	return p.toSequence(t.Unsqueeze(-1), heads).Squeeze(-1)
}

// eachTaps calls f with views of the rows of the convolution's weight [channels, taps] that this
// rank needs, in the whole weight and in this rank's part.
func (d deltaNet) eachTaps(p *pass, all, own *aclnn.Tensor, f func(all, own *aclnn.Tensor)) {
	from, to := int64(0), int64(0)
	for _, part := range []struct{ heads, dim int64 }{{d.keyHeads, d.keyDim}, {d.keyHeads, d.keyDim}, {d.heads, d.dim}} {
		n := p.share(part.heads) * part.dim
		f(all.Narrow(0, from+p.first(part.heads)*part.dim, n), own.Narrow(0, to, n))
		from, to = from+part.heads*part.dim, to+n
	}
}

// ownTaps returns the convolution's weight for this rank's channels.
func (d deltaNet) ownTaps(p *pass) *aclnn.Tensor {
	all := d.taps(d.conv.Value)
	if p.ulysses.Size() == 1 {
		return all
	}
	own := p.Tensor(all.DType(), d.ours(p).channels(), all.Dim(1))
	d.eachTaps(p, all, own, func(all, own *aclnn.Tensor) { p.Copy(own, all) })
	return own
}

// convGrad computes the gradient of the convolution. The weight's gradient covers this rank's
// channels; the exchange of gradients over data adds those of other ranks.
func (d deltaNet) convGrad(p *pass, a ops.CausalConvGradArgs) {
	all := d.taps(p.gradient(d.conv))
	if p.ulysses.Size() == 1 {
		a.DWeight, a.Accumulate = all, p.adding()
		ops.Queue(p.ctx, &p.Scope, p.reg.CausalConvGrad(), &a)
		return
	}
	a.DWeight = p.Tensor(aclnn.Float32, d.ours(p).channels(), all.Dim(1))
	ops.Queue(p.ctx, &p.Scope, p.reg.CausalConvGrad(), &a)
	p.clear(all)
	d.eachTaps(p, all, a.DWeight, func(all, own *aclnn.Tensor) { p.add(all, own) })
}

// clear zeroes a gradient that this step has not written yet.
func (p *pass) clear(t *aclnn.Tensor) {
	if !p.adding() {
		p.Zero(t)
	}
}
