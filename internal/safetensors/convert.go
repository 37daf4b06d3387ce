package safetensors

import (
	"errors"
	"io"
	"math"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/element"
)

// As is the tensor with its elements converted as they are read. Floating-point types become
// each other, rounded once to nearest even (those of 8 bits can only be read); integers become
// integers, where one that does not fit is ErrValue, found when it is read; bool becomes the
// integers 0 and 1. Other conversions are ErrDType: quantised weights, above all, do not become
// floating-point numbers without their scales.
func (t Tensor) As(to dtype.Type) (Tensor, error) {
	if to == t.DType && to != dtype.Bool { // a bool is converted too: its bytes other than 0 become 1
		return t, nil
	}
	if !element.Convertible(to, t.DType) {
		return Tensor{}, t.fail(ErrDType, "%v cannot be read as %v", t.DType, to)
	}
	if int64(t.Len()) > math.MaxInt64/int64(to.Size()) {
		return Tensor{}, t.fail(ErrShape, "%v takes more than 2^63 bytes as %v", t.Info, to)
	}
	t.data = &converted{from: t, to: to}
	t.DType = to
	return t, nil
}

// converted is the bytes of a tensor in another element type.
type converted struct {
	from Tensor
	to   dtype.Type
}

// convertBlock is how many elements are converted at a time.
const convertBlock = 64 << 10

// ReadAt converts the elements that the bytes asked for are of.
func (c *converted) ReadAt(p []byte, off int64) (done int, err error) {
	out, in := int64(c.to.Size()), int64(c.from.DType.Size())
	end := int64(c.from.Len()) * out
	raw := make([]byte, min(convertBlock, int64(len(p))/out+2)*in)
	var cut []byte // for elements of which only some bytes are asked for
	for done < len(p) && off < end {
		first, skip := off/out, off%out
		n := min(int64(len(raw))/in, int64(c.from.Len())-first, (skip+int64(len(p)-done)+out-1)/out)
		b := raw[:n*in]
		if got, err := c.from.data.ReadAt(b, first*in); got < len(b) {
			return done, err
		}
		to := p[done:]
		if skip != 0 || int64(len(to)) < n*out {
			cut = append(cut[:0], make([]byte, n*out)...)
			to = cut
		}
		if err := element.Convert(to, c.to, b, c.from.DType); err != nil {
			return done, c.misfit(err, first)
		}
		copied := int(min(n*out-skip, int64(len(p)-done)))
		if len(cut) > 0 {
			copy(p[done:], cut[skip:])
			cut = cut[:0]
		}
		done, off = done+copied, off+int64(copied)
	}
	if done < len(p) {
		return done, io.EOF
	}
	return done, nil
}

// misfit names the tensor and the element whose value the other type does not have.
func (c *converted) misfit(err error, first int64) error {
	e, ok := errors.AsType[*element.RangeError](err)
	if !ok {
		return err
	}
	return c.from.fail(ErrValue, "element %d, %s, exceeds %v", first+int64(e.Index), e.Value, e.To)
}
