package kernel

// RMSNorm normalises over the trailing dimensions that gamma has: rstd = 1/√(mean(x²) + eps),
// y = x · rstd · gamma. rstd has x's leading dimensions.
func RMSNorm(y, rstd, x, gamma View, eps float64) error {
	c := newChain(x)
	outer := len(x.Shape) - len(gamma.Shape)
	axes := axesFrom(outer, len(x.Shape))
	square, scale := c.temp(x.Shape[:outer]), c.temp(x.Shape[:outer])
	c.reduce(ReduceNorm, square, x, axes, 2)
	c.mul(square, square, square)
	c.set(square, Add, []Number{Real(1 / float64(gamma.Len()))}, Const(Real(eps)), Of(square))
	c.set(scale, Rsqrt, nil, Of(square))
	normed := c.temp(x.Shape)
	c.mul(normed, x, kept(scale, len(x.Shape), axes))
	c.mul(y, normed, gamma)
	c.set(rstd, Identity, nil, Of(scale))
	return c.end()
}

// RMSNormGrad is the gradient of RMSNorm: with g = dy·gamma, dx = rstd·(g − x·rstd²·mean(g·x)),
// and dgamma = Σ dy·x·rstd over the leading dimensions.
func RMSNormGrad(dx, dgamma, dy, x, rstd, gamma View) error {
	c := newChain(x)
	rank := len(x.Shape)
	outer := rank - len(gamma.Shape)
	axes := axesFrom(outer, rank)
	wide := kept(rstd, rank, axes)

	product := c.temp(x.Shape)
	c.mul(product, dy, x)
	c.mul(product, product, wide)
	sum := c.temp(gamma.Shape)
	c.reduce(ReduceSum, sum, product, axesFrom(0, outer), 0)

	g := c.temp(x.Shape)
	c.mul(g, dy, gamma)
	c.mul(product, g, x)
	mean := c.temp(x.Shape[:outer])
	c.reduce(ReduceMean, mean, product, axes, 0)
	c.mul(mean, mean, rstd)
	c.mul(mean, mean, rstd)
	c.addTimes(g, g, -1, x, kept(mean, rank, axes))
	c.mul(dx, g, wide)
	c.set(dgamma, Identity, nil, Of(sum))
	return c.end()
}

// LayerNorm normalises over the trailing dimensions from axis on: y = (x − mean) · rstd ·
// weight + bias, rstd = 1/√(var + eps). weight and bias may have no data, mean and rstd
// too; they have x's leading dimensions.
func LayerNorm(y, mean, rstd, x View, axis int, weight, bias View, eps float64) error {
	c := newChain(x)
	rank := len(x.Shape)
	axes := axesFrom(axis, rank)
	m, s := c.temp(x.Shape[:axis]), c.temp(x.Shape[:axis])
	c.reduce(ReduceMean, m, x, axes, 0)
	c.reduce(ReduceVar, s, x, axes, 0)
	c.set(s, Add, []Number{Real(1)}, Of(s), Const(Real(eps)))
	c.set(s, Rsqrt, nil, Of(s))
	normed := c.temp(x.Shape)
	c.sub(normed, x, kept(m, rank, axes))
	c.mul(normed, normed, kept(s, rank, axes))
	if weight.Data != nil {
		c.mul(normed, normed, weight)
	}
	if bias.Data != nil {
		c.set(normed, Add, []Number{Real(1)}, Of(normed), Of(bias))
	}
	c.set(y, Identity, nil, Of(normed))
	for _, o := range []struct{ out, value View }{{mean, m}, {rstd, s}} {
		if o.out.Data != nil {
			c.set(o.out, Identity, nil, Of(o.value))
		}
	}
	return c.end()
}

// LayerNormGrad is the gradient of LayerNorm. Outputs without data are left out.
func LayerNormGrad(dx, dweight, dbias, dy, x View, axis int, mean, rstd, weight View) error {
	c := newChain(x)
	rank := len(x.Shape)
	axes, leading := axesFrom(axis, rank), axesFrom(0, axis)
	normed, g, product := c.temp(x.Shape), c.temp(x.Shape), c.temp(x.Shape)
	c.sub(normed, x, kept(mean, rank, axes))
	c.mul(normed, normed, kept(rstd, rank, axes))
	if dweight.Data != nil {
		sum := c.temp(x.Shape[axis:])
		c.mul(product, dy, normed)
		c.reduce(ReduceSum, sum, product, leading, 0)
		c.set(dweight, Identity, nil, Of(sum))
	}
	if dbias.Data != nil {
		sum := c.temp(x.Shape[axis:])
		c.reduce(ReduceSum, sum, dy, leading, 0)
		c.set(dbias, Identity, nil, Of(sum))
	}
	if dx.Data != nil {
		c.set(g, Identity, nil, Of(dy))
		if weight.Data != nil {
			c.mul(g, g, weight)
		}
		m, s := c.temp(x.Shape[:axis]), c.temp(x.Shape[:axis])
		c.mul(product, g, normed)
		c.reduce(ReduceMean, m, g, axes, 0)
		c.reduce(ReduceMean, s, product, axes, 0)
		c.sub(g, g, kept(m, rank, axes))
		c.addTimes(g, g, -1, normed, kept(s, rank, axes))
		c.mul(dx, g, kept(rstd, rank, axes))
	}
	return c.end()
}
