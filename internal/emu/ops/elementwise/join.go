package elementwise

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/pointwise"
)

// joined are the operators that combine several tensors element by element.
var joined = op.Table{
	"AddN": joinAll(elementwise.Add), "Sum": joinAll(elementwise.Add), "SumV2": joinAll(elementwise.Add), "MaxN": joinAll(elementwise.Max), "MinN": joinAll(elementwise.Min),
	"AddRelu": addRelu, "InplaceAddRelu": addRelu, "FusedMulAddN": fusedMulAddN,
}

// joinAll combines the tensors of a list with fn. The tensors broadcast to out. Sums of 16-bit
// types are accumulated in float32 and rounded once.
func joinAll(fn elementwise.Op) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		list, out := c.Tensors("tensors"), c.Tensor("out")
		if len(list) == 0 {
			c.Fail(op.NullPointer, "tensors is null or empty")
		}
		c.Countable(out)
		c.Countable(list...)
		for _, t := range list {
			c.SameDType(out, t)
			if shape, ok := op.BroadcastShape(t.Shape, out.Shape); !ok || !slices.Equal(shape, out.Shape) {
				c.Invalid("%v does not broadcast to %v", t, out)
			}
		}
		if err := c.Err(); err != nil {
			return nil, err
		}
		return func(*op.Exec) error {
			if out.Len() == 0 {
				return nil
			}
			views := make([]kernel.View, len(list))
			for i, t := range list {
				views[i] = t.View()
			}
			return elementwise.Fold(fn, out.View(), views)
		}, nil
	}
}

// addRelu is relu(self + alpha · other).
func addRelu(c *op.Call) (op.Run, error) {
	add, err := pointwise.Form{Op: elementwise.Add, Params: alpha}.Prepare(c)
	if err != nil {
		return nil, err
	}
	_, out := c.Target()
	if out.DType.IsComplex() {
		c.Invalid("%v: complex numbers have no order, which relu needs", out)
		return nil, c.Err()
	}
	return op.Sequence([]op.Run{add, func(*op.Exec) error {
		return elementwise.Map(elementwise.Relu, out.DType, out.View(), []elementwise.Input{elementwise.Of(out.View())})
	}}), nil
}

// fusedMulAddN is x1 · x3 + x2, x3 having one element. 16-bit floats are computed in float32 and rounded once,
// integers wrap.
func fusedMulAddN(c *op.Call) (op.Run, error) {
	x1, x2, x3, y := c.Tensor("x1"), c.Tensor("x2"), c.Tensor("x3"), c.Tensor("y")
	c.DType(x1, dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int32, dtype.Int16)
	c.SameDType(x1, x2, x3, y)
	c.SameShape(x1, x2, y)
	c.Single(x3)
	c.Plain(x1, x2, x3, y)
	if err := c.Err(); err != nil {
		return nil, err
	}
	c.HandlesOverlap()
	return func(*op.Exec) error {
		factor := x3.As(nil, nil) // it may have more dimensions than y
		return elementwise.Map(elementwise.Addcmul, y.DType, y.View(),
			[]elementwise.Input{elementwise.Of(x2.View()), elementwise.Of(x1.View()), elementwise.Of(factor)}, elementwise.Whole(1))
	}, nil
}
