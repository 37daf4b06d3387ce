package kernel

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
)

// PutAt is into[indices...] op= values, as array libraries index: each index stands for a
// dimension of into in order and holds places, negative ones from the end; a mask (of
// dtype.Bool) stands for as many dimensions as it has and for the places where it is true;
// an index without data stands for its whole dimension. Indices broadcast to one shape,
// which in the result takes the place of the indexed dimensions if they are neighbours, and
// else comes first; values broadcast to the result. Order and precision are as in Scatter.
func PutAt(op ScatterOp, into, values View, indices []View) error {
	var release []func()
	defer func() {
		for _, f := range release {
			f()
		}
	}()
	var lists []View // int64 places, one view for each indexed dimension
	var dims []int   // those dimensions
	at := 0
	for _, index := range indices {
		switch {
		case index.Data == nil:
			at++
		case index.DType == dtype.Bool:
			for _, list := range truePlaces(index, &release) {
				lists, dims = append(lists, list), append(dims, at)
				at++
			}
		default:
			lists, dims = append(lists, index), append(dims, at)
			at++
		}
	}
	if len(lists) == 0 {
		return fmt.Errorf("kernel: no index among %d", len(indices))
	}
	shape, err := common(lists)
	if err != nil {
		return err
	}
	for i := range lists {
		if lists[i], err = lists[i].Broadcast(shape); err != nil {
			return err
		}
	}
	// The indexed dimensions go first in into, and their shape first in values.
	first := 0
	if dims[len(dims)-1]-dims[0] == len(dims)-1 {
		first = dims[0]
	}
	order := slices.Clone(dims)
	var rest []int64
	for i, n := range into.Shape {
		if !slices.Contains(dims, i) {
			order, rest = append(order, i), append(rest, n)
		}
	}
	if values, err = values.Broadcast(slices.Concat(rest[:first], shape, rest[first:])); err != nil {
		return err
	}
	move := func(d []int64) []int64 {
		return slices.Concat(d[first:first+len(shape)], d[:first], d[first+len(shape):])
	}
	values.Shape, values.Strides = move(values.Shape), move(values.Strides)
	return Put(op, into.permuted(order), values, lists)
}

// permuted is v with its dimensions in the given order.
func (v View) permuted(order []int) View {
	shape, strides := make([]int64, len(order)), make([]int64, len(order))
	for i, d := range order {
		shape[i], strides[i] = v.Shape[d], v.Strides[d]
	}
	v.Shape, v.Strides = shape, strides
	return v
}

// common is the shape that views broadcast to.
func common(views []View) ([]int64, error) {
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

// truePlaces are the coordinates of the true elements of a mask, a vector per dimension.
func truePlaces(mask View, release *[]func()) []View {
	whole, free := temporary(dtype.Bool, mask.Shape)
	defer free()
	move(whole, mask)
	var places [][]int64
	for range mask.Shape {
		places = append(places, nil)
	}
	for i, b := range whole.bytes() {
		if b == 0 {
			continue
		}
		for d, s := range whole.Strides {
			places[d] = append(places[d], int64(i)/s%mask.Shape[d])
		}
	}
	var out []View
	for _, p := range places {
		v, free := temporary(dtype.Int64, []int64{int64(len(p))})
		*release = append(*release, free)
		copy(v.ints(), p)
		out = append(out, v)
	}
	return out
}

// Put sends the elements of src to the elements of into whose leading coordinates the
// indices hold, one view for each leading dimension: into[indices...] op= src. The indices
// have one shape, which src begins with; the rest of src's shape is that of into's other
// dimensions. Order and precision are as in Scatter.
func Put(op ScatterOp, into, src View, indices []View) error {
	m, shape := len(indices), indices[0].Shape
	if len(into.Shape) > MaxRank || m > len(into.Shape) || !slices.Equal(src.Shape, slices.Concat(shape, into.Shape[m:])) {
		return fmt.Errorf("kernel: %v elements of shape %v cannot be put into shape %v at %d indices of shape %v", src.DType, src.Shape, into.Shape, m, shape)
	}
	if src.Len() == 0 {
		return nil
	}
	offsets, release := temporary(dtype.Int64, shape)
	defer release()
	wide := into
	if class, ok := classes[into.DType]; ok && op != ScatterSet && accumulators[class] != into.DType {
		var releaseWide func()
		wide, releaseWide = temporary(accumulators[class], into.Shape)
		defer releaseWide()
		if err := Copy(wide, into); err != nil {
			return err
		}
	}
	clear(offsets.ints())
	for d, index := range indices {
		at, release, err := places(index, into.Shape[d])
		if err != nil {
			return fmt.Errorf("dimension %d: %w", d, err)
		}
		for i, k := range at.ints() {
			offsets.ints()[i] += k * wide.Strides[d]
		}
		release()
	}
	// The indexed dimensions together are one, of elements one apart.
	flat := View{Data: wide.Data, DType: wide.DType, Shape: slices.Concat([]int64{1}, into.Shape[m:]), Strides: slices.Concat([]int64{1}, wide.Strides[m:])}
	values, release2 := temporary(src.DType, slices.Concat([]int64{offsets.Len()}, into.Shape[m:]))
	defer release2()
	if err := Copy(View{Data: values.Data, DType: values.DType, Shape: src.Shape, Strides: contiguous(src.Shape)}, src); err != nil {
		return err
	}
	line := make([]int64, len(values.Shape))
	line[0] = 1
	at := View{Data: offsets.Data, DType: dtype.Int64, Shape: values.Shape, Strides: line}
	if err := scatter(op, flat, values, 0, at); err != nil {
		return err
	}
	if wide.Data != into.Data {
		return Copy(into, wide)
	}
	return nil
}
