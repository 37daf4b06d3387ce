package layout

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// bounds clamps a half-open range of a dimension of n elements as Python does, and gives
// its length.
func bounds(n, start, end, step int64) (first, length int64) {
	clamped := func(i int64) int64 {
		if i < 0 {
			i += n
		}
		return min(max(i, 0), n)
	}
	first, end = clamped(start), clamped(end)
	return first, parts(end-first, step)
}

// parts returns how many parts of a size cover n elements. size is positive, and may be so large
// that n+size overflows.
func parts(n, size int64) int64 {
	if n <= 0 {
		return 0
	}
	return (n-1)/size + 1
}

// section is a view into a tensor, with its own offset, shape and strides.
type section struct{ offset, shape, strides []int64 }

func sectionOf(t *op.Tensor) section {
	return section{make([]int64, t.Rank()), slices.Clone(t.Shape), slices.Clone(t.Strides)}
}

// cut keeps elements first, first+step, … of an axis.
func (w section) cut(axis int, first, length, step int64) {
	w.offset[axis] = first * w.strides[axis]
	w.shape[axis] = length
	if length > 1 {
		w.strides[axis] *= step
	}
}

// view applies the section to the memory of t.
func (w section) view(t *op.Tensor) kernel.View {
	v := t.As(w.shape, w.strides)
	for _, o := range w.offset {
		v.Data = unsafe.Add(v.Data, o*int64(t.DType.Size()))
	}
	return v
}

// sectionTo copies a section of src to out.
func sectionTo(c *op.Call, out, src *op.Tensor, w section, what string) (op.Run, error) {
	c.Plain(out, src)
	c.Shape(out, w.shape, what)
	c.Copies(out, src)
	return c.CopyRun(out.View, func() kernel.View { return w.view(src) })
}

// sliceAlong keeps every step-th element of one dimension.
func sliceAlong(c *op.Call) (op.Run, error) {
	self, out, step := c.Tensor("self"), c.Tensor("out"), c.Int("step")
	axis := sliced(c, self, c.Int("dim"), step)
	if err := c.Err(); err != nil {
		return nil, err
	}
	w := sectionOf(self)
	first, length := bounds(self.Shape[axis], c.Int("start"), c.Int("end"), step)
	w.cut(axis, first, length, step)
	return sectionTo(c, out, self, w, "the slice of self")
}

// sliced checks the dimension and the step of a slice.
func sliced(c *op.Call, t *op.Tensor, dim, step int64) int {
	if t.Rank() == 0 {
		c.Invalid("%v has no dimension to slice", t)
	}
	if step < 1 {
		c.Invalid("step is %d; it must be positive", step)
	}
	return c.Axis(t, dim)
}

func sliceV2(c *op.Call) (op.Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	starts, ends, axes, steps := c.Ints("starts"), c.Ints("ends"), c.Ints("axes"), c.Ints("steps")
	if len(ends) != len(starts) || len(axes) != len(starts) || len(steps) != len(starts) {
		c.Invalid("starts, ends, axes and steps have %d, %d, %d and %d entries; they must be equal", len(starts), len(ends), len(axes), len(steps))
		return nil, c.Err()
	}
	w := sectionOf(self)
	for i := range starts {
		axis := sliced(c, self, axes[i], steps[i])
		if c.Err() != nil {
			return nil, c.Err()
		}
		first, length := bounds(self.Shape[axis], starts[i], ends[i], steps[i])
		w.cut(axis, first, length, steps[i])
	}
	return sectionTo(c, out, self, w, "the slice of self")
}

func flip(c *op.Call) (op.Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	w := sectionOf(self)
	transposed := make(map[int]bool)
	for _, d := range c.Ints("dims") {
		axis := c.Axis(self, d)
		if transposed[axis] {
			c.Invalid("dims %v has dimension %d twice", c.Ints("dims"), axis)
		}
		transposed[axis] = true
		if c.Err() != nil || self.Rank() == 0 {
			break
		}
		w.cut(axis, max(self.Shape[axis]-1, 0), self.Shape[axis], -1)
	}
	return sectionTo(c, out, self, w, "the shape of self")
}

// roll rotates elements along the given axes, or along the flattened tensor if there are no
// axes.
func roll(c *op.Call) (op.Run, error) {
	self, out := c.Tensor("x"), c.Tensor("out")
	shifts, axes := c.Ints("shifts"), c.Ints("dims")
	c.Plain(self, out)
	c.Same(self, out)
	flat := len(axes) == 0
	if flat && len(shifts) != 1 || !flat && len(shifts) != len(axes) {
		c.Invalid("shifts %v and dims %v must have as many entries (one shift without dims)", shifts, axes)
	}
	for _, d := range axes {
		c.Axis(self, d)
	}
	c.Copies(out, self)
	if err := c.Err(); err != nil || self.Len() == 0 {
		return func(*op.Exec) error { return nil }, err
	}
	total := make([]int64, max(self.Rank(), 1))
	for i, d := range axes {
		total[c.Axis(self, d)] += shifts[i]
	}
	return func(*op.Exec) error {
		if !flat {
			return rolled(out.View(), self.View(), total, 0)
		}
		from, release, err := elementwise.Flat(self.View())
		defer release()
		if err != nil {
			return err
		}
		if out.Contiguous() {
			return rolled(out.As(from.Shape, from.Strides), from, shifts, 0)
		}
		transposed, releaseTransposed := kernel.TemporaryOf(out.DType, from.Shape...)
		defer releaseTransposed()
		if err := rolled(transposed, from, shifts, 0); err != nil {
			return err
		}
		return elementwise.CopyInOrder(out.View(), transposed)
	}, nil
}

// rolled copies src to dst in two parts per axis, starting at axis.
func rolled(dst, src kernel.View, shift []int64, axis int) error {
	if axis == len(src.Shape) {
		return elementwise.Copy(dst, src)
	}
	n := src.Shape[axis]
	s := (shift[axis]%n + n) % n
	if err := rolled(dst.Narrow(axis, s, n-s), src.Narrow(axis, 0, n-s), shift, axis+1); err != nil || s == 0 {
		return err
	}
	return rolled(dst.Narrow(axis, 0, s), src.Narrow(axis, n-s, s), shift, axis+1)
}

// repeat tiles self. It views out as [r0, d0, r1, d1, …] and broadcasts self along every r.
func repeat(c *op.Call) (op.Run, error) {
	self, out, times := c.Tensor("self"), c.Tensor("out"), c.Ints("repeats")
	c.Plain(self, out)
	c.Copies(out, self)
	lead := len(times) - self.Rank()
	if lead < 0 {
		c.Invalid("repeats %v has fewer entries than %v has dimensions", times, self)
		return nil, c.Err()
	}
	shape := slices.Clone(times)
	for i, d := range self.Shape {
		shape[lead+i] *= d
	}
	if slices.Min(append(slices.Clone(times), 0)) < 0 {
		c.Invalid("repeats %v has a negative entry", times)
	}
	c.Shape(out, shape, "the repeated shape of self")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error { return tiled(out.View(), self.View(), lead, 0) }, nil
}

// tiled copies src to every tile of dst, starting at axis. dst has lead more dimensions than
// src.
func tiled(dst, src kernel.View, lead, axis int) error {
	if axis == len(dst.Shape) {
		return elementwise.Copy(dst, src)
	}
	d := int64(1)
	if axis >= lead {
		d = src.Shape[axis-lead]
	}
	if d == 0 {
		return nil
	}
	for at := int64(0); at < dst.Shape[axis]; at += d {
		if err := tiled(dst.Narrow(axis, at, d), src, lead, axis+1); err != nil {
			return err
		}
	}
	return nil
}

// expandTo broadcasts self to size; -1 keeps a dimension.
func expandTo(c *op.Call) (op.Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	size := slices.Clone(c.Ints("size"))
	for i := range size {
		if at := i - (len(size) - self.Rank()); size[i] == -1 && at >= 0 {
			size[i] = self.Shape[at]
		}
	}
	if joined, ok := op.BroadcastShape(size, self.Shape); !ok || !slices.Equal(joined, size) {
		c.Invalid("%v cannot be expanded to %s", self, op.Dims(size))
	}
	c.Plain(self, out)
	c.Copies(out, self)
	c.Shape(out, size, "the expanded shape")
	return c.CopyRun(out.View, self.View)
}

// splitTensor cuts self into parts of splitSections elements along dim.
func splitTensor(c *op.Call) (op.Run, error) {
	self, size := c.Tensor("self"), c.Int("splitSections")
	axis := sliced(c, self, c.Int("dim"), size)
	if c.Err() != nil {
		return nil, c.Err()
	}
	if n := parts(self.Shape[axis], size); n != int64(len(c.Tensors("out"))) {
		c.Invalid("out has %d tensors for %d parts", len(c.Tensors("out")), n)
		return nil, c.Err()
	}
	var sizes []int64
	for left := self.Shape[axis]; left > 0; left -= size {
		sizes = append(sizes, min(size, left))
	}
	return split(c, self, sizes, axis)
}

func splitWithSize(c *op.Call) (op.Run, error) {
	self := c.Tensor("self")
	axis := sliced(c, self, c.Int("dim"), 1)
	if c.Err() != nil {
		return nil, c.Err()
	}
	total := int64(0)
	for _, n := range c.Ints("splitSize") {
		total += n
	}
	if total != self.Shape[axis] {
		c.Invalid("splitSize %v adds up to %d, dimension %d of %v has %d", c.Ints("splitSize"), total, axis, self, self.Shape[axis])
	}
	return split(c, self, c.Ints("splitSize"), axis)
}

func split(c *op.Call, self *op.Tensor, sizes []int64, axis int) (op.Run, error) {
	out := c.Tensors("out")
	if len(out) != len(sizes) {
		c.Invalid("out has %d tensors for %d parts", len(out), len(sizes))
		return nil, c.Err()
	}
	c.Plain(self)
	for i, t := range out {
		shape := slices.Clone(self.Shape)
		shape[axis] = sizes[i]
		c.Plain(t)
		c.Shape(t, shape, "its part of self")
		c.Copies(t, self)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		at := int64(0)
		for i, t := range out {
			if err := elementwise.Copy(t.View(), self.View().Narrow(axis, at, sizes[i])); err != nil {
				return err
			}
			at += sizes[i]
		}
		return nil
	}, nil
}
