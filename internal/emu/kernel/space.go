package kernel

/*
#include <stdlib.h>
#include "space.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
)

// MaxRank is the largest number of dimensions a kernel takes.
const MaxRank = C.MAX_RANK

// Broadcast returns v broadcast to the given shape. Dimensions are aligned at the last one, and
// missing dimensions and those of size 1 are repeated. It fails if other sizes differ.
func (v View) Broadcast(shape []int64) (View, error) {
	out := View{Data: v.Data, DType: v.DType, Shape: shape, Strides: make([]int64, len(shape))}
	if err := v.spread(out.Strides, shape); err != nil {
		return View{}, err
	}
	return out, nil
}

// spread sets strides, which are zero, to those of v broadcast to the given shape.
func (v View) spread(strides, shape []int64) error {
	lead := len(shape) - len(v.Shape)
	if lead < 0 {
		return fmt.Errorf("kernel: shape %v cannot be broadcast to %v", v.Shape, shape)
	}
	for i, d := range v.Shape {
		switch {
		case d == shape[lead+i]:
			strides[lead+i] = v.Strides[i]
		case d != 1:
			return fmt.Errorf("kernel: shape %v cannot be broadcast to %v", v.Shape, shape)
		}
	}
	return nil
}

// extent returns the range of addresses [lo, hi) that the elements of v occupy.
func (v View) extent() (lo, hi uintptr) {
	if v.Len() == 0 {
		return 0, 0
	}
	size := int64(v.DType.Size())
	first, last := int64(0), int64(0)
	for i, d := range v.Shape {
		if s := v.Strides[i] * (d - 1); s < 0 {
			first += s
		} else {
			last += s
		}
	}
	base := int64(uintptr(v.Data))
	return uintptr(base + first*size), uintptr(base + (last+1)*size)
}

// overlaps reports whether a and b may share memory without being the same elements in the same
// order. Writing to one could then change elements of the other that were not read yet.
func overlaps(a, b View) bool {
	if a.Data == b.Data && a.DType == b.DType && slices.Equal(a.Shape, b.Shape) && slices.Equal(a.Strides, b.Strides) {
		return false
	}
	alo, ahi := a.extent()
	blo, bhi := b.extent()
	return alo < bhi && blo < ahi
}

// temporary allocates a contiguous view in C memory. The caller frees it with release.
func temporary(d dtype.Type, shape []int64) (v View, release func()) {
	v = allocated(d, shape, contiguous(shape))
	p := v.Data
	return v, func() { free(p) }
}

// allocated returns a view of new C memory with these strides, those of a contiguous view. The caller frees its data.
func allocated(d dtype.Type, shape, strides []int64) View {
	v := View{DType: d, Shape: shape, Strides: strides}
	v.Data = C.malloc(C.size_t(max(v.Len()*int64(d.Size()), 1)))
	return v
}

func free(p unsafe.Pointer) { C.free(p) }

func contiguous(shape []int64) []int64 { return setContiguous(make([]int64, len(shape)), shape) }

// setContiguous sets s to the strides of a contiguous view and returns it.
func setContiguous(s, shape []int64) []int64 {
	n := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= shape[i]
	}
	return s
}

// space is the iteration space of operands with a common shape. Up to MaxRank dimensions and four
// operands need no other memory, since its rows are in one array: a slice of slices would move to the
// heap.
type space struct {
	rank, room int
	few        [(1 + 4) * MaxRank]int64
	many       []int64 // instead of few
}

// shape returns the sizes of the dimensions.
func (s *space) shape() []int64 { return s.row(0) }

// strides returns the strides of an operand.
func (s *space) strides(operand int) []int64 { return s.row(1 + operand) }

func (s *space) row(k int) []int64 {
	all := s.many
	if all == nil {
		all = s.few[:]
	}
	return all[k*s.room:][:s.rank]
}

// plan computes the space. Dimensions are ordered by the first operand's strides, largest first, and
// dimensions that are contiguous in every operand are merged, so that the innermost one is as long as
// possible. The space has at least one dimension.
func (s *space) plan(shape []int64, strides ...[]int64) {
	if s.room = max(len(shape), 1); (1+len(strides))*s.room > len(s.few) {
		s.many = make([]int64, (1+len(strides))*s.room)
	}
	var few [MaxRank]int
	for _, i := range ordered(few[:0], shape, strides) {
		last := s.rank - 1
		joins := last >= 0
		for k, of := range strides {
			joins = joins && s.strides(k)[last] == of[i]*shape[i]
		}
		if joins {
			s.shape()[last] *= shape[i]
		} else {
			s.rank, last = s.rank+1, s.rank
			s.shape()[last] = shape[i]
		}
		for k, of := range strides {
			s.strides(k)[last] = of[i]
		}
	}
	if s.rank == 0 {
		s.rank = 1
		for k := range 1 + len(strides) {
			s.row(k)[0] = 1
		}
	}
}

// ordered appends the dimensions that are not of size 1 to order, those with the largest strides first.
func ordered(order []int, shape []int64, strides [][]int64) []int {
	before := func(i, j int) bool {
		for _, s := range strides {
			if a, b := abs(s[i]), abs(s[j]); a != b {
				return a > b
			}
		}
		return false
	}
	for i, d := range shape {
		if d == 1 {
			continue
		}
		order = append(order, i)
		for at := len(order) - 1; at > 0 && before(i, order[at-1]); at-- {
			order[at], order[at-1] = order[at-1], i
		}
	}
	return order
}

func abs(x int64) int64 { return max(x, -x) }

// cSpace converts a planned shape to its C form.
func cSpace(shape []int64) (s C.struct_space) {
	s.rank = C.int32_t(len(shape))
	for i, d := range shape {
		s.shape[i] = C.int64_t(d)
	}
	return s
}

// operand returns the C form of memory with strides over a planned space.
func operand(data unsafe.Pointer, d dtype.Type, strides []int64) (o C.struct_operand) {
	o.data, o.dtype = (*C.char)(data), C.int32_t(d)
	for i, x := range strides {
		o.stride[i] = C.int64_t(x)
	}
	return o
}

// over returns v, broadcast to a shape, as an operand over all dimensions of the shape in their order.
func over(v View, shape []int64) (o C.struct_operand, err error) {
	var strides [MaxRank]int64
	if err = v.spread(strides[:len(shape)], shape); err == nil && v.Data != nil {
		o = operand(v.Data, v.DType, strides[:len(shape)])
	}
	return o, err
}

// elementwise returns the space of the first view's elements, to which the others broadcast, with as few
// dimensions as the strides allow, and sets an operand for each view.
func elementwise(views []View, operands ...*C.struct_operand) (C.struct_space, error) {
	shape, strides := views[0].Shape, make([][]int64, len(views))
	for i, x := range views {
		x, err := x.Broadcast(shape)
		if err != nil || len(shape) > MaxRank {
			return C.struct_space{}, fmt.Errorf("kernel: %v does not go with %v, of at most %d dimensions", views[i].Shape, shape, MaxRank)
		}
		strides[i] = x.Strides
	}
	var s space
	s.plan(shape, strides...)
	for i, x := range views {
		*operands[i] = operand(x.Data, x.DType, s.strides(i))
	}
	return cSpace(s.shape()), nil
}

// classes are the arithmetic classes of the element types that kernels compute with.
var classes = map[dtype.Type]C.int32_t{
	dtype.Float32: C.CLASS_F32, dtype.Float16: C.CLASS_F32, dtype.BFloat16: C.CLASS_F32, dtype.Float64: C.CLASS_F64,
	dtype.Int8: C.CLASS_I64, dtype.Int16: C.CLASS_I64, dtype.Int32: C.CLASS_I64, dtype.Int64: C.CLASS_I64,
	dtype.Uint8: C.CLASS_I64, dtype.Uint16: C.CLASS_I64, dtype.Uint32: C.CLASS_I64, dtype.Uint64: C.CLASS_U64,
	dtype.Bool: C.CLASS_I64,
}

// Computes reports whether kernels compute with elements of type d. Elements of other types can
// only be moved.
func Computes(d dtype.Type) bool { _, ok := classes[d]; return ok }
