package kernel

import "math"

// Pointwise is an element-wise loss or the derivative of one: Op of the inputs, which broadcast,
// times Factor and Weight.
type Pointwise struct {
	Op     Op
	Inputs []Input
	Params []Number
	Weight View    // may lack data
	Factor float64 // 0 means 1
	First  bool    // Loss adds along the first dimension only
}

// views returns the inputs that are views, not constants.
func (p Pointwise) views() (views []View) {
	for _, in := range p.Inputs {
		if !in.fixed {
			views = append(views, in.view)
		}
	}
	return views
}

// each sets out to the value of every element.
func (p Pointwise) each(c *chain, out View) {
	if p.Weight.Data == nil && p.Factor == 0 {
		c.set(out, p.Op, p.Params, p.Inputs...)
		return
	}
	t := c.temp(out.Shape)
	c.set(t, p.Op, p.Params, p.Inputs...)
	c.affine(t, t, p.Weight, View{})
	if p.Factor != 0 {
		c.set(t, Mul, nil, Of(t), Const(Real(p.Factor)))
	}
	c.set(out, Identity, nil, Of(t))
}

// Loss sets out to the value of every element, or to their sum or mean, over all or over the first
// dimension. The mean over zero
// elements is NaN.
func (p Pointwise) Loss(out View, averaging Averaging) error {
	views := p.views()
	c := newChain(views...)
	if averaging == NoAveraging {
		p.each(c, out)
		return c.end()
	}
	shape, err := common(views)
	if err != nil {
		return err
	}
	each := c.temp(shape)
	p.each(c, each)
	reduction := ReduceSum
	if averaging == MeanAveraging {
		reduction = ReduceMean
	}
	axes := len(shape)
	if p.First {
		axes = min(1, axes)
	} else if out.Len() == 1 {
		out.Shape, out.Strides = []int64{}, []int64{}
	}
	c.reduce(reduction, out, each, axesFrom(0, axes), math.NaN())
	return c.end()
}

// Grad sets out to the value of every element times dy.
func (p Pointwise) Grad(out, dy View) error {
	c := newChain(p.views()...)
	t := c.temp(out.Shape)
	p.each(c, t)
	c.mul(out, t, dy)
	return c.end()
}
