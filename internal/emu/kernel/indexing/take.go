package indexing

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// TakeAt is out = from[indices...], the counterpart of PutAt. out must have exactly the shape of
// the result, so the number of true elements of a mask must match it.
func TakeAt(out, from kernel.View, indices []kernel.View) error {
	s, err := newSubscript(from, indices)
	if err != nil {
		return err
	}
	defer s.end()
	if !slices.Equal(out.Shape, s.result()) {
		return fmt.Errorf("kernel: the indices select shape %v, the result has %v", s.result(), out.Shape)
	}
	return Take(s.leading(out), from.Permuted(s.order), s.lists)
}

// Take is out = from[indices...], the counterpart of Put, where indices holds one view of
// coordinates for each leading dimension of from. All indices have the same shape, with at least
// one dimension. The shape of out is that shape followed by from's other dimensions.
func Take(out, from kernel.View, indices []kernel.View) error {
	m, shape := len(indices), indices[0].Shape
	if out.DType != from.DType || out.DType.Size() == 0 {
		return fmt.Errorf("kernel: cannot take %v elements from %v ones", out.DType, from.DType)
	}
	if len(out.Shape) > kernel.MaxRank || m > len(from.Shape) || !slices.Equal(out.Shape, slices.Concat(shape, from.Shape[m:])) {
		return fmt.Errorf("kernel: elements of shape %v cannot be taken from shape %v at %d indices of shape %v", out.Shape, from.Shape, m, shape)
	}
	if out.Len() == 0 {
		return nil
	}
	offsets, release, err := offsetsOf(from, indices)
	if err != nil {
		return err
	}
	defer release()
	rest := make([]int64, len(out.Shape)-len(shape))
	// The indexed dimensions are merged into one of stride 1, which the offsets index. The offsets
	// repeat along the other dimensions.
	flat := kernel.View{Data: from.Data, DType: from.DType, Shape: out.Shape, Strides: slices.Concat(make([]int64, len(shape)), from.Strides[m:])}
	flat.Strides[0] = 1
	at := kernel.View{Data: offsets.Data, DType: dtype.Int64, Shape: out.Shape, Strides: slices.Concat(kernel.ContiguousStrides(shape), rest)}
	gather(out, flat, 0, at)
	return nil
}

// Pick sets out to the slices of in along axis at the indices at, which must be in range. out
// has in's shape except that its size along axis is len(at).
func Pick(out, in kernel.View, axis int, at []int64) error {
	list, release := kernel.TemporaryOf(dtype.Int64, int64(len(at)))
	defer release()
	copy(list.Ints(), at)
	return Lookup(out, in, axis, list)
}

// SetInts sets the elements of v in row-major order.
func SetInts(v kernel.View, values []int64) error {
	whole, release := kernel.TemporaryOf(dtype.Int64, v.Shape...)
	defer release()
	copy(whole.Ints(), values)
	return elementwise.Copy(v, whole)
}

// Nonzero returns the coordinates of the nonzero elements of x in row-major order, as one list
// per dimension.
func Nonzero(x kernel.View) ([][]int64, error) {
	mask, release := kernel.TemporaryOf(dtype.Bool, x.Shape...)
	defer release()
	if err := elementwise.Map(elementwise.NotEqual, x.DType, mask, []elementwise.Input{elementwise.Of(x), elementwise.Const(elementwise.Whole(0))}); err != nil {
		return nil, err
	}
	return coordinates(mask), nil
}

// coordinates returns the coordinates of the true elements of a contiguous mask.
func coordinates(mask kernel.View) [][]int64 {
	places := make([][]int64, len(mask.Shape))
	at := positions(mask.Bytes())
	for d, s := range mask.Strides {
		list, n := make([]int64, len(at)), mask.Shape[d]
		thread.Parallel(int64(len(at)), thread.Grain, func(lo, hi int64) {
			for i := lo; i < hi; i++ {
				list[i] = int64(uint64(at[i]) / uint64(s) % uint64(n))
			}
		})
		places[d] = list
	}
	return places
}

// positions returns the positions of the true elements.
func positions(mask []byte) []int64 {
	at, n := make([]int64, len(mask)-bytes.Count(mask, []byte{0})+1), 0
	for i, b := range mask {
		at[n] = int64(i) // the next true element writes over it
		if b != 0 {
			n++
		}
	}
	return at[:n]
}

// truePositions broadcasts a mask to a shape and returns the row-major positions of its true
// elements.
func truePositions(mask kernel.View, shape []int64) ([]int64, error) {
	whole, release := kernel.TemporaryOf(dtype.Bool, shape...)
	defer release()
	if err := elementwise.Copy(whole, mask); err != nil {
		return nil, err
	}
	return positions(whole.Bytes()), nil
}

// Compress writes the elements of x where mask is true, both broadcast to shape, in row-major
// order to the vector of n elements that into(n) returns.
func Compress(x, mask kernel.View, shape []int64, into func(n int64) (kernel.View, error)) error {
	at, err := truePositions(mask, shape)
	if err != nil {
		return err
	}
	out, err := into(int64(len(at)))
	if err != nil || len(at) == 0 {
		return err
	}
	if x, err = x.Broadcast(shape); err != nil {
		return err
	}
	return PickFlat(out, x, at)
}

// Expand sets the elements of into where mask is true to the first elements of source, both in
// row-major order. If source is too short, it fails and writes nothing.
func Expand(into, mask, source kernel.View) error {
	at, err := truePositions(mask, into.Shape)
	if err != nil || len(at) == 0 {
		return err
	}
	if n := int64(len(at)); n > source.Len() {
		return fmt.Errorf("kernel: the mask has %d true elements, the source %d", n, source.Len())
	}
	return changed(into, func(whole kernel.View) error {
		values, release := kernel.TemporaryOf(source.DType, source.Shape...)
		defer release()
		if err := elementwise.Copy(values, source); err != nil {
			return err
		}
		list, releaseList := kernel.TemporaryOf(dtype.Int64, int64(len(at)))
		defer releaseList()
		copy(list.Ints(), at)
		return scatter(ScatterSet, whole.Line(), values.Line().Narrow(0, 0, list.Len()), 0, list)
	})
}

// PutFlat scatters the elements of source to the row-major positions of into that index holds.
func PutFlat(op ScatterOp, into, index, source kernel.View) error {
	return changed(into, func(whole kernel.View) error {
		values, release := kernel.TemporaryOf(source.DType, source.Shape...)
		defer release()
		if err := elementwise.Copy(values, source); err != nil {
			return err
		}
		at, releaseAt, err := places(index, whole.Len())
		if err != nil {
			return err
		}
		defer releaseAt()
		return scatter(op, whole.Line(), values.Line(), 0, at.Line())
	})
}

// TakeFlat sets every element of out to the element of in at the row-major position that index
// holds.
func TakeFlat(out, in, index kernel.View) error {
	whole, release := kernel.TemporaryOf(in.DType, in.Len())
	defer release()
	if err := elementwise.CopyInOrder(whole, in); err != nil {
		return err
	}
	return Lookup(out, whole, 0, index)
}

// PickFlat sets the vector out to the elements of in at the row-major positions at, which must
// be in range.
func PickFlat(out, in kernel.View, at []int64) error {
	whole, release := kernel.TemporaryOf(in.DType, in.Shape...)
	defer release()
	if err := elementwise.Copy(whole, in); err != nil {
		return err
	}
	return Pick(out, whole.Line(), 0, at)
}

// changed calls f on a contiguous copy of v and copies the result back.
func changed(v kernel.View, f func(whole kernel.View) error) error {
	whole, release := kernel.TemporaryOf(v.DType, v.Shape...)
	defer release()
	if err := elementwise.Copy(whole, v); err != nil {
		return err
	}
	if err := f(whole); err != nil {
		return err
	}
	return elementwise.Copy(v, whole)
}
