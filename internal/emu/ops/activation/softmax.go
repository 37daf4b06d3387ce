package activation

import (
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

var softmaxes = op.Table{
	"Softmax": softmax(rowwise.Softmax), "LogSoftmax": softmax(rowwise.LogSoftmax),
	"SoftmaxBackward": softmaxBackward(rowwise.SoftmaxGrad), "LogSoftmaxBackward": softmaxBackward(rowwise.LogSoftmaxGrad),
}

func softmax(compute func(out, x kernel.View, axis int) error) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		x, out := c.Tensor("self"), c.Tensor("out")
		c.DType(x, op.RealTypes...)
		c.Countable(out)
		c.SameShape(x, out)
		axis := c.Axis(x, c.Int("dim"))
		if err := c.Err(); err != nil {
			return nil, err
		}
		return func(*op.Exec) error {
			switch {
			case x.Len() == 0:
				return nil
			case x.Rank() == 0: // one class has probability one
				return compute(out.As([]int64{1}, []int64{1}), x.As([]int64{1}, []int64{1}), 0)
			}
			return compute(out.View(), x.View(), axis)
		}, nil
	}
}

func softmaxBackward(compute func(dx, dy, y kernel.View, axis int) error) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		dy, y, dx := c.Tensor("gradOutput"), c.Tensor("output"), c.Tensor("out")
		c.DType(y, op.RealTypes...)
		c.Countable(dy, dx)
		c.SameShape(y, dy, dx)
		axis := c.Axis(y, c.Int("dim"))
		if err := c.Err(); err != nil {
			return nil, err
		}
		return func(*op.Exec) error {
			switch {
			case y.Len() == 0:
				return nil
			case y.Rank() == 0:
				one := []int64{1}
				return compute(dx.As(one, one), dy.As(one, one), y.As(one, one), 0)
			}
			return compute(dx.View(), dy.View(), y.View(), axis)
		}, nil
	}
}
