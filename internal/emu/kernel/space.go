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
	if err := v.Spread(out.Strides, shape); err != nil {
		return View{}, err
	}
	return out, nil
}

// Spread sets strides, which are zero, to those of v broadcast to the given shape.
func (v View) Spread(strides, shape []int64) error {
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

// Overlaps reports whether a and b may share memory without being the same elements in the same
// order. Writing to one could then change elements of the other that were not read yet.
func Overlaps(a, b View) bool {
	if a.Data == b.Data && a.DType == b.DType && slices.Equal(a.Shape, b.Shape) && slices.Equal(a.Strides, b.Strides) {
		return false
	}
	alo, ahi := a.extent()
	blo, bhi := b.extent()
	return alo < bhi && blo < ahi
}

// Allocated returns a view of new C memory with these strides, those of a contiguous view. The caller frees its data.
func Allocated(d dtype.Type, shape, strides []int64) View {
	v := View{DType: d, Shape: shape, Strides: strides}
	v.Data = C.malloc(C.size_t(max(v.Len()*int64(d.Size()), 1)))
	return v
}

func Free(p unsafe.Pointer) { C.free(p) }

func ContiguousStrides(shape []int64) []int64 { return SetContiguous(make([]int64, len(shape)), shape) }

// SetContiguous sets s to the strides of a contiguous view and returns it.
func SetContiguous(s, shape []int64) []int64 {
	n := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= shape[i]
	}
	return s
}

// Space is the iteration space of operands with a common shape. Up to MaxRank dimensions and four
// operands need no other memory, since its rows are in one array: a slice of slices would move to the
// heap.
type Space struct {
	rank, room int
	few        [(1 + 4) * MaxRank]int64
	many       []int64 // instead of few
}

// Shape returns the sizes of the dimensions.
func (s *Space) Shape() []int64 { return s.row(0) }

// Strides returns the strides of an operand.
func (s *Space) Strides(operand int) []int64 { return s.row(1 + operand) }

func (s *Space) row(k int) []int64 {
	all := s.many
	if all == nil {
		all = s.few[:]
	}
	return all[k*s.room:][:s.rank]
}

// Plan computes the space. Dimensions are ordered by the first operand's strides, largest first, and
// dimensions that are contiguous in every operand are merged, so that the innermost one is as long as
// possible. The space has at least one dimension.
func (s *Space) Plan(shape []int64, strides ...[]int64) {
	if s.room = max(len(shape), 1); (1+len(strides))*s.room > len(s.few) {
		s.many = make([]int64, (1+len(strides))*s.room)
	}
	var few [MaxRank]int
	for _, i := range ordered(few[:0], shape, strides) {
		last := s.rank - 1
		joins := last >= 0
		for k, of := range strides {
			joins = joins && s.Strides(k)[last] == of[i]*shape[i]
		}
		if joins {
			s.Shape()[last] *= shape[i]
		} else {
			s.rank, last = s.rank+1, s.rank
			s.Shape()[last] = shape[i]
		}
		for k, of := range strides {
			s.Strides(k)[last] = of[i]
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
			if a, b := Magnitude(s[i]), Magnitude(s[j]); a != b {
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

// Magnitude returns the magnitude of a stride.
func Magnitude(x int64) int64 { return max(x, -x) }

// CSpace is C's struct space: the shape of a planned space.
type CSpace struct {
	Rank  int32
	Shape [MaxRank]int64
}

// COperand is C's struct operand: memory with strides over a space, or a number.
type COperand struct {
	Data   unsafe.Pointer
	DType  int32
	Stride [MaxRank]int64
	F      float64
	I      int64
}

// NewCSpace returns the C form of a planned shape.
func NewCSpace(shape []int64) (s CSpace) {
	s.Rank = int32(len(shape))
	copy(s.Shape[:], shape)
	return s
}

// NewCOperand returns the C form of memory with strides over a planned space.
func NewCOperand(data unsafe.Pointer, d dtype.Type, strides []int64) (o COperand) {
	o.Data, o.DType = data, int32(d)
	copy(o.Stride[:], strides)
	return o
}

// Over returns v, broadcast to a shape, as an operand over all dimensions of the shape in their order.
func Over(v View, shape []int64) (o COperand, err error) {
	var strides [MaxRank]int64
	if err = v.Spread(strides[:len(shape)], shape); err == nil && v.Data != nil {
		o = NewCOperand(v.Data, v.DType, strides[:len(shape)])
	}
	return o, err
}

// Elementwise returns the space of the first view's elements, to which the others broadcast, with as few
// dimensions as the strides allow, and sets an operand for each view.
func Elementwise(views []View, operands ...*COperand) (CSpace, error) {
	shape, strides := views[0].Shape, make([][]int64, len(views))
	for i, x := range views {
		x, err := x.Broadcast(shape)
		if err != nil || len(shape) > MaxRank {
			return CSpace{}, fmt.Errorf("kernel: %v does not go with %v, of at most %d dimensions", views[i].Shape, shape, MaxRank)
		}
		strides[i] = x.Strides
	}
	var s Space
	s.Plan(shape, strides...)
	for i, x := range views {
		*operands[i] = NewCOperand(x.Data, x.DType, s.Strides(i))
	}
	return NewCSpace(s.Shape()), nil
}

// The arithmetic classes, in which kernels compute: float32, float64, int64 and uint64.
const (
	ClassF32 int32 = C.CLASS_F32
	ClassF64 int32 = C.CLASS_F64
	ClassI64 int32 = C.CLASS_I64
	ClassU64 int32 = C.CLASS_U64
)

// Classes are the arithmetic classes of the element types that kernels compute with.
var Classes = map[dtype.Type]int32{
	dtype.Float32: ClassF32, dtype.Float16: ClassF32, dtype.BFloat16: ClassF32, dtype.Float64: ClassF64,
	dtype.Int8: ClassI64, dtype.Int16: ClassI64, dtype.Int32: ClassI64, dtype.Int64: ClassI64,
	dtype.Uint8: ClassI64, dtype.Uint16: ClassI64, dtype.Uint32: ClassI64, dtype.Uint64: ClassU64,
	dtype.Bool: ClassI64,
}

// Accumulators are the types in which the classes combine scattered elements.
var Accumulators = map[int32]dtype.Type{
	ClassF32: dtype.Float32, ClassF64: dtype.Float64, ClassI64: dtype.Int64, ClassU64: dtype.Uint64,
}

// Computes reports whether kernels compute with elements of type d. Elements of other types can
// only be moved.
func Computes(d dtype.Type) bool { _, ok := Classes[d]; return ok }

// Temporary allocates a contiguous float32 view of the given shape for intermediate results.
// The caller frees it with the returned function.
func Temporary(shape ...int64) (View, func()) { return TemporaryOf(dtype.Float32, shape...) }

// TemporaryOf is like Temporary for elements of type d.
func TemporaryOf(d dtype.Type, shape ...int64) (v View, release func()) {
	v = Allocated(d, shape, ContiguousStrides(shape))
	p := v.Data
	return v, func() { Free(p) }
}

// TemporaryInt8 is like Temporary for int8.
func TemporaryInt8(shape ...int64) (View, func()) { return TemporaryOf(dtype.Int8, shape...) }

// TemporaryInt64 is like Temporary for int64.
func TemporaryInt64(shape ...int64) (View, func()) { return TemporaryOf(dtype.Int64, shape...) }
