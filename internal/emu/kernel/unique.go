package kernel

import (
	"cmp"
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
)

// Groups describes groups of equal slices of a tensor.
type Groups struct {
	First   []int64 // the first slice of each group
	Group   []int64 // the group of each slice
	Members []int64 // the number of slices in each group
}

// Unique groups equal slices of x along axis. The groups are sorted by their elements. With runs,
// only adjacent slices are compared and the groups are in the order of x. A NaN does not equal
// anything, not even itself.
func Unique(x View, axis int, runs bool) (Groups, error) {
	key, err := keyType(x.DType)
	if err != nil {
		return Groups{}, err
	}
	turned := append([]int{axis}, slices.DeleteFunc(axesFrom(0, len(x.Shape)), func(i int) bool { return i == axis })...)
	v := x.permuted(turned)
	keys, release := temporary(key, v.Shape)
	defer release()
	if err := Copy(keys, v); err != nil {
		return Groups{}, err
	}
	n := v.Shape[0]
	width := int64(1)
	for _, d := range v.Shape[1:] {
		width *= d
	}
	var order []int64
	if !runs && width == 1 {
		sorted, releaseSorted, err := sortKeys(keys, false)
		defer releaseSorted()
		if err != nil {
			return Groups{}, err
		}
		order = make([]int64, n)
		new(sorter).sort(order, sorted)
	}
	switch key {
	case dtype.Float64:
		return grouped(unsafe.Slice((*float64)(keys.Data), n*width), order, n, width, runs), nil
	case dtype.Uint64:
		return grouped(unsafe.Slice((*uint64)(keys.Data), n*width), order, n, width, runs), nil
	}
	return grouped(keys.ints(), order, n, width, runs), nil
}

// UniqueFlat groups the single elements of x, in row-major order, like Unique.
func UniqueFlat(x View, runs bool) (Groups, error) {
	whole, release := temporary(x.DType, x.Shape)
	defer release()
	if err := Copy(whole, x); err != nil {
		return Groups{}, err
	}
	return Unique(whole.line(), 0, runs)
}

// keyType returns the type in which elements are compared.
func keyType(d dtype.Type) (dtype.Type, error) {
	switch {
	case !Computes(d):
		return d, fmt.Errorf("kernel: cannot compare %v elements", d)
	case d == dtype.Uint64:
		return d, nil
	case d.IsFloat():
		return dtype.Float64, nil
	}
	return dtype.Int64, nil
}

// grouped makes the groups of n slices of keys. order is the order of single keys if it is known.
func grouped[T cmp.Ordered](keys []T, order []int64, n, width int64, runs bool) Groups {
	row := func(i int64) []T { return keys[i*width : (i+1)*width] }
	if order == nil && !runs {
		order = make([]int64, n)
		for i := range order {
			order[i] = int64(i)
		}
		slices.SortStableFunc(order, func(i, j int64) int { return slices.CompareFunc(row(i), row(j), compareKeys) })
	}
	g := Groups{Group: make([]int64, n)}
	before := int64(-1)
	for k := range n {
		i := k
		if order != nil {
			i = order[k]
		}
		if before < 0 || width == 1 && keys[before] != keys[i] || width != 1 && !slices.Equal(row(before), row(i)) {
			g.First, g.Members = append(g.First, i), append(g.Members, 0)
		}
		last := len(g.First) - 1
		g.Group[i] = int64(last)
		g.Members[last]++
		before = i
	}
	return g
}
