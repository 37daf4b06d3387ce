package kernel

import "github.com/goascend/cann/internal/dtype"

// RMSNorm normalises over the trailing dimensions that gamma has: rstd = 1/√(mean(x²) + eps),
// y = x · rstd · gamma. rstd has x's leading dimensions and may have no data.
func RMSNorm(y, rstd, x, gamma View, eps float64) error {
	outer, n := len(x.Shape)-len(gamma.Shape), float64(gamma.Len())
	return newPieces(x.Shape, outer, []View{y, rstd}, x, gamma).run(func(_ int64, of func(View) View) error {
		y, rstd, x := of(y), of(rstd), of(x)
		c := newChain(x)
		axes := c.axes(outer, len(x.Shape))
		scale := c.along(x.Shape, axes)
		c.reduce(ReduceNorm, scale, x, axes, 2)
		c.mul(scale, scale, scale)
		c.set(scale, Add, []Number{Real(1 / n)}, Const(Real(eps)), Of(scale))
		c.set(scale, Rsqrt, nil, Of(scale))
		normed := c.temp(x.Shape)
		c.mul(normed, x, scale)
		c.mul(y, normed, gamma)
		c.give(rstd, scale.Leading(outer))
		return c.end()
	})
}

// RMSNormGrad is the gradient of RMSNorm: with g = dy·gamma, dx = rstd·(g − x·rstd²·mean(g·x)),
// and dgamma = Σ dy·x·rstd over the leading dimensions.
func RMSNormGrad(dx, dgamma, dy, x, rstd, gamma View) error {
	rank := len(x.Shape)
	outer := rank - len(gamma.Shape)
	p := newPieces(x.Shape, outer, []View{dx, dgamma}, dy, x, rstd, gamma)
	sums, release := temporary(dtype.Float64, append([]int64{p.count}, gamma.Shape...))
	defer release()
	err := p.run(func(k int64, of func(View) View) error {
		dx, dy, x, rstd := of(dx), of(dy), of(x), of(rstd)
		c := newChain(x)
		axes := c.axes(outer, rank)
		wide := c.along(x.Shape, axes)
		c.set(wide.Leading(outer), Identity, nil, Of(rstd.Leading(outer)))
		product, g := c.temp(x.Shape), c.temp(x.Shape)
		c.mul(product, dy, x)
		c.mul(product, product, wide)
		c.reduce(ReduceSum, sums.Select(0, k), product, axesFrom(0, outer), 0)
		c.mul(g, dy, gamma)
		c.mul(product, g, x)
		mean := c.along(x.Shape, axes)
		c.reduce(ReduceMean, mean, product, axes, 0)
		c.mul(mean, mean, wide)
		c.mul(mean, mean, wide)
		c.addTimes(g, g, -1, x, mean)
		c.mul(dx, g, wide)
		return c.end()
	})
	if err != nil {
		return err
	}
	return Reduce(ReduceSum, dgamma, sums, []int{0}, 0)
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
