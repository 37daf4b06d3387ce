package rowwise

import (
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
)

// Adapt is z = z · (1 + scale) + shift, in place; scale and shift may have no data.
func Adapt(z, scale, shift kernel.View) error {
	c := NewChain(z)
	if scale.Data != nil {
		c.AddTimes(z, z, 1, z, scale)
	}
	c.Affine(z, z, kernel.View{}, shift)
	return c.End()
}

// AdaptGrad computes the gradient of Adapt applied to a LayerNorm of the last dimension of x
// [..., S, H]. scale and shift are [..., 1, H]; weight and bias may have no data. dscale and
// dshift are [..., H]; the other outputs may have no data.
func AdaptGrad(dx, dscale, dshift, dweight, dbias, dy, x, mean, rstd, scale, weight, bias kernel.View) error {
	c := NewChain(x)
	last := len(x.Shape) - 1
	normed, g := c.Temp(x.Shape), c.Temp(x.Shape)
	c.normalize(normed, x, mean, rstd, []int{last})
	c.Affine(normed, normed, weight, bias)
	c.Mul(normed, normed, dy)
	for _, o := range []struct{ out, of kernel.View }{{dscale, normed}, {dshift, dy}} {
		sum := c.Temp(o.out.Shape)
		c.Reduce(ReduceSum, sum, o.of, []int{last - 1}, 0)
		c.Set(o.out, elementwise.Identity, nil, elementwise.Of(sum))
	}
	c.AddTimes(g, dy, 1, dy, scale)
	if c.Err == nil {
		c.Err = LayerNormGrad(dx, dweight, dbias, g, x, last, mean, rstd, weight)
	}
	return c.End()
}
