package elementwise

/*
#cgo noescape map_run
#cgo nocallback map_run
#include "op.h"
*/
import "C"

import (
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// Number is a constant operand. Kernels use F when they compute in floating point and I when
// they compute in integers.
type Number struct {
	F float64
	I int64
}

// Real returns the Number x, whose integer form is truncated.
func Real(x float64) Number { return Number{F: x, I: int64(x)} }

// Whole returns the Number x.
func Whole(x int64) Number { return Number{F: float64(x), I: x} }

// Input is an operand of Map: a view, or a constant that is used for every element.
type Input struct {
	View   kernel.View
	number Number
	Fixed  bool
}

// Of returns v as an Input.
func Of(v kernel.View) Input { return Input{View: v} }

// Const returns n as an Input.
func Const(n Number) Input { return Input{number: n, Fixed: true} }

// Map sets every element of out to op of the inputs, which are broadcast to its shape.
// Elements are converted to the arithmetic class of compute (float for types up to 32
// bits, double, int64, uint64), combined, and converted to the type of out: to integers by
// truncation and saturation from floats, by wrapping from integers. An input may be out
// itself or overlap it in any way.
//
// Map fails if the shapes do not broadcast, if kernels do not compute with one of the types, or
// if the class does not have the operator.
func Map(op Op, compute dtype.Type, out kernel.View, in []Input, params ...Number) error {
	class, ok := kernel.Classes[compute]
	if !ok || C.map_defined(C.int32_t(op), C.int32_t(class)) == 0 {
		return fmt.Errorf("kernel: operator %d is not defined for %v", op, compute)
	}
	if !kernel.Computes(out.DType) {
		return fmt.Errorf("kernel: cannot compute %v elements", out.DType)
	}
	if len(out.Shape) > kernel.MaxRank {
		return mapParts(op, compute, out, in, params)
	}
	m := C.struct_map{op: C.int32_t(op), class: C.int32_t(class), inputs: C.int32_t(len(in))}
	for i, p := range params {
		m.f[i], m.i[i] = C.double(p.F), C.int64_t(p.I)
	}
	if out.Len() == 0 {
		return nil
	}
	// The usual call allocates no memory: arrays on the stack hold the operands.
	var views [C.MAX_INPUTS + 1]kernel.View
	var strides [C.MAX_INPUTS + 1][]int64
	var broadcast [C.MAX_INPUTS][kernel.MaxRank]int64
	views[0], strides[0] = out, out.Strides
	n := 1
	for i, x := range in {
		if x.Fixed {
			m.in[i].f, m.in[i].i = C.double(x.number.F), C.int64_t(x.number.I)
			continue
		}
		if !kernel.Computes(x.View.DType) {
			return fmt.Errorf("kernel: cannot compute with %v elements", x.View.DType)
		}
		v := x.View
		if kernel.Overlaps(out, v) {
			whole, release := kernel.TemporaryOf(v.DType, v.Shape...)
			defer release()
			if err := Copy(whole, v); err != nil {
				return err
			}
			v = whole
		}
		views[n], strides[n] = v, v.Strides
		if !slices.Equal(v.Shape, out.Shape) {
			if err := v.Spread(broadcast[i][:len(out.Shape)], out.Shape); err != nil {
				return err
			}
			strides[n] = broadcast[i][:len(out.Shape)]
		}
		n++
	}
	var s kernel.Space
	s.Plan(out.Shape, strides[:n]...)
	m.space = cSpace(s.Shape())
	m.out = operand(out.Data, out.DType, s.Strides(0))
	next := 1
	for i, x := range in {
		if !x.Fixed {
			m.in[i] = operand(views[next].Data, views[next].DType, s.Strides(next))
			next++
		}
	}
	n64 := int64(0) // elements that are mapped as words of 64 bits
	if op >= BitAnd && op <= BitNot {
		n64 = mapWords(m, out.Len())
	}
	if out.Len()-n64 < 2*thread.Grain {
		C.map_run(&m, C.int64_t(n64), C.int64_t(out.Len()))
		return nil
	}
	shared := m // by threads, in memory that outlives this function
	thread.Parallel(out.Len(), thread.Grain, func(lo, hi int64) { C.map_run(&shared, C.int64_t(lo), C.int64_t(hi)) })
	return nil
}

// mapWords runs a bitwise operation on n contiguous integers of one type as one on words of 64 bits. It returns the
// number of elements in whole words, or 0 if the operands are others.
func mapWords(m C.struct_map, n int64) int64 {
	each := 8 / int64(dtype.Type(m.out.dtype).Size())
	for i := range m.inputs + 1 {
		x := &m.out
		if i < m.inputs {
			x = &m.in[i]
		}
		if x.data == nil { // a constant
			ones := uint64(math.MaxUint64) >> (64 - 64/each)
			x.i = C.int64_t(uint64(x.i) & ones * (math.MaxUint64 / ones))
			continue
		}
		if x.dtype != m.out.dtype || x.dtype == C.int32_t(dtype.Bool) || m.space.rank != 1 || x.stride[0] != 1 {
			return 0
		}
		x.dtype = C.int32_t(dtype.Int64)
	}
	m.class, m.space.shape[0] = C.CLASS_I64, C.int64_t(n/each)
	thread.Parallel(n/each, thread.Grain, func(lo, hi int64) { C.map_run(&m, C.int64_t(lo), C.int64_t(hi)) })
	return n / each * each
}

// mapParts is Map for views of more than MaxRank dimensions. It joins dimensions where all views
// allow it, and maps the parts along the first if too many are left.
func mapParts(op Op, compute dtype.Type, out kernel.View, in []Input, params []Number) error {
	if out.Len() == 0 {
		return nil
	}
	views, strides := []kernel.View{out}, [][]int64{out.Strides}
	for _, x := range in {
		if x.Fixed {
			continue
		}
		v, err := x.View.Broadcast(out.Shape)
		if err != nil {
			return err
		}
		if kernel.Overlaps(out, v) {
			whole, release := kernel.TemporaryOf(v.DType, v.Shape...)
			defer release()
			if err := Map(Identity, v.DType, whole, []Input{Of(v)}); err != nil {
				return err
			}
			v = whole
		}
		views, strides = append(views, v), append(strides, v.Strides)
	}
	var s kernel.Space
	s.Plan(out.Shape, strides...)
	shape := s.Shape()
	for i := range views {
		views[i].Shape, views[i].Strides = shape, s.Strides(i)
	}
	if len(shape) <= kernel.MaxRank {
		return Map(op, compute, views[0], inputs(in, views[1:]), params...)
	}
	part := make([]kernel.View, len(views))
	for at := range shape[0] {
		for i, v := range views {
			part[i] = v.Select(0, at)
		}
		if err := Map(op, compute, part[0], inputs(in, part[1:]), params...); err != nil {
			return err
		}
	}
	return nil
}

// inputs returns in with other views.
func inputs(in []Input, views []kernel.View) []Input {
	out := slices.Clone(in)
	for i := range out {
		if !out[i].Fixed {
			out[i].View, views = views[0], views[1:]
		}
	}
	return out
}

// Defined reports whether op can be computed in the arithmetic class of d.
func Defined(op Op, d dtype.Type) bool {
	class, ok := kernel.Classes[d]
	return ok && C.map_defined(C.int32_t(op), C.int32_t(class)) != 0
}
