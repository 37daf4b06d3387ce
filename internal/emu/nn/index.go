package nn

import (
	"slices"

	"github.com/goascend/cann/internal/emu/kernel"
)

// indexing are the operators that read and write places named by integer tensors. An index
// out of range is a fault of the stream, with nothing written.
var indexing = table{
	"Gather": gather, "GatherV2": indexSelect, "IndexSelect": indexSelect,
	"Scatter": scatter, "InplaceScatter": scatter, "ScatterAdd": scatter,
	"ScatterValue": scatter, "InplaceScatterValue": scatter,
	"IndexAdd": indexAdd, "IndexAddV2": indexAdd, "IndexPutImpl": indexPut,
	"IndexCopy": indexCopy, "InplaceIndexCopy": indexCopy,
}

// lined is View, with one dimension for a tensor that has none.
func (t *Tensor) lined() kernel.View {
	if t.Rank() == 0 {
		return t.As([]int64{1}, []int64{1})
	}
	return t.View()
}

// movable refuses tensors whose elements cannot be moved one by one.
func (c *Call) movable(tensors ...*Tensor) {
	c.plain(tensors...)
	for _, t := range tensors {
		if t.DType.Size() == 0 {
			c.Invalid("%v has a dtype that is not supported", t)
		}
	}
}

// covers refuses a tensor that is smaller than another in any dimension but axis (-1 for
// none), or has another number of them.
func (c *Call) covers(t, other *Tensor, axis int) {
	if t.Rank() != other.Rank() {
		c.Invalid("%v and %v must have the same number of dimensions", t, other)
		return
	}
	for i, n := range other.Shape {
		if i != axis && n > t.Shape[i] {
			c.Invalid("%v is smaller than %v in dimension %d", t, other, i)
		}
	}
}

func gather(c *Call) (Run, error) {
	self, index, out := c.Tensor("self"), c.Tensor("index"), c.Tensor("out")
	axis := c.Axis(self, c.Int("dim"))
	c.movable(self, out)
	c.plain(index)
	c.DType(index, indexTypes...)
	c.SameDType(self, out)
	c.SameShape(index, out)
	c.covers(self, index, axis)
	if c.Err() == nil && index.Len() > 0 && self.Rank() > 0 && self.Shape[axis] == 0 {
		c.Invalid("dimension %d of %v is empty; there is nothing for %v to name", axis, self, index)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return kernel.Gather(out.lined(), self.lined(), axis, index.lined())
	}, nil
}

func indexSelect(c *Call) (Run, error) {
	self, index, out := c.Tensor("self"), c.Tensor("index"), c.Tensor("out")
	if c.op.name == "IndexSelect" {
		c.Rank(index, 0, 1)
	}
	if c.Err() == nil && (index.Rank() == 0 || self.Rank() == 0) {
		// Without dimensions a tensor counts as a vector of one.
		return c.selection(out.vector(), self.vector(), c.Int("dim"), index.vector())
	}
	return c.selection(out, self, c.Int("dim"), index)
}

// vector is t itself, made a vector of one element if it has no dimensions. The call owns
// its copy of the tensor, so it may be changed.
func (t *Tensor) vector() *Tensor {
	if t.Rank() == 0 {
		t.Shape, t.Strides = []int64{1}, []int64{1}
	}
	return t
}

// reductionsOfScatter are the values of reduce.
var reductionsOfScatter = map[int64]kernel.ScatterOp{0: kernel.ScatterSet, 1: kernel.ScatterAdd, 2: kernel.ScatterMul}

// scatter is every form: with a tensor or a scalar as source, in place or not.
func scatter(c *Call) (Run, error) {
	self, out := c.target()
	index := c.Tensor("index")
	axis := c.Axis(self, c.Int("dim"))
	op := kernel.ScatterAdd
	if c.Has("reduce") {
		var known bool
		if op, known = reductionsOfScatter[c.Int("reduce")]; !known {
			c.Invalid("reduce %d is unknown; 0 replaces, 1 adds, 2 multiplies", c.Int("reduce"))
		}
	}
	c.movable(self, out)
	c.plain(index)
	c.DType(index, indexTypes...)
	c.Same(self, out)
	c.covers(self, index, axis)
	if op != kernel.ScatterSet && !kernel.Computes(self.DType) {
		c.Invalid("%v has a dtype that cannot be computed with", self)
	}
	var src func() kernel.View
	if c.Has("src") {
		t := c.Tensor("src")
		c.plain(t)
		c.SameDType(self, t)
		c.covers(t, index, -1)
		src = func() kernel.View {
			v := t.lined()
			v.Shape = index.lined().Shape
			return v
		}
	}
	var value *Scalar
	if c.Has("value") {
		value = c.Scalar("value")
		if !kernel.Computes(self.DType) {
			c.Invalid("%v has a dtype that a scalar cannot be stored in", self)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return c.updating(self, out, func() error {
		if index.Len() == 0 {
			return nil
		}
		if value != nil {
			return kernel.ScatterNumber(op, out.lined(), value.number(), axis, index.lined())
		}
		return kernel.Scatter(op, out.lined(), src(), axis, index.lined())
	}), nil
}

// target is the tensor that is updated and the one that gets the result, the same in place.
func (c *Call) target() (self, out *Tensor) {
	if c.Has("selfRef") {
		self = c.Tensor("selfRef")
		if c.Has("outRef") {
			return self, c.Tensor("outRef")
		}
		return self, self
	}
	return c.Tensor("self"), c.Tensor("out")
}

// updating is the Run that copies self to out and updates out.
func (c *Call) updating(self, out *Tensor, update func() error) Run {
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		if self != out {
			if err := kernel.Copy(out.View(), self.View()); err != nil {
				return err
			}
		}
		return update()
	}
}

// rowsOf checks an index of the parts of self along axis, and source, which has a part for
// each.
func (c *Call) rowsOf(self, index, source *Tensor, axis int) {
	c.plain(index, source)
	c.DType(index, indexTypes...)
	c.SameDType(self, source)
	c.Rank(index, 0, 1)
	if c.Err() == nil {
		want := slices.Clone(self.Shape)
		if len(want) > 0 {
			want[axis] = index.Len()
		}
		c.Shape(source, want, "self with the length of index in the dimension")
	}
}

// along is a vector of indices in the place of a dimension among rank.
func (t *Tensor) along(axis, rank int) kernel.View {
	v := t.lined()
	shape, strides := make([]int64, max(rank, 1)), make([]int64, max(rank, 1))
	for i := range shape {
		shape[i] = 1
	}
	shape[axis], strides[axis] = v.Shape[0], v.Strides[0]
	return kernel.View{Data: v.Data, DType: v.DType, Shape: shape, Strides: strides}
}

func indexAdd(c *Call) (Run, error) {
	self, out := c.target()
	index, source, alpha := c.Tensor("index"), c.Tensor("source"), c.Scalar("alpha")
	axis := c.Axis(self, c.Int("dim"))
	c.movable(self, out)
	c.Same(self, out)
	c.rowsOf(self, index, source, axis)
	if !kernel.Computes(self.DType) {
		c.Invalid("%v has a dtype that cannot be computed with", self)
	}
	if !castable(alpha.DType, self.DType) {
		c.Invalid("alpha has dtype %v but self has %v; use an alpha of that kind", alpha.DType, self.DType)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return c.updating(self, out, func() error {
		if source.Len() == 0 {
			return nil
		}
		return kernel.ScatterScaled(out.lined(), source.lined(), alpha.number(), axis, index.along(axis, self.Rank()))
	}), nil
}

func indexCopy(c *Call) (Run, error) {
	self, out := c.target()
	index, source := c.Tensor("index"), c.Tensor("source")
	axis := c.Axis(self, c.Int("dim"))
	c.movable(self, out)
	c.Same(self, out)
	c.rowsOf(self, index, source, axis)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return c.updating(self, out, func() error {
		if source.Len() == 0 {
			return nil
		}
		return kernel.Scatter(kernel.ScatterSet, out.lined(), source.lined(), axis, index.along(axis, self.Rank()))
	}), nil
}

// indexPut sets or adds values at the places that indices name.
func indexPut(c *Call) (Run, error) {
	self, values := c.Tensor("selfRef"), c.Tensor("values")
	op := kernel.ScatterSet
	if c.Bool("accumulate") {
		op = kernel.ScatterAdd
	}
	c.movable(self, values)
	c.SameDType(self, values)
	if op == kernel.ScatterAdd && !kernel.Computes(self.DType) {
		c.Invalid("%v has a dtype that cannot be computed with", self)
	}
	indices := c.subscripts(self)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if self.Len() == 0 || values.Len() == 0 {
			return nil
		}
		return kernel.PutAt(op, self.View(), values.View(), indices())
	}, nil
}
