package rowwise

import (
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
)

// RotaryGrad computes the gradients of Rotary: dx of the shape of dy, and, if they have data,
// dcos and dsin of the shape of cos, which need x.
func RotaryGrad(dx, dcos, dsin, dy, x, cos, sin kernel.View, mode RotaryMode) error {
	axis := len(dy.Shape) - 1
	all, err := mode.pairs(dy.Shape[axis])
	if err != nil {
		return err
	}
	dims := axis
	if dcos.Data != nil || len(cos.Shape) != len(dy.Shape) || len(sin.Shape) != len(dy.Shape) {
		dims = 0 // dcos and dsin are sums over all pieces
	}
	return elementwise.NewPieces(dy.Shape, dims, []kernel.View{dx}, dy, x, cos, sin).Run(func(_ int64, of func(kernel.View) kernel.View) error {
		return rotaryGrad(of(dx), dcos, dsin, of(dy), x, of(cos), of(sin), all)
	})
}

func rotaryGrad(dx, dcos, dsin, dy, x, cos, sin kernel.View, all []pairs) error {
	c := NewChain(dy)
	for _, p := range all {
		a, b := p.out(dy, p.outA), p.out(dy, p.outB)
		newA, newB := c.Temp(a.Shape), c.Temp(a.Shape)
		c.Mul(newA, a, p.out(cos, p.outA))
		c.AddTimes(newA, newA, 1, b, p.out(sin, p.outB))
		c.Mul(newB, b, p.out(cos, p.outB))
		c.AddTimes(newB, newB, -1, a, p.out(sin, p.outA))
		c.Copy(p.in(dx, p.a), newA)
		c.Copy(p.in(dx, p.b), newB)
		if dcos.Data == nil {
			continue
		}
		for _, g := range []struct {
			out, grad, with kernel.View
			sign            float64
		}{
			{p.out(dcos, p.outA), a, p.in(x, p.a), 1}, {p.out(dcos, p.outB), b, p.in(x, p.b), 1},
			{p.out(dsin, p.outA), a, p.in(x, p.b), -1}, {p.out(dsin, p.outB), b, p.in(x, p.a), 1},
		} {
			c.Mul(newA, g.grad, g.with)
			c.Set(newA, elementwise.Mul, nil, elementwise.Of(newA), elementwise.Const(elementwise.Real(g.sign)))
			c.unbroadcast(g.out, newA)
		}
	}
	return c.End()
}

// unbroadcast sets out to the sum of v over the dimensions in which out has size 1.
func (c *Chain) unbroadcast(out, v kernel.View) {
	var axes []int
	for i, n := range out.Shape {
		if n == 1 && v.Shape[i] != 1 {
			axes = append(axes, i)
		}
	}
	if axes == nil {
		c.Copy(out, v)
		return
	}
	sum := c.Temp(kernel.Others(v.Shape, axes))
	c.Reduce(ReduceSum, sum, v, axes, 0)
	c.Copy(out, kernel.Kept(sum, len(v.Shape), axes))
}
