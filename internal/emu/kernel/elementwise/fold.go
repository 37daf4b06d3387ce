package elementwise

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// Fold sets out to views[0] op views[1] op views[2] …, element by element and from left to
// right. The views broadcast to out; 16-bit types are rounded only once.
func Fold(op Op, out kernel.View, views []kernel.View) error {
	sum, release := kernel.TemporaryOf(kernel.Accumulators[kernel.Classes[out.DType]], out.Shape...)
	defer release()
	if err := Map(Identity, sum.DType, sum, []Input{Of(views[0])}); err != nil {
		return err
	}
	for _, v := range views[1:] {
		if err := Map(op, sum.DType, sum, []Input{Of(sum), Of(v)}, Whole(1)); err != nil {
			return err
		}
	}
	return Copy(out, sum)
}

// OneHot sets an element of out to on where its coordinate along axis equals the element of at,
// and to off elsewhere. at broadcasts to out.
func OneHot(out, at kernel.View, axis int, on, off kernel.View) error {
	n := out.Shape[axis]
	places, release := kernel.TemporaryOf(dtype.Int64, n)
	defer release()
	if err := Sequence(places, Whole(0), Whole(1)); err != nil {
		return err
	}
	places.Shape, places.Strides = make([]int64, len(out.Shape)), make([]int64, len(out.Shape))
	for i := range places.Shape {
		places.Shape[i] = 1
	}
	places.Shape[axis], places.Strides[axis] = n, 1
	hot, releaseHot := kernel.TemporaryOf(dtype.Bool, out.Shape...)
	defer releaseHot()
	if err := Map(Equal, dtype.Int64, hot, []Input{Of(at), Of(places)}); err != nil {
		return err
	}
	return Map(Where, out.DType, out, []Input{Of(hot), Of(on), Of(off)})
}
