package nn

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// reading are the operators that read elements at places that tensors hold, and those that
// find such places.
var reading = table{
	"Index": index, "Take": take, "GatherNd": gatherND, "GatherV3": gatherV3,
	"Nonzero": nonzero, "NonzeroV2": nonzero, "MaskedSelect": maskedSelect,
	"RepeatInterleave": repeatInterleave, "RepeatInterleaveInt": repeatInterleave,
	"RepeatInterleaveWithDim": repeatInterleave, "RepeatInterleaveIntWithDim": repeatInterleave,
	"RepeatInterleaveTensor": repeatPlaces,
}

// settle gives an output whose size is known only when it is computed its shape: the
// leading elements of its memory, without gaps. The caller's tensor gets the shape too, to
// be read with aclGetViewShape after the stream was synchronised. A tensor too small for
// the shape is an error.
func (t *Tensor) settle(shape []int64) error {
	if n := (kernel.View{Shape: shape}).Len(); n > t.Len() {
		return fmt.Errorf("%v has no room for the %d elements of the result %s", t, n, dims(shape))
	}
	for o := t; o != nil; o = o.object {
		o.Shape, o.Strides = slices.Clone(shape), ContiguousStrides(shape)
	}
	return nil
}

// subscripts reads the indices of a subscript: one tensor for each leading dimension of
// self, of integers or a mask, which covers as many dimensions as it has; an empty tensor
// stands for a whole dimension. It returns the views the kernel takes, to be called in Run.
func (c *Call) subscripts(self *Tensor) func() []kernel.View {
	list := c.Tensors("indices")
	if len(list) == 0 {
		c.Fail(nullPointer, "indices is null or empty")
	}
	at := 0
	for _, t := range list {
		c.plain(t)
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
				indices[i] = t.lined()
			}
		}
		return indices
	}
}

func index(c *Call) (Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	c.movable(self, out)
	c.SameDType(self, out)
	indices := c.subscripts(self)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return kernel.TakeAt(out.lined(), self.View(), indices())
	}, nil
}

// take reads positions in the flattened tensor.
func take(c *Call) (Run, error) {
	self, index, out := c.Tensor("self"), c.Tensor("index"), c.Tensor("out")
	c.movable(self, out)
	c.plain(index)
	c.DType(index, indexTypes...)
	c.SameDType(self, out)
	c.SameShape(index, out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return kernel.TakeFlat(out.View(), self.View(), index.View())
	}, nil
}

// coordinatesOf checks tuples of leading coordinates of self, one in each row of indices,
// and the tensor of what they name. It returns a list for each coordinate.
func (c *Call) coordinatesOf(self, indices, parts *Tensor) func() []kernel.View {
	c.movable(self, parts)
	c.plain(indices)
	c.DType(indices, indexTypes...)
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

// tupled is the view of what tuples name, with a dimension for a single tuple.
func (t *Tensor) tupled(indices *Tensor) kernel.View {
	if indices.Rank() > 1 {
		return t.View()
	}
	return t.As(slices.Concat([]int64{1}, t.Shape), slices.Concat([]int64{0}, t.Strides))
}

func gatherND(c *Call) (Run, error) {
	self, indices, out := c.Tensor("self"), c.Tensor("indices"), c.Tensor("out")
	lists := c.coordinatesOf(self, indices, out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return kernel.Take(out.tupled(indices), self.View(), lists())
	}, nil
}

// gatherV3 is GatherV2 for every index of batchDims leading dimensions, which self and index
// share. mode chooses between implementations and does not change the result.
func gatherV3(c *Call) (Run, error) {
	self, index, out := c.Tensor("self"), c.Tensor("index"), c.Tensor("out")
	batch := int(c.Int("batchDims"))
	axis := c.Axis(self, c.Int("dim"))
	if mode := c.Int("mode"); mode < 0 || mode > 2 {
		c.Invalid("mode is %d; use 0, 1 or 2", mode)
	}
	if batch == 0 {
		return c.selection(out, self, c.Int("dim"), index)
	}
	c.movable(self, out)
	c.plain(index)
	c.DType(index, indexTypes...)
	c.SameDType(self, out)
	if batch < 0 || batch > axis || batch > index.Rank() || !slices.Equal(self.Shape[:batch], index.Shape[:batch]) {
		c.Invalid("%v and %v must share batchDims %d leading dimensions, which come before dimension %d", self, index, batch, axis)
		return nil, c.Err()
	}
	c.Shape(out, slices.Concat(self.Shape[:axis], index.Shape[batch:], self.Shape[axis+1:]), "self with the dimension replaced by those of the indices")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return batched([]kernel.View{out.View(), self.View(), index.View()}, batch, func(v []kernel.View) error {
			return kernel.Lookup(v[0], v[1], axis-batch, v[2])
		})
	}, nil
}

// batched calls f with the parts of the views at every index of n leading dimensions that
// they share.
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

// nonzero lists the coordinates of the elements that are not zero, a row each; a column each
// for NonzeroV2. The output holds as many as self has elements, and its view is narrowed to
// those found.
func nonzero(c *Call) (Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	c.plain(self, out)
	c.DType(out, dtype.Int64)
	c.Rank(out, 2, 2)
	if !kernel.Computes(self.DType) {
		c.Invalid("%v has a dtype that is not supported", self)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	columns := c.op.name == "NonzeroV2"
	return func(*Exec) error {
		places, err := [][]int64(nil), error(nil)
		n := int64(0)
		if self.Len() > 0 {
			if places, err = kernel.Nonzero(self.lined()); err != nil {
				return err
			}
			n = int64(len(places[0]))
		}
		places = places[:min(self.Rank(), len(places))]
		shape := []int64{n, int64(self.Rank())}
		if columns {
			shape = []int64{int64(self.Rank()), n}
		}
		if err := out.settle(shape); err != nil || n == 0 {
			return err
		}
		for d, list := range places {
			at := out.View().Select(1-boolInt(columns), int64(d))
			if err := kernel.SetInts(at, list); err != nil {
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

// maskedSelect gives the elements where the mask is true, both broadcast, as a vector whose
// view is narrowed to their number.
func maskedSelect(c *Call) (Run, error) {
	self, mask, out := c.Tensor("self"), c.Tensor("mask"), c.Tensor("out")
	c.movable(self, out)
	c.plain(mask)
	c.SameDType(self, out)
	c.DType(mask, dtype.Bool, dtype.Uint8)
	c.Rank(out, 1, 1)
	shape, ok := broadcastShape(self.Shape, mask.Shape)
	if !ok {
		c.Invalid("%v and %v do not broadcast", self, mask)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		return kernel.Compress(self.View(), mask.View(), shape, func(n int64) (kernel.View, error) {
			err := out.settle([]int64{n})
			return out.View(), err
		})
	}, nil
}

// repeatInterleave repeats the parts of self along a dimension, or the elements of the
// flattened tensor, each in turn: all as often as repeats says, a number or a tensor of one,
// or part i as often as repeats[i].
func repeatInterleave(c *Call) (Run, error) {
	self, out, size := c.Tensor("self"), c.Tensor("out"), c.Int("outputSize")
	c.movable(self, out)
	c.SameDType(self, out)
	flat := !c.Has("dim")
	axis, parts := 0, self.Len()
	want := []int64{size}
	if !flat {
		axis = c.Axis(self, c.Int("dim"))
		parts = self.vectorShape()[axis]
		want = slices.Clone(self.vectorShape())
		want[axis] = size
	}
	repeats, counts := c.repeats(parts)
	c.Shape(out, want, "self with outputSize parts along the dimension")
	if n := parts * counts; repeats == nil && c.Err() == nil && n != size {
		c.Invalid("outputSize is %d; %d parts %d times are %d", size, parts, counts, n)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
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
			return kernel.PickFlat(out.View(), self.View(), list)
		}
		return kernel.Pick(out.View(), self.lined(), axis, list)
	}, nil
}

// repeats reads how often parts are repeated: a tensor, or a number for all of them.
func (c *Call) repeats(parts int64) (*Tensor, int64) {
	i := slices.IndexFunc(c.op.params, func(p param) bool { return p.name == "repeats" })
	if c.op.params[i].class == intClass {
		n := c.Int("repeats")
		if n < 0 {
			c.Invalid("repeats is %d; it must not be negative", n)
		}
		return nil, n
	}
	t := c.Tensor("repeats")
	c.plain(t)
	c.DType(t, indexTypes...)
	c.Rank(t, 0, 1)
	if n := t.Len(); n != 1 && n != parts {
		c.Invalid("%v must have one element or one for each of %d parts", t, parts)
	}
	return t, 0
}

// repeatList names every part as often as it is repeated.
func repeatList(repeats *Tensor, count, parts int64) ([]int64, error) {
	counts := []int64{count}
	if repeats != nil && parts > 0 {
		var err error
		if counts, err = kernel.Indices(repeats.View()); err != nil {
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

// repeatPlaces gives i repeats[i] times.
func repeatPlaces(c *Call) (Run, error) {
	out, size := c.Tensor("out"), c.Int("outputSize")
	t := c.Tensor("repeats")
	c.plain(t, out)
	c.DType(t, indexTypes...)
	c.DType(out, indexTypes...)
	c.Rank(t, 1, 1)
	c.Shape(out, []int64{size}, "outputSize elements")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		list, err := repeatList(t, 0, t.Len())
		if err != nil {
			return err
		}
		if n := int64(len(list)); n != size {
			return fmt.Errorf("outputSize is %d; the repeats add up to %d", size, n)
		}
		return kernel.SetInts(out.View(), list)
	}, nil
}
