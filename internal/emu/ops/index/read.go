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

// reading are the operators that read elements at positions given by tensors, and those that find
// such positions.
var reading = op.Table{
	"Index": index, "Take": take, "GatherNd": gatherND, "GatherV3": gatherV3,
	"Nonzero": nonzero, "NonzeroV2": nonzero, "MaskedSelect": maskedSelect,
	"RepeatInterleave": repeatInterleave, "RepeatInterleaveInt": repeatInterleave,
	"RepeatInterleaveWithDim": repeatInterleave, "RepeatInterleaveIntWithDim": repeatInterleave,
	"RepeatInterleaveTensor": repeatPlaces,
}.Selects("Index", "Take", "GatherNd", "GatherV3", "MaskedSelect").Omits("Nonzero", "NonzeroV2")

// subscripts reads the indices of a subscript: one tensor for each leading dimension of self. A
// tensor holds integers, or is a mask, which applies to as many dimensions as it has; an empty
// tensor selects a whole dimension. Call the returned function in Run to get the views for the
// kernel.
func subscripts(c *op.Call, self *op.Tensor) func() []kernel.View {
	list := c.Tensors("indices")
	if len(list) == 0 {
		c.Fail(op.NullPointer, "indices is null or empty")
	}
	at := 0
	for _, t := range list {
		c.Plain(t)
		c.DType(t, dtype.Int64, dtype.Int32, dtype.Bool)
		n := 1
		if t.DType == dtype.Bool {
			n = t.Rank()
		}
		if at+n > self.Rank() {
			c.Invalid("indices cover more than the %d dimensions of %v", self.Rank(), self)
		} else if t.DType == dtype.Bool && t.Len() > 0 && !slices.Equal(t.Shape, self.Shape[at:at+n]) {
			c.Invalid("mask %v must have the sizes of dimensions %d to %d of %v", t, at, at+n-1, self)
		}
		at += n
	}
	return func() []kernel.View {
		indices := make([]kernel.View, len(list))
		for i, t := range list {
			if t.Len() > 0 {
				indices[i] = t.AsVector()
			}
		}
		return indices
	}
}

func index(c *op.Call) (op.Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	c.Movable(self, out)
	c.SameDType(self, out)
	indices := subscripts(c, self)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return indexingkernel.TakeAt(out.AsVector(), self.View(), indices())
	}, nil
}

// take reads elements at positions of the flattened tensor.
func take(c *op.Call) (op.Run, error) {
	self, index, out := c.Tensor("self"), c.Tensor("index"), c.Tensor("out")
	c.Movable(out)
	c.Linear(self)
	c.Depth(self) // the kernel sees a vector
	c.Plain(index)
	c.DType(index, op.IndexTypes...)
	c.SameDType(self, out)
	c.SameShape(index, out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return indexingkernel.TakeFlat(out.View(), self.View(), index.View())
	}, nil
}

// coordinatesOf checks tuples of leading coordinates of self, one in each row of indices, and the
// tensor of the slices at these coordinates. The returned function gives one list for each
// coordinate.
func coordinatesOf(c *op.Call, self, indices, parts *op.Tensor) func() []kernel.View {
	c.Movable(self, parts)
	c.Plain(indices)
	c.DType(indices, op.IndexTypes...)
	c.SameDType(self, parts)
	c.Rank(indices, 1, kernel.MaxRank)
	if c.Err() != nil {
		return nil
	}
	n := int(indices.Dim(-1))
	if n < 1 || n > self.Rank() {
		c.Invalid("%v holds tuples of %d coordinates; %v has %d dimensions", indices, n, self, self.Rank())
		return nil
	}
	c.Shape(parts, slices.Concat(indices.Shape[:indices.Rank()-1], self.Shape[n:]), "what the tuples of indices name")
	return func() []kernel.View {
		v := indices.View()
		if len(v.Shape) == 1 {
			v.Shape, v.Strides = []int64{1, v.Shape[0]}, []int64{0, v.Strides[0]}
		}
		lists := make([]kernel.View, n)
		for i := range lists {
			lists[i] = v.Select(len(v.Shape)-1, int64(i))
		}
		return lists
	}
}

// tupled returns the view of the slices at the tuples. A single tuple gets a dimension of size 1.
func tupled(t *op.Tensor, indices *op.Tensor) kernel.View {
	if indices.Rank() > 1 {
		return t.View()
	}
	return t.As(slices.Concat([]int64{1}, t.Shape), slices.Concat([]int64{0}, t.Strides))
}

func gatherND(c *op.Call) (op.Run, error) {
	self, indices, out := c.Tensor("self"), c.Tensor("indices"), c.Tensor("out")
	lists := coordinatesOf(c, self, indices, out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return indexingkernel.Take(tupled(out, indices), self.View(), lists())
	}, nil
}

// gatherV3 is GatherV2 applied for every index of the batchDims leading dimensions that self and
// index share. mode selects an implementation on the device and does not change the result.
func gatherV3(c *op.Call) (op.Run, error) {
	self, index, out := c.Tensor("self"), c.Tensor("index"), c.Tensor("out")
	batch := int(c.Int("batchDims"))
	axis := c.Axis(self, c.Int("dim"))
	if mode := c.Int("mode"); mode < 0 || mode > 2 {
		c.Invalid("mode is %d; use 0, 1 or 2", mode)
	}
	if batch == 0 {
		return selection(c, out, self, c.Int("dim"), index)
	}
	c.Movable(self, out)
	c.Plain(index)
	c.DType(index, op.IndexTypes...)
	c.SameDType(self, out)
	if batch < 0 || batch > axis || batch > index.Rank() || !slices.Equal(self.Shape[:batch], index.Shape[:batch]) {
		c.Invalid("%v and %v must share batchDims %d leading dimensions, which come before dimension %d", self, index, batch, axis)
		return nil, c.Err()
	}
	c.Shape(out, slices.Concat(self.Shape[:axis], index.Shape[batch:], self.Shape[axis+1:]), "self with the dimension replaced by those of the indices")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return batched([]kernel.View{out.View(), self.View(), index.View()}, batch, func(v []kernel.View) error {
			return indexingkernel.Lookup(v[0], v[1], axis-batch, v[2])
		})
	}, nil
}

// batched calls f with the parts of the views for every index of their n shared leading dimensions.
func batched(views []kernel.View, n int, f func([]kernel.View) error) error {
	if n == 0 {
		return f(views)
	}
	for i := range views[0].Shape[0] {
		parts := make([]kernel.View, len(views))
		for k, v := range views {
			parts[k] = v.Select(0, i)
		}
		if err := batched(parts, n-1, f); err != nil {
			return err
		}
	}
	return nil
}

// nonzero returns the coordinates of the nonzero elements, one row for each, or one column for each
// in NonzeroV2. The output has room for as many coordinates as self has elements; its view is
// narrowed to those found.
func nonzero(c *op.Call) (op.Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	c.Plain(self, out)
	c.DType(out, dtype.Int64)
	c.Rank(out, 2, 2)
	if !kernel.Computes(self.DType) {
		c.Invalid("%v has a dtype that is not supported", self)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	columns := c.Op.Name == "NonzeroV2"
	return func(*op.Exec) error {
		places, err := [][]int64(nil), error(nil)
		n := int64(0)
		if self.Len() > 0 {
			if places, err = indexingkernel.Nonzero(self.AsVector()); err != nil {
				return err
			}
			n = int64(len(places[0]))
		}
		places = places[:min(self.Rank(), len(places))]
		shape := []int64{n, int64(self.Rank())}
		if columns {
			shape = []int64{int64(self.Rank()), n}
		}
		if err := out.Settle(shape); err != nil || n == 0 {
			return err
		}
		for d, list := range places {
			at := out.View().Select(1-boolInt(columns), int64(d))
			if err := indexingkernel.SetInts(at, list); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// maskedSelect returns the elements where the mask is true as a vector. self and mask broadcast.
// The view of the output is narrowed to the number of elements.
func maskedSelect(c *op.Call) (op.Run, error) {
	self, mask, out := c.Tensor("self"), c.Tensor("mask"), c.Tensor("out")
	c.Movable(self, out)
	c.Plain(mask)
	c.Copies(out, self)
	c.DType(mask, dtype.Bool, dtype.Uint8)
	c.Rank(out, 1, 1)
	shape, ok := op.BroadcastShape(self.Shape, mask.Shape)
	if !ok {
		c.Invalid("%v and %v do not broadcast", self, mask)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		x := self.View()
		if self.DType != out.DType {
			cast, release := kernel.TemporaryOf(out.DType, self.Shape...)
			defer release()
			if err := elementwise.Copy(cast, x); err != nil {
				return err
			}
			x = cast
		}
		return indexingkernel.Compress(x, mask.View(), shape, func(n int64) (kernel.View, error) {
			err := out.Settle([]int64{n})
			return out.View(), err
		})
	}, nil
}

// repeatInterleave repeats each slice of self along a dimension, or each element of the flattened
// tensor. repeats is the count for all of them, as a number or a one-element tensor, or has one
// count for each.
func repeatInterleave(c *op.Call) (op.Run, error) {
	self, out, size := c.Tensor("self"), c.Tensor("out"), c.Int("outputSize")
	c.Movable(self, out)
	c.SameDType(self, out)
	flat := !c.Has("dim")
	axis, parts := 0, self.Len()
	want := []int64{size}
	if !flat {
		axis = c.Axis(self, c.Int("dim"))
		parts = self.VectorShape()[axis]
		want = slices.Clone(self.VectorShape())
		want[axis] = size
	}
	repeats, counts := repeats(c, parts)
	c.Shape(out, want, "self with outputSize parts along the dimension")
	if n := parts * counts; repeats == nil && c.Err() == nil && n != size {
		c.Invalid("outputSize is %d; %d parts %d times are %d", size, parts, counts, n)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if flat && repeats == nil && out.Len() > 0 {
			return repeatEach(out.View(), self.View(), counts)
		}
		list, err := repeatList(repeats, counts, parts)
		if err != nil {
			return err
		}
		if n := int64(len(list)); n != size {
			return fmt.Errorf("outputSize is %d; the repeats add up to %d", size, n)
		}
		if out.Len() == 0 {
			return nil
		}
		if flat {
			return indexingkernel.PickFlat(out.View(), self.View(), list)
		}
		return indexingkernel.Pick(out.View(), self.AsVector(), axis, list)
	}, nil
}

// repeatEach sets the vector out to the elements of x, each of them n times.
func repeatEach(out, x kernel.View, n int64) error {
	whole, release := kernel.TemporaryOf(x.DType, x.Shape...)
	defer release()
	if err := elementwise.Copy(whole, x); err != nil {
		return err
	}
	whole.Shape, whole.Strides = []int64{x.Len(), n}, []int64{1, 0}
	out.Shape, out.Strides = whole.Shape, []int64{out.Strides[0] * n, out.Strides[0]}
	return elementwise.Copy(out, whole)
}

// repeats reads the counts of repetitions: a tensor, or a number for all parts.
func repeats(c *op.Call, parts int64) (*op.Tensor, int64) {
	if c.Class("repeats") == op.IntClass {
		n := c.Int("repeats")
		if n < 0 {
			c.Invalid("repeats is %d; it must not be negative", n)
		}
		return nil, n
	}
	t := c.Tensor("repeats")
	c.Plain(t)
	c.DType(t, op.IndexTypes...)
	c.Rank(t, 0, 1)
	if n := t.Len(); n != 1 && n != parts {
		c.Invalid("%v must have one element or one for each of %d parts", t, parts)
	}
	return t, 0
}

// repeatList lists the index of every part as often as the part is repeated.
func repeatList(repeats *op.Tensor, count, parts int64) ([]int64, error) {
	counts := []int64{count}
	if repeats != nil && parts > 0 {
		var err error
		if counts, err = elementwise.Indices(repeats.View()); err != nil {
			return nil, err
		}
	}
	list := []int64{}
	for i := range parts {
		n := counts[0]
		if len(counts) > 1 {
			n = counts[i]
		}
		if n < 0 {
			return nil, fmt.Errorf("repeats holds %d; it must not be negative", n)
		}
		for range n {
			list = append(list, i)
		}
	}
	return list, nil
}

// repeatPlaces returns each index i repeats[i] times.
func repeatPlaces(c *op.Call) (op.Run, error) {
	out, size := c.Tensor("out"), c.Int("outputSize")
	t := c.Tensor("repeats")
	c.Plain(t, out)
	c.DType(t, op.IndexTypes...)
	c.DType(out, op.IndexTypes...)
	c.Rank(t, 1, 1)
	c.Shape(out, []int64{size}, "outputSize elements")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		list, err := repeatList(t, 0, t.Len())
		if err != nil {
			return err
		}
		if n := int64(len(list)); n != size {
			return fmt.Errorf("outputSize is %d; the repeats add up to %d", size, n)
		}
		return indexingkernel.SetInts(out.View(), list)
	}, nil
}
