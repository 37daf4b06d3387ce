package indexing

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/order"
)

// Unique groups equal slices of x along axis. The groups are sorted by their elements. With runs,
// only adjacent slices are compared and the groups are in the order of x. A NaN does not equal
// anything, not even itself.
func Unique(x kernel.View, axis int, runs bool) (order.Groups, error) {
	key, err := keyType(x.DType)
	if err != nil {
		return order.Groups{}, err
	}
	dims := append([]int{axis}, slices.DeleteFunc(kernel.AxesFrom(0, len(x.Shape)), func(i int) bool { return i == axis })...)
	v := x.Permuted(dims)
	keys, release := kernel.TemporaryOf(key, v.Shape...)
	defer release()
	if err := elementwise.Copy(keys, v); err != nil {
		return order.Groups{}, err
	}
	n := v.Shape[0]
	width := int64(1)
	for _, d := range v.Shape[1:] {
		width *= d
	}
	if !runs && width == 1 {
		packed, releasePacked, err := sortKeys(keys, false)
		defer releasePacked()
		if err != nil {
			return order.Groups{}, err
		}
		return new(order.Sorter).Groups(packed, key == dtype.Float64), nil
	}
	switch key {
	case dtype.Float64:
		return grouped(order.Rows[float64]{Elements: keys.Doubles(), Width: width, N: n}, runs), nil
	case dtype.Uint64:
		return grouped(order.Rows[uint64]{Elements: unsafe.Slice((*uint64)(keys.Data), n*width), Width: width, N: n}, runs), nil
	}
	return grouped(order.Rows[int64]{Elements: keys.Ints(), Width: width, N: n}, runs), nil
}

// grouped groups rows in their own order for runs, else sorted.
func grouped[T cmp.Ordered](rows order.Rows[T], runs bool) order.Groups {
	if runs {
		return rows.Grouped(nil)
	}
	return rows.Grouped(rows.Sorted())
}

// UniqueFlat groups the single elements of x, in row-major order, like Unique.
func UniqueFlat(x kernel.View, runs bool) (order.Groups, error) {
	whole, release := kernel.TemporaryOf(x.DType, x.Shape...)
	defer release()
	if err := elementwise.Copy(whole, x); err != nil {
		return order.Groups{}, err
	}
	return Unique(whole.Line(), 0, runs)
}
