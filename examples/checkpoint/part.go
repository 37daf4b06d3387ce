package checkpoint

import (
	"fmt"
	"slices"
	"unsafe"
)

// Part is a part of a tensor: the Index-th of Of equal parts along an axis, or of each block along
// it. Of is 0 or 1 for the whole tensor.
type Part struct {
	Name  string  `json:"name"`
	Shape []int64 `json:"shape"` // of the whole tensor
	Axis  int     `json:"axis,omitempty"`
	Index int64   `json:"index,omitempty"`
	Of    int64   `json:"of,omitempty"`
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
	if p.parts() > 1 {
		s += fmt.Sprintf(" part %d of %d along axis %d", p.Index, p.Of, p.Axis)
	}
	return s
}

func (p Part) parts() int64 { return max(p.Of, 1) }

// check refuses a part that cannot be.
func (p Part) check() error {
	n := int64(1)
	for _, d := range p.Shape {
		if d < 0 || d > 0 && n > 1<<48/d {
			return fmt.Errorf("checkpoint: %v has an impossible shape", p)
		}
		n *= d
	}
	if p.Of < 0 || p.Index < 0 || p.Index >= p.parts() || p.Axis < 0 ||
		p.parts() > 1 && (p.Axis >= len(p.Shape) || p.Shape[p.Axis]%p.Of != 0) {
		return fmt.Errorf("checkpoint: %v is an impossible part", p)
	}
	if p.parts() == 1 || p.Blocks == nil {
		return nil
	}
	sum := int64(0)
	for _, b := range p.Blocks {
		if b < 0 || b%p.Of != 0 || b > p.Shape[p.Axis]-sum {
			return fmt.Errorf("checkpoint: %v has impossible blocks %v", p, p.Blocks)
		}
		sum += b
	}
	if sum != p.Shape[p.Axis] {
		return fmt.Errorf("checkpoint: %v has blocks %v", p, p.Blocks)
	}
	return nil
}

// local is the shape of the part.
func (p Part) local() []int64 {
	shape := slices.Clone(p.Shape)
	if p.parts() > 1 {
		shape[p.Axis] /= p.Of
	}
	return shape
}

// same reports whether two parts have the same elements.
func (p Part) same(o Part) bool {
	return p.parts() == o.parts() && p.Index == o.Index && (p.parts() == 1 || p.Axis == o.Axis && slices.Equal(p.Blocks, o.Blocks))
}

// run is a range of a part's elements that follow each other in the whole tensor too.
type run struct{ whole, own, n int64 }

// runs lists them in order.
func (p Part) runs() []run {
	if p.parts() == 1 {
		return []run{{n: count(p.Shape)}}
	}
	blocks := p.Blocks
	if blocks == nil {
		blocks = []int64{p.Shape[p.Axis]}
	}
	var list []run
	inner, own := count(p.Shape[p.Axis+1:]), int64(0)
	for at := int64(0); at < count(p.Shape); {
		for _, b := range blocks {
			n := b / p.Of * inner
			list = append(list, run{at + p.Index*n, own, n})
			own += n
			at += b * inner
		}
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
