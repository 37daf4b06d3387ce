package elementwise

/*
#cgo noescape move_elements
#cgo nocallback move_elements
#include "move.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// Copy sets dst to src, broadcast and converted as by Map. Elements of equal type are moved
// as they are, whatever the type. The views may overlap.
func Copy(dst, src kernel.View) error {
	if dst.DType != src.DType {
		return Map(Identity, src.DType, dst, []Input{Of(src)})
	}
	size := dst.DType.Size()
	if size == 0 {
		return fmt.Errorf("kernel: elements of type %v cannot be moved one by one", dst.DType)
	}
	if len(dst.Shape) > kernel.MaxRank && kernel.Computes(dst.DType) {
		return Map(Identity, dst.DType, dst, []Input{Of(src)})
	}
	if len(dst.Shape) > kernel.MaxRank {
		return fmt.Errorf("kernel: %d dimensions; at most %d are supported", len(dst.Shape), kernel.MaxRank)
	}
	if dst.Len() == 0 {
		return nil
	}
	if kernel.Overlaps(dst, src) {
		whole, release := kernel.TemporaryOf(src.DType, src.Shape...)
		defer release()
		if err := Copy(whole, src); err != nil {
			return err
		}
		src = whole
	}
	if !slices.Equal(src.Shape, dst.Shape) {
		var err error
		if src, err = src.Broadcast(dst.Shape); err != nil {
			return err
		}
	}
	Move(dst, src)
	return nil
}

// CopyInOrder sets the elements of dst to those of src, both in row-major order and converted as by
// Map. The shapes may differ but have the same number of elements.
func CopyInOrder(dst, src kernel.View) error {
	if dst.Len() != src.Len() {
		return fmt.Errorf("kernel: shapes %v and %v have different numbers of elements", dst.Shape, src.Shape)
	}
	switch {
	case dst.Len() == 0:
		return nil
	case src.Contiguous():
		return Copy(dst, src.Reshaped(dst.Shape...))
	case dst.Contiguous():
		return Copy(dst.Reshaped(src.Shape...), src)
	}
	whole, release := kernel.TemporaryOf(src.DType, src.Shape...)
	defer release()
	if err := Copy(whole, src); err != nil {
		return err
	}
	return Copy(dst, whole.Reshaped(dst.Shape...))
}

// Flat returns the elements of v in row-major order as a vector: v itself if it is contiguous, else
// a copy. The caller calls release when the vector is no longer needed.
func Flat(v kernel.View) (flat kernel.View, release func(), err error) {
	if v.Contiguous() {
		return v.Reshaped(v.Len()), func() {}, nil
	}
	flat, release = kernel.TemporaryOf(v.DType, v.Len())
	return flat, release, CopyInOrder(flat, v)
}

// Move copies elements of one type between views of one shape.
func Move(dst, src kernel.View) {
	var order kernel.Space
	order.Plan(dst.Shape, dst.Strides, src.Strides)
	shape := order.Shape()
	d, last := transposed(shape, order.Strides(0), order.Strides(1)), len(shape)-1
	if n := dst.Len(); d < 0 && n < 2*thread.Grain {
		s, to, from := cSpace(shape), operand(dst.Data, dst.DType, order.Strides(0)), operand(src.Data, src.DType, order.Strides(1))
		C.move_elements(&s, &to, &from, C.int32_t(dst.DType.Size()), 0, C.int64_t(n))
		return
	}
	s, size := cSpace(shape), C.int32_t(dst.DType.Size())
	to, from := operand(dst.Data, dst.DType, order.Strides(0)), operand(src.Data, src.DType, order.Strides(1))
	if d < 0 {
		thread.Parallel(dst.Len(), thread.Grain, func(lo, hi int64) {
			C.move_elements(&s, &to, &from, size, C.int64_t(lo), C.int64_t(hi))
		})
		return
	}
	strips := dst.Len() / (shape[d] * shape[last]) * ((shape[d] + C.STRIP - 1) / C.STRIP)
	thread.Parallel(strips, max(thread.Grain/(C.STRIP*shape[last]), 1), func(lo, hi int64) {
		C.move_transposed(&s, &to, &from, size, C.int32_t(d), C.int64_t(lo), C.int64_t(hi))
	})
}

// transposed returns the dimension along which from is packed if the move is a transposition
// that is worth tiling, else -1.
func transposed(shape, to, from []int64) int {
	last := len(shape) - 1
	if to[last] != 1 || from[last] == 0 || from[last] == 1 || shape[last] < 8 { // 0 fills rows
		return -1
	}
	for d := range last {
		if from[d] == 1 && shape[d] >= 8 {
			return d
		}
	}
	return -1
}

// Fill sets every element of v to n.
func Fill(v kernel.View, n Number) error {
	one, release := kernel.TemporaryOf(v.DType)
	defer release()
	if err := Map(Identity, v.DType, one, []Input{Const(n)}); err != nil {
		return err
	}
	return Copy(v, one)
}

// Zero clears every element of v, whatever its type.
func Zero(v kernel.View) error {
	return Copy(v, kernel.View{Data: unsafe.Pointer(&C.zero_element), DType: v.DType, Shape: []int64{}, Strides: []int64{}})
}

// Sequence sets the elements of out, in row-major order, to start, start + step, start + 2 step and so on, computed
// in double for floating-point types and in 64 bits for integers.
func Sequence(out kernel.View, start, step Number) error {
	d := dtype.Int64
	if out.DType.IsFloat() {
		d = dtype.Float64
	}
	v, release := kernel.TemporaryOf(d, out.Shape...)
	defer release()
	if d == dtype.Int64 {
		x := unsafe.Slice((*int64)(v.Data), v.Len())
		for i := range x {
			x[i] = start.I + int64(i)*step.I
		}
	} else {
		x := unsafe.Slice((*float64)(v.Data), v.Len())
		for i := range x {
			x[i] = start.F + float64(i)*step.F
		}
	}
	return Copy(out, v)
}
