package kernel

import (
	"cmp"
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
)

// Groups are the equal parts of a tensor.
type Groups struct {
	First   []int64 // the first part of each group
	Group   []int64 // of each part
	Members []int64 // of each group, how many
}

// Unique groups the parts of x along axis that are equal. The groups are in the order of
// their elements; with runs only neighbours are compared and the groups are in the order of
// x. A NaN equals nothing, itself included.
func Unique(x View, axis int, runs bool) (Groups, error) {
	key, err := keyType(x.DType)
	if err != nil {
		return Groups{}, err
	}
	order := append([]int{axis}, slices.DeleteFunc(axesFrom(0, len(x.Shape)), func(i int) bool { return i == axis })...)
	v := x.permuted(order)
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
	switch key {
	case dtype.Float64:
		return grouped(unsafe.Slice((*float64)(keys.Data), n*width), n, width, runs), nil
	case dtype.Uint64:
		return grouped(unsafe.Slice((*uint64)(keys.Data), n*width), n, width, runs), nil
	}
	return grouped(keys.ints(), n, width, runs), nil
}

// UniqueFlat is Unique of the elements of x in row-major order.
func UniqueFlat(x View, runs bool) (Groups, error) {
	whole, release := temporary(x.DType, x.Shape)
	defer release()
	if err := Copy(whole, x); err != nil {
		return Groups{}, err
	}
	return Unique(whole.line(), 0, runs)
}

// keyType is the type that elements are compared in.
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

func grouped[T cmp.Ordered](keys []T, n, width int64, runs bool) Groups {
	row := func(i int64) []T { return keys[i*width : (i+1)*width] }
	order := make([]int64, n)
	for i := range order {
		order[i] = int64(i)
	}
	if !runs {
		slices.SortStableFunc(order, func(i, j int64) int { return slices.CompareFunc(row(i), row(j), compareKeys) })
	}
	g := Groups{Group: make([]int64, n)}
	for k, i := range order {
		if k == 0 || !slices.Equal(row(order[k-1]), row(i)) {
			g.First, g.Members = append(g.First, i), append(g.Members, 0)
		}
		last := len(g.First) - 1
		g.Group[i] = int64(last)
		g.Members[last]++
	}
	return g
}
