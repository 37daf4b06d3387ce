package indexing

// #include "index.h"
import "C"

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// ScatterOp determines how a scattered value is combined with the element at its target.
type ScatterOp int32

// Scatter operators: replace the old value, or combine the new value with it.
const (
	ScatterSet ScatterOp = C.SCATTER_SET
	ScatterAdd ScatterOp = C.SCATTER_ADD
	ScatterMul ScatterOp = C.SCATTER_MUL
	ScatterMax ScatterOp = C.SCATTER_MAX
	ScatterMin ScatterOp = C.SCATTER_MIN
)

// places returns index as contiguous int64. Negative values count from the end of a dimension of
// size n; a value out of range is an error that names it.
func places(index kernel.View, n int64) (at kernel.View, release func(), err error) {
	at, release = kernel.TemporaryOf(dtype.Int64, index.Shape...)
	if err := elementwise.Copy(at, index); err != nil {
		release()
		return at, nil, err
	}
	list := at.Ints()
	inside := len(list) < 2*thread.Grain && wrap(list, n)
	if len(list) >= 2*thread.Grain {
		var bad atomic.Bool
		thread.Parallel(int64(len(list)), thread.Grain, func(lo, hi int64) {
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
func Gather(out, in kernel.View, axis int, index kernel.View) error {
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
func gather(out, in kernel.View, axis int, at kernel.View) {
	size := out.DType.Size()
	g := C.struct_index_read{step: C.int64_t(in.Strides[axis])}
	fixed := slices.Clone(in.Strides)
	fixed[axis] = 0
	var s kernel.Space
	s.Plan(out.Shape, out.Strides, fixed, at.Strides)
	g.space = cSpace(s.Shape())
	g.out, g.in = operand(out.Data, out.DType, s.Strides(0)), operand(in.Data, in.DType, s.Strides(1))
	g.index = operand(at.Data, dtype.Int64, s.Strides(2))
	thread.Parallel(out.Len(), thread.Grain, func(lo, hi int64) { C.index_gather(&g, C.int32_t(size), C.int64_t(lo), C.int64_t(hi)) })
}

// reaches checks that shape is at least as large as other in every dimension except axis.
func reaches(shape, other []int64, axis int) error {
	if len(shape) > kernel.MaxRank || len(shape) != len(other) || axis >= len(shape) {
		return fmt.Errorf("kernel: shapes %v and %v have no common dimension %d; at most %d are supported", shape, other, axis, kernel.MaxRank)
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
func Scatter(op ScatterOp, into, src kernel.View, axis int, index kernel.View) error {
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
func ScatterNumber(op ScatterOp, into kernel.View, n elementwise.Number, axis int, index kernel.View) error {
	one, release := kernel.TemporaryOf(into.DType, 1)
	defer release()
	if err := elementwise.Fill(one, n); err != nil {
		return err
	}
	same, err := one.Broadcast(index.Shape)
	if err != nil {
		return err
	}
	return Scatter(op, into, same, axis, index)
}

// FillAt sets the elements of the slices of into at the given indices along axis to n.
func FillAt(into kernel.View, n elementwise.Number, axis int, at []int64) error {
	size := into.Shape[axis]
	if rest := (kernel.View{Shape: into.Shape[axis+1:]}).Len(); rest >= 256 && !slices.ContainsFunc(at, func(i int64) bool { return i < -size || i >= size }) {
		for _, i := range at {
			if err := elementwise.Fill(into.Select(axis, (i+size)%size), n); err != nil {
				return err
			}
		}
		return nil
	}
	list, release := kernel.TemporaryOf(dtype.Int64, int64(len(at)))
	defer release()
	copy(list.Ints(), at)
	shape, strides := slices.Clone(into.Shape), make([]int64, len(into.Shape))
	shape[axis], strides[axis] = int64(len(at)), 1
	return ScatterNumber(ScatterSet, into, n, axis, kernel.View{Data: list.Data, DType: list.DType, Shape: shape, Strides: strides})
}

// ScatterScaled is a Scatter that adds src times n. Products of 16-bit elements are not rounded
// before they are added.
func ScatterScaled(into, src kernel.View, n elementwise.Number, axis int, index kernel.View) error {
	if n.F == 1 && n.I == 1 {
		return Scatter(ScatterAdd, into, src, axis, index)
	}
	class, ok := kernel.Classes[into.DType]
	if !ok {
		return fmt.Errorf("kernel: cannot add %v elements", into.DType)
	}
	scaled, release := kernel.TemporaryOf(kernel.Accumulators[class], src.Shape...)
	defer release()
	if err := elementwise.Map(elementwise.Mul, scaled.DType, scaled, []elementwise.Input{elementwise.Of(src), elementwise.Const(n)}); err != nil {
		return err
	}
	return Scatter(ScatterAdd, into, scaled, axis, index)
}

// ScatterMean sets every element that index targets to the mean of its new values; with keep the
// mean includes the old value. Integer means round down.
func ScatterMean(into, src kernel.View, axis int, index kernel.View, keep bool) error {
	class, ok := kernel.Classes[into.DType]
	if !ok {
		return fmt.Errorf("kernel: cannot compute the mean of %v elements", into.DType)
	}
	sum, release := kernel.TemporaryOf(kernel.Accumulators[class], into.Shape...)
	defer release()
	count, releaseCount := kernel.TemporaryOf(sum.DType, into.Shape...)
	defer releaseCount()
	if err := elementwise.Copy(sum, into); err != nil {
		return err
	}
	first := elementwise.Whole(1)
	if !keep {
		if err := ScatterNumber(ScatterSet, sum, elementwise.Whole(0), axis, index); err != nil {
			return err
		}
		first = elementwise.Whole(0)
	}
	if err := elementwise.Fill(count, first); err != nil {
		return err
	}
	if err := ScatterNumber(ScatterAdd, count, elementwise.Whole(1), axis, index); err != nil {
		return err
	}
	if err := Scatter(ScatterAdd, sum, src, axis, index); err != nil {
		return err
	}
	divide := elementwise.Div
	if !into.DType.IsFloat() {
		divide = elementwise.FloorDiv
	}
	if err := elementwise.Map(elementwise.Max, count.DType, count, []elementwise.Input{elementwise.Of(count), elementwise.Const(elementwise.Whole(1))}); err != nil {
		return err
	}
	return elementwise.Map(divide, sum.DType, into, []elementwise.Input{elementwise.Of(sum), elementwise.Of(count)})
}

// scatter is Scatter with int64 indices that are known to be in range.
func scatter(op ScatterOp, into, src kernel.View, axis int, index kernel.View) error {
	if op == ScatterSet {
		if into.DType != src.DType || into.DType.Size() == 0 {
			return fmt.Errorf("kernel: cannot scatter %v elements to %v ones", src.DType, into.DType)
		}
		w := newIndexWrite(op, into, src, axis, index)
		size := C.int32_t(into.DType.Size())
		w.run(func(lo, hi C.int64_t) { C.index_set(&w.c, size, lo, hi) })
		return nil
	}
	class, ok := kernel.Classes[into.DType]
	if !ok || !kernel.Computes(src.DType) {
		return fmt.Errorf("kernel: cannot combine %v elements with %v ones", src.DType, into.DType)
	}
	if sum := kernel.Accumulators[class]; sum != into.DType {
		wide, release := kernel.TemporaryOf(sum, into.Shape...)
		defer release()
		if err := elementwise.Copy(wide, into); err != nil {
			return err
		}
		if err := scatter(op, wide, src, axis, index); err != nil {
			return err
		}
		return elementwise.Copy(into, wide)
	}
	w := newIndexWrite(op, into, src, axis, index)
	w.c.class = C.int32_t(class)
	w.run(func(lo, hi C.int64_t) { C.index_reduce(&w.c, lo, hi) })
	return nil
}

// indexWrite is a planned scatter.
type indexWrite struct {
	c             C.struct_index_write
	lines, length int64
}

func newIndexWrite(op ScatterOp, into, src kernel.View, axis int, index kernel.View) *indexWrite {
	w := &indexWrite{length: src.Shape[axis]}
	w.lines = src.Len() / w.length
	w.c.op, w.c.length = C.int32_t(op), C.int64_t(w.length)
	w.c.into_step, w.c.src_step, w.c.index_step = C.int64_t(into.Strides[axis]), C.int64_t(src.Strides[axis]), C.int64_t(index.Strides[axis])
	drop := func(d []int64) []int64 { return slices.Delete(slices.Clone(d), axis, axis+1) }
	var s kernel.Space
	s.Plan(drop(src.Shape), drop(into.Strides), drop(src.Strides), drop(index.Strides))
	w.c.kept = cSpace(s.Shape())
	w.c.into, w.c.src = operand(into.Data, into.DType, s.Strides(0)), operand(src.Data, src.DType, s.Strides(1))
	w.c.index = operand(index.Data, dtype.Int64, s.Strides(2))
	near := func(step int64, along []int64) bool {
		return kernel.Magnitude(step) < kernel.Magnitude(along[len(along)-1])
	}
	if w.lines == 1 || near(into.Strides[axis], s.Strides(0)) && near(index.Strides[axis], s.Strides(2)) {
		w.c.by_line = 1
	}
	return w
}

// run divides the work by the coordinates that are not indexed, so that all elements with the
// same target belong to one part.
func (w *indexWrite) run(f func(lo, hi C.int64_t)) {
	thread.Parallel(w.lines, max(thread.Grain/w.length, 1), func(lo, hi int64) { f(C.int64_t(lo), C.int64_t(hi)) })
}
