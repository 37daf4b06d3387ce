package nn

import (
	"slices"

	"github.com/goascend/cann/internal/emu/kernel"
)

var gatedUnits = table{"SwiGlu": swiGLU, "SwiGluGrad": swiGLUGrad}

// halved is the shape of one half of x along an axis.
func halved(c *Call, x *Tensor, axis int) []int64 {
	shape := slices.Clone(x.Shape)
	if x.Rank() == 0 || x.Shape[axis]%2 != 0 {
		c.Invalid("dimension %d of %v cannot be halved", axis, x)
		return shape
	}
	shape[axis] /= 2
	return shape
}

func swiGLU(c *Call) (Run, error) {
	x, out := c.Tensor("x"), c.Tensor("out")
	axis := c.Axis(x, c.Int("dim"))
	c.DType(x, transformerTypes...)
	c.SameDType(x, out)
	c.Shape(out, halved(c, x, axis), "half of x along dim")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return kernel.SwiGLU(out.View(), x.View(), axis)
	}, nil
}

func swiGLUGrad(c *Call) (Run, error) {
	dy, x, dx := c.Tensor("yGrad"), c.Tensor("x"), c.Tensor("out")
	axis := c.Axis(x, c.Int("dim"))
	c.DType(x, transformerTypes...)
	c.SameDType(x, dy, dx)
	c.SameShape(x, dx)
	c.Shape(dy, halved(c, x, axis), "half of x along dim")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return nil
		}
		return kernel.SwiGLUGrad(dx.View(), dy.View(), x.View(), axis)
	}, nil
}
