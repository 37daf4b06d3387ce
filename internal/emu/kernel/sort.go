package kernel

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
)

// Order sets index to the indices that sort x along axis, in ascending or descending order. index
// has the shape of x, but may be shorter along axis; it then holds only the first indices. The
// sort is stable, and a NaN is larger than every number.
func Order(index, x View, axis int, descending bool) error {
	n, k := x.Shape[axis], index.Shape[axis]
	if !Computes(x.DType) || !index.DType.IsInteger() {
		return fmt.Errorf("kernel: cannot order %v elements by %v places", x.DType, index.DType)
	}
	if k > n || !slices.Equal(others(x.Shape, []int{axis}), others(index.Shape, []int{axis})) {
		return fmt.Errorf("kernel: no %d first places along dimension %d of shape %v for shape %v", k, axis, x.Shape, index.Shape)
	}
	if index.Len() == 0 {
		return nil
	}
	keys, places := x.last(axis), index.last(axis)
	packed, release, err := sortKeys(keys, descending)
	defer release()
	if err != nil {
		return err
	}
	order, releaseOrder := temporary(dtype.Int64, places.Shape)
	defer releaseOrder()
	out := order.ints()
	Parallel(x.Len()/n, max(grain/(8*n), 1), func(lo, hi int64) {
		var s sorter
		for row := lo; row < hi; row++ {
			s.sort(out[row*k:(row+1)*k], packed[row*n:(row+1)*n])
		}
	})
	return Copy(places, order)
}

// compareKeys compares numbers; a NaN is larger than every number.
func compareKeys[T cmp.Ordered](a, b T) int {
	if a != a || b != b {
		return -cmp.Compare(a, b) // cmp.Compare treats NaN as the smallest
	}
	return cmp.Compare(a, b)
}

// last returns v with a dimension moved to the end.
func (v View) last(axis int) View {
	move := func(d []int64) []int64 { return append(slices.Delete(slices.Clone(d), axis, axis+1), d[axis]) }
	v.Shape, v.Strides = move(v.Shape), move(v.Strides)
	return v
}

// StableOrder returns the indices that sort keys in ascending order. The sort is stable.
func StableOrder(keys []int64) []int64 {
	order := make([]int64, len(keys))
	if len(keys) == 0 {
		return order
	}
	lo, hi := slices.Min(keys), slices.Max(keys)
	if hi-lo > int64(4*len(keys))+1024 || hi-lo < 0 { // wide, or overflows int64
		for i := range order {
			order[i] = int64(i)
		}
		slices.SortStableFunc(order, func(i, j int64) int { return cmp.Compare(keys[i], keys[j]) })
		return order
	}
	next := make([]int64, hi-lo+1) // first place of each key
	for _, k := range keys {
		next[k-lo]++
	}
	sum := int64(0)
	for i, n := range next {
		next[i], sum = sum, sum+n
	}
	for i, k := range keys {
		order[next[k-lo]] = int64(i)
		next[k-lo]++
	}
	return order
}
