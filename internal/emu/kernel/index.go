package kernel

// #include "index.h"
import "C"

import (
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
)

// ScatterOp says how a scattered value is combined with the element at its target.
type ScatterOp int32

// Scatter operators: replace the old value, or combine the new value with it.
const (
	ScatterSet ScatterOp = C.SCATTER_SET
	ScatterAdd ScatterOp = C.SCATTER_ADD
	ScatterMul ScatterOp = C.SCATTER_MUL
	ScatterMax ScatterOp = C.SCATTER_MAX
	ScatterMin ScatterOp = C.SCATTER_MIN
)

// doubles returns the memory of a contiguous float64 view as a slice.
func (v View) doubles() []float64 { return unsafe.Slice((*float64)(v.Data), v.Len()) }

// bytes returns the memory of a contiguous view of one-byte elements as a slice.
func (v View) bytes() []byte { return unsafe.Slice((*byte)(v.Data), v.Len()) }

// Indices reads the elements of an integer view in row-major order.
func Indices(v View) ([]int64, error) {
	whole, release := temporary(dtype.Int64, v.Shape)
	defer release()
	if err := Copy(whole, v); err != nil {
		return nil, err
	}
	return slices.Clone(whole.ints()), nil
}

// floats returns the memory of a contiguous float32 view as a slice.
func (v View) floats() []float32 { return unsafe.Slice((*float32)(v.Data), v.Len()) }

// ints returns the memory of a contiguous int64 view as a slice.
func (v View) ints() []int64 { return unsafe.Slice((*int64)(v.Data), v.Len()) }

// places returns index as contiguous int64. Negative values count from the end of a dimension of
// size n; a value out of range is an error that names it.
func places(index View, n int64) (at View, release func(), err error) {
	at, release = temporary(dtype.Int64, index.Shape)
	if err := Copy(at, index); err != nil {
		release()
		return at, nil, err
	}
	list := at.ints()
	inside := len(list) < 2*grain && wrap(list, n)
	if len(list) >= 2*grain {
		var bad atomic.Bool
		Parallel(int64(len(list)), grain, func(lo, hi int64) {
			if !wrap(list[lo:hi], n) {
				bad.Store(true)
			}
		})
		inside = !bad.Load()
	}
	if !inside {
		defer release()
		i := slices.IndexFunc(list, func(k int64) bool { return k < 0 || k >= n })
		return at, nil, fmt.Errorf("index %d at position %d is out of range for a dimension of %d", list[i], i, n)
	}
	return at, release, nil
}

// wrap adds n to negative indices. It reports whether all are then in [0, n), and leaves the others as they are.
func wrap(list []int64, n int64) bool {
	inside := true
	for i, k := range list {
		switch {
		case k < -n || k >= n:
			inside = false
		case k < 0:
			list[i] += n
		}
	}
	return inside
}

// Gather sets every element of out to the element of in at the same coordinates, except that the
// coordinate along axis comes from index. It is torch.gather, or torch.index_select if index is
// broadcast along the other dimensions. index has any integer type and broadcasts to out; a
// negative value counts from the end. in and out must have the same type, and in must be at
// least as large as out in the other dimensions.
//
// An index out of range is an error that names it; out is then not written.
func Gather(out, in View, axis int, index View) error {
	size := out.DType.Size()
	if out.DType != in.DType || size == 0 {
		return fmt.Errorf("kernel: cannot gather %v elements from %v ones", out.DType, in.DType)
	}
	if err := reaches(in.Shape, out.Shape, axis); err != nil {
		return err
	}
	if out.Len() == 0 {
		return nil
	}
	at, release, err := places(index, in.Shape[axis])
	if err != nil {
		return err
	}
	defer release()
	if at, err = at.Broadcast(out.Shape); err != nil {
		return err
	}
	gather(out, in, axis, at)
	return nil
}

// gather is Gather with int64 indices of the shape of out that are known to be in range.
func gather(out, in View, axis int, at View) {
	size := out.DType.Size()
	g := C.struct_index_read{step: C.int64_t(in.Strides[axis])}
	fixed := slices.Clone(in.Strides)
	fixed[axis] = 0
	var s space
	s.plan(out.Shape, out.Strides, fixed, at.Strides)
	g.space = cSpace(s.shape())
	g.out, g.in = operand(out.Data, out.DType, s.strides(0)), operand(in.Data, in.DType, s.strides(1))
	g.index = operand(at.Data, dtype.Int64, s.strides(2))
	Parallel(out.Len(), grain, func(lo, hi int64) { C.index_gather(&g, C.int32_t(size), C.int64_t(lo), C.int64_t(hi)) })
}

// reaches checks that shape is at least as large as other in every dimension except axis.
func reaches(shape, other []int64, axis int) error {
	if len(shape) > MaxRank || len(shape) != len(other) || axis >= len(shape) {
		return fmt.Errorf("kernel: shapes %v and %v have no common dimension %d; at most %d are supported", shape, other, axis, MaxRank)
	}
	for i, n := range other {
		if i != axis && n > shape[i] {
			return fmt.Errorf("kernel: shape %v is smaller than %v in dimension %d", shape, other, i)
		}
	}
	return nil
}

// Scatter combines every element of src with the element of into at the same coordinates, except
// that the coordinate along axis comes from index. It is the inverse of Gather, with the same
// rules. Elements with the same target are combined in their order along axis, so the result
// does not depend on the number of threads. Sums of 16-bit types are kept in float and rounded
// once.
func Scatter(op ScatterOp, into, src View, axis int, index View) error {
	if err := reaches(into.Shape, src.Shape, axis); err != nil {
		return err
	}
	if src.Len() == 0 {
		return nil
	}
	at, release, err := places(index, into.Shape[axis])
	if err != nil {
		return err
	}
	defer release()
	if at, err = at.Broadcast(src.Shape); err != nil {
		return err
	}
	return scatter(op, into, src, axis, at)
}

// ScatterNumber is Scatter with the number n in place of src.
func ScatterNumber(op ScatterOp, into View, n Number, axis int, index View) error {
	one, release := temporary(into.DType, []int64{1})
	defer release()
	if err := Fill(one, n); err != nil {
		return err
	}
	same, err := one.Broadcast(index.Shape)
	if err != nil {
		return err
	}
	return Scatter(op, into, same, axis, index)
}

// FillAt sets the elements of the slices of into at the given indices along axis to n.
func FillAt(into View, n Number, axis int, at []int64) error {
	size := into.Shape[axis]
	if rest := (View{Shape: into.Shape[axis+1:]}).Len(); rest >= 256 && !slices.ContainsFunc(at, func(i int64) bool { return i < -size || i >= size }) {
		for _, i := range at {
			if err := Fill(into.Select(axis, (i+size)%size), n); err != nil {
				return err
			}
		}
		return nil
	}
	list, release := temporary(dtype.Int64, []int64{int64(len(at))})
	defer release()
	copy(list.ints(), at)
	shape, strides := slices.Clone(into.Shape), make([]int64, len(into.Shape))
	shape[axis], strides[axis] = int64(len(at)), 1
	return ScatterNumber(ScatterSet, into, n, axis, View{Data: list.Data, DType: list.DType, Shape: shape, Strides: strides})
}

// ScatterScaled is a Scatter that adds src times n. Products of 16-bit elements are not rounded
// before they are added.
func ScatterScaled(into, src View, n Number, axis int, index View) error {
	if n.F == 1 && n.I == 1 {
		return Scatter(ScatterAdd, into, src, axis, index)
	}
	class, ok := classes[into.DType]
	if !ok {
		return fmt.Errorf("kernel: cannot add %v elements", into.DType)
	}
	scaled, release := temporary(accumulators[class], src.Shape)
	defer release()
	if err := Map(Mul, scaled.DType, scaled, []Input{Of(src), Const(n)}); err != nil {
		return err
	}
	return Scatter(ScatterAdd, into, scaled, axis, index)
}

// ScatterMean sets every element that index targets to the mean of its new values; with keep the
// mean includes the old value. Integer means round down.
func ScatterMean(into, src View, axis int, index View, keep bool) error {
	class, ok := classes[into.DType]
	if !ok {
		return fmt.Errorf("kernel: cannot compute the mean of %v elements", into.DType)
	}
	sum, release := temporary(accumulators[class], into.Shape)
	defer release()
	count, releaseCount := temporary(sum.DType, into.Shape)
	defer releaseCount()
	if err := Copy(sum, into); err != nil {
		return err
	}
	first := Whole(1)
	if !keep {
		if err := ScatterNumber(ScatterSet, sum, Whole(0), axis, index); err != nil {
			return err
		}
		first = Whole(0)
	}
	if err := Fill(count, first); err != nil {
		return err
	}
	if err := ScatterNumber(ScatterAdd, count, Whole(1), axis, index); err != nil {
		return err
	}
	if err := Scatter(ScatterAdd, sum, src, axis, index); err != nil {
		return err
	}
	divide := Div
	if !into.DType.IsFloat() {
		divide = FloorDiv
	}
	if err := Map(Max, count.DType, count, []Input{Of(count), Const(Whole(1))}); err != nil {
		return err
	}
	return Map(divide, sum.DType, into, []Input{Of(sum), Of(count)})
}

// scatter is Scatter with int64 indices that are known to be in range.
func scatter(op ScatterOp, into, src View, axis int, index View) error {
	if op == ScatterSet {
		if into.DType != src.DType || into.DType.Size() == 0 {
			return fmt.Errorf("kernel: cannot scatter %v elements to %v ones", src.DType, into.DType)
		}
		w := newIndexWrite(op, into, src, axis, index)
		size := C.int32_t(into.DType.Size())
		w.run(func(lo, hi C.int64_t) { C.index_set(&w.c, size, lo, hi) })
		return nil
	}
	class, ok := classes[into.DType]
	if !ok || !Computes(src.DType) {
		return fmt.Errorf("kernel: cannot combine %v elements with %v ones", src.DType, into.DType)
	}
	if sum := accumulators[class]; sum != into.DType {
		wide, release := temporary(sum, into.Shape)
		defer release()
		if err := Copy(wide, into); err != nil {
			return err
		}
		if err := scatter(op, wide, src, axis, index); err != nil {
			return err
		}
		return Copy(into, wide)
	}
	w := newIndexWrite(op, into, src, axis, index)
	w.c.class = class
	w.run(func(lo, hi C.int64_t) { C.index_reduce(&w.c, lo, hi) })
	return nil
}

// accumulators are the types in which the classes combine scattered elements.
var accumulators = map[C.int32_t]dtype.Type{
	C.CLASS_F32: dtype.Float32, C.CLASS_F64: dtype.Float64, C.CLASS_I64: dtype.Int64, C.CLASS_U64: dtype.Uint64,
}

// indexWrite is a planned scatter.
type indexWrite struct {
	c             C.struct_index_write
	lines, length int64
}

func newIndexWrite(op ScatterOp, into, src View, axis int, index View) *indexWrite {
	w := &indexWrite{length: src.Shape[axis]}
	w.lines = src.Len() / w.length
	w.c.op, w.c.length = C.int32_t(op), C.int64_t(w.length)
	w.c.into_step, w.c.src_step, w.c.index_step = C.int64_t(into.Strides[axis]), C.int64_t(src.Strides[axis]), C.int64_t(index.Strides[axis])
	drop := func(d []int64) []int64 { return slices.Delete(slices.Clone(d), axis, axis+1) }
	var s space
	s.plan(drop(src.Shape), drop(into.Strides), drop(src.Strides), drop(index.Strides))
	w.c.kept = cSpace(s.shape())
	w.c.into, w.c.src = operand(into.Data, into.DType, s.strides(0)), operand(src.Data, src.DType, s.strides(1))
	w.c.index = operand(index.Data, dtype.Int64, s.strides(2))
	near := func(step int64, along []int64) bool { return abs(step) < abs(along[len(along)-1]) }
	if w.lines == 1 || near(into.Strides[axis], s.strides(0)) && near(index.Strides[axis], s.strides(2)) {
		w.c.by_line = 1
	}
	return w
}

// run divides the work by the coordinates that are not indexed, so that all elements with the
// same target belong to one part.
func (w *indexWrite) run(f func(lo, hi C.int64_t)) {
	Parallel(w.lines, max(grain/w.length, 1), func(lo, hi int64) { f(C.int64_t(lo), C.int64_t(hi)) })
}
