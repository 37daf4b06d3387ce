package kernel

// RotaryGrad computes the gradients of Rotary: dx of the shape of dy, and, if they have data,
// dcos and dsin of the shape of cos, which need x.
func RotaryGrad(dx, dcos, dsin, dy, x, cos, sin View, mode RotaryMode) error {
	axis := len(dy.Shape) - 1
	pairs, err := mode.pairs(dy.Shape[axis], axis)
	if err != nil {
		return err
	}
	dims := axis
	if dcos.Data != nil || len(cos.Shape) != len(dy.Shape) || len(sin.Shape) != len(dy.Shape) {
		dims = 0 // dcos and dsin are sums over all pieces
	}
	return newPieces(dy.Shape, dims, []View{dx}, dy, x, cos, sin).run(func(_ int64, of func(View) View) error {
		return rotaryGrad(of(dx), dcos, dsin, of(dy), x, of(cos), of(sin), pairs)
	})
}

func rotaryGrad(dx, dcos, dsin, dy, x, cos, sin View, pairs []pair) error {
	c := newChain(dy)
	for _, p := range pairs {
		a, b := p.outA(dy), p.outB(dy)
		newA, newB := c.temp(a.Shape), c.temp(a.Shape)
		c.mul(newA, a, p.outA(cos))
		c.addTimes(newA, newA, 1, b, p.outB(sin))
		c.mul(newB, b, p.outB(cos))
		c.addTimes(newB, newB, -1, a, p.outA(sin))
		c.copy(p.a(dx), newA)
		c.copy(p.b(dx), newB)
		if dcos.Data == nil {
			continue
		}
		for _, g := range []struct {
			out, grad, with View
			sign            float64
		}{
			{p.outA(dcos), a, p.a(x), 1}, {p.outB(dcos), b, p.b(x), 1},
			{p.outA(dsin), a, p.b(x), -1}, {p.outB(dsin), b, p.a(x), 1},
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
