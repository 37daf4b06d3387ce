package activation

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// slopes are rectifiers whose factor for negative elements is a tensor, either learnt or random.
var slopes = op.Table{"Prelu": prelu, "PreluBackward": preluGrad}

// slope checks a weight of self with one element, or with one for each index of the second
// dimension, in any shape with that many elements. The returned view broadcasts to self and is
// valid inside Run only, until it is released.
func slope(c *op.Call, weight, self *op.Tensor) (view func(t *op.Tensor) (kernel.View, func(), error), axes []int) {
	channels := int64(1)
	if self.Rank() > 1 {
		channels = self.Shape[1]
	}
	c.Plain(weight, self)
	if n := weight.Len(); n != 1 && n != channels {
		c.Invalid("%v must have one element, or %d as %v has channels", weight, channels, self)
	}
	single := weight.Len() == 1
	for i := range self.Rank() {
		if single || i != 1 {
			axes = append(axes, i)
		}
	}
	keep := func() {}
	return func(t *op.Tensor) (kernel.View, func(), error) {
		if single {
			return t.As([]int64{}, []int64{}), keep, nil
		}
		shape, strides := make([]int64, self.Rank()), make([]int64, self.Rank())
		for i := range shape {
			shape[i] = 1
		}
		shape[1] = channels
		if i := slices.Index(t.Shape, channels); i >= 0 { // the other dimensions have size one
			strides[1] = t.Strides[i]
			return t.As(shape, strides), keep, nil
		}
		vector, release := kernel.TemporaryOf(t.DType, t.Shape...)
		err := elementwise.Copy(vector, t.View())
		strides[1] = 1
		vector.Shape, vector.Strides = shape, strides
		return vector, release, err
	}, axes
}

func prelu(c *op.Call) (op.Run, error) {
	self, weight, out := c.Tensor("self"), c.Tensor("weight"), c.Tensor("out")
	c.DType(self, op.FloatTypes...)
	c.DType(weight, op.FloatTypes...)
	c.DType(out, op.FloatTypes...)
	c.SameShape(self, out)
	view, _ := slope(c, weight, self)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if self.Len() == 0 {
			return nil
		}
		factors, release, err := view(weight)
		defer release()
		if err != nil {
			return err
		}
		return elementwise.Map(elementwise.Prelu, dtype.Float32, out.View(), []elementwise.Input{elementwise.Of(self.View()), elementwise.Of(factors)})
	}, nil
}

func preluGrad(c *op.Call) (op.Run, error) {
	dy, self, weight := c.Tensor("gradOutput"), c.Tensor("self"), c.Tensor("weight")
	dx, dweight := c.Tensor("gradInput"), c.Tensor("gradWeight")
	c.DType(self, op.FloatTypes...)
	c.SameDType(self, dy, weight, dx, dweight)
	c.SameShape(self, dx)
	if weight.Len() == 1 {
		c.SameShape(weight, dweight)
	}
	c.Plain(dy)
	if shape, ok := op.BroadcastShape(dy.Shape, self.Shape); !ok || !slices.Equal(shape, self.Shape) {
		c.Invalid("%v does not broadcast to %v", dy, self)
	}
	view, axes := slope(c, weight, self)
	if weight.Len() != 1 && c.Err() == nil {
		c.Shape(dweight, []int64{self.Shape[1]}, "one number for each channel of self")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if self.Len() == 0 {
			return op.Zero(dweight)
		}
		t, release := kernel.Temporary(self.Shape...)
		defer release()
		in := []elementwise.Input{elementwise.Of(dy.View()), elementwise.Of(self.View())}
		if err := elementwise.Map(elementwise.PreluWeightGrad, dtype.Float32, t, in); err != nil {
			return err
		}
		factors, unuse, err := view(weight)
		defer unuse()
		if err != nil {
			return err
		}
		if err := elementwise.Map(elementwise.PreluGrad, dtype.Float32, dx.View(), append(in, elementwise.Of(factors))); err != nil {
			return err
		}
		sum := dweight.View()
		if weight.Len() == 1 {
			sum = dweight.As([]int64{}, []int64{})
		}
		return rowwise.Reduce(rowwise.ReduceSum, sum, t, axes, 0)
	}, nil
}
