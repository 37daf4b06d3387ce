package nn

import (
	"github.com/goascend/cann/internal/emu/kernel"
)

// randomSlopes are rectifiers whose slope below zero is drawn for every element.
var randomSlopes = table{"RReluWithNoise": rrelu, "InplaceRReluWithNoise": rrelu}

// rrelu multiplies negative elements by numbers drawn from [lower, upper], which it leaves
// in noise (1 for the others); outside of training by their mean, and noise stays as it is.
func rrelu(c *Call) (Run, error) {
	self, noise, lower, upper := c.Tensor("self"), c.Tensor("noise"), c.Scalar("lower"), c.Scalar("upper")
	out := self
	if c.Has("out") {
		out = c.Tensor("out")
	}
	lo, hi := lower.Float64(), upper.Float64()
	c.plain(self, noise, out)
	c.DType(self, transformerTypes...)
	c.SameDType(self, noise)
	c.Same(self, out)
	if noise.Len() < self.Len() {
		c.Invalid("%v has fewer elements than %v", noise, self)
	}
	if !SameShape(noise.Shape, self.Shape) && !noise.Contiguous() {
		c.Invalid("%v must be contiguous, or have the shape of %v", noise, self)
	}
	if !(lo <= hi) {
		c.Invalid("lower %g is above upper %g", lo, hi)
	}
	training, generator := c.Bool("training"), c.generator()
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if self.Len() == 0 {
			return nil
		}
		x := []kernel.Input{kernel.Of(self.View())}
		if !training {
			return kernel.Map(kernel.LeakyRelu, self.DType, out.View(), x, kernel.Real((lo+hi)/2))
		}
		p, err := generator()
		if err != nil {
			return err
		}
		slope := noise.View()
		if !SameShape(noise.Shape, self.Shape) {
			slope = noise.As(self.Shape, ContiguousStrides(self.Shape))
		}
		if err := p.Uniform(slope, lo, hi); err != nil {
			return err
		}
		positive, release := kernel.TemporaryInt8(self.Shape...)
		defer release()
		if err := kernel.Map(kernel.Greater, self.DType, positive, append(x, kernel.Const(kernel.Real(0)))); err != nil {
			return err
		}
		choose := []kernel.Input{kernel.Of(positive), kernel.Const(kernel.Real(1)), kernel.Of(slope)}
		if err := kernel.Map(kernel.Where, self.DType, slope, choose); err != nil {
			return err
		}
		return kernel.Map(kernel.Mul, self.DType, out.View(), append(x, kernel.Of(slope)))
	}, nil
}
