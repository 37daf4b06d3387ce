package rowwise

import (
	"math"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
)

// Pointwise is an element-wise loss or the derivative of one: Op of the inputs, which broadcast,
// times Factor and Weight.
type Pointwise struct {
	Op     elementwise.Op
	Inputs []elementwise.Input
	Params []elementwise.Number
	Weight kernel.View // may lack data
	Factor float64     // 0 means 1
	First  bool        // Loss adds along the first dimension only
}

// views returns the inputs that are views, not constants.
func (p Pointwise) views() (views []kernel.View) {
	for _, in := range p.Inputs {
		if !in.Fixed {
			views = append(views, in.View)
		}
	}
	return views
}

// each sets out to the value of every element.
func (p Pointwise) each(c *Chain, out kernel.View) {
	if p.Weight.Data == nil && p.Factor == 0 {
		c.Set(out, p.Op, p.Params, p.Inputs...)
		return
	}
	t := c.Temp(out.Shape)
	c.Set(t, p.Op, p.Params, p.Inputs...)
	c.Affine(t, t, p.Weight, kernel.View{})
	if p.Factor != 0 {
		c.Set(t, elementwise.Mul, nil, elementwise.Of(t), elementwise.Const(elementwise.Real(p.Factor)))
	}
	c.Set(out, elementwise.Identity, nil, elementwise.Of(t))
}

// Loss sets out to the value of every element, or to their sum or mean, over all or over the first
// dimension. The mean over zero
// elements is NaN.
func (p Pointwise) Loss(out kernel.View, averaging Averaging) error {
	views := p.views()
	c := NewChain(views...)
	if averaging == NoAveraging {
		p.each(c, out)
		return c.End()
	}
	shape, err := kernel.Common(views)
	if err != nil {
		return err
	}
	each := c.Temp(shape)
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
	c.Reduce(reduction, out, each, kernel.AxesFrom(0, axes), math.NaN())
	return c.End()
}

// Grad sets out to the value of every element times dy.
func (p Pointwise) Grad(out, dy kernel.View) error {
	c := NewChain(p.views()...)
	t := c.Temp(out.Shape)
	p.each(c, t)
	c.Mul(out, t, dy)
	return c.End()
}
