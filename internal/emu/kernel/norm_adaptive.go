package kernel

// Adapt is z = z · (1 + scale) + shift, in place; scale and shift may have no data.
func Adapt(z, scale, shift View) error {
	c := newChain(z)
	if scale.Data != nil {
		c.addTimes(z, z, 1, z, scale)
	}
	c.affine(z, z, View{}, shift)
	return c.end()
}

// AdaptGrad computes the gradient of Adapt applied to a LayerNorm of the last dimension of x
// [..., S, H]. scale and shift are [..., 1, H]; weight and bias may have no data. dscale and
// dshift are [..., H]; the other outputs may have no data.
func AdaptGrad(dx, dscale, dshift, dweight, dbias, dy, x, mean, rstd, scale, weight, bias View) error {
	c := newChain(x)
	last := len(x.Shape) - 1
	normed, g := c.temp(x.Shape), c.temp(x.Shape)
	c.normalize(normed, x, mean, rstd, []int{last})
	c.affine(normed, normed, weight, bias)
	c.mul(normed, normed, dy)
	for _, o := range []struct{ out, of View }{{dscale, normed}, {dshift, dy}} {
		sum := c.temp(o.out.Shape)
		c.reduce(ReduceSum, sum, o.of, []int{last - 1}, 0)
		c.set(o.out, Identity, nil, Of(sum))
	}
	c.addTimes(g, dy, 1, dy, scale)
	if c.err == nil {
		c.err = LayerNormGrad(dx, dweight, dbias, g, x, last, mean, rstd, weight)
	}
	return c.end()
}
