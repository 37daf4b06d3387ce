package comparison

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/op"
)

// memberships test whether elements occur in a set.
var memberships = op.Table{"IsInScalarTensor": isIn, "IsInTensorScalar": isIn}

// isIn tests whether each element occurs among the test elements. One of the two arguments is a
// scalar.
func isIn(c *op.Call) (op.Run, error) {
	out := c.Tensor("out")
	c.Plain(out)
	c.DType(out, dtype.Bool)
	name, scalar := "element", "testElement"
	if c.Op.Name == "IsInScalarTensor" {
		name, scalar = "testElements", "element"
	}
	t, s := c.Tensor(name), c.Scalar(scalar)
	c.Countable(t)
	invert := c.Bool("invert")
	if name == "testElements" {
		if out.Len() != 1 {
			c.Invalid("%v must have one element", out)
		}
	} else {
		c.SameShape(t, out)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	equal, join := kernel.Equal, kernel.ReduceAny
	if invert {
		equal, join = kernel.NotEqual, kernel.ReduceAll
	}
	compute := op.PromoteScalar(t.DType, s.DType)
	return func(*op.Exec) error {
		if name == "element" {
			if t.Len() == 0 {
				return nil
			}
			return kernel.Map(equal, compute, out.View(), []kernel.Input{kernel.Of(t.View()), kernel.Const(s.Number())})
		}
		answers, release := kernel.TemporaryOf(dtype.Bool, t.Shape...)
		defer release()
		if t.Len() > 0 {
			if err := kernel.Map(equal, compute, answers, []kernel.Input{kernel.Of(t.View()), kernel.Const(s.Number())}); err != nil {
				return err
			}
		}
		return kernel.Reduce(join, out.As([]int64{}, []int64{}), answers, op.Axes(t.Rank()), 0)
	}, nil
}
