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
	from, z, m, s := c.lent(x, byGroup...), c.temp(byGroup), c.temp(byGroup[:2]), c.temp(byGroup[:2])
	if c.err == nil {
		c.err = LayerNorm(z, m, s, from, 2, View{}, View{}, eps)
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
	split := []int64{n.Batch, n.Groups, n.Channels / n.Groups, byChannel[2]}
	m, s := c.whole(mean, byGroup[:2]...), c.whole(rstd, byGroup[:2]...)
	z, g := c.lent(x, byGroup...), c.lent(dy, byGroup...)
	if n.Swish {
		before, dz := c.temp(byGroup), c.temp(byGroup)
		c.normalize(before, z, m, s, []int{2})
		n.affine(c, before.reshaped(byChannel...), before.reshaped(byChannel...), n.Gamma, n.Beta)
		c.set(dz, SwishGrad, []Number{Real(n.Factor)}, Of(g), Of(before))
		g = dz
	}
	sum := c.temp([]int64{n.Channels})
	if dgamma.Data != nil {
		product, sums := c.temp(byGroup), c.temp(split[:3])
		c.set(product, SubMul, nil, Of(z), Of(kept(m, 3, []int{2})), Of(g))
		c.reduce(ReduceSum, sums, product.reshaped(split...), []int{3}, 0)
		c.mul(sums, sums, kept(s, 3, []int{2}))
		c.reduce(ReduceSum, sum, sums.reshaped(byChannel[:2]...), []int{0}, 0)
		c.set(dgamma, Identity, nil, Of(sum.reshaped(dgamma.Shape...)))
	}
	if dbeta.Data != nil {
		c.reduce(ReduceSum, sum, g.reshaped(byChannel...), []int{0, 2}, 0)
		c.set(dbeta, Identity, nil, Of(sum.reshaped(dbeta.Shape...)))
	}
	if dx.Data != nil {
		gamma := n.Gamma
		if gamma.Data != nil {
			gamma = c.whole(gamma, n.Groups, split[2], 1)
		}
		to := dx
		if !dx.Contiguous() {
			to = c.temp(dx.Shape)
		}
		if c.err == nil {
			c.err = LayerNormGrad(to.reshaped(split...), View{}, View{}, g.reshaped(split...), z.reshaped(split...), 2, m, s, gamma)
		}
		if !dx.Contiguous() {
			c.set(dx, Identity, nil, Of(to))
		}
	}
	return c.end()
}
