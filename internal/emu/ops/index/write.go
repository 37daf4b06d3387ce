package index

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	indexingkernel "github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/op"
)

// writing are the operators that change elements at positions given by tensors or lists.
var writing = op.Table{
	"IndexFill": indexFill, "InplaceIndexFill": indexFill, "IndexFillTensor": indexFill, "InplaceIndexFillTensor": indexFill,
	"InplaceMaskedScatter": maskedScatter, "InplacePut": put,
	"ScatterNd": scatterND, "ScatterNdUpdate": scatterND, "InplaceScatterUpdate": scatterUpdate,
	"TfScatterAdd": scatterAddRows, "ScatterReduce": scatterReduce, "InplaceScatterReduce": scatterReduce,
}.Selects()

// indexFill sets the slices of self at the positions in index, along one dimension, to a value.
func indexFill(c *op.Call) (op.Run, error) {
	self, out := c.Target()
	value := c.Scalar("value")
	axis := c.Axis(self, c.Int("dim"))
	c.Movable(self, out)
	c.Same(self, out)
	if !kernel.Computes(self.DType) {
		c.Invalid("%v has a dtype that a scalar cannot be stored in", self)
	}
	size := self.VectorShape()[axis]
	list := func() ([]int64, error) { return c.Ints("index"), nil }
	if c.Class("index") == op.TensorClass {
		index := c.Tensor("index")
		c.Plain(index)
		c.DType(index, op.IndexTypes...)
		c.Rank(index, 0, 1)
		list = func() ([]int64, error) { return elementwise.Indices(index.View()) }
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
	return updating(c, self, out, func() error {
		places, err := list()
		if err != nil {
			return err
		}
		for i, k := range places {
			if k < -size || k >= size {
				return fmt.Errorf("index %d at position %d is out of range for a dimension of %d", k, i, size)
			}
		}
		if len(places) == 0 {
			return nil
		}
		return indexingkernel.FillAt(out.AsVector(), value.Number(), axis, places)
	}), nil
}

// maskedScatter writes the elements of source, in order, to the positions where mask is true.
func maskedScatter(c *op.Call) (op.Run, error) {
	self, mask, source := c.Tensor("selfRef"), c.Tensor("mask"), c.Tensor("source")
	c.Movable(self, source)
	c.Plain(mask)
	c.SameDType(self, source)
	c.DType(mask, dtype.Bool, dtype.Uint8)
	if shape, ok := op.BroadcastShape(self.Shape, mask.Shape); !ok || !slices.Equal(shape, self.Shape) {
		c.Invalid("%v does not broadcast to %v", mask, self)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if self.Len() == 0 {
			return nil
		}
		return indexingkernel.Expand(self.View(), mask.View(), source.View())
	}, nil
}

// put sets or adds the elements of source at positions of the flattened tensor.
func put(c *op.Call) (op.Run, error) {
	self, index, source := c.Tensor("selfRef"), c.Tensor("index"), c.Tensor("source")
	fn := indexingkernel.ScatterSet
	if c.Bool("accumulate") {
		fn = indexingkernel.ScatterAdd
	}
	c.Movable(self, source)
	c.Plain(index)
	c.SameDType(self, source)
	c.DType(index, op.IndexTypes...)
	if fn == indexingkernel.ScatterAdd && !combines(self.DType) {
		c.Invalid("%v has a dtype that cannot be computed with", self)
	}
	if index.Len() != source.Len() {
		c.Invalid("%v and %v must have as many elements", index, source)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if index.Len() == 0 {
			return nil
		}
		if fn == indexingkernel.ScatterAdd && self.DType.IsComplex() {
			values, err := source.Numbers(source.Shape)
			if err != nil {
				return err
			}
			return scatterComplex(fn, self, places{[]int64{self.Len()}, []int64{index.Len()}, 0, index}, values)
		}
		return indexingkernel.PutFlat(fn, self.View(), index.View(), source.View())
	}, nil
}

// scatterND sets the slices at the tuples of coordinates in indices.
func scatterND(c *op.Call) (op.Run, error) {
	var self, out *op.Tensor
	if c.Has("varRef") {
		self = c.Tensor("varRef")
		out = self
	} else {
		self, out = c.Tensor("data"), c.Tensor("out")
	}
	indices, updates := c.Tensor("indices"), c.Tensor("updates")
	c.Movable(out)
	c.Same(self, out)
	lists := coordinatesOf(c, self, indices, updates)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return updating(c, self, out, func() error {
		if updates.Len() == 0 {
			return nil
		}
		return indexingkernel.Put(indexingkernel.ScatterSet, out.View(), tupled(updates, indices), lists())
	}), nil
}

// scatterAddRows adds updates to rows of varRef, one row for each index, or to slices at tuples of
// coordinates. If the shape of indices fits both, it holds row indices.
func scatterAddRows(c *op.Call) (op.Run, error) {
	self, indices, updates := c.Tensor("varRef"), c.Tensor("indices"), c.Tensor("updates")
	c.Movable(self, updates)
	c.DType(self, dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int32, dtype.Int8, dtype.Uint8)
	c.SameDType(self, updates)
	c.Plain(indices)
	c.DType(indices, op.IndexTypes...)
	c.Rank(self, 1, kernel.MaxRank)
	if c.Err() == nil && self.Len() == 0 && indices.Len() > 0 {
		c.Vacuous("%v is empty; there is nothing for %v to name", self, indices)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	lists := func() []kernel.View { return []kernel.View{indices.AsVector()} }
	values := func() kernel.View {
		if indices.Rank() == 0 {
			return updates.As(slices.Concat([]int64{1}, updates.Shape), slices.Concat([]int64{0}, updates.Strides))
		}
		return updates.View()
	}
	if !slices.Equal(updates.Shape, slices.Concat(indices.Shape, self.Shape[1:])) {
		lists = coordinatesOf(c, self, indices, updates)
		values = func() kernel.View { return tupled(updates, indices) }
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if updates.Len() == 0 {
			return nil
		}
		return indexingkernel.Put(indexingkernel.ScatterAdd, self.View(), values(), lists())
	}, nil
}

// scatterUpdate writes updates[i] into data[i], starting at position indices[i] of a dimension. A
// single index applies to every i.
func scatterUpdate(c *op.Call) (op.Run, error) {
	data, indices, updates := c.Tensor("data"), c.Tensor("indices"), c.Tensor("updates")
	c.Movable(data, updates)
	c.Plain(indices)
	c.SameDType(data, updates)
	c.DType(indices, op.IndexTypes...)
	c.Rank(data, 2, kernel.MaxRank)
	c.Rank(indices, 0, 1)
	axis := c.Axis(data, c.Int("axis"))
	if axis == 0 {
		c.Invalid("axis is 0, the dimension that indices runs along; use another")
	}
	covers(c, data, updates, axis)
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
	return func(*op.Exec) error {
		if updates.Len() == 0 {
			return nil
		}
		at, err := elementwise.Indices(indices.View())
		if err != nil {
			return err
		}
		length := updates.Shape[axis]
		for i, k := range at {
			if k < 0 || k > data.Shape[axis]-length {
				return fmt.Errorf("index %d at position %d leaves no room for %d parts in a dimension of %d", k, i, length, data.Shape[axis])
			}
		}
		for i := range updates.Shape[0] {
			k := at[min(i, int64(len(at)-1))]
			part := data.View().Narrow(0, i, 1).Narrow(axis, k, length)
			if err := elementwise.Copy(part, updates.View().Narrow(0, i, 1)); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// scatterReduce is scatter with an option to exclude the old elements from the result. An element
// that is scattered to then starts at the neutral element of the reduction, or at one of its new
// values.
func scatterReduce(c *op.Call) (op.Run, error) {
	self, out := c.Target()
	index, src := c.Tensor("index"), c.Tensor("src")
	axis := c.Axis(self, c.Int("dim"))
	fn := scatterReduction(c)
	c.Movable(self, out, src)
	c.Plain(index)
	c.DType(index, op.IndexTypes...)
	c.Same(self, out)
	c.SameDType(self, src)
	covers(c, self, index, axis)
	covers(c, src, index, -1)
	if fn != indexingkernel.ScatterSet && !kernel.Computes(self.DType) {
		c.Invalid("%v has a dtype that cannot be computed with", self)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	keep := c.Bool("includeSelf")
	neutral := map[indexingkernel.ScatterOp]int64{indexingkernel.ScatterAdd: 0, indexingkernel.ScatterMul: 1}
	return updating(c, self, out, func() error {
		if index.Len() == 0 {
			return nil
		}
		from := src.AsVector()
		from.Shape = index.AsVector().Shape
		if fn == scatterMean {
			return indexingkernel.ScatterMean(out.AsVector(), from, axis, index.AsVector(), keep)
		}
		if !keep && fn != indexingkernel.ScatterSet {
			var err error
			if n, ok := neutral[fn]; ok {
				err = indexingkernel.ScatterNumber(indexingkernel.ScatterSet, out.AsVector(), elementwise.Whole(n), axis, index.AsVector())
			} else {
				err = indexingkernel.Scatter(indexingkernel.ScatterSet, out.AsVector(), from, axis, index.AsVector())
			}
			if err != nil {
				return err
			}
		}
		return indexingkernel.Scatter(fn, out.AsVector(), from, axis, index.AsVector())
	}), nil
}
