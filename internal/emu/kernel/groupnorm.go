package kernel

// GroupNorm normalises x [N, C, …] over groups of neighbouring channels and all dimensions after
// C: y = (x − mean) · rstd · gamma + beta, followed by y · sigmoid(Factor · y) if Swish.
type GroupNorm struct {
	Batch, Channels, Groups int64
	Gamma, Beta             View // one element per channel; may have no data
	Swish                   bool
	Factor                  float64
}

// affine applies gamma and beta to z [N, C, …], with the result out.
func (n GroupNorm) affine(c *chain, out, z, gamma, beta View) {
	wide := func(v View) View {
		if v.Data == nil {
			return v
		}
		return channels(c.whole(v, n.Channels), 3)
	}
	c.affine(out, z, wide(gamma), wide(beta))
}

// shapes returns the shapes of x split by groups and by channels.
func (n GroupNorm) shapes(x View) (groups, channels []int64) {
	return []int64{n.Batch, n.Groups, x.Len() / (n.Batch * n.Groups)}, []int64{n.Batch, n.Channels, x.Len() / (n.Batch * n.Channels)}
}

// Forward computes y, and mean and rstd = 1/√(variance + eps) of each group. x must not be empty.
func (n GroupNorm) Forward(y, mean, rstd, x View, eps float64) error {
	c := newChain(x)
	byGroup, byChannel := n.shapes(x)
	z, m, s := c.whole(x, byGroup...), c.temp(byGroup[:2]), c.temp(byGroup[:2])
	if c.err == nil {
		c.err = LayerNorm(z, m, s, z, 2, View{}, View{}, eps)
	}
	z = z.reshaped(byChannel...)
	if !n.Swish && y.Contiguous() {
		n.affine(c, y.reshaped(byChannel...), z, n.Gamma, n.Beta)
	} else {
		n.affine(c, z, z, n.Gamma, n.Beta)
		if n.Swish {
			c.set(z, Swish, []Number{Real(n.Factor)}, Of(z))
		}
		c.set(y, Identity, nil, Of(z.reshaped(y.Shape...)))
	}
	c.set(mean, Identity, nil, Of(m.reshaped(mean.Shape...)))
	c.set(rstd, Identity, nil, Of(s.reshaped(rstd.Shape...)))
	return c.end()
}

// Backward computes the gradients of x, gamma and beta, each of which may have no data.
func (n GroupNorm) Backward(dx, dgamma, dbeta, dy, x, mean, rstd View) error {
	c := newChain(x)
	byGroup, byChannel := n.shapes(x)
	m, s := c.whole(mean, n.Batch, n.Groups), c.whole(rstd, n.Batch, n.Groups)
	normed, g := c.whole(x, byGroup...), c.whole(dy, byChannel...)
	c.normalize(normed, normed, m, s, []int{2})
	if n.Swish {
		before := c.whole(normed.reshaped(byChannel...), byChannel...)
		n.affine(c, before, before, n.Gamma, n.Beta)
		c.set(g, SwishGrad, []Number{Real(n.Factor)}, Of(g), Of(before))
	}
	product := c.temp(byChannel)
	c.mul(product, g, normed.reshaped(byChannel...))
	for _, o := range []struct{ out, of View }{{dgamma, product}, {dbeta, g}} {
		if o.out.Data != nil {
			sum := c.temp([]int64{n.Channels})
			c.reduce(ReduceSum, sum, o.of, []int{0, 2}, 0)
			c.set(o.out, Identity, nil, Of(sum.reshaped(o.out.Shape...)))
		}
	}
	if dx.Data != nil {
		n.affine(c, g, g, n.Gamma, View{})
		g = g.reshaped(byGroup...)
		c.normalizeGrad(g, g, normed, s, []int{2})
		c.set(dx, Identity, nil, Of(g.reshaped(dx.Shape...)))
	}
	return c.end()
}
