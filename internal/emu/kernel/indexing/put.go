package indexing

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// subscript is a prepared index expression as in NumPy and PyTorch. Each index applies to one
// dimension in order and holds positions, of which negative ones count from the end. A mask (of
// dtype.Bool) applies to as many dimensions as it has and selects the positions where it is
// true. An index without data selects a whole dimension. The indices broadcast to one shape,
// which replaces the indexed dimensions in the result if they are adjacent, and else comes first.
type subscript struct {
	lists   []kernel.View // positions, one view per indexed dimension, all of one shape
	order   []int         // the dimensions, the indexed ones first
	shape   []int64       // shape of the lists
	rest    []int64       // the sizes of the other dimensions
	first   int           // dimension of the result at which shape is inserted
	release []func()
}

func newSubscript(of kernel.View, indices []kernel.View) (*subscript, error) {
	s := &subscript{}
	at := 0
	for _, index := range indices {
		switch {
		case index.Data == nil:
			at++
		case index.DType == dtype.Bool:
			for _, list := range truePlaces(index, &s.release) {
				s.lists, s.order = append(s.lists, list), append(s.order, at)
				at++
			}
		default:
			s.lists, s.order = append(s.lists, index), append(s.order, at)
			at++
		}
	}
	if len(s.lists) == 0 {
		s.end()
		return nil, fmt.Errorf("kernel: no index among %d", len(indices))
	}
	if err := s.broadcast(); err != nil {
		s.end()
		return nil, err
	}
	dims := slices.Clone(s.order)
	if dims[len(dims)-1]-dims[0] == len(dims)-1 {
		s.first = dims[0]
	}
	for i, n := range of.Shape {
		if !slices.Contains(dims, i) {
			s.order, s.rest = append(s.order, i), append(s.rest, n)
		}
	}
	return s, nil
}

func (s *subscript) broadcast() (err error) {
	if s.shape, err = kernel.Common(s.lists); err != nil {
		return err
	}
	for i := range s.lists {
		if s.lists[i], err = s.lists[i].Broadcast(s.shape); err != nil {
			return err
		}
	}
	return nil
}

// result returns the shape of the expression's result.
func (s *subscript) result() []int64 {
	return slices.Concat(s.rest[:s.first], s.shape, s.rest[s.first:])
}

// leading moves the dimensions of the lists to the front of a view of the result's shape.
func (s *subscript) leading(v kernel.View) kernel.View {
	move := func(d []int64) []int64 {
		return slices.Concat(d[s.first:s.first+len(s.shape)], d[:s.first], d[s.first+len(s.shape):])
	}
	v.Shape, v.Strides = move(v.Shape), move(v.Strides)
	return v
}

func (s *subscript) end() {
	for _, f := range s.release {
		f()
	}
}

// PutAt is into[indices...] op= values. values broadcast to the shape of the indexed result.
// Order and precision are as in Scatter.
func PutAt(op ScatterOp, into, values kernel.View, indices []kernel.View) error {
	s, err := newSubscript(into, indices)
	if err != nil {
		return err
	}
	defer s.end()
	if values, err = values.Broadcast(s.result()); err != nil {
		return err
	}
	return Put(op, into.Permuted(s.order), s.leading(values), s.lists)
}

// truePlaces returns the coordinates of the true elements of a mask, one vector per dimension.
func truePlaces(mask kernel.View, release *[]func()) []kernel.View {
	whole, free := kernel.TemporaryOf(dtype.Bool, mask.Shape...)
	defer free()
	elementwise.Move(whole, mask)
	var out []kernel.View
	for _, p := range coordinates(whole) {
		v, free := kernel.TemporaryOf(dtype.Int64, int64(len(p)))
		*release = append(*release, free)
		copy(v.Ints(), p)
		out = append(out, v)
	}
	return out
}

// Put is into[indices...] op= src, where indices holds one view of coordinates for each leading
// dimension of into. All indices have the same shape. The shape of src is that shape followed by
// into's other dimensions. Order and precision are as in Scatter.
func Put(op ScatterOp, into, src kernel.View, indices []kernel.View) error {
	m, shape := len(indices), indices[0].Shape
	if len(into.Shape) > kernel.MaxRank || m > len(into.Shape) || !slices.Equal(src.Shape, slices.Concat(shape, into.Shape[m:])) {
		return fmt.Errorf("kernel: %v elements of shape %v cannot be put into shape %v at %d indices of shape %v", src.DType, src.Shape, into.Shape, m, shape)
	}
	if src.Len() == 0 {
		return nil
	}
	wide := into
	if class, ok := kernel.Classes[into.DType]; ok && op != ScatterSet && kernel.Accumulators[class] != into.DType {
		var releaseWide func()
		wide, releaseWide = kernel.TemporaryOf(kernel.Accumulators[class], into.Shape...)
		defer releaseWide()
		if err := elementwise.Copy(wide, into); err != nil {
			return err
		}
	}
	offsets, release, err := offsetsOf(wide, indices)
	if err != nil {
		return err
	}
	defer release()
	// The indexed dimensions are merged into one of stride 1, which the offsets index.
	flat := kernel.View{Data: wide.Data, DType: wide.DType, Shape: slices.Concat([]int64{1}, into.Shape[m:]), Strides: slices.Concat([]int64{1}, wide.Strides[m:])}
	values, release2 := kernel.TemporaryOf(src.DType, slices.Concat([]int64{offsets.Len()}, into.Shape[m:])...)
	defer release2()
	if err := elementwise.Copy(kernel.View{Data: values.Data, DType: values.DType, Shape: src.Shape, Strides: kernel.ContiguousStrides(src.Shape)}, src); err != nil {
		return err
	}
	line := make([]int64, len(values.Shape))
	line[0] = 1
	at := kernel.View{Data: offsets.Data, DType: dtype.Int64, Shape: values.Shape, Strides: line}
	if err := scatter(op, flat, values, 0, at); err != nil {
		return err
	}
	if wide.Data != into.Data {
		return elementwise.Copy(into, wide)
	}
	return nil
}

// offsetsOf converts coordinates in the leading dimensions of v to offsets in elements: an int64
// view of the shape of the indices.
func offsetsOf(v kernel.View, indices []kernel.View) (offsets kernel.View, release func(), err error) {
	offsets, release = kernel.TemporaryOf(dtype.Int64, indices[0].Shape...)
	clear(offsets.Ints())
	for d, index := range indices {
		at, free, err := places(index, v.Shape[d])
		if err != nil {
			release()
			return kernel.View{}, nil, fmt.Errorf("dimension %d: %w", d, err)
		}
		from, to, stride := at.Ints(), offsets.Ints(), v.Strides[d]
		thread.Parallel(int64(len(to)), thread.Grain, func(lo, hi int64) {
			for i, k := range from[lo:hi] {
				to[lo:hi][i] += k * stride
			}
		})
		free()
	}
	return offsets, release, nil
}
