package loss

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

var likelihoods = op.Table{
	"NLLLoss": nllLoss, "NLLLossBackward": nllLossBackward,
	"NLLLoss2d": nllLoss, "NLLLoss2dBackward": nllLossBackward,
}.Selects()

// nll reads the arguments that forward and backward share. The classes of self are its
// second dimension, or its only one.
func nll(c *op.Call, self *op.Tensor) (describe func() negativeLogLikelihood, targets *op.Tensor, axis int) {
	target, weight, ignore := c.Tensor("target"), c.Tensor("weight"), c.Int("ignoreIndex")
	averaging := averaging(c)
	c.DType(self, op.FloatTypes...)
	c.DType(target, dtype.Int64, dtype.Int32, dtype.Uint8)
	if slices.Contains([]string{"NLLLoss2d", "NLLLoss2dBackward"}, c.Op.Name) {
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
	return func() negativeLogLikelihood {
		return negativeLogLikelihood{Targets: target.View(), Ignore: ignore, Weights: weight.View(), Averaging: averaging}
	}, target, axis
}

func nllLoss(c *op.Call) (op.Run, error) {
	self, out, total := c.Tensor("self"), c.Tensor("out"), c.Tensor("totalWeightOut")
	describe, target, axis := nll(c, self)
	c.DType(out, op.FloatTypes...)
	c.DType(total, op.FloatTypes...)
	c.Single(total)
	if averaging(c) == rowwise.NoAveraging && target.Rank() > 0 {
		c.Shape(out, target.Shape, "a loss for each target")
	} else {
		c.Single(out)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		l := describe()
		return l.Forward(out.View(), total.View(), self.View(), axis)
	}, nil
}

func nllLossBackward(c *op.Call) (op.Run, error) {
	grad, self, total, out := c.Tensor("gradOutput"), c.Tensor("self"), c.Tensor("totalWeight"), c.Tensor("out")
	describe, target, axis := nll(c, self)
	c.Same(self, out)
	c.SameDType(self, grad, total)
	c.Single(total)
	if averaging(c) == rowwise.NoAveraging && target.Rank() > 0 {
		c.Shape(grad, target.Shape, "a gradient for each target")
	} else {
		c.Single(grad)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		l := describe()
		return l.Backward(out.View(), grad.View(), total.View(), axis)
	}, nil
}
