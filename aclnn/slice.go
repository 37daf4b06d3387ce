package aclnn

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/internal/element"
)

// Value is a Go type of host values. half.Float16 and half.BFloat16 are the 16-bit floats; all
// other types count by their underlying type, int as int64.
type Value interface{ acl.Element | ~int }

// FromSlice makes a tensor of host values in row-major order, converted to dt: floating-point
// types become each other, rounded once to nearest even; integers become integers; bool becomes
// an integer type as 0 and 1. Other conversions, and an integer that dt does not hold, match
// acl.ErrInvalidArgument. Without a shape the tensor is a scalar.
//
//	w, err := aclnn.FromSlice(ctx, st, aclnn.BFloat16, []float32{1, 2, 3, 4}, 2, 2)
//	defer w.Close()
//
// The values may be changed when the call returns; the tensor has them in the order of the
// stream. The context bounds the wait for the device's staging memory.
func FromSlice[T Value](ctx context.Context, st *acl.Stream, dt DType, values []T, shape ...int64) (*Tensor, error) {
	if err := waits(ctx, st); err != nil {
		return nil, err
	}
	_, n, err := describe(dt, shape)
	if err != nil {
		return nil, err
	}
	from := element.Of[T]()
	switch {
	case int64(len(values)) != n:
		return nil, refuse(acl.ErrInvalidArgument, "%d values for %v%s, which has %d", len(values), dt, dims(shape), n)
	case !element.Convertible(dt, from):
		return nil, refuse(acl.ErrInvalidArgument, "values of type %T cannot become %v", *new(T), dt)
	}
	t, err := New(st, dt, shape...)
	if err != nil {
		return nil, err
	}
	if err := t.upload(ctx, st, element.Bytes(values), from); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// ToSlice reads a tensor of any layout, a view with gaps or FRACTAL_NZ storage too, in
// row-major order after the work queued on the stream; it waits for that. It converts as
// FromSlice does.
//
//	probabilities, err := aclnn.ToSlice[float32](ctx, st, p)
func ToSlice[T Value](ctx context.Context, st *acl.Stream, t *Tensor) ([]T, error) {
	if err := waits(ctx, st, t); err != nil {
		return nil, err
	}
	to := element.Of[T]()
	if !element.Convertible(to, t.DType()) {
		return nil, refuse(acl.ErrInvalidArgument, "%v cannot become values of type %T", t, *new(T))
	}
	values := make([]T, t.Len())
	if err := t.read(ctx, st, element.Bytes(values), to); err != nil {
		return nil, err
	}
	return values, nil
}

// chunk is how many bytes go between host and device at a time where they are converted, or
// come from a file.
const chunk = 4 << 20

// upload writes elements of another dtype to a contiguous tensor.
func (t *Tensor) upload(ctx context.Context, st *acl.Stream, elements []byte, from DType) error {
	n := len(elements) / from.Size()
	return t.pour(ctx, st, n, func(dst []byte, first int) error {
		count := len(dst) / t.DType().Size()
		src := elements[first*from.Size() : (first+count)*from.Size()]
		if err := element.Convert(dst, t.DType(), src, from); err != nil {
			return t.misfit(err, first)
		}
		return nil
	})
}

// pour writes n elements to a contiguous tensor, a chunk at a time; fill makes those from first
// on.
func (t *Tensor) pour(ctx context.Context, st *acl.Stream, n int, fill func(dst []byte, first int) error) error {
	size := t.DType().Size()
	most := chunk / size
	raw := make([]byte, min(n, most)*size)
	for first := 0; first < n; first += most {
		part := raw[:min(n-first, most)*size]
		if err := fill(part, first); err != nil {
			return err
		}
		to, err := t.mem.buf.View(t.at()+first*size, len(part))
		if err != nil {
			return err
		}
		if err := acl.CopyToDevice(ctx, st, to, part); err != nil {
			return err
		}
	}
	return nil
}

// read fills elements of another dtype from a tensor of any layout.
func (t *Tensor) read(ctx context.Context, st *acl.Stream, elements []byte, to DType) error {
	if len(elements) == 0 {
		return nil
	}
	done := 0
	return t.drain(ctx, st, func(src []byte) error {
		n := len(src) / t.DType().Size()
		if err := element.Convert(elements[done*to.Size():], to, src, t.DType()); err != nil {
			return t.misfit(err, done)
		}
		done += n
		return nil
	})
}

// drain gives the elements of a tensor of any layout to take, a chunk at a time in row-major
// order.
func (t *Tensor) drain(ctx context.Context, st *acl.Stream, take func(src []byte) error) (err error) {
	if t.Format() == FractalNZ {
		raw, err := t.untile(ctx, st)
		if err != nil {
			return err
		}
		return take(raw)
	}
	flat, err := Contiguous(st, t)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, flat.Close()) }()
	size, n := flat.DType().Size(), int(flat.Len())
	most := chunk / size
	raw := make([]byte, min(n, most)*size)
	for first := 0; first < n; first += most {
		part := raw[:min(n-first, most)*size]
		from, err := flat.mem.buf.View(flat.at()+first*size, len(part))
		if err != nil {
			return err
		}
		if err := acl.CopyFromDevice(ctx, st, part, from); err != nil {
			return err
		}
		if err := take(part); err != nil {
			return err
		}
	}
	return nil
}

// at is where the first element is in the tensor's buffer, in bytes.
func (t *Tensor) at() int { return int(t.Address() - t.mem.buf.Address()) }

// misfit says which element the other dtype does not hold.
func (t *Tensor) misfit(err error, first int) error {
	e, ok := errors.AsType[*element.RangeError](err)
	if !ok {
		return err
	}
	return refuse(acl.ErrInvalidArgument, "%v: element %d, %s, exceeds %v", t, first+e.Index, e.Value, e.To)
}
