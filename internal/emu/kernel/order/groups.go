package order

import (
	"cmp"
	"math"
	"slices"
)

// Groups describes groups of equal rows.
type Groups struct {
	First   []int64 // the first row of each group
	Group   []int64 // the group of each row
	Members []int64 // the number of rows in each group
}

// Rows is a list of rows of Width elements each.
type Rows[T cmp.Ordered] struct {
	Elements []T
	Width    int64
	N        int64 // their number, which Elements does not give for empty rows
}

func (r Rows[T]) row(i int64) []T { return r.Elements[i*r.Width : (i+1)*r.Width] }

// Sorted returns the indices that sort the rows by their elements. The sort is stable.
func (r Rows[T]) Sorted() []int64 {
	order := indices(int(r.N))
	slices.SortStableFunc(order, func(i, j int64) int { return slices.CompareFunc(r.row(i), r.row(j), Compare) })
	return order
}

// Grouped groups equal rows that are neighbours in the given order, or in their own order if it is
// nil. A NaN does not equal anything, not even itself.
func (r Rows[T]) Grouped(order []int64) Groups {
	g := Groups{Group: make([]int64, r.N)}
	at := func(k int64) int64 {
		if order != nil {
			return order[k]
		}
		return k
	}
	groups, before := int64(0), int64(-1)
	for k := range r.N {
		i := at(k)
		if before < 0 || r.Width == 1 && r.Elements[before] != r.Elements[i] || r.Width != 1 && !slices.Equal(r.row(before), r.row(i)) {
			groups++
		}
		g.Group[i] = groups - 1
		before = i
	}
	g.First, g.Members = make([]int64, groups), make([]int64, groups)
	for k := r.N - 1; k >= 0; k-- {
		i := at(k)
		g.First[g.Group[i]] = i
		g.Members[g.Group[i]]++
	}
	return g
}

// Groups sorts keys and groups equal ones. With floats the largest key is that of NaN, which does not equal itself.
func (s *Sorter) Groups(keys []uint64, floats bool) Groups {
	sorted := s.sorted(keys)
	first := func(k int) bool {
		return k == 0 || sorted[k].key != sorted[k-1].key || floats && sorted[k].key == math.MaxUint64
	}
	n := 0
	for k := range sorted {
		if first(k) {
			n++
		}
	}
	g := Groups{make([]int64, n), make([]int64, len(keys)), make([]int64, n)}
	n = -1
	for k, x := range sorted {
		if first(k) {
			n++
			g.First[n] = x.at
		}
		g.Group[x.at] = int64(n)
		g.Members[n]++
	}
	return g
}
