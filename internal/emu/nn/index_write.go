package nn

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// writing are the operators that change elements at places that tensors or lists hold.
var writing = table{
	"IndexFill": indexFill, "InplaceIndexFill": indexFill, "IndexFillTensor": indexFill, "InplaceIndexFillTensor": indexFill,
	"InplaceMaskedScatter": maskedScatter, "InplacePut": put,
	"ScatterNd": scatterND, "ScatterNdUpdate": scatterND, "InplaceScatterUpdate": scatterUpdate,
	"TfScatterAdd": scatterAddRows, "ScatterReduce": scatterReduce, "InplaceScatterReduce": scatterReduce,
}

// indexFill sets the parts of self along a dimension that index names to a value.
func indexFill(c *Call) (Run, error) {
	self, out := c.target()
	value := c.Scalar("value")
	axis := c.Axis(self, c.Int("dim"))
	c.movable(self, out)
	c.Same(self, out)
	if !kernel.Computes(self.DType) {
		c.Invalid("%v has a dtype that a scalar cannot be stored in", self)
	}
	size := self.vectorShape()[axis]
	list := func() ([]int64, error) { return c.Ints("index"), nil }
	if c.op.params[slices.IndexFunc(c.op.params, func(p param) bool { return p.name == "index" })].class == tensorClass {
		index := c.Tensor("index")
		c.plain(index)
		c.DType(index, indexTypes...)
		c.Rank(index, 0, 1)
		list = func() ([]int64, error) { return kernel.Indices(index.View()) }
	} else {
		for _, k := range c.Ints("index") {
			if k < -size || k >= size {
				c.Invalid("index %d is out of range for dimension %d of %v", k, axis, self)
			}
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return c.updating(self, out, func() error {
		places, err := list()
		if err != nil {
			return err
		}
		for i, k := range places {
			if k < -size || k >= size {
				return fmt.Errorf("index %d at position %d is out of range for a dimension of %d", k, i, size)
			}
		}
		for _, k := range places {
			if k < 0 {
				k += size
			}
			if err := kernel.Fill(out.lined().Narrow(axis, k, 1), value.number()); err != nil {
				return err
			}
		}
		return nil
	}), nil
}

// maskedScatter sends the elements of source, in order, to the places where mask is true.
func maskedScatter(c *Call) (Run, error) {
	self, mask, source := c.Tensor("selfRef"), c.Tensor("mask"), c.Tensor("source")
	c.movable(self, source)
	c.plain(mask)
	c.SameDType(self, source)
	c.DType(mask, dtype.Bool, dtype.Uint8)
	if shape, ok := broadcastShape(self.Shape, mask.Shape); !ok || !slices.Equal(shape, self.Shape) {
		c.Invalid("%v does not broadcast to %v", mask, self)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if self.Len() == 0 {
			return nil
		}
		return kernel.Expand(self.View(), mask.View(), source.View())
	}, nil
}

// put sets or adds the elements of source at positions in the flattened tensor.
func put(c *Call) (Run, error) {
	self, index, source := c.Tensor("selfRef"), c.Tensor("index"), c.Tensor("source")
	op := kernel.ScatterSet
	if c.Bool("accumulate") {
		op = kernel.ScatterAdd
	}
	c.movable(self, source)
	c.plain(index)
	c.SameDType(self, source)
	c.DType(index, indexTypes...)
	if op == kernel.ScatterAdd && !kernel.Computes(self.DType) {
		c.Invalid("%v has a dtype that cannot be computed with", self)
	}
	if index.Len() != source.Len() {
		c.Invalid("%v and %v must have as many elements", index, source)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if index.Len() == 0 {
			return nil
		}
		return kernel.PutFlat(op, self.View(), index.View(), source.View())
	}, nil
}

// scatterND sets the parts that the tuples of indices name.
func scatterND(c *Call) (Run, error) {
	var self, out *Tensor
	if c.Has("varRef") {
		self = c.Tensor("varRef")
		out = self
	} else {
		self, out = c.Tensor("data"), c.Tensor("out")
	}
	indices, updates := c.Tensor("indices"), c.Tensor("updates")
	c.movable(out)
	c.Same(self, out)
	lists := c.coordinatesOf(self, indices, updates)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return c.updating(self, out, func() error {
		if updates.Len() == 0 {
			return nil
		}
		return kernel.Put(kernel.ScatterSet, out.View(), updates.tupled(indices), lists())
	}), nil
}

// scatterAddRows adds updates to the rows that indices name, one row for each index, or to
// the parts that its tuples name. A shape that fits both means rows.
func scatterAddRows(c *Call) (Run, error) {
	self, indices, updates := c.Tensor("varRef"), c.Tensor("indices"), c.Tensor("updates")
	c.movable(self, updates)
	c.DType(self, dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int32, dtype.Int8, dtype.Uint8)
	c.SameDType(self, updates)
	c.plain(indices)
	c.DType(indices, indexTypes...)
	c.Rank(self, 1, kernel.MaxRank)
	if c.Err() == nil && self.Len() == 0 && indices.Len() > 0 {
		c.Invalid("%v is empty; there is nothing for %v to name", self, indices)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	lists := func() []kernel.View { return []kernel.View{indices.lined()} }
	values := func() kernel.View {
		if indices.Rank() == 0 {
			return updates.As(slices.Concat([]int64{1}, updates.Shape), slices.Concat([]int64{0}, updates.Strides))
		}
		return updates.View()
	}
	if !slices.Equal(updates.Shape, slices.Concat(indices.Shape, self.Shape[1:])) {
		lists = c.coordinatesOf(self, indices, updates)
		values = func() kernel.View { return updates.tupled(indices) }
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if updates.Len() == 0 {
			return nil
		}
		return kernel.Put(kernel.ScatterAdd, self.View(), values(), lists())
	}, nil
}

// scatterUpdate writes updates[i] into data[i] from place indices[i] of a dimension on. One
// index alone holds for every i.
func scatterUpdate(c *Call) (Run, error) {
	data, indices, updates := c.Tensor("data"), c.Tensor("indices"), c.Tensor("updates")
	c.movable(data, updates)
	c.plain(indices)
	c.SameDType(data, updates)
	c.DType(indices, indexTypes...)
	c.Rank(data, 2, kernel.MaxRank)
	c.Rank(indices, 0, 1)
	axis := c.Axis(data, c.Int("axis"))
	if axis == 0 {
		c.Invalid("axis is 0, the dimension that indices runs along; use another")
	}
	c.covers(data, updates, axis)
	if err := c.Err(); err != nil {
		return nil, err
	}
	if n := indices.Len(); n != 1 && n != updates.Shape[0] {
		c.Invalid("%v must have an index for each of the %d leading parts of %v, or one for all", indices, updates.Shape[0], updates)
	}
	for i, n := range updates.Shape {
		if i != axis && n != data.Shape[i] {
			c.Invalid("%v must have the sizes of %v but for dimension %d", updates, data, axis)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if updates.Len() == 0 {
			return nil
		}
		at, err := kernel.Indices(indices.View())
		if err != nil {
			return err
		}
		length := updates.Shape[axis]
		for i, k := range at {
			if k < 0 || k+length > data.Shape[axis] {
				return fmt.Errorf("index %d at position %d leaves no room for %d parts in a dimension of %d", k, i, length, data.Shape[axis])
			}
		}
		for i := range updates.Shape[0] {
			k := at[min(i, int64(len(at)-1))]
			part := data.View().Narrow(0, i, 1).Narrow(axis, k, length)
			if err := kernel.Copy(part, updates.View().Narrow(0, i, 1)); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// scatterReduce is scatter that may leave the old elements out of the result: a place that
// is scattered to then begins with the neutral element, or any of the new ones.
func scatterReduce(c *Call) (Run, error) {
	self, out := c.target()
	index, src := c.Tensor("index"), c.Tensor("src")
	axis := c.Axis(self, c.Int("dim"))
	op := kernel.ScatterOp(c.Int("reduce"))
	const mean = kernel.ScatterMin + 1
	if op < kernel.ScatterSet || op > mean {
		c.Invalid("reduce %d is unknown; 0 replaces, 1 adds, 2 multiplies, 3 takes the largest, 4 the smallest, 5 the mean", op)
	}
	c.movable(self, out, src)
	c.plain(index)
	c.DType(index, indexTypes...)
	c.Same(self, out)
	c.SameDType(self, src)
	c.covers(self, index, axis)
	c.covers(src, index, -1)
	if op != kernel.ScatterSet && !kernel.Computes(self.DType) {
		c.Invalid("%v has a dtype that cannot be computed with", self)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	keep := c.Bool("includeSelf")
	neutral := map[kernel.ScatterOp]int64{kernel.ScatterAdd: 0, kernel.ScatterMul: 1}
	return c.updating(self, out, func() error {
		if index.Len() == 0 {
			return nil
		}
		from := src.lined()
		from.Shape = index.lined().Shape
		if op == mean {
			return kernel.ScatterMean(out.lined(), from, axis, index.lined(), keep)
		}
		if !keep && op != kernel.ScatterSet {
			var err error
			if n, ok := neutral[op]; ok {
				err = kernel.ScatterNumber(kernel.ScatterSet, out.lined(), kernel.Whole(n), axis, index.lined())
			} else {
				err = kernel.Scatter(kernel.ScatterSet, out.lined(), from, axis, index.lined())
			}
			if err != nil {
				return err
			}
		}
		return kernel.Scatter(op, out.lined(), from, axis, index.lined())
	}), nil
}
