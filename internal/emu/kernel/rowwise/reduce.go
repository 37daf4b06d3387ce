package rowwise

/*
#include <stdlib.h>
#include "reduce_op.h"
*/
import "C"

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// Reduction is a kind of reduction.
type Reduction int

// Reductions. Norm and Std take a parameter; ReduceVar and ReduceStd divide by the number of
// elements minus it (the correction).
const (
	ReduceSum Reduction = iota
	ReduceNanSum
	ReduceMean
	ReduceProd
	ReduceMax
	ReduceMin
	ReduceAny
	ReduceAll
	ReduceNorm
	ReduceLogSumExp
	ReduceVar
	ReduceStd
)

// steps maps a reduction to its C loop, and determines whether the loop computes in floating point for
// every input type.
var steps = map[Reduction]struct {
	op   C.int32_t
	real bool
}{
	ReduceSum: {C.REDUCE_SUM, false}, ReduceNanSum: {C.REDUCE_NAN_SUM, true}, ReduceMean: {C.REDUCE_SUM, true},
	ReduceProd: {C.REDUCE_PROD, false}, ReduceMax: {C.REDUCE_MAX, false}, ReduceMin: {C.REDUCE_MIN, false},
	ReduceAny: {C.REDUCE_ANY, false}, ReduceAll: {C.REDUCE_ALL, false}, ReduceLogSumExp: {C.REDUCE_EXP_SUM, true},
	ReduceVar: {C.REDUCE_DEVIATION_SUM, true}, ReduceStd: {C.REDUCE_DEVIATION_SUM, true}, ReduceNorm: {C.REDUCE_POWER_SUM, true},
}

// Reduce sets out to the reduction of in over the dimensions axes. out has the shape of the other
// dimensions, or all dimensions with one element along axes. Floating-point values are accumulated in double,
// integers and bool in 64 bits, in an order that depends only on the shapes and strides. parameter is the p of
// ReduceNorm and the correction of ReduceVar and ReduceStd.
//
// A reduction of zero elements gives the neutral element, and NaN for a mean, variance or
// standard deviation. Reduce fails if the shapes do not match or a type is not supported.
func Reduce(r Reduction, out, in kernel.View, axes []int, parameter float64) error {
	p, err := newReduction(out, in, axes)
	if err != nil || out.Len() == 0 {
		return err
	}
	defer p.free()
	step := steps[r]
	if step.real {
		p.c.class = C.CLASS_F64
	}
	finish, with := elementwise.Identity, math.NaN() // the second operand, if finish has one
	switch r {
	case ReduceMean:
		finish, with = elementwise.Div, float64(p.count)
	case ReduceNorm:
		step.op, finish, with = norm(parameter)
		p.c.u = C.double(parameter)
	case ReduceLogSumExp, ReduceVar, ReduceStd:
		pivot, release, err := p.pivot(r, in, axes)
		if err != nil {
			return err
		}
		defer release()
		p.c.pivot = pivot.Data
		if r == ReduceLogSumExp {
			state := p.run(step.op)
			if err := elementwise.Map(elementwise.Log, state.DType, state, []elementwise.Input{elementwise.Of(state)}); err != nil {
				return err
			}
			return elementwise.Map(elementwise.Add, state.DType, out, []elementwise.Input{elementwise.Of(state), elementwise.Of(pivot)}, elementwise.Real(1))
		}
		finish, with = elementwise.Div, max(float64(p.count)-parameter, 0)
	}
	state := p.run(step.op)
	operands := [...]elementwise.Input{elementwise.Of(state), elementwise.Const(elementwise.Real(with))}
	if r == ReduceStd {
		if err := elementwise.Map(elementwise.Div, state.DType, state, operands[:]); err != nil {
			return err
		}
		finish = elementwise.Sqrt
	}
	if finish == elementwise.Div || finish == elementwise.Pow {
		return elementwise.Map(finish, state.DType, out, operands[:])
	}
	return elementwise.Map(finish, state.DType, out, operands[:1])
}

// norm chooses the loop of a p-norm, and the operator that turns the state into the norm, with its operand.
func norm(p float64) (op C.int32_t, finish elementwise.Op, with float64) {
	switch {
	case p == 0:
		return C.REDUCE_NONZERO, elementwise.Identity, 0
	case p == 1:
		return C.REDUCE_ABS_SUM, elementwise.Identity, 0
	case p == 2:
		return C.REDUCE_SQUARE_SUM, elementwise.Sqrt, 0
	case math.IsInf(p, 1):
		return C.REDUCE_ABS_MAX, elementwise.Identity, 0
	case math.IsInf(p, -1):
		return C.REDUCE_ABS_MIN, elementwise.Identity, 0
	}
	return C.REDUCE_POWER_SUM, elementwise.Pow, 1 / p
}

// ReduceArg sets index to the row-major index over axes of the largest (or smallest) element,
// and value, if it has data, to that element. The first of equal elements wins, and a NaN takes
// precedence over every number.
func ReduceArg(largest bool, value, index, in kernel.View, axes []int) error {
	p, err := newReduction(index, in, axes)
	if err != nil || index.Len() == 0 {
		return err
	}
	if p.count == 0 {
		return fmt.Errorf("kernel: no largest or smallest of no elements (shape %v, axes %v)", in.Shape, axes)
	}
	sign := C.int(1)
	if !largest {
		sign = -1
	}
	state, release := kernel.TemporaryOf(p.state(), p.kept)
	defer release()
	where, release := kernel.TemporaryOf(dtype.Int64, p.kept)
	defer release()
	thread.Parallel(p.kept, max(thread.Grain/p.count, 1), func(lo, hi int64) {
		C.reduce_arg(&p.c, sign, C.int64_t(lo), C.int64_t(hi), unsafe.Add(state.Data, 8*lo), (*C.int64_t)(unsafe.Add(where.Data, 8*lo)))
	})
	if value.Data != nil {
		if err := elementwise.Copy(value, p.shaped(state)); err != nil {
			return err
		}
	}
	return elementwise.Copy(index, p.shaped(where))
}

// reduction is a planned reduction.
type reduction struct {
	c           C.struct_reduce
	kept, count int64 // outputs, and inputs per output
	columns     bool  // inputs of neighbouring outputs are closer than those of one output
	shape       []int64
	memory      [4][kernel.MaxRank]int64 // for planning, and of strides
	states      unsafe.Pointer           // for each block of inputs, a state per output
}

func newReduction(out, in kernel.View, axes []int) (*reduction, error) {
	class, ok := kernel.Classes[in.DType]
	if !ok || !kernel.Computes(out.DType) {
		return nil, fmt.Errorf("kernel: cannot reduce %v to %v", in.DType, out.DType)
	}
	if len(in.Shape) > kernel.MaxRank {
		return nil, fmt.Errorf("kernel: %d dimensions; at most %d are supported", len(in.Shape), kernel.MaxRank)
	}
	if class == C.CLASS_F32 {
		class = C.CLASS_F64
	}
	r := new(reduction)
	kept := kernel.View{Shape: r.memory[0][:0], Strides: r.memory[1][:0]}
	dims := kernel.View{Shape: r.memory[2][:0], Strides: r.memory[3][:0]}
	for i := range in.Shape {
		v := &kept
		if slices.Contains(axes, i) {
			v = &dims
		}
		v.Shape, v.Strides = append(v.Shape, in.Shape[i]), append(v.Strides, in.Strides[i])
	}
	if !slices.Equal(kept.Shape, out.Shape) && !keeps(out.Shape, in.Shape, axes) {
		return nil, fmt.Errorf("kernel: reducing %v over %v gives %v, not %v", in.Shape, slices.Clone(axes), kept.Shape, out.Shape)
	}
	r.kept, r.count, r.shape = kept.Len(), dims.Len(), out.Shape
	var few [4][kernel.MaxRank]int64
	keptShape, keptStrides := kernel.Merged(kept, few[0][:0], few[1][:0])
	dimShape, dimStrides := kernel.Merged(dims, few[2][:0], few[3][:0])
	r.c.class = C.int32_t(class)
	r.c.kept, r.c.dims = cSpace(keptShape), cSpace(dimShape)
	r.c.in = operand(in.Data, in.DType, keptStrides)
	for i, s := range dimStrides {
		r.c.dim_stride[i] = C.int64_t(s)
	}
	r.columns = r.kept > 1 && r.count > 0 && kernel.Magnitude(keptStrides[len(keptStrides)-1]) < kernel.Magnitude(dimStrides[len(dimStrides)-1])
	return r, nil
}

// keeps reports whether shape is that of in with one element along axes.
func keeps(shape, in []int64, axes []int) bool {
	if len(shape) != len(in) {
		return false
	}
	for i, n := range in {
		if slices.Contains(axes, i) {
			n = 1
		}
		if shape[i] != n {
			return false
		}
	}
	return true
}

// state returns the element type of the states.
func (r *reduction) state() dtype.Type {
	switch r.c.class {
	case C.CLASS_I64:
		return dtype.Int64
	case C.CLASS_U64:
		return dtype.Uint64
	}
	return dtype.Float64
}

// shaped returns a vector of states in the shape of the output.
func (r *reduction) shaped(v kernel.View) kernel.View {
	v.Shape, v.Strides = r.shape, kernel.SetContiguous(r.memory[0][:len(r.shape)], r.shape)
	return v
}

// blockRows returns the number of elements per output in one part. It depends only on the shape,
// and so does the order of additions.
func (r *reduction) blockRows() int64 {
	if r.columns {
		return max(1<<18/r.kept, 256)
	}
	return 1 << 16
}

// blocks returns the number of parts.
func (r *reduction) blocks() int64 { return max((r.count+r.blockRows()-1)/r.blockRows(), 1) }

// run computes one state per output, in memory of the reduction.
func (r *reduction) run(op C.int32_t) (state kernel.View) {
	r.c.op = op
	blocks, pays := r.blocks(), max(thread.Grain/max(min(r.blockRows(), r.count), 1), 1)
	r.states = C.malloc(C.size_t(8 * blocks * r.kept))
	if n := blocks * r.kept; n < 2*pays {
		r.span(0, n)
	} else {
		thread.Parallel(n, pays, r.span)
	}
	for b := int64(1); b < blocks; b++ {
		C.reduce_merge(&r.c, r.states, unsafe.Add(r.states, 8*b*r.kept), C.int64_t(r.kept))
	}
	return r.shaped(kernel.View{Data: r.states, DType: r.state()})
}

// span computes the states from lo to hi of all blocks.
func (r *reduction) span(lo, hi int64) {
	columns, rows := C.int(0), r.blockRows()
	if r.columns {
		columns = 1
	}
	for lo < hi {
		block, k := lo/r.kept, lo%r.kept
		end := min(r.kept, k+hi-lo)
		from, to := block*rows, min((block+1)*rows, r.count)
		C.reduce_run(&r.c, columns, C.int64_t(k), C.int64_t(end), C.int64_t(from), C.int64_t(to), unsafe.Add(r.states, 8*lo))
		lo += end - k
	}
}

// free frees the states.
func (r *reduction) free() { C.free(r.states) }

// pivot returns the value that is subtracted from the elements: their mean, or for a sum of
// exponentials their maximum (0 if the maximum is infinite).
func (r *reduction) pivot(kind Reduction, in kernel.View, axes []int) (v kernel.View, release func(), err error) {
	v, release = kernel.TemporaryOf(dtype.Float64, r.shape...)
	if kind != ReduceLogSumExp {
		return v, release, Reduce(ReduceMean, v, in, axes, 0)
	}
	if err = Reduce(ReduceMax, v, in, axes, 0); err == nil {
		err = elementwise.Map(elementwise.NanToNum, dtype.Float64, v, []elementwise.Input{elementwise.Of(v)}, elementwise.Real(math.NaN()), elementwise.Real(0), elementwise.Real(0))
	}
	return v, release, err
}

// Equals sets the single element of out to 1 if a and b, of one shape, have equal elements,
// else to 0.
func Equals(out, a, b kernel.View) error {
	same, release := kernel.TemporaryOf(dtype.Bool, a.Shape...)
	defer release()
	if err := elementwise.Map(elementwise.Equal, a.DType, same, []elementwise.Input{elementwise.Of(a), elementwise.Of(b)}); err != nil {
		return err
	}
	return Reduce(ReduceAll, out, same, kernel.AxesFrom(0, len(a.Shape)), 0)
}
