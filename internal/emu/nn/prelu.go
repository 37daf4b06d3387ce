package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// slopes are rectifiers whose slope below zero is a tensor, learnt or drawn.
var slopes = table{"Prelu": prelu, "PreluBackward": preluGrad}

// slope checks a weight of self: one for all, or one for each place of the second
// dimension, in any shape of so many elements. The view, for Run, broadcasts to self.
func (c *Call) slope(weight, self *Tensor) (view func(t *Tensor) kernel.View, axes []int) {
	channels := int64(1)
	if self.Rank() > 1 {
		channels = self.Shape[1]
	}
	c.plain(weight, self)
	if n := weight.Len(); n != 1 && n != channels {
		c.Invalid("%v must have one element, or %d as %v has channels", weight, channels, self)
	}
	single := weight.Len() == 1
	for i := range self.Rank() {
		if single || i != 1 {
			axes = append(axes, i)
		}
	}
	return func(t *Tensor) kernel.View {
		if single {
			return t.As([]int64{}, []int64{})
		}
		shape, strides := make([]int64, self.Rank()), make([]int64, self.Rank())
		for i := range shape {
			shape[i] = 1
		}
		i := slices.Index(t.Shape, channels) // the others have size one
		shape[1], strides[1] = channels, t.Strides[i]
		return t.As(shape, strides)
	}, axes
}

func prelu(c *Call) (Run, error) {
	self, weight, out := c.Tensor("self"), c.Tensor("weight"), c.Tensor("out")
	c.DType(self, transformerTypes...)
	c.DType(weight, transformerTypes...)
	c.DType(out, transformerTypes...)
	c.SameShape(self, out)
	view, _ := c.slope(weight, self)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if self.Len() == 0 {
			return nil
		}
		return kernel.Map(kernel.Prelu, dtype.Float32, out.View(), []kernel.Input{kernel.Of(self.View()), kernel.Of(view(weight))})
	}, nil
}

func preluGrad(c *Call) (Run, error) {
	dy, self, weight := c.Tensor("gradOutput"), c.Tensor("self"), c.Tensor("weight")
	dx, dweight := c.Tensor("gradInput"), c.Tensor("gradWeight")
	c.DType(self, transformerTypes...)
	c.SameDType(self, dy, weight, dx, dweight)
	c.SameShape(self, dx)
	c.SameShape(weight, dweight)
	c.plain(dy)
	if shape, ok := broadcastShape(dy.Shape, self.Shape); !ok || !slices.Equal(shape, self.Shape) {
		c.Invalid("%v does not broadcast to %v", dy, self)
	}
	view, axes := c.slope(weight, self)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if self.Len() == 0 {
			return zero(dweight)
		}
		t, release := kernel.Temporary(self.Shape...)
		defer release()
		in := []kernel.Input{kernel.Of(dy.View()), kernel.Of(self.View())}
		if err := kernel.Map(kernel.PreluWeightGrad, dtype.Float32, t, in); err != nil {
			return err
		}
		if err := kernel.Map(kernel.PreluGrad, dtype.Float32, dx.View(), append(in, kernel.Of(view(weight)))); err != nil {
			return err
		}
		sum := view(dweight)
		if len(sum.Shape) > 0 {
			sum.Shape, sum.Strides = sum.Shape[1:2], sum.Strides[1:2]
		}
		return kernel.Reduce(kernel.ReduceSum, sum, t, axes, 0)
	}, nil
}
