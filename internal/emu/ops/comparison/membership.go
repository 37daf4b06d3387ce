package comparison

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
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
	equal, join := elementwise.Equal, rowwise.ReduceAny
	if invert {
		equal, join = elementwise.NotEqual, rowwise.ReduceAll
	}
	compute := op.PromoteScalar(t.DType, s.DType)
	return func(*op.Exec) error {
		if name == "element" {
			if t.Len() == 0 {
				return nil
			}
			return elementwise.Map(equal, compute, out.View(), []elementwise.Input{elementwise.Of(t.View()), elementwise.Const(s.Number())})
		}
		answers, release := kernel.TemporaryOf(dtype.Bool, t.Shape...)
		defer release()
		if t.Len() > 0 {
			if err := elementwise.Map(equal, compute, answers, []elementwise.Input{elementwise.Of(t.View()), elementwise.Const(s.Number())}); err != nil {
				return err
			}
		}
		return rowwise.Reduce(join, out.As([]int64{}, []int64{}), answers, op.Axes(t.Rank()), 0)
	}, nil
}
