package kernel

// RMSNorm normalises over the trailing dimensions that gamma has: rstd = 1/√(mean(x²) + eps),
// y = x · rstd · gamma. rstd has x's leading dimensions and may have no data.
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
	c.give(rstd, scale)
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

// moments returns the mean of x over axes and 1/√(variance + eps), without the dimensions axes.
func (c *chain) moments(x View, axes []int, eps float64) (mean, rstd View) {
	mean, rstd = c.temp(others(x.Shape, axes)), c.temp(others(x.Shape, axes))
	c.reduce(ReduceMean, mean, x, axes, 0)
	c.reduce(ReduceVar, rstd, x, axes, 0)
	c.inverseDeviation(rstd, rstd, eps)
	return mean, rstd
}

// normalize is out = (x − mean) · rstd. mean and rstd lack the dimensions axes.
func (c *chain) normalize(out, x, mean, rstd View, axes []int) {
	c.sub(out, x, kept(mean, len(x.Shape), axes))
	c.mul(out, out, kept(rstd, len(x.Shape), axes))
}

// normalizeGrad is dx = rstd·(g − mean(g) − normed·mean(g·normed)), the means being over
// axes. It changes g.
func (c *chain) normalizeGrad(dx, g, normed, rstd View, axes []int) {
	rank := len(g.Shape)
	product := c.temp(g.Shape)
	m, s := c.temp(others(g.Shape, axes)), c.temp(others(g.Shape, axes))
	c.mul(product, g, normed)
	c.reduce(ReduceMean, m, g, axes, 0)
	c.reduce(ReduceMean, s, product, axes, 0)
	c.sub(g, g, kept(m, rank, axes))
	c.addTimes(g, g, -1, normed, kept(s, rank, axes))
	c.mul(dx, g, kept(rstd, rank, axes))
}

// affine is z = z · weight + bias; either may have no data.
func (c *chain) affine(z, weight, bias View) {
	if weight.Data != nil {
		c.mul(z, z, weight)
	}
	if bias.Data != nil {
		c.set(z, Add, []Number{Real(1)}, Of(z), Of(bias))
	}
}

// give copies value to out if out has data.
func (c *chain) give(out, value View) {
	if out.Data != nil {
		c.set(out, Identity, nil, Of(value))
	}
}

// LayerNorm normalises over the trailing dimensions from axis on: y = (x − mean) · rstd ·
// weight + bias, rstd = 1/√(var + eps). mean and rstd have x's leading dimensions. weight, bias,
// mean and rstd may have no data.
func LayerNorm(y, mean, rstd, x View, axis int, weight, bias View, eps float64) error {
	c := newChain(x)
	axes := axesFrom(axis, len(x.Shape))
	m, s := c.moments(x, axes, eps)
	normed := c.temp(x.Shape)
	c.normalize(normed, x, m, s, axes)
	c.affine(normed, weight, bias)
	c.set(y, Identity, nil, Of(normed))
	c.give(mean, m)
	c.give(rstd, s)
	return c.end()
}

// LayerNormGrad is the gradient of LayerNorm. Outputs without data are left out.
func LayerNormGrad(dx, dweight, dbias, dy, x View, axis int, mean, rstd, weight View) error {
	c := newChain(x)
	axes, leading := axesFrom(axis, len(x.Shape)), axesFrom(0, axis)
	normed, g := c.temp(x.Shape), c.temp(x.Shape)
	c.normalize(normed, x, mean, rstd, axes)
	if dweight.Data != nil {
		sum := c.temp(x.Shape[axis:])
		c.mul(g, dy, normed)
		c.reduce(ReduceSum, sum, g, leading, 0)
		c.set(dweight, Identity, nil, Of(sum))
	}
	if dbias.Data != nil {
		sum := c.temp(x.Shape[axis:])
		c.reduce(ReduceSum, sum, dy, leading, 0)
		c.set(dbias, Identity, nil, Of(sum))
	}
	if dx.Data != nil {
		c.set(g, Identity, nil, Of(dy))
		c.affine(g, weight, View{})
		c.normalizeGrad(dx, g, normed, rstd, axes)
	}
	return c.end()
}
