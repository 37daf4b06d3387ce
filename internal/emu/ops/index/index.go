package index

import (
	"slices"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	indexingkernel "github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/op"
)

// indexing are the operators that read and write positions given by integer tensors. An index out
// of range is a fault of the stream, and nothing is written.
var indexing = op.Table{
	"Gather": gather, "GatherV2": indexSelect, "IndexSelect": indexSelect,
	"Scatter": scatter, "InplaceScatter": scatter, "ScatterAdd": scatter,
	"ScatterValue": scatter, "InplaceScatterValue": scatter,
	"IndexAdd": indexAdd, "IndexAddV2": indexAdd, "IndexPutImpl": indexPut,
	"IndexCopy": indexCopy, "InplaceIndexCopy": indexCopy,
}.Selects()

// covers refuses a tensor whose rank differs from that of other, or that is smaller in any
// dimension except axis. An axis of -1 excludes no dimension.
func covers(c *op.Call, t, other *op.Tensor, axis int) {
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

func gather(c *op.Call) (op.Run, error) {
	self, index, out := c.Tensor("self"), c.Tensor("index"), c.Tensor("out")
	axis := c.Axis(self, c.Int("dim"))
	c.Movable(self, out)
	c.Plain(index)
	c.DType(index, op.IndexTypes...)
	c.SameDType(self, out)
	c.SameShape(index, out)
	covers(c, self, index, axis)
	if c.Err() == nil && index.Len() > 0 && self.Rank() > 0 && self.Shape[axis] == 0 {
		c.Vacuous("dimension %d of %v is empty; there is nothing for %v to name", axis, self, index)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return indexingkernel.Gather(out.AsVector(), self.AsVector(), axis, index.AsVector())
	}, nil
}

func indexSelect(c *op.Call) (op.Run, error) {
	self, index, out := c.Tensor("self"), c.Tensor("index"), c.Tensor("out")
	if c.Op.Name == "IndexSelect" {
		c.Rank(index, 0, 1)
	}
	if c.Op.Name == "GatherV2" && self.Rank() == 0 && out.Rank() == 0 && index.Len() > 1 {
		c.FailLaunch(op.InvalidParam, "%v names %d elements, but %v holds one; phase one of CANN takes any index of a tensor without dimensions", index, index.Len(), out)
		index.Shape, index.Strides = []int64{1}, []int64{1} // phase two refuses the call before it reads
	}
	if c.Err() == nil && (index.Rank() == 0 || self.Rank() == 0) {
		// A tensor without dimensions counts as a vector of one element.
		return selection(c, vector(out), vector(self), c.Int("dim"), vector(index))
	}
	return selection(c, out, self, c.Int("dim"), index)
}

// vector makes a tensor without dimensions a vector of one element and returns it. It may modify t,
// since the call owns its copy of the tensor.
func vector(t *op.Tensor) *op.Tensor {
	if t.Rank() == 0 {
		t.Shape, t.Strides = []int64{1}, []int64{1}
	}
	return t
}

// scatterMean is the reduction of Scatter that kernels do not have among their operations.
const scatterMean = indexingkernel.ScatterMin + 1

// scatterReduction reads reduce. The library of CANN 8.1 has the first three.
func scatterReduction(c *op.Call) indexingkernel.ScatterOp {
	fn, last := indexingkernel.ScatterOp(c.Int("reduce")), scatterMean
	if c.Older() {
		last = indexingkernel.ScatterMul
	}
	if n := c.Int("reduce"); n < 0 || n > int64(last) {
		c.Invalid("reduce %d is unknown; use 0 to %d of: 0 replaces, 1 adds, 2 multiplies, 3 takes the largest, 4 the smallest, 5 the mean", n, last)
		return indexingkernel.ScatterSet
	}
	return fn
}

// scatter implements every form of Scatter: with a tensor or a scalar as source, in place or not.
func scatter(c *op.Call) (op.Run, error) {
	self, out := c.Target()
	index := c.Tensor("index")
	axis := c.Axis(self, c.Int("dim"))
	fn := indexingkernel.ScatterAdd
	if c.Has("reduce") {
		fn = scatterReduction(c)
	}
	c.Movable(self, out)
	c.Plain(index)
	c.DType(index, op.IndexTypes...)
	c.Same(self, out)
	covers(c, self, index, axis)
	if fn != indexingkernel.ScatterSet && !combines(self.DType) || fn > indexingkernel.ScatterMul && self.DType.IsComplex() {
		c.Invalid("%v has a dtype that cannot be computed with", self)
	}
	var t *op.Tensor
	var src func() kernel.View
	if c.Has("src") {
		t = c.Tensor("src")
		c.Plain(t)
		c.SameDType(self, t)
		covers(c, t, index, -1)
		src = func() kernel.View {
			v := t.AsVector()
			v.Shape = index.AsVector().Shape
			return v
		}
	}
	var value *op.Scalar
	if c.Has("value") {
		value = c.Scalar("value")
		if !combines(self.DType) {
			c.Invalid("%v has a dtype that a scalar cannot be stored in", self)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return updating(c, self, out, func() error {
		if index.Len() == 0 {
			return nil
		}
		if self.DType.IsComplex() && (fn != indexingkernel.ScatterSet || value != nil) {
			values, err := scattered(index.VectorShape(), t, value)
			if err != nil {
				return err
			}
			return scatterComplex(fn, out, places{out.VectorShape(), index.VectorShape(), axis, index}, values)
		}
		if fn == scatterMean {
			if value == nil {
				return indexingkernel.ScatterMean(out.AsVector(), src(), axis, index.AsVector(), true)
			}
			one, release := kernel.TemporaryOf(out.DType, 1)
			defer release()
			if err := elementwise.Fill(one, value.Number()); err != nil {
				return err
			}
			same, err := one.Broadcast(index.AsVector().Shape)
			if err != nil {
				return err
			}
			return indexingkernel.ScatterMean(out.AsVector(), same, axis, index.AsVector(), true)
		}
		if value != nil {
			return indexingkernel.ScatterNumber(fn, out.AsVector(), value.Number(), axis, index.AsVector())
		}
		return indexingkernel.Scatter(fn, out.AsVector(), src(), axis, index.AsVector())
	}), nil
}

// updating returns the Run that copies self to out and then updates out.
func updating(c *op.Call, self, out *op.Tensor, update func() error) op.Run {
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		if self != out {
			if err := elementwise.Copy(out.View(), self.View()); err != nil {
				return err
			}
		}
		return update()
	}
}

// rowsOf checks an index of slices of self along axis, and source, which has one slice for each
// index.
func rowsOf(c *op.Call, self, index, source *op.Tensor, axis int) {
	c.Plain(index, source)
	c.DType(index, op.IndexTypes...)
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

func indexAdd(c *op.Call) (op.Run, error) {
	self, out := c.Target()
	index, source, alpha := c.Tensor("index"), c.Tensor("source"), c.Scalar("alpha")
	axis := c.Axis(self, c.Int("dim"))
	c.Movable(self, out)
	c.Same(self, out)
	rowsOf(c, self, index, source, axis)
	if !kernel.Computes(self.DType) {
		c.Invalid("%v has a dtype that cannot be computed with", self)
	}
	if !op.Castable(alpha.DType, self.DType) {
		c.Invalid("alpha has dtype %v but self has %v; use an alpha of that kind", alpha.DType, self.DType)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return updating(c, self, out, func() error {
		if source.Len() == 0 {
			return nil
		}
		return indexingkernel.ScatterScaled(out.AsVector(), source.AsVector(), alpha.Number(), axis, index.Along(axis, self.Rank()))
	}), nil
}

func indexCopy(c *op.Call) (op.Run, error) {
	self, out := c.Target()
	index, source := c.Tensor("index"), c.Tensor("source")
	axis := c.Axis(self, c.Int("dim"))
	c.Movable(self, out)
	c.Same(self, out)
	rowsOf(c, self, index, source, axis)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return updating(c, self, out, func() error {
		if source.Len() == 0 {
			return nil
		}
		return indexingkernel.Scatter(indexingkernel.ScatterSet, out.AsVector(), source.AsVector(), axis, index.Along(axis, self.Rank()))
	}), nil
}

// indexPut sets values, or adds them, at the positions in indices.
func indexPut(c *op.Call) (op.Run, error) {
	self, values := c.Tensor("selfRef"), c.Tensor("values")
	fn := indexingkernel.ScatterSet
	if c.Bool("accumulate") {
		fn = indexingkernel.ScatterAdd
	}
	c.Movable(self, values)
	c.SameDType(self, values)
	if fn == indexingkernel.ScatterAdd && !kernel.Computes(self.DType) {
		c.Invalid("%v has a dtype that cannot be computed with", self)
	}
	indices := subscripts(c, self)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if self.Len() == 0 || values.Len() == 0 {
			return nil
		}
		return indexingkernel.PutAt(fn, self.View(), values.View(), indices())
	}, nil
}
