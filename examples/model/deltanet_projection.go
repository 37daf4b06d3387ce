package model

import "github.com/goascend/cann/ops/autograd"

// projected holds the projections of a delta net's input, each [tokens, ·]: queries, keys and
// values side by side (qkv), the gate of the norm (z), and the inputs of beta (b) and of the decay
// (a).
type projected struct{ qkv, z, b, a *autograd.Var }

// projections computes them. The model types differ in the layout of the weights.
type projections interface {
	forward(p *pass, x *autograd.Var) projected
}

// separateProjections is the layout of Qwen3.5: one weight per projection; q, k and v share one.
type separateProjections struct{ qkv, z, b, a linear }

func (f separateProjections) forward(p *pass, x *autograd.Var) projected {
	return projected{qkv: f.qkv.forward(p, x), z: f.z.forward(p, x), b: f.b.forward(p, x), a: f.a.forward(p, x)}
}

// groupedProjections is the layout of Qwen3-Next: the rows of two weights are grouped by key head.
// In qkvz a key head has its query, its key, and the values and gates of its value heads; in ba it
// has the inputs of beta and of the decay for these heads.
type groupedProjections struct {
	qkvz, ba    linear
	keyHeads    int64
	keyDim, dim int64
	values      int64 // heads of values by key head
}

func newGroupedProjections(d deltaNet, qkvz, ba linear) groupedProjections {
	return groupedProjections{qkvz: qkvz, ba: ba, keyHeads: d.keyHeads, keyDim: d.keyDim, dim: d.dim, values: d.heads / d.keyHeads}
}

func (f groupedProjections) forward(p *pass, x *autograd.Var) projected {
	byHead := func(x *autograd.Var, sizes ...int64) []*autograd.Var {
		return p.Split(p.Reshape(x, x.Dim(0), f.keyHeads, -1), 2, sizes...)
	}
	qkvz := byHead(f.qkvz.forward(p, x), f.keyDim, f.keyDim, f.values*f.dim, f.values*f.dim)
	ba := byHead(f.ba.forward(p, x), f.values, f.values)
	return projected{qkv: p.Join(1, qkvz[:3]...), z: p.Join(1, qkvz[3]), b: p.Join(1, ba[0]), a: p.Join(1, ba[1])}
}
