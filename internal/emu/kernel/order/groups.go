package order

import (
	"cmp"
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
	N        int64 // their number, which Elements does not tell of empty rows
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
	before := int64(-1)
	for k := range r.N {
		i := k
		if order != nil {
			i = order[k]
		}
		if before < 0 || r.Width == 1 && r.Elements[before] != r.Elements[i] || r.Width != 1 && !slices.Equal(r.row(before), r.row(i)) {
			g.First, g.Members = append(g.First, i), append(g.Members, 0)
		}
		last := len(g.First) - 1
		g.Group[i] = int64(last)
		g.Members[last]++
		before = i
	}
	return g
}
