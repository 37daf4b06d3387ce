package checkpoint

import (
	"cmp"
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/examples/budget"
)

// Part is a part of a tensor: one of those into which Cut divides it, or one of those into which Inner, which is along a later axis, divides that.
type Part struct {
	Name  string  `json:"name"`
	Shape []int64 `json:"shape"` // of the whole tensor
	Cut
	Inner Cut `json:"inner,omitzero"`
}

// Cut takes the Index-th of Of equal parts along an axis, or of each block along it. Of is 0 or 1 for
// all of the axis.
type Cut struct {
	Axis  int   `json:"axis,omitempty"`
	Index int64 `json:"index,omitempty"`
	Of    int64 `json:"of,omitempty"`
	// Blocks are the sizes of the blocks along the axis of which each is divided by itself, such as
	// the rows of queries, keys and values in one weight. Nil is a single block.
	Blocks []int64 `json:"blocks,omitempty"`
}

// Tensor is a part with its elements, row-major.
type Tensor struct {
	Part
	Values []float32
}

// String is such as "lm_head.weight[100,64]", with the part after it.
func (p Part) String() string {
	s := p.Name + fmt.Sprint(p.Shape)
	for _, c := range p.cuts() {
		if c.divides() {
			s += fmt.Sprintf(" part %d of %d along axis %d", c.Index, c.Of, c.Axis)
		}
	}
	return s
}

func (p Part) cuts() []Cut { return []Cut{p.Cut, p.Inner} }

func (c Cut) parts() int64  { return max(c.Of, 1) }
func (c Cut) divides() bool { return c.Of > 1 }

// parts is into how many parts the tensor is divided, and number is which of them this is.
func (p Part) parts() int64  { return p.Cut.parts() * p.Inner.parts() }
func (p Part) number() int64 { return p.Index*p.Inner.parts() + p.Inner.Index }

// Bounds of what a manifest says of a tensor, so that errors can print it.
const (
	longestName = 1000 // bytes
	mostAxes    = 32
	mostBlocks  = 10_000
)

// check refuses a part that cannot be.
func (p Part) check() error {
	name := fmt.Sprintf("the tensor %.200q", p.Name)
	if err := cmp.Or(budget.Size(name, len(p.Name), longestName, "bytes of a name"), budget.Size(name, len(p.Shape), mostAxes, "axes"),
		budget.Size(name, max(len(p.Blocks), len(p.Inner.Blocks)), mostBlocks, "blocks")); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	n := int64(1)
	for _, d := range p.Shape {
		if d < 0 || d > 0 && n > 1<<48/d {
			return fmt.Errorf("checkpoint: %v has an impossible shape", p)
		}
		n *= d
	}
	for _, c := range p.cuts() {
		if c.Of < 0 || c.Index < 0 || c.Index >= c.parts() || c.Axis < 0 || c.divides() && (c.Axis >= len(p.Shape) || p.Shape[c.Axis]%c.Of != 0) {
			return fmt.Errorf("checkpoint: %v is an impossible part", p)
		}
		if c.divides() && !c.covers(p.Shape[c.Axis]) {
			return fmt.Errorf("checkpoint: %v has %d impossible blocks, %.200s", p, len(c.Blocks), fmt.Sprint(c.Blocks))
		}
	}
	if p.divides() && p.Inner.divides() && p.Inner.Axis <= p.Axis {
		return fmt.Errorf("checkpoint: %v is an impossible part: the inner cut is along a later axis", p)
	}
	return nil
}

// covers reports whether the blocks can be divided, and are all of an axis of some size.
func (c Cut) covers(size int64) bool {
	for _, b := range c.Blocks {
		if b < 0 || b%c.Of != 0 || b > size {
			return false
		}
		size -= b
	}
	return c.Blocks == nil || size == 0
}

// Range is the indices [From, To) along an axis.
type Range struct{ From, To int64 }

// Ranges lists what the cut takes of its axis, whose size is given.
func (c Cut) Ranges(size int64) (list []Range) {
	blocks := c.Blocks
	if blocks == nil {
		blocks = []int64{size}
	}
	at := int64(0)
	for _, b := range blocks {
		n := b / c.parts()
		list = append(list, Range{at + c.Index*n, at + (c.Index+1)*n})
		at += b
	}
	return list
}

// Local returns the shape of the part. The part must be one that Read takes: its cuts divide axes of Shape.
func (p Part) Local() []int64 {
	shape := slices.Clone(p.Shape)
	for _, c := range p.cuts() {
		if c.divides() {
			shape[c.Axis] /= c.Of
		}
	}
	return shape
}

// Select returns the elements of the part from all elements of the whole tensor. The part must be one that Read takes.
func (p Part) Select(whole []float32) []float32 {
	if p.parts() == 1 {
		return whole
	}
	part := make([]float32, 0, count(p.Local()))
	for _, r := range p.runs() {
		part = append(part, whole[r.whole:][:r.n]...)
	}
	return part
}

// Draw returns the elements of the part from those of the whole tensor, which next gives one after the other in row-major order, and
// which need not be in memory together. The part must be one that Read takes.
func (p Part) Draw(next func() float32) []float32 {
	part, at := make([]float32, 0, count(p.Local())), int64(0)
	for _, r := range p.runs() {
		for ; at < r.whole; at++ {
			next()
		}
		for ; at < r.whole+r.n; at++ {
			part = append(part, next())
		}
	}
	return part
}

// alike reports whether two parts are of tensors that are divided in the same way.
func (p Part) alike(o Part) bool {
	return slices.EqualFunc(p.cuts(), o.cuts(), func(a, b Cut) bool {
		return a.parts() == b.parts() && (!a.divides() || a.Axis == b.Axis && slices.Equal(a.Blocks, b.Blocks))
	})
}

// run is a range of a part's elements that follow each other in the whole tensor too.
type run struct{ whole, own, n int64 }

// runs lists them in order.
func (p Part) runs() []run {
	if count(p.Shape) == 0 {
		return nil
	}
	list := []run{{n: 1}} // of the elements that the axes so far have
	for axis, size := range p.Shape {
		taken := []Range(nil)
		for _, c := range p.cuts() {
			if c.divides() && c.Axis == axis {
				taken = c.Ranges(size)
			}
		}
		if taken == nil {
			for i := range list {
				list[i].whole, list[i].n = list[i].whole*size, list[i].n*size
			}
			continue
		}
		var next []run
		for _, r := range list {
			for at := r.whole; at < r.whole+r.n; at++ {
				for _, t := range taken {
					next = append(next, run{whole: at*size + t.From, n: t.To - t.From})
				}
			}
		}
		list = next
	}
	own := int64(0)
	for i := range list {
		list[i].own = own
		own += list[i].n
	}
	return list
}

// count is the number of elements of a shape.
func count(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// bytesOf views float32 values as bytes, which are little-endian on every platform that this module
// supports.
func bytesOf(values []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values))
}
