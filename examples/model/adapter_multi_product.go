package model

import (
	"slices"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/autograd"
)

// multiAdapterPass holds the adapters of a pass, and the rows of the batch that each of them serves.
type multiAdapterPass struct {
	*multiAdapter
	parts []portion
	rows  int64 // of all parts
}

// group is the product of low rank of adapters whose rows follow each other.
type group struct {
	first    int64   // row
	sizes    []int64 // rows of each adapter
	adapters []*Adapter
	pairs    []pair
}

// groups returns the groups for a layer's input of so many rows. If these are not all, they are the
// rows of this rank of sequence parallelism.
func (j *multiAdapterPass) groups(layer multiAdapterLayer, rows int64) (groups []*group) {
	from := int64(0)
	if rows < j.rows {
		from = j.m.tp.Rank() * rows
	}
	var last *group
	for _, part := range j.parts {
		first, end := max(part.first-from, 0), min(part.first+part.rows-from, rows)
		switch {
		case first >= end:
			continue
		case part.number == 0 || layer.pairs[part.number-1].a == nil:
			last = nil
			continue
		case last == nil:
			last = &group{first: first}
			groups = append(groups, last)
		}
		i := part.number - 1
		last.sizes = append(last.sizes, end-first)
		last.adapters, last.pairs = append(last.adapters, j.adapters[i]), append(last.pairs, layer.pairs[i])
	}
	return groups
}

// forward returns the layer's own product y plus those of the adapters for the rows of their samples.
func (j *multiAdapterPass) forward(p *pass, w *Parameter, x, y *autograd.Var) *autograd.Var {
	if j == nil || p.Err() != nil {
		return y
	}
	for _, layer := range j.layers[w] {
		for _, g := range j.groups(layer, x.Dim(0)) {
			y = g.forward(p, x, y)
		}
	}
	return y
}

func (g *group) forward(p *pass, x, y *autograd.Var) *autograd.Var {
	if rows := g.rows(); rows < x.Dim(0) {
		x = p.Narrow(x, 0, g.first, rows)
	}
	if slices.ContainsFunc(g.adapters, func(a *Adapter) bool { return a.lora.Dropout > 0 }) {
		x = g.each(p, x, func(i int, rows *autograd.Var) *autograd.Var { return g.adapters[i].drop(p, g.pairs[i], rows) })
	}
	a, b := g.stack(p)
	groups := autograd.Groups{Groups: ops.Groups{Host: g.sizes}}
	inner := g.scaled(p, p.GroupedMatmul(x, p.Transpose(a, 1, 2), nil, groups))
	more := p.GroupedMatmul(inner, p.Transpose(b, 1, 2), nil, groups)
	return p.AddTo(y, more, func(y *aclnn.Tensor) *aclnn.Tensor { return g.pairs[0].of(y).Narrow(0, g.first, g.rows()) })
}

func (g *group) rows() (n int64) {
	for _, size := range g.sizes {
		n += size
	}
	return n
}

// each applies f to the rows of each adapter.
func (g *group) each(p *pass, x *autograd.Var, f func(i int, rows *autograd.Var) *autograd.Var) *autograd.Var {
	parts, shape := p.Split(x, 0, g.sizes...), x.Shape()
	for i := range parts {
		parts[i] = f(i, parts[i])
	}
	return p.Reshape(p.Join(0, parts...), shape...)
}

// stack puts the weights of the adapters side by side: A [adapters, rank, in] and B [adapters, out, rank] with the largest rank. Those of
// a smaller rank get zeros.
func (g *group) stack(p *pass) (a, b *autograd.Var) {
	rank := int64(0)
	for _, l := range g.pairs {
		rank = max(rank, l.a.Dim(0))
	}
	var as, bs []*autograd.Var
	for _, l := range g.pairs {
		as = append(as, l.a.Var)
		second, less := l.b.Var, rank-l.a.Dim(0)
		if less > 0 {
			as = append(as, p.zeros(less, l.a.Dim(1)))
			second = p.Join(1, second, p.zeros(l.b.Dim(0), less))
		}
		bs = append(bs, second)
	}
	n, first := int64(len(g.pairs)), g.pairs[0]
	return p.Reshape(p.Join(0, as...), n, rank, first.a.Dim(1)), p.Reshape(p.Join(0, bs...), n, first.b.Dim(0), rank)
}

// zeros makes a constant of zeros.
func (p *pass) zeros(shape ...int64) *autograd.Var {
	return p.Record("zeros", nil, func(c *autograd.Call) {
		x := c.Output(p.dt, shape...)
		c.Do(func() error { return aclnn.InplaceZero(p.Stream(), aclnn.InplaceZeroParams{Self: x}) })
	})[0]
}

// scaled multiplies the rows of each adapter by its factor.
func (g *group) scaled(p *pass, x *autograd.Var) *autograd.Var {
	if !slices.ContainsFunc(g.pairs, func(l pair) bool { return l.scale != g.pairs[0].scale }) {
		return p.scaled(x, g.pairs[0].scale)
	}
	return g.each(p, x, func(i int, rows *autograd.Var) *autograd.Var { return p.scaled(rows, g.pairs[i].scale) })
}
