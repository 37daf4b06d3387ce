package kernel

// #include "scan_op.h"
import "C"

import (
	"fmt"
	"slices"
)

// Running is a reduction of every prefix of a dimension.
type Running int32

// The running reductions.
const (
	RunningSum  Running = C.SCAN_SUM
	RunningProd Running = C.SCAN_PROD
	RunningMax  Running = C.SCAN_MAX
	RunningMin  Running = C.SCAN_MIN
)

// Scan sets every element of out to the running reduction of in along axis. Sums and
// products of floating-point values are kept in double, of integers in 64 bits.
//
// With exclusive an element is not part of its own sum or product; with reverse the scan starts
// at the end. If index has data, it gets the position of each running maximum or minimum, the
// last of equal ones. All views have the same shape; out may be in, but must not overlap it
// otherwise.
func Scan(r Running, out, index, in View, axis int, exclusive, reverse bool) error {
	class, ok := classes[in.DType]
	if !ok || !Computes(out.DType) {
		return fmt.Errorf("kernel: cannot scan %v into %v", in.DType, out.DType)
	}
	if !slices.Equal(in.Shape, out.Shape) || index.Data != nil && !slices.Equal(in.Shape, index.Shape) {
		return fmt.Errorf("kernel: scanning %v gives the same shape, not %v", in.Shape, out.Shape)
	}
	if class == C.CLASS_F32 {
		class = C.CLASS_F64
	}
	if in.Len() == 0 {
		return nil
	}
	if len(in.Shape) == 0 {
		in, out = in.row(), out.row()
		if index.Data != nil {
			index = index.row()
		}
		axis = 0
	}
	if reverse {
		in, out = in.reversed(axis), out.reversed(axis)
	}
	if index.Data == nil {
		index.Strides = make([]int64, len(in.Shape))
	}
	s := C.struct_scan{op: C.int32_t(r), class: class, length: C.int64_t(in.Shape[axis])}
	if exclusive {
		s.exclusive = 1
	}
	s.in_step, s.out_step, s.index_step = C.int64_t(in.Strides[axis]), C.int64_t(out.Strides[axis]), C.int64_t(index.Strides[axis])
	drop := func(d []int64) []int64 { return slices.Delete(slices.Clone(d), axis, axis+1) }
	var kept space
	kept.plan(drop(in.Shape), drop(in.Strides), drop(out.Strides), drop(index.Strides))
	s.kept = cSpace(kept.shape())
	s.in, s.out = operand(in.Data, in.DType, kept.strides(0)), operand(out.Data, out.DType, kept.strides(1))
	s.index = operand(index.Data, index.DType, kept.strides(2))
	lines := in.Len() / in.Shape[axis]
	if last := kept.strides(0); lines == 1 || abs(in.Strides[axis]) < abs(last[len(last)-1]) {
		s.by_line = 1
	}
	Parallel(lines, max(grain/in.Shape[axis], 1), func(lo, hi int64) { C.scan_run(&s, C.int64_t(lo), C.int64_t(hi)) })
	return nil
}

// row returns a view without dimensions as a vector of one element.
func (v View) row() View {
	v.Shape, v.Strides = []int64{1}, []int64{1}
	return v
}

// reversed returns v with a dimension in reverse order.
func (v View) reversed(axis int) View {
	n := v.Shape[axis]
	v = v.Narrow(axis, n-1, n)
	v.Strides = slices.Clone(v.Strides)
	v.Strides[axis] *= -1
	return v
}
