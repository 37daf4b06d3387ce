package indexing

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/order"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// Order sets index to the indices that sort x along axis, in ascending or descending order. index
// has the shape of x, but may be shorter along axis; it then holds only the first indices. The
// sort is stable, and a NaN is larger than every number.
func Order(index, x kernel.View, axis int, descending bool) error {
	n, k := x.Shape[axis], index.Shape[axis]
	if !kernel.Computes(x.DType) || !index.DType.IsInteger() {
		return fmt.Errorf("kernel: cannot order %v elements by %v places", x.DType, index.DType)
	}
	if k > n || !slices.Equal(kernel.Others(x.Shape, []int{axis}), kernel.Others(index.Shape, []int{axis})) {
		return fmt.Errorf("kernel: no %d first places along dimension %d of shape %v for shape %v", k, axis, x.Shape, index.Shape)
	}
	if index.Len() == 0 {
		return nil
	}
	keys, places := x.Last(axis), index.Last(axis)
	packed, release, err := sortKeys(keys, descending)
	defer release()
	if err != nil {
		return err
	}
	sorted, releaseSorted := kernel.TemporaryOf(dtype.Int64, places.Shape...)
	defer releaseSorted()
	out := sorted.Ints()
	thread.Parallel(x.Len()/n, max(thread.Grain/(8*n), 1), func(lo, hi int64) {
		var s order.Sorter
		for row := lo; row < hi; row++ {
			s.Sort(out[row*k:(row+1)*k], packed[row*n:(row+1)*n])
		}
	})
	return elementwise.Copy(places, sorted)
}

// sortKeys returns the elements of x, in row-major order, as integers that compare as the elements
// do: a NaN is larger than every number, and all NaN and the two zeros are equal. With descending the
// order of the integers is reversed.
func sortKeys(x kernel.View, descending bool) (keys []uint64, release func(), err error) {
	kind, err := keyType(x.DType)
	if err != nil {
		return nil, func() {}, err
	}
	packed, release := kernel.TemporaryOf(kind, x.Shape...)
	if err := elementwise.Copy(packed, x); err != nil {
		return nil, release, err
	}
	keys = unsafe.Slice((*uint64)(packed.Data), x.Len())
	thread.Parallel(int64(len(keys)), thread.Grain, func(lo, hi int64) {
		part := keys[lo:hi]
		switch kind {
		case dtype.Float64:
			order.KeysOfFloats(part, descending)
		case dtype.Int64:
			order.KeysOfInts(part, descending)
		default:
			order.KeysOfUints(part, descending)
		}
	})
	return keys, release, nil
}

// keyType returns the type in which elements are compared.
func keyType(d dtype.Type) (dtype.Type, error) {
	switch {
	case !kernel.Computes(d):
		return d, fmt.Errorf("kernel: cannot compare %v elements", d)
	case d == dtype.Uint64:
		return d, nil
	case d.IsFloat():
		return dtype.Float64, nil
	}
	return dtype.Int64, nil
}
