package reduction

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/op"
)

// orderings lists the operators that sort. They are stable and treat NaN as the largest value.
var orderings = op.Table{"Sort": sortAlong, "Argsort": sortAlong, "Topk": topK}

func sortAlong(c *op.Call) (op.Run, error) {
	self := c.Tensor("self")
	axis := c.Axis(self, c.Int("dim"))
	if c.Op.Name == "Argsort" {
		return ordered(c, self, nil, c.Tensor("out"), axis, self.Shape, c.Bool("descending"))
	}
	return ordered(c, self, c.Tensor("valuesOut"), c.Tensor("indicesOut"), axis, self.Shape, c.Bool("descending"))
}

// topK returns the first k elements in order. Like the device it sorts them even if sorted is
// false.
func topK(c *op.Call) (op.Run, error) {
	self, k := c.Tensor("self"), c.Int("k")
	axis := c.Axis(self, c.Int("dim"))
	shape := slices.Clone(self.Shape)
	if n := self.VectorShape()[axis]; k < 0 || k > n {
		c.Invalid("k is %d; dimension %d of %v has %d elements", k, axis, self, n)
	} else if len(shape) > 0 {
		shape[axis] = k
	}
	values, indices := c.Tensor("valuesOut"), c.Tensor("indicesOut")
	if self.Rank() == 0 && k == 1 && values.Rank() == 1 && indices.Rank() == 1 {
		shape = []int64{1} // CANN computes with a vector of one element, which it copies to either form
	}
	return ordered(c, self, values, indices, axis, shape, c.Bool("largest"))
}

// ordered sets indices to the positions of the first elements of self in sort order, and values
// to the elements unless values is nil.
func ordered(c *op.Call, self, values, indices *op.Tensor, axis int, shape []int64, descending bool) (op.Run, error) {
	c.Linear(self, indices)
	c.Depth(self)
	c.DType(indices, dtype.Int64)
	c.Shape(indices, shape, "the places of the elements")
	if !kernel.Computes(self.DType) {
		c.Invalid("%v has a dtype that is not supported", self)
	}
	if values != nil {
		c.Linear(values)
		c.Shape(values, shape, "the elements in order")
		if c.Op.Name == "Sort" { // which casts them
			c.Copies(values, self)
		} else {
			c.SameDType(self, values)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if indices.Len() == 0 {
			return nil
		}
		if self.Rank() > kernel.MaxRank || values != nil && values.DType != self.DType {
			return orderedApart(self, values, indices, axis, descending)
		}
		if err := indexing.Order(indices.AsVector(), self.AsVector(), axis, descending); err != nil || values == nil {
			return err
		}
		return indexing.Gather(values.AsVector(), self.AsVector(), axis, indices.AsVector())
	}, nil
}

// orderedApart computes in memory of its own, where the dimensions before and after the axis are one
// each and the values have the type of self.
func orderedApart(self, values, indices *op.Tensor, axis int, descending bool) error {
	folded := func(d dtype.Type, t *op.Tensor) (kernel.View, func()) {
		shape := t.VectorShape()
		return kernel.TemporaryOf(d, op.Count(shape[:axis]), shape[axis], op.Count(shape[axis+1:]))
	}
	x, release := folded(self.DType, self)
	defer release()
	places, releasePlaces := folded(dtype.Int64, indices)
	defer releasePlaces()
	if err := elementwise.CopyInOrder(x, self.View()); err != nil {
		return err
	}
	if err := indexing.Order(places, x, 1, descending); err != nil {
		return err
	}
	if err := elementwise.CopyInOrder(indices.View(), places); err != nil || values == nil {
		return err
	}
	sorted, releaseSorted := folded(self.DType, values)
	defer releaseSorted()
	if err := indexing.Gather(sorted, x, 1, places); err != nil {
		return err
	}
	return elementwise.CopyInOrder(values.View(), sorted)
}
