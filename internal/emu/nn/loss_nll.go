package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

var likelihoods = table{
	"NLLLoss": nllLoss, "NLLLossBackward": nllLossBackward,
	"NLLLoss2d": nllLoss, "NLLLoss2dBackward": nllLossBackward,
}

// nll reads the arguments that forward and backward share. The classes of self are its
// second dimension, or its only one.
func (c *Call) nll(self *Tensor) (describe func() kernel.NegativeLogLikelihood, targets *Tensor, axis int) {
	target, weight, ignore := c.Tensor("target"), c.Tensor("weight"), c.Int("ignoreIndex")
	averaging := c.averaging()
	c.DType(self, transformerTypes...)
	c.DType(target, dtype.Int64, dtype.Int32, dtype.Uint8)
	if slices.Contains([]string{"NLLLoss2d", "NLLLoss2dBackward"}, c.op.name) {
		c.Rank(self, 4, 4)
	} else {
		c.Rank(self, 1, 2)
	}
	axis = min(1, self.Rank()-1)
	if c.Err() == nil {
		c.Shape(target, slices.Concat(self.Shape[:axis], self.Shape[axis+1:]), "self without the classes")
		c.Shape(weight, self.Shape[axis:axis+1], "one weight for each class")
		c.SameDType(self, weight)
	}
	return func() kernel.NegativeLogLikelihood {
		return kernel.NegativeLogLikelihood{Targets: target.View(), Ignore: ignore, Weights: weight.View(), Averaging: averaging}
	}, target, axis
}

// single refuses a tensor that has not one element.
func (c *Call) single(t *Tensor) {
	if t.Len() != 1 {
		c.Invalid("%v must have one element", t)
	}
}

func nllLoss(c *Call) (Run, error) {
	self, out, total := c.Tensor("self"), c.Tensor("out"), c.Tensor("totalWeightOut")
	describe, target, axis := c.nll(self)
	c.DType(out, transformerTypes...)
	c.DType(total, transformerTypes...)
	c.single(total)
	if c.averaging() == kernel.NoAveraging && target.Rank() > 0 {
		c.Shape(out, target.Shape, "a loss for each target")
	} else {
		c.single(out)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		l := describe()
		return l.Forward(out.View(), total.View(), self.View(), axis)
	}, nil
}

func nllLossBackward(c *Call) (Run, error) {
	grad, self, total, out := c.Tensor("gradOutput"), c.Tensor("self"), c.Tensor("totalWeight"), c.Tensor("out")
	describe, target, axis := c.nll(self)
	c.Same(self, out)
	c.SameDType(self, grad, total)
	c.single(total)
	if c.averaging() == kernel.NoAveraging && target.Rank() > 0 {
		c.Shape(grad, target.Shape, "a gradient for each target")
	} else {
		c.single(grad)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		l := describe()
		return l.Backward(out.View(), grad.View(), total.View(), axis)
	}, nil
}
