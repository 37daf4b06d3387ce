package qwen

import "github.com/goascend/cann/aclnn"

// projected is what a delta net reads of its input, each [tokens, ·]: queries, keys and
// values side by side, what gates the norm, what becomes the strength of a write, and what
// becomes the decay.
type projected struct{ qkv, z, b, a *aclnn.Tensor }

// projections make them. The model types differ in how the weights are laid out.
type projections interface {
	forward(p *pass, x *aclnn.Tensor) projected
	// backward returns dx and writes the gradients of the weights.
	backward(p *pass, x *aclnn.Tensor, d projected) *aclnn.Tensor
}

// separateProjections are Qwen3.5's: one after another; q, k and v are neighbours.
type separateProjections struct{ qkv, z, b, a linear }

func (f separateProjections) forward(p *pass, x *aclnn.Tensor) projected {
	return projected{qkv: f.qkv.forward(p, x), z: f.z.forward(p, x), b: f.b.forward(p, x), a: f.a.forward(p, x)}
}

func (f separateProjections) backward(p *pass, x *aclnn.Tensor, d projected) *aclnn.Tensor {
	dx := f.qkv.backward(p, x, d.qkv)
	p.add(dx, f.z.backward(p, x, d.z))
	p.add(dx, f.b.backward(p, x, d.b))
	p.add(dx, f.a.backward(p, x, d.a))
	return dx
}

// groupedProjections are Qwen3-Next's: the rows of two weights follow the key heads, each
// with all that goes with it. Of qkvz a key head has its query, its key, and the values and
// gates of the value heads that read it; of ba, what makes these heads' strength and decay.
type groupedProjections struct {
	qkvz, ba            linear
	keyHeads, heads     int64
	keyDim, dim         int64
	channels, gateWidth int64 // of qkv and z
}

func newGroupedProjections(d deltaNet, qkvz, ba linear) groupedProjections {
	return groupedProjections{
		qkvz: qkvz, ba: ba, keyHeads: d.keyHeads, heads: d.heads, keyDim: d.keyDim, dim: d.dim,
		channels: 2*d.keyHeads*d.keyDim + d.heads*d.dim, gateWidth: d.heads * d.dim,
	}
}

// piece is a block of features: where it lies by key head, and where by kind.
type piece struct{ grouped, plain *aclnn.Tensor }

// pieces pairs the features of qkvz and ba with those of the parts, all [tokens, heads, ·].
func (f groupedProjections) pieces(qkvz, ba *aclnn.Tensor, parts projected) []piece {
	var out []piece
	byHead := func(t *aclnn.Tensor) *aclnn.Tensor { return t.Unflatten(-1, f.keyHeads, t.Dim(-1)/f.keyHeads) }
	split := func(grouped *aclnn.Tensor, parts ...*aclnn.Tensor) {
		grouped = byHead(grouped)
		at := int64(0)
		for _, plain := range parts {
			plain = byHead(plain)
			width := plain.Dim(-1)
			out = append(out, piece{grouped.Narrow(-1, at, width), plain})
			at += width
		}
	}
	keys := f.keyHeads * f.keyDim
	q, k, v := parts.qkv.Narrow(-1, 0, keys), parts.qkv.Narrow(-1, keys, keys), parts.qkv.Narrow(-1, 2*keys, f.heads*f.dim)
	split(qkvz, q, k, v, parts.z)
	split(ba, parts.b, parts.a)
	return out
}

func (f groupedProjections) forward(p *pass, x *aclnn.Tensor) projected {
	qkvz, ba, tokens := f.qkvz.forward(p, x), f.ba.forward(p, x), x.Dim(0)
	parts := projected{
		qkv: p.tensor(p.dt, tokens, f.channels), z: p.tensor(p.dt, tokens, f.gateWidth),
		b: p.tensor(p.dt, tokens, f.heads), a: p.tensor(p.dt, tokens, f.heads),
	}
	if p.err != nil {
		return parts
	}
	for _, piece := range f.pieces(qkvz, ba, parts) {
		p.copy(piece.plain, piece.grouped)
	}
	return parts
}

func (f groupedProjections) backward(p *pass, x *aclnn.Tensor, d projected) *aclnn.Tensor {
	tokens := x.Dim(0)
	qkvz, ba := p.tensor(p.dt, tokens, f.channels+f.gateWidth), p.tensor(p.dt, tokens, 2*f.heads)
	if p.err != nil {
		return nothing
	}
	for _, piece := range f.pieces(qkvz, ba, d) {
		p.copy(piece.grouped, piece.plain)
	}
	dx := f.qkvz.backward(p, x, qkvz)
	p.add(dx, f.ba.backward(p, x, ba))
	return dx
}
