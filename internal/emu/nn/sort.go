package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// orderings are the operators that sort. They are stable, and take NaN for the largest.
var orderings = table{"Sort": sortAlong, "Argsort": sortAlong, "Topk": topK}

func sortAlong(c *Call) (Run, error) {
	self := c.Tensor("self")
	axis := c.Axis(self, c.Int("dim"))
	if c.op.name == "Argsort" {
		return c.ordered(self, nil, c.Tensor("out"), axis, self.Shape, c.Bool("descending"))
	}
	return c.ordered(self, c.Tensor("valuesOut"), c.Tensor("indicesOut"), axis, self.Shape, c.Bool("descending"))
}

// topK gives the k first elements of the order, whatever sorted says, as the device does.
func topK(c *Call) (Run, error) {
	self, k := c.Tensor("self"), c.Int("k")
	axis := c.Axis(self, c.Int("dim"))
	shape := slices.Clone(self.Shape)
	if n := self.vectorShape()[axis]; k < 0 || k > n {
		c.Invalid("k is %d; dimension %d of %v has %d elements", k, axis, self, n)
	} else if len(shape) > 0 {
		shape[axis] = k
	}
	return c.ordered(self, c.Tensor("valuesOut"), c.Tensor("indicesOut"), axis, shape, c.Bool("largest"))
}

// vectorShape is the shape, of one dimension for a tensor that has none.
func (t *Tensor) vectorShape() []int64 {
	if t.Rank() == 0 {
		return []int64{1}
	}
	return t.Shape
}

// ordered sets indices to the places of the first elements of self in order, and values to
// the elements unless it is nil.
func (c *Call) ordered(self, values, indices *Tensor, axis int, shape []int64, descending bool) (Run, error) {
	c.plain(self, indices)
	c.DType(indices, dtype.Int64)
	c.Shape(indices, shape, "the places of the elements")
	if !kernel.Computes(self.DType) {
		c.Invalid("%v has a dtype that is not supported", self)
	}
	if values != nil {
		c.plain(values)
		c.Shape(values, shape, "the elements in order")
		c.SameDType(self, values)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if indices.Len() == 0 {
			return nil
		}
		if err := kernel.Order(indices.lined(), self.lined(), axis, descending); err != nil || values == nil {
			return err
		}
		return kernel.Gather(values.lined(), self.lined(), axis, indices.lined())
	}, nil
}
