package kernel

import (
	"fmt"
	"slices"
)

// Kept inserts dimensions of size 1 at axes into v, the result of reducing a tensor of the
// given rank over axes, so that v broadcasts against the tensor.
func Kept(v View, rank int, axes []int) View {
	both := make([]int64, 2*rank)
	k := View{Data: v.Data, DType: v.DType, Shape: both[:rank:rank], Strides: both[rank:]}
	next := 0
	for i := range rank {
		k.Shape[i] = 1
		if !slices.Contains(axes, i) {
			k.Shape[i], k.Strides[i] = v.Shape[next], v.Strides[next]
			next++
		}
	}
	return k
}

// Others returns shape without the dimensions axes.
func Others(shape []int64, axes []int) []int64 {
	out := make([]int64, 0, len(shape))
	for i, d := range shape {
		if !slices.Contains(axes, i) {
			out = append(out, d)
		}
	}
	return out
}

// AxesFrom lists the dimensions from lo up to hi.
func AxesFrom(lo, hi int) []int { return appendAxes(nil, lo, hi) }

func appendAxes(axes []int, lo, hi int) []int {
	for i := lo; i < hi; i++ {
		axes = append(axes, i)
	}
	return axes
}

// Common returns the shape to which the views broadcast.
func Common(views []View) ([]int64, error) {
	var shape []int64
	for _, v := range views {
		for len(shape) < len(v.Shape) {
			shape = slices.Insert(shape, 0, 1)
		}
		lead := len(shape) - len(v.Shape)
		for i, n := range v.Shape {
			switch {
			case shape[lead+i] == 1:
				shape[lead+i] = n
			case n != 1 && n != shape[lead+i]:
				return nil, fmt.Errorf("kernel: index shapes %v and %v do not broadcast", v.Shape, shape)
			}
		}
	}
	return shape, nil
}

// Merged merges adjacent dimensions of v that are contiguous, in their order, and appends them to shape
// and strides, which are empty.
func Merged(v View, shape, strides []int64) (_, _ []int64) {
	for i, d := range v.Shape {
		if d == 1 {
			continue
		}
		last := len(shape) - 1
		if last >= 0 && strides[last] == v.Strides[i]*d {
			shape[last] *= d
			strides[last] = v.Strides[i]
			continue
		}
		shape, strides = append(shape, d), append(strides, v.Strides[i])
	}
	if len(shape) == 0 {
		return append(shape, 1), append(strides, 1)
	}
	return shape, strides
}
