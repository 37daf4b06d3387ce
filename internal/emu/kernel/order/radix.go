package order

import (
	"cmp"
	"math/bits"
	"slices"
)

// keyed is a key with its place among the keys of a row.
type keyed struct {
	key uint64
	at  int64
}

// before orders keys, and equal ones by place.
func (a keyed) before(b keyed) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.at, b.at)) }

// varying returns the bits in which keys differ.
func varying(keys []uint64) (mask uint64) {
	for _, k := range keys {
		mask |= k ^ keys[0]
	}
	return mask
}

// Sorter sorts rows of keys. It keeps its memory from row to row.
type Sorter struct{ from, to []keyed }

// Sort sets order to the places of the first len(order) keys in ascending order; equal keys keep
// their order.
func (s *Sorter) Sort(order []int64, keys []uint64) {
	n := len(keys)
	if len(order) == 0 {
		return
	}
	if len(order) <= n/8 {
		s.smallest(order, keys)
		return
	}
	sorted := s.sorted(keys)
	for i := range order {
		order[i] = sorted[i].at
	}
}

// sorted returns the keys in ascending order, equal ones by place, until the next use of s.
func (s *Sorter) sorted(keys []uint64) []keyed {
	n := len(keys)
	if cap(s.from) < n {
		s.from, s.to = make([]keyed, n), make([]keyed, n)
	}
	from, to := s.from[:n], s.to[:n]
	for i, k := range keys {
		from[i] = keyed{k, int64(i)}
	}
	if n >= 64 {
		return radixSort(from, to, varying(keys))
	}
	slices.SortFunc(from, keyed.before)
	return from
}

// smallest is Sort for few of many keys: it keeps them in a heap whose root comes last.
func (s *Sorter) smallest(order []int64, keys []uint64) {
	k := len(order)
	if cap(s.from) < k {
		s.from, s.to = make([]keyed, k), make([]keyed, k)
	}
	heap := s.from[:k]
	for i := range heap {
		heap[i] = keyed{keys[i], int64(i)}
	}
	for i := k/2 - 1; i >= 0; i-- {
		sink(heap, i)
	}
	most := heap[0].key
	for i, key := range keys[k:] {
		if key < most { // an equal key comes later than the root
			heap[0] = keyed{key, int64(k + i)}
			sink(heap, 0)
			most = heap[0].key
		}
	}
	slices.SortFunc(heap, keyed.before)
	for i, h := range heap {
		order[i] = h.at
	}
}

// sink moves an element of a heap down to its place.
func sink(heap []keyed, i int) {
	x := heap[i]
	for {
		child := 2*i + 1
		if child >= len(heap) {
			break
		}
		if child+1 < len(heap) && heap[child].before(heap[child+1]) < 0 {
			child++
		}
		if x.before(heap[child]) >= 0 {
			break
		}
		heap[i] = heap[child]
		i = child
	}
	heap[i] = x
}

// radixSort sorts by the bits of mask, digit by digit from the lowest, and returns from or to,
// whichever holds the result.
func radixSort(from, to []keyed, mask uint64) []keyed {
	digit := 11
	if len(from) < 4096 {
		digit = 8
	}
	next := make([]int, 1<<digit) // first place of each digit
	for shift := bits.TrailingZeros64(mask); mask>>shift != 0; shift += digit {
		clear(next)
		low := uint64(1)<<digit - 1
		for _, x := range from {
			next[x.key>>shift&low]++
		}
		sum := 0
		for d, n := range next {
			next[d], sum = sum, sum+n
		}
		for _, x := range from {
			d := x.key >> shift & low
			to[next[d]] = x
			next[d]++
		}
		from, to = to, from
	}
	return from
}
