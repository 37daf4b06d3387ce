package activation

import (
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// randomSlopes are rectifiers with a random factor for each negative element.
var randomSlopes = op.Table{"RReluWithNoise": rrelu, "InplaceRReluWithNoise": rrelu}.Selects()

// rrelu multiplies negative elements by random factors from [lower, upper] and stores the factors
// in noise (1 for the other elements). Outside of training it uses the mean of the bounds and does
// not write noise.
func rrelu(c *op.Call) (op.Run, error) {
	self, noise, lower, upper := c.Tensor("self"), c.Tensor("noise"), c.Scalar("lower"), c.Scalar("upper")
	out := self
	if c.Has("out") {
		out = c.Tensor("out")
	}
	lo, hi := lower.Float64(), upper.Float64()
	c.DType(self, op.FloatTypes...)
	c.SameDType(self, noise)
	c.Same(self, out)
	self, noise, out = flattened(c, self), flattened(c, noise), flattened(c, out)
	c.Plain(self, noise, out)
	training := c.Bool("training")
	if training && noise.Len() < self.Len() {
		c.Invalid("%v has fewer elements than %v", noise, self)
	}
	if training && !op.SameShape(noise.Shape, self.Shape) && !noise.Contiguous() {
		c.Invalid("%v must be contiguous, or have the shape of %v", noise, self)
	}
	if !(lo <= hi) {
		c.Invalid("lower %g is above upper %g", lo, hi)
	}
	generator := c.Generator()
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if self.Len() == 0 {
			return nil
		}
		x := []elementwise.Input{elementwise.Of(self.View())}
		if !training {
			return elementwise.Map(elementwise.LeakyRelu, self.DType, out.View(), x, elementwise.Real((lo+hi)/2))
		}
		p, err := generator()
		if err != nil {
			return err
		}
		slope := noise.View()
		if !op.SameShape(noise.Shape, self.Shape) {
			slope = noise.As(self.Shape, op.ContiguousStrides(self.Shape))
		}
		if err := p.Uniform(slope, lo, hi); err != nil {
			return err
		}
		positive, release := kernel.TemporaryInt8(self.Shape...)
		defer release()
		if err := elementwise.Map(elementwise.Greater, self.DType, positive, append(x, elementwise.Const(elementwise.Real(0)))); err != nil {
			return err
		}
		choose := []elementwise.Input{elementwise.Of(positive), elementwise.Const(elementwise.Real(1)), elementwise.Of(slope)}
		if err := elementwise.Map(elementwise.Where, self.DType, slope, choose); err != nil {
			return err
		}
		return elementwise.Map(elementwise.Mul, self.DType, out.View(), append(x, elementwise.Of(slope)))
	}, nil
}

// flattened returns a contiguous tensor of more dimensions than kernels take as a vector, and others as they are.
func flattened(c *op.Call, t *op.Tensor) *op.Tensor {
	if t.Rank() <= kernel.MaxRank || !t.Contiguous() {
		return t
	}
	return c.Reshaped(t, t.Len())
}
