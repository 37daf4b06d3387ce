package model

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/autograd"
)

// Between the projections and the norm a delta net needs whole sequences but treats each head
// independently. With several ranks, each computes its share of the heads there, with the matching
// channels of the convolution.

// ours returns the delta net restricted to this rank's heads.
func (d deltaNet) ours(p *pass) deltaNet {
	d.keyHeads, d.heads = p.share(d.keyHeads), p.share(d.heads)
	return d
}

// channelsToHeads exchanges the channels of the convolution, [batch, length, channels].
func (d deltaNet) channelsToHeads(p *pass, x *autograd.Var) *autograd.Var {
	if p.ulysses.Size() == 1 {
		return x
	}
	q, k, v := d.parts(p, x)
	return p.Join(2, p.toHeads(q), p.toHeads(k), p.toHeads(v))
}

// scalarsToHeads exchanges tensors with one number per head, [batch, length, heads].
func (p *pass) scalarsToHeads(x *autograd.Var) *autograd.Var {
	if p.ulysses.Size() == 1 {
		return x
	}
	x = p.toHeads(p.Reshape(x, x.Dim(0), x.Dim(1), x.Dim(2), 1))
	return p.Reshape(x, x.Dim(0), x.Dim(1), x.Dim(2))
}

// ownTaps returns the convolution's weight [channels, taps] for this rank's channels. The gradients of the others come from the
// ranks that have them, in the exchange of gradients over data.
func (d deltaNet) ownTaps(p *pass) *autograd.Var {
	if p.ulysses.Size() == 1 {
		return p.viewOf(d.conv, d.taps)
	}
	var parts []*autograd.Var
	from := int64(0)
	for _, part := range []struct{ heads, dim int64 }{{d.keyHeads, d.keyDim}, {d.keyHeads, d.keyDim}, {d.heads, d.dim}} {
		first, rows := from+p.first(part.heads)*part.dim, p.share(part.heads)*part.dim
		parts = append(parts, p.viewOf(d.conv, func(t *aclnn.Tensor) *aclnn.Tensor { return d.taps(t).Narrow(0, first, rows) }))
		from += part.heads * part.dim
	}
	return p.Reshape(p.Join(0, parts...), -1, d.conv.shape[2])
}
