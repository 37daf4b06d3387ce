package indexing

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/order"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// Ranked sets value to the element of each part of x that has a rank in ascending order, and index,
// if it has data, to its row-major index in the part. The parts extend over the dimensions axes.
// rank returns the rank, from 0, for a part with n elements of which nans are NaN, which are the
// largest. Of equal elements the one with the lower index has the lower rank.
func Ranked(value, index, x kernel.View, axes []int, rank func(n, nans int64) int64) error {
	rest := kernel.Others(x.Shape, axes)
	kept := slices.DeleteFunc(kernel.AxesFrom(0, len(x.Shape)), func(i int) bool { return slices.Contains(axes, i) })
	rows := x.Permuted(slices.Concat(kept, axes))
	whole, release := kernel.TemporaryOf(x.DType, rows.Shape...)
	defer release()
	if err := elementwise.Copy(whole, rows); err != nil {
		return err
	}
	m := kernel.View{Shape: rest}.Len()
	n := whole.Len() / m
	whole.Shape, whole.Strides = []int64{m, n}, []int64{n, 1}
	keys, releaseKeys, err := sortKeys(whole, false)
	defer releaseKeys()
	if err != nil {
		return err
	}
	nans, err := nanCounts(whole)
	if err != nil {
		return err
	}
	at, releaseAt := kernel.TemporaryOf(dtype.Int64, m, 1)
	defer releaseAt()
	thread.Parallel(m, max(thread.Grain/n, 1), func(lo, hi int64) {
		scratch := make([]uint64, n)
		for i := lo; i < hi; i++ {
			at.Ints()[i] = order.Ranked(keys[i*n:(i+1)*n], rank(n, nans[i]), scratch)
		}
	})
	chosen, releaseChosen := kernel.TemporaryOf(x.DType, at.Shape...)
	defer releaseChosen()
	if err := Gather(chosen, whole, 1, at); err != nil {
		return err
	}
	for _, r := range []struct{ to, from kernel.View }{{value, chosen}, {index, at}} {
		r.from.Shape, r.from.Strides = rest, kernel.ContiguousStrides(rest)
		if r.to.Data == nil {
			continue
		}
		if err := elementwise.Copy(r.to, r.from); err != nil {
			return err
		}
	}
	return nil
}

// nanCounts counts the NaN in each row.
func nanCounts(x kernel.View) ([]int64, error) {
	n := x.Shape[len(x.Shape)-1]
	counts := make([]int64, x.Len()/n)
	if !x.DType.IsFloat() {
		return counts, nil
	}
	values, release := kernel.TemporaryOf(dtype.Float64, x.Shape...)
	defer release()
	if err := elementwise.Copy(values, x); err != nil {
		return nil, err
	}
	for i := range counts {
		for _, v := range unsafe.Slice((*float64)(values.Data), x.Len())[int64(i)*n:][:n] {
			if v != v {
				counts[i]++
			}
		}
	}
	return counts, nil
}
