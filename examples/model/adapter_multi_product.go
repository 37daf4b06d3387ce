package model

import (
	"slices"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// multiAdapterPass is what a pass of several adapters needs to know.
type multiAdapterPass struct {
	*multiAdapter
	parts []portion
	rows  int64                   // of all parts
	kept  map[*Parameter][]*group // for the backward pass, by the layer's weight
}

// group is the product of low rank of adapters whose rows follow each other.
type group struct {
	first    int64   // row
	sizes    []int64 // rows of each adapter
	adapters []*Adapter
	pairs    []pair

	x, inner *aclnn.Tensor   // as in lowRank, [rows, in] and [rows, rank] with the largest rank
	a, b     *aclnn.Tensor   // [adapters, rank, in] and [adapters, out, rank]
	masks    []*aclnn.Tensor // of dropout; nil for adapters without
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

// forward adds the products of the adapters to the rows of their samples; y is the layer's own product.
func (j *multiAdapterPass) forward(p *pass, w *Parameter, x, y *aclnn.Tensor) {
	if j == nil || p.Err() != nil {
		return
	}
	for _, layer := range j.layers[w] {
		groups := j.groups(layer, x.Dim(0))
		for _, g := range groups {
			g.forward(p, x, y)
		}
		j.kept[layer.on] = groups
	}
}

// backward adds to the gradients of the adapters' weights, and adds that of the input to dx.
func (j *multiAdapterPass) backward(p *pass, w *Parameter, dy, dx *aclnn.Tensor) {
	if j == nil || p.Err() != nil {
		return
	}
	for _, layer := range j.layers[w] {
		for _, g := range j.kept[layer.on] {
			g.backward(p, dy, dx)
		}
		delete(j.kept, layer.on)
	}
}

func (g *group) forward(p *pass, x, y *aclnn.Tensor) {
	g.x = g.dropped(p, g.of(x))
	g.stack(p)
	inner := p.Tensor(p.dt, g.rows(), g.a.Dim(1))
	ops.Queue(p.ctx, &p.Scope, p.reg.GroupedMatmul(), &ops.GroupedMatmulArgs{X: g.x, Weight: g.a.Transpose(1, 2), Groups: g.list(), Out: inner})
	g.inner = g.scaled(p, inner)
	more := p.Tensor(p.dt, g.rows(), g.b.Dim(1))
	ops.Queue(p.ctx, &p.Scope, p.reg.GroupedMatmul(), &ops.GroupedMatmulArgs{X: g.inner, Weight: g.b.Transpose(1, 2), Groups: g.list(), Out: more})
	p.add(g.of(g.pairs[0].of(y)), more)
}

func (g *group) backward(p *pass, dy, dx *aclnn.Tensor) {
	dInner, own := p.Like(g.inner), p.Like(g.x)
	da, db := p.Tensor(aclnn.Float32, g.a.Shape()...), p.Tensor(aclnn.Float32, g.b.Shape()...)
	ops.Queue(p.ctx, &p.Scope, p.reg.GroupedMatmulGrad(), &ops.GroupedMatmulGradArgs{
		DOut: p.Contiguous(g.of(g.pairs[0].of(dy))), X: g.inner, Weight: g.b.Transpose(1, 2), Groups: g.list(), DX: dInner, DWeight: db.Transpose(1, 2),
	})
	ops.Queue(p.ctx, &p.Scope, p.reg.GroupedMatmulGrad(), &ops.GroupedMatmulGradArgs{
		DOut: g.scaled(p, dInner), X: g.x, Weight: g.a.Transpose(1, 2), Groups: g.list(), DX: own, DWeight: da.Transpose(1, 2),
	})
	own = g.undropped(p, own)
	for i, l := range g.pairs {
		rank := l.a.Value.Dim(0)
		p.add(l.a.Grad, da.Select(0, int64(i)).Narrow(0, 0, rank))
		p.add(l.b.Grad, db.Select(0, int64(i)).Narrow(1, 0, rank))
	}
	p.add(g.of(dx), own)
}

func (g *group) list() ops.Groups { return ops.Groups{Host: g.sizes} }

func (g *group) rows() (n int64) {
	for _, size := range g.sizes {
		n += size
	}
	return n
}

// of returns the group's rows.
func (g *group) of(x *aclnn.Tensor) *aclnn.Tensor { return x.Narrow(0, g.first, g.rows()) }

// each calls f with the rows of each adapter among those of the group.
func (g *group) each(f func(i int, of func(*aclnn.Tensor) *aclnn.Tensor)) {
	first := int64(0)
	for i, size := range g.sizes {
		f(i, func(x *aclnn.Tensor) *aclnn.Tensor { return x.Narrow(0, first, size) })
		first += size
	}
}

// stack puts the weights of the adapters side by side. Those of a smaller rank get zeros.
func (g *group) stack(p *pass) {
	rank := int64(0)
	for _, l := range g.pairs {
		rank = max(rank, l.a.Value.Dim(0))
	}
	var a, b []*aclnn.Tensor
	for _, l := range g.pairs {
		a = append(a, p.widened(l.a.Value, rank, l.a.Value.Dim(1)))
		b = append(b, p.widened(l.b.Value, l.b.Value.Dim(0), rank))
	}
	g.a, g.b = p.stacked(a), p.stacked(b)
}

// widened returns a matrix with zeros below and to the right of it.
func (p *pass) widened(t *aclnn.Tensor, rows, columns int64) *aclnn.Tensor {
	if t.Dim(0) == rows && t.Dim(1) == columns {
		return t
	}
	wide := zeros(&p.Scope, t.DType(), rows, columns)
	p.Copy(wide.Narrow(0, 0, t.Dim(0)).Narrow(1, 0, t.Dim(1)), t)
	return wide
}

// stacked joins matrices of one shape along a new first dimension.
func (p *pass) stacked(list []*aclnn.Tensor) *aclnn.Tensor {
	n, rows, columns := int64(len(list)), list[0].Dim(0), list[0].Dim(1)
	out := p.Tensor(p.dt, n*rows, columns)
	aclnn.Launch(&p.Scope, aclnn.Cat, aclnn.CatParams{Tensors: list, Dim: 0, Out: out})
	return out.Reshape(n, rows, columns)
}

// scaled multiplies the rows of each adapter by its factor.
func (g *group) scaled(p *pass, x *aclnn.Tensor) *aclnn.Tensor {
	if !slices.ContainsFunc(g.pairs, func(l pair) bool { return l.scale != g.pairs[0].scale }) {
		return p.scaled(x, g.pairs[0].scale)
	}
	y := p.Like(x)
	g.each(func(i int, of func(*aclnn.Tensor) *aclnn.Tensor) {
		aclnn.Launch(&p.Scope, aclnn.Muls, aclnn.MulsParams{Self: of(x), Other: aclnn.Float(g.pairs[i].scale), Out: of(y)})
	})
	return y
}

// dropped is x after the dropout of each adapter.
func (g *group) dropped(p *pass, x *aclnn.Tensor) *aclnn.Tensor {
	if !slices.ContainsFunc(g.adapters, func(a *Adapter) bool { return a.lora.Dropout > 0 }) {
		return x
	}
	g.masks = make([]*aclnn.Tensor, len(g.adapters))
	y := p.Like(x)
	g.each(func(i int, of func(*aclnn.Tensor) *aclnn.Tensor) {
		own := of(x)
		if a := g.adapters[i]; a.lora.Dropout > 0 {
			own, g.masks[i] = a.drop(p, g.pairs[i], own)
		}
		p.Copy(of(y), own)
	})
	return y
}

// undropped is the gradient of x from that after dropout, in place of it.
func (g *group) undropped(p *pass, dx *aclnn.Tensor) *aclnn.Tensor {
	g.each(func(i int, of func(*aclnn.Tensor) *aclnn.Tensor) {
		if g.masks != nil && g.masks[i] != nil {
			p.Copy(of(dx), g.adapters[i].mask(p, of(dx), g.masks[i]))
		}
	})
	return dx
}
