package kernel

// #include "reduce_op.h"
import "C"

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
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

// steps maps a reduction to its C loop, and says whether the loop computes in floating point for
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
// dimensions. Floating-point values are accumulated in double, integers and bool in 64 bits, in
// an order that depends only on the shapes and strides. parameter is the p of ReduceNorm and the
// correction of ReduceVar and ReduceStd.
//
// A reduction of zero elements gives the neutral element, and NaN for a mean, variance or
// standard deviation. Reduce fails if the shapes do not match or a type is not supported.
func Reduce(r Reduction, out, in View, axes []int, parameter float64) error {
	p, err := newReduction(out, in, axes)
	if err != nil || out.Len() == 0 {
		return err
	}
	step := steps[r]
	if step.real {
		p.c.class = C.CLASS_F64
	}
	n := float64(p.count)
	finish, params := Identity, []Number(nil)
	var divisor []Input
	switch r {
	case ReduceMean:
		finish, divisor = Div, []Input{Const(Real(n))}
	case ReduceNorm:
		step.op, finish, divisor = norm(parameter)
		p.c.u = C.double(parameter)
	case ReduceLogSumExp, ReduceVar, ReduceStd:
		pivot, release, err := p.pivot(r, in, axes)
		if err != nil {
			return err
		}
		defer release()
		p.c.pivot = pivot.Data
		if r == ReduceLogSumExp {
			state, release := p.run(step.op)
			defer release()
			if err := Map(Log, state.DType, state, []Input{Of(state)}); err != nil {
				return err
			}
			return Map(Add, state.DType, out, []Input{Of(state), Of(pivot)}, Real(1))
		}
		finish, divisor = Div, []Input{Const(Real(max(n-parameter, 0)))}
	}
	state, release := p.run(step.op)
	defer release()
	if r == ReduceStd {
		if err := Map(Div, state.DType, state, append([]Input{Of(state)}, divisor...)); err != nil {
			return err
		}
		finish, divisor = Sqrt, nil
	}
	return Map(finish, state.DType, out, append([]Input{Of(state)}, divisor...), params...)
}

// norm chooses the loop of a p-norm, and the operator that turns the state into the norm.
func norm(p float64) (op C.int32_t, finish Op, with []Input) {
	switch {
	case p == 0:
		return C.REDUCE_NONZERO, Identity, nil
	case p == 1:
		return C.REDUCE_ABS_SUM, Identity, nil
	case p == 2:
		return C.REDUCE_SQUARE_SUM, Sqrt, nil
	case math.IsInf(p, 1):
		return C.REDUCE_ABS_MAX, Identity, nil
	case math.IsInf(p, -1):
		return C.REDUCE_ABS_MIN, Identity, nil
	}
	return C.REDUCE_POWER_SUM, Pow, []Input{Const(Real(1 / p))}
}

// ReduceArg sets index to the row-major index over axes of the largest (or smallest) element,
// and value, if it has data, to that element. The first of equal elements wins, and a NaN takes
// precedence over every number.
func ReduceArg(largest bool, value, index, in View, axes []int) error {
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
	state, release := temporary(p.state(), []int64{p.kept})
	defer release()
	where, release := temporary(dtype.Int64, []int64{p.kept})
	defer release()
	Parallel(p.kept, max(grain/p.count, 1), func(lo, hi int64) {
		C.reduce_arg(&p.c, sign, C.int64_t(lo), C.int64_t(hi), unsafe.Add(state.Data, 8*lo), (*C.int64_t)(unsafe.Add(where.Data, 8*lo)))
	})
	if value.Data != nil {
		if err := Copy(value, p.shaped(state)); err != nil {
			return err
		}
	}
	return Copy(index, p.shaped(where))
}

// reduction is a planned reduction.
type reduction struct {
	c           C.struct_reduce
	kept, count int64 // outputs, and inputs per output
	columns     bool  // inputs of neighbouring outputs are closer than those of one output
	keptShape   []int64
	memory      [4][MaxRank]int64 // of keptShape, and for planning
}

func newReduction(out, in View, axes []int) (*reduction, error) {
	class, ok := classes[in.DType]
	if !ok || !Computes(out.DType) {
		return nil, fmt.Errorf("kernel: cannot reduce %v to %v", in.DType, out.DType)
	}
	if len(in.Shape) > MaxRank {
		return nil, fmt.Errorf("kernel: %d dimensions; at most %d are supported", len(in.Shape), MaxRank)
	}
	if class == C.CLASS_F32 {
		class = C.CLASS_F64
	}
	r := new(reduction)
	kept := View{Shape: r.memory[0][:0], Strides: r.memory[1][:0]}
	dims := View{Shape: r.memory[2][:0], Strides: r.memory[3][:0]}
	for i := range in.Shape {
		v := &kept
		if slices.Contains(axes, i) {
			v = &dims
		}
		v.Shape, v.Strides = append(v.Shape, in.Shape[i]), append(v.Strides, in.Strides[i])
	}
	if !slices.Equal(kept.Shape, out.Shape) {
		return nil, fmt.Errorf("kernel: reducing %v over %v gives %v, not %v", in.Shape, axes, kept.Shape, out.Shape)
	}
	r.kept, r.count, r.keptShape = kept.Len(), dims.Len(), kept.Shape
	var few [4][MaxRank]int64
	keptShape, keptStrides := merged(kept, few[0][:0], few[1][:0])
	dimShape, dimStrides := merged(dims, few[2][:0], few[3][:0])
	r.c.class = class
	r.c.kept, r.c.dims = cSpace(keptShape), cSpace(dimShape)
	r.c.in = operand(in.Data, in.DType, keptStrides)
	for i, s := range dimStrides {
		r.c.dim_stride[i] = C.int64_t(s)
	}
	r.columns = r.kept > 1 && r.count > 0 && abs(keptStrides[len(keptStrides)-1]) < abs(dimStrides[len(dimStrides)-1])
	return r, nil
}

// merged merges adjacent dimensions of v that are contiguous, in their order, and appends them to shape
// and strides, which are empty.
func merged(v View, shape, strides []int64) (_, _ []int64) {
	for i, d := range v.Shape {
		if d == 1 {
			continue
		}
		last := len(shape) - 1
		if last >= 0 && strides[last] == v.Strides[i]*d {
			shape[last] *= d
			strides[last] = v.Strides[i]
			continue
		}
		shape, strides = append(shape, d), append(strides, v.Strides[i])
	}
	if len(shape) == 0 {
		return append(shape, 1), append(strides, 1)
	}
	return shape, strides
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
func (r *reduction) shaped(v View) View {
	v.Shape, v.Strides = r.keptShape, contiguous(r.keptShape)
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

// run computes one state per output.
func (r *reduction) run(op C.int32_t) (state View, release func()) {
	r.c.op = op
	rows := r.blockRows()
	blocks := max((r.count+rows-1)/rows, 1)
	all, release := temporary(r.state(), []int64{blocks, r.kept})
	part := func(k, kEnd, block int64) {
		lo, hi := block*rows, min((block+1)*rows, r.count)
		columns := C.int(0)
		if r.columns {
			columns = 1
		}
		C.reduce_run(&r.c, columns, C.int64_t(k), C.int64_t(kEnd), C.int64_t(lo), C.int64_t(hi), unsafe.Add(all.Data, 8*(block*r.kept+k)))
	}
	Parallel(blocks*r.kept, max(grain/max(min(rows, r.count), 1), 1), func(lo, hi int64) {
		for lo < hi {
			block, k := lo/r.kept, lo%r.kept
			end := min(r.kept, k+hi-lo)
			part(k, end, block)
			lo += end - k
		}
	})
	for b := int64(1); b < blocks; b++ {
		C.reduce_merge(&r.c, all.Data, unsafe.Add(all.Data, 8*b*r.kept), C.int64_t(r.kept))
	}
	all.Shape = []int64{r.kept}
	return r.shaped(all), release
}

// pivot returns the value that is subtracted from the elements: their mean, or for a sum of
// exponentials their maximum (0 if the maximum is infinite).
func (r *reduction) pivot(kind Reduction, in View, axes []int) (v View, release func(), err error) {
	v, release = temporary(dtype.Float64, r.keptShape)
	if kind != ReduceLogSumExp {
		return v, release, Reduce(ReduceMean, v, in, axes, 0)
	}
	if err = Reduce(ReduceMax, v, in, axes, 0); err == nil {
		err = Map(NanToNum, dtype.Float64, v, []Input{Of(v)}, Real(math.NaN()), Real(0), Real(0))
	}
	return v, release, err
}

// Equals sets the single element of out to 1 if a and b, of one shape, have equal elements,
// else to 0.
func Equals(out, a, b View) error {
	same, release := temporary(dtype.Bool, a.Shape)
	defer release()
	if err := Map(Equal, a.DType, same, []Input{Of(a), Of(b)}); err != nil {
		return err
	}
	axes := make([]int, len(a.Shape))
	for i := range axes {
		axes[i] = i
	}
	return Reduce(ReduceAll, out, same, axes, 0)
}
