package index

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// oneHots expand indices to a new dimension.
var oneHots = op.Table{"OneHot": oneHot}

// oneHot adds a dimension and sets the element at the index in self to onValue and the others to
// offValue. If an index is outside of the dimension, all elements are offValue.
func oneHot(c *op.Call) (op.Run, error) {
	self, on, off, out := c.Tensor("self"), c.Tensor("onValue"), c.Tensor("offValue"), c.Tensor("out")
	n, axis := c.Int("numClasses"), c.Int("axis")
	c.Plain(self)
	c.DType(self, dtype.Int32, dtype.Int64, dtype.Uint8)
	c.Countable(out, on, off)
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
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		at := self.As(slices.Insert(slices.Clone(self.Shape), int(axis), 1), slices.Insert(slices.Clone(self.Strides), int(axis), 0))
		return elementwise.OneHot(out.View(), at, int(axis), on.As([]int64{}, []int64{}), off.As([]int64{}, []int64{}))
	}, nil
}
