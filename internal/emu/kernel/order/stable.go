package order

import (
	"cmp"
	"slices"
)

// Compare compares numbers; a NaN is larger than every number.
func Compare[T cmp.Ordered](a, b T) int {
	if a != a || b != b {
		return -cmp.Compare(a, b) // cmp.Compare treats NaN as the smallest
	}
	return cmp.Compare(a, b)
}

// Search returns the index in sorted at which x can be inserted without breaking the order: before
// equal elements, or after them with right.
func Search[T cmp.Ordered](sorted []T, x T, right bool) int64 {
	lo, n := 0, len(sorted)
	for n > 0 { // halves what is left, [lo, lo+n)
		half := n / 2
		k := sorted[lo+half]
		before := k < x // NaN are the largest, and equal
		if right {
			before = !(k > x)
		}
		if k != k || x != x {
			before = x != x && (right || k == k)
		}
		if before {
			lo += half + 1
			n -= half + 1
		} else {
			n = half
		}
	}
	return int64(lo)
}

// Descending returns the indices of values from the largest to the smallest, in stable order.
func Descending[T cmp.Ordered](values []T) []int64 {
	order := indices(len(values))
	slices.SortStableFunc(order, func(a, b int64) int { return cmp.Compare(values[b], values[a]) })
	return order
}

// Stable returns the indices that sort keys in ascending order. The sort is stable.
func Stable(keys []int64) []int64 {
	if len(keys) == 0 {
		return []int64{}
	}
	lo, hi := slices.Min(keys), slices.Max(keys)
	if hi-lo > int64(4*len(keys))+1024 || hi-lo < 0 { // wide, or overflows int64
		order := indices(len(keys))
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
	order := make([]int64, len(keys))
	for i, k := range keys {
		order[next[k-lo]] = int64(i)
		next[k-lo]++
	}
	return order
}

func indices(n int) []int64 {
	all := make([]int64, n)
	for i := range all {
		all[i] = int64(i)
	}
	return all
}
