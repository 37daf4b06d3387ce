package rowwise

import (
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
)

// GroupNorm normalises x [N, C, …] over groups of neighbouring channels and all dimensions after
// C: y = (x − mean) · rstd · gamma + beta, followed by y · sigmoid(Factor · y) if Swish.
type GroupNorm struct {
	Batch, Channels, Groups int64
	Gamma, Beta             kernel.View // one element per channel; may have no data
	Swish                   bool
	Factor                  float64
}

// affine applies gamma and beta to z [N, C, …], with the result out.
func (n GroupNorm) affine(c *Chain, out, z, gamma, beta kernel.View) {
	wide := func(v kernel.View) kernel.View {
		if v.Data == nil {
			return v
		}
		return channels(c.Whole(v, n.Channels), 3)
	}
	c.Affine(out, z, wide(gamma), wide(beta))
}

// shapes returns the shapes of x split by groups and by channels.
func (n GroupNorm) shapes(x kernel.View) (groups, channels []int64) {
	return []int64{n.Batch, n.Groups, x.Len() / (n.Batch * n.Groups)}, []int64{n.Batch, n.Channels, x.Len() / (n.Batch * n.Channels)}
}

// Forward computes y, and mean and rstd = 1/√(variance + eps) of each group. x must not be empty.
func (n GroupNorm) Forward(y, mean, rstd, x kernel.View, eps float64) error {
	c := NewChain(x)
	byGroup, byChannel := n.shapes(x)
	from, z, m, s := c.lent(x, byGroup...), c.Temp(byGroup), c.Temp(byGroup[:2]), c.Temp(byGroup[:2])
	if c.Err == nil {
		c.Err = LayerNorm(z, m, s, from, 2, kernel.View{}, kernel.View{}, eps)
	}
	z = z.Reshaped(byChannel...)
	if !n.Swish && y.Contiguous() {
		n.affine(c, y.Reshaped(byChannel...), z, n.Gamma, n.Beta)
	} else {
		n.affine(c, z, z, n.Gamma, n.Beta)
		if n.Swish {
			c.Set(z, elementwise.Swish, []elementwise.Number{elementwise.Real(n.Factor)}, elementwise.Of(z))
		}
		c.Set(y, elementwise.Identity, nil, elementwise.Of(z.Reshaped(y.Shape...)))
	}
	c.Set(mean, elementwise.Identity, nil, elementwise.Of(m.Reshaped(mean.Shape...)))
	c.Set(rstd, elementwise.Identity, nil, elementwise.Of(s.Reshaped(rstd.Shape...)))
	return c.End()
}

// Backward computes the gradients of x, gamma and beta, each of which may have no data.
func (n GroupNorm) Backward(dx, dgamma, dbeta, dy, x, mean, rstd kernel.View) error {
	c := NewChain(x)
	byGroup, byChannel := n.shapes(x)
	split := []int64{n.Batch, n.Groups, n.Channels / n.Groups, byChannel[2]}
	m, s := c.Whole(mean, byGroup[:2]...), c.Whole(rstd, byGroup[:2]...)
	z, g := c.lent(x, byGroup...), c.lent(dy, byGroup...)
	if n.Swish {
		before, dz := c.Temp(byGroup), c.Temp(byGroup)
		c.normalize(before, z, m, s, []int{2})
		n.affine(c, before.Reshaped(byChannel...), before.Reshaped(byChannel...), n.Gamma, n.Beta)
		c.Set(dz, elementwise.SwishGrad, []elementwise.Number{elementwise.Real(n.Factor)}, elementwise.Of(g), elementwise.Of(before))
		g = dz
	}
	sum := c.Temp([]int64{n.Channels})
	if dgamma.Data != nil {
		product, sums := c.Temp(byGroup), c.Temp(split[:3])
		c.Set(product, elementwise.SubMul, nil, elementwise.Of(z), elementwise.Of(kernel.Kept(m, 3, []int{2})), elementwise.Of(g))
		c.Reduce(ReduceSum, sums, product.Reshaped(split...), []int{3}, 0)
		c.Mul(sums, sums, kernel.Kept(s, 3, []int{2}))
		c.Reduce(ReduceSum, sum, sums.Reshaped(byChannel[:2]...), []int{0}, 0)
		c.Set(dgamma, elementwise.Identity, nil, elementwise.Of(sum.Reshaped(dgamma.Shape...)))
	}
	if dbeta.Data != nil {
		c.Reduce(ReduceSum, sum, g.Reshaped(byChannel...), []int{0, 2}, 0)
		c.Set(dbeta, elementwise.Identity, nil, elementwise.Of(sum.Reshaped(dbeta.Shape...)))
	}
	if dx.Data != nil {
		gamma := n.Gamma
		if gamma.Data != nil {
			gamma = c.Whole(gamma, n.Groups, split[2], 1)
		}
		to := dx
		if !dx.Contiguous() {
			to = c.Temp(dx.Shape)
		}
		if c.Err == nil {
			c.Err = LayerNormGrad(to.Reshaped(split...), kernel.View{}, kernel.View{}, g.Reshaped(split...), z.Reshaped(split...), 2, m, s, gamma)
		}
		if !dx.Contiguous() {
			c.Set(dx, elementwise.Identity, nil, elementwise.Of(to))
		}
	}
	return c.End()
}
