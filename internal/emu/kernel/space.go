package kernel

/*
#include <stdlib.h>
#include "space.h"
*/
import "C"

import (
	"cmp"
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
)

// Broadcast returns v broadcast to the given shape. Dimensions are aligned at the last one, and
// missing dimensions and those of size 1 are repeated. It fails if other sizes differ.
func (v View) Broadcast(shape []int64) (View, error) {
	out := View{Data: v.Data, DType: v.DType, Shape: shape, Strides: make([]int64, len(shape))}
	lead := len(shape) - len(v.Shape)
	if lead < 0 {
		return View{}, fmt.Errorf("kernel: shape %v cannot be broadcast to %v", v.Shape, shape)
	}
	for i, d := range v.Shape {
		switch {
		case d == shape[lead+i]:
			out.Strides[lead+i] = v.Strides[i]
		case d != 1:
			return View{}, fmt.Errorf("kernel: shape %v cannot be broadcast to %v", v.Shape, shape)
		}
	}
	return out, nil
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
	v = View{DType: d, Shape: shape, Strides: contiguous(shape)}
	p := C.malloc(C.size_t(max(v.Len()*int64(d.Size()), 1)))
	v.Data = p
	return v, func() { C.free(p) }
}

func contiguous(shape []int64) []int64 {
	s := make([]int64, len(shape))
	n := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= shape[i]
	}
	return s
}

// plan computes the iteration space of operands with a common shape. Dimensions are ordered by
// the first operand's strides, largest first, and dimensions that are contiguous in every
// operand are merged, so that the innermost one is as long as possible. The space has at least
// one dimension.
func plan(shape []int64, strides ...[]int64) (merged []int64, of [][]int64) {
	return new(ordered).plan(shape, strides)
}

// ordered is the memory of a plan of up to MaxRank dimensions and of four operands. Plans of more allocate.
type ordered struct {
	order  [MaxRank]int
	merged [MaxRank]int64
	of     [4][]int64
	each   [4][MaxRank]int64
}

// plan is the function plan; what it returns lies in b.
func (b *ordered) plan(shape []int64, strides [][]int64) (merged []int64, of [][]int64) {
	order := b.order[:0]
	for i, d := range shape {
		if d != 1 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		for _, s := range strides {
			if c := cmp.Compare(abs(s[j]), abs(s[i])); c != 0 {
				return c
			}
		}
		return 0
	})
	merged, of = b.merged[:0], b.of[:0]
	for k := range strides {
		if k < len(b.each) {
			of = append(of, b.each[k][:0])
		} else {
			of = append(of, nil)
		}
	}
	for _, i := range order {
		last := len(merged) - 1
		joins := last >= 0
		for k, s := range strides {
			joins = joins && of[k][last] == s[i]*shape[i]
		}
		if joins {
			merged[last] *= shape[i]
		} else {
			merged = append(merged, shape[i])
		}
		for k, s := range strides {
			if joins {
				of[k][last] = s[i]
			} else {
				of[k] = append(of[k], s[i])
			}
		}
	}
	if len(merged) == 0 {
		merged = append(merged, 1)
		for k := range of {
			of[k] = append(of[k], 1)
		}
	}
	return merged, of
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
