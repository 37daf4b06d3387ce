package kernel

// RotaryGrad computes the gradients of Rotary: dx of the shape of dy, and, if they have data,
// dcos and dsin of the shape of cos, which need x.
func RotaryGrad(dx, dcos, dsin, dy, x, cos, sin View, mode RotaryMode) error {
	axis := len(dy.Shape) - 1
	all, err := mode.pairs(dy.Shape[axis])
	if err != nil {
		return err
	}
	dims := axis
	if dcos.Data != nil || len(cos.Shape) != len(dy.Shape) || len(sin.Shape) != len(dy.Shape) {
		dims = 0 // dcos and dsin are sums over all pieces
	}
	return newPieces(dy.Shape, dims, []View{dx}, dy, x, cos, sin).run(func(_ int64, of func(View) View) error {
		return rotaryGrad(of(dx), dcos, dsin, of(dy), x, of(cos), of(sin), all)
	})
}

func rotaryGrad(dx, dcos, dsin, dy, x, cos, sin View, all []pairs) error {
	c := newChain(dy)
	for _, p := range all {
		a, b := p.out(dy, p.outA), p.out(dy, p.outB)
		newA, newB := c.temp(a.Shape), c.temp(a.Shape)
		c.mul(newA, a, p.out(cos, p.outA))
		c.addTimes(newA, newA, 1, b, p.out(sin, p.outB))
		c.mul(newB, b, p.out(cos, p.outB))
		c.addTimes(newB, newB, -1, a, p.out(sin, p.outA))
		c.copy(p.in(dx, p.a), newA)
		c.copy(p.in(dx, p.b), newB)
		if dcos.Data == nil {
			continue
		}
		for _, g := range []struct {
			out, grad, with View
			sign            float64
		}{
			{p.out(dcos, p.outA), a, p.in(x, p.a), 1}, {p.out(dcos, p.outB), b, p.in(x, p.b), 1},
			{p.out(dsin, p.outA), a, p.in(x, p.b), -1}, {p.out(dsin, p.outB), b, p.in(x, p.a), 1},
		} {
			c.mul(newA, g.grad, g.with)
			c.set(newA, Mul, nil, Of(newA), Const(Real(g.sign)))
			c.unbroadcast(g.out, newA)
		}
	}
	return c.end()
}

// unbroadcast sets out to the sum of v over the dimensions in which out has size 1.
func (c *chain) unbroadcast(out, v View) {
	var axes []int
	for i, n := range out.Shape {
		if n == 1 && v.Shape[i] != 1 {
			axes = append(axes, i)
		}
	}
	if axes == nil {
		c.copy(out, v)
		return
	}
	sum := c.temp(others(v.Shape, axes))
	c.reduce(ReduceSum, sum, v, axes, 0)
	c.copy(out, kept(sum, len(v.Shape), axes))
}
