package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// joined are the operators that combine a list of tensors element by element, and OneHot,
// which spreads places along a dimension of its own.
var joined = table{
	"AddN": joinAll(kernel.Add), "Sum": joinAll(kernel.Add), "SumV2": joinAll(kernel.Add), "MaxN": joinAll(kernel.Max), "MinN": joinAll(kernel.Min),
	"OneHot": oneHot, "AddRelu": addRelu, "InplaceAddRelu": addRelu,
}

// joinAll folds a list; the tensors broadcast to out, and sums of 16-bit types are kept in
// fp32 and rounded once.
func joinAll(op kernel.Op) Prepare {
	return func(c *Call) (Run, error) {
		list, out := c.Tensors("tensors"), c.Tensor("out")
		if len(list) == 0 {
			c.Fail(nullPointer, "tensors is null or empty")
		}
		c.countable(out)
		c.countable(list...)
		for _, t := range list {
			c.SameDType(out, t)
			if shape, ok := broadcastShape(t.Shape, out.Shape); !ok || !slices.Equal(shape, out.Shape) {
				c.Invalid("%v does not broadcast to %v", t, out)
			}
		}
		if err := c.Err(); err != nil {
			return nil, err
		}
		return func(*Exec) error {
			if out.Len() == 0 {
				return nil
			}
			views := make([]kernel.View, len(list))
			for i, t := range list {
				views[i] = t.View()
			}
			return kernel.Fold(op, out.View(), views)
		}, nil
	}
}

// oneHot sets the place that self names along a new dimension to onValue, the others to
// offValue; a place outside of the dimension sets none.
func oneHot(c *Call) (Run, error) {
	self, on, off, out := c.Tensor("self"), c.Tensor("onValue"), c.Tensor("offValue"), c.Tensor("out")
	n, axis := c.Int("numClasses"), c.Int("axis")
	c.plain(self)
	c.DType(self, dtype.Int32, dtype.Int64, dtype.Uint8)
	c.countable(out, on, off)
	c.SameDType(out, on, off)
	if on.Len() != 1 || off.Len() != 1 {
		c.Invalid("%v and %v must have one element", on, off)
	}
	if axis == -1 {
		axis = int64(self.Rank())
	}
	if n < 0 || axis < 0 || axis > int64(self.Rank()) {
		c.Invalid("numClasses is %d and axis %d; use at least 0, and -1 to %d", n, c.Int("axis"), self.Rank())
		return nil, c.Err()
	}
	c.Shape(out, slices.Insert(slices.Clone(self.Shape), int(axis), n), "self with a dimension of numClasses")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		at := self.As(slices.Insert(slices.Clone(self.Shape), int(axis), 1), slices.Insert(slices.Clone(self.Strides), int(axis), 0))
		return kernel.OneHot(out.View(), at, int(axis), on.As([]int64{}, []int64{}), off.As([]int64{}, []int64{}))
	}, nil
}

// addRelu is relu(self + alpha · other).
func addRelu(c *Call) (Run, error) {
	add, err := elementwise{op: kernel.Add, params: alpha}.prepare(c)
	if err != nil {
		return nil, err
	}
	_, out := c.target()
	return sequence([]Run{add, func(*Exec) error {
		return kernel.Map(kernel.Relu, out.DType, out.View(), []kernel.Input{kernel.Of(out.View())})
	}}), nil
}
