package model

import "github.com/goascend/cann/aclnn"

// projected holds the projections of a delta net's input, each [tokens, ·]: queries, keys and
// values side by side (qkv), the gate of the norm (z), and the inputs of beta (b) and of the decay
// (a).
type projected struct{ qkv, z, b, a *aclnn.Tensor }

// projections computes them. The model types differ in the layout of the weights.
type projections interface {
	forward(p *pass, x *aclnn.Tensor) projected
	// backward returns dx and writes the gradients of the weights.
	backward(p *pass, x *aclnn.Tensor, d projected) *aclnn.Tensor
}

// separateProjections is the layout of Qwen3.5: one weight per projection; q, k and v share one.
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

// groupedProjections is the layout of Qwen3-Next: the rows of two weights are grouped by key head.
// In qkvz a key head has its query, its key, and the values and gates of its value heads; in ba it
// has the inputs of beta and of the decay for these heads.
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

// piece is a block of features: its view in the layout by key head, and in that by kind.
type piece struct{ grouped, plain *aclnn.Tensor }

// pieces pairs the features of qkvz and ba with those of parts, all [tokens, heads, ·].
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
		qkv: p.Tensor(p.dt, tokens, f.channels), z: p.Tensor(p.dt, tokens, f.gateWidth),
		b: p.Tensor(p.dt, tokens, f.heads), a: p.Tensor(p.dt, tokens, f.heads),
	}
	for _, piece := range f.pieces(qkvz, ba, parts) {
		p.Copy(piece.plain, piece.grouped)
	}
	return parts
}

func (f groupedProjections) backward(p *pass, x *aclnn.Tensor, d projected) *aclnn.Tensor {
	tokens := x.Dim(0)
	qkvz, ba := p.Tensor(p.dt, tokens, f.channels+f.gateWidth), p.Tensor(p.dt, tokens, 2*f.heads)
	for _, piece := range f.pieces(qkvz, ba, d) {
		p.Copy(piece.grouped, piece.plain)
	}
	dx := f.qkvz.backward(p, x, qkvz)
	p.add(dx, f.ba.backward(p, x, ba))
	return dx
}
