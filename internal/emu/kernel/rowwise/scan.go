package rowwise

// #include "scan_op.h"
import "C"

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/thread"
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
func Scan(r Running, out, index, in kernel.View, axis int, exclusive, reverse bool) error {
	class, ok := kernel.Classes[in.DType]
	if !ok || !kernel.Computes(out.DType) {
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
		in, out = in.Row(), out.Row()
		if index.Data != nil {
			index = index.Row()
		}
		axis = 0
	}
	if reverse {
		in, out = in.Reversed(axis), out.Reversed(axis)
	}
	if index.Data == nil {
		index.Strides = make([]int64, len(in.Shape))
	}
	s := C.struct_scan{op: C.int32_t(r), class: C.int32_t(class), length: C.int64_t(in.Shape[axis])}
	if exclusive {
		s.exclusive = 1
	}
	s.in_step, s.out_step, s.index_step = C.int64_t(in.Strides[axis]), C.int64_t(out.Strides[axis]), C.int64_t(index.Strides[axis])
	drop := func(d []int64) []int64 { return slices.Delete(slices.Clone(d), axis, axis+1) }
	var kept kernel.Space
	kept.Plan(drop(in.Shape), drop(in.Strides), drop(out.Strides), drop(index.Strides))
	s.kept = cSpace(kept.Shape())
	s.in, s.out = operand(in.Data, in.DType, kept.Strides(0)), operand(out.Data, out.DType, kept.Strides(1))
	s.index = operand(index.Data, index.DType, kept.Strides(2))
	lines := in.Len() / in.Shape[axis]
	if last := kept.Strides(0); lines == 1 || kernel.Magnitude(in.Strides[axis]) < kernel.Magnitude(last[len(last)-1]) {
		s.by_line = 1
	}
	thread.Parallel(lines, max(thread.Grain/in.Shape[axis], 1), func(lo, hi int64) { C.scan_run(&s, C.int64_t(lo), C.int64_t(hi)) })
	return nil
}
