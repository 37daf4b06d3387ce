package aclnn

import (
	"errors"

	"github.com/goascend/cann/acl"
)

// Zeros makes a tensor of zeros (aclrtMemsetAsync). The caller closes it.
func Zeros(st *acl.Stream, dt DType, shape ...int64) (*Tensor, error) {
	if dt == Float8E8M0 {
		return nil, refuse(acl.ErrInvalidArgument, "%v has no zero", dt)
	}
	t, err := New(st, dt, shape...)
	if err != nil {
		return nil, err
	}
	if err := st.Memset(t.mem.buf, 0, t.Bytes()); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Ones makes a tensor of ones; see Full.
func Ones(st *acl.Stream, dt DType, shape ...int64) (*Tensor, error) {
	return Full(st, dt, ScalarOf(dt, 1), shape...)
}

// Full makes a tensor whose elements are all v (aclnnInplaceFillScalar). CANN converts v where
// dt holds values of its kind: an integer becomes a floating-point number, but not the other
// way; ScalarOf makes a scalar of any dtype. The caller closes it.
func Full(st *acl.Stream, dt DType, v Scalar, shape ...int64) (*Tensor, error) {
	if err := v.Err(); err != nil {
		return nil, err
	}
	if v.state == absent {
		return nil, refuse(acl.ErrInvalidArgument, "%v%s cannot be filled with an absent scalar", dt, dims(shape))
	}
	t, err := New(st, dt, shape...)
	if err != nil || t.Len() == 0 {
		return t, err
	}
	if err := InplaceFillScalar(st, InplaceFillScalarParams{Self: t, Value: v}); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Clone makes a tensor with the shape, dtype, format and elements of t. It is contiguous, and
// FRACTAL_NZ storage is copied as it is. The caller closes it.
func Clone(st *acl.Stream, t *Tensor) (*Tensor, error) {
	if err := usable(st, t); err != nil {
		return nil, err
	}
	if t.Format() != FractalNZ {
		return gather(st, t)
	}
	bytes := t.tiles() * t.DType().Size()
	buf, err := st.Malloc(max(bytes, 1))
	if err != nil {
		return nil, err
	}
	c := *t
	c.mem, c.owned, c.desc.Address = memoryOf(buf), true, buf.Address()
	from, err := t.mem.buf.View(t.at(), bytes)
	if err == nil {
		err = st.Copy(buf, from, bytes)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &c, nil
}

// Contiguous is t with its elements in row-major order without gaps, in ND: a view of t when
// they are so already, or else a new tensor (aclnnInplaceCopy, or aclnnNpuFormatCast for
// FRACTAL_NZ). Close the result in either case; that leaves t as it is. A view must not be
// used after t is closed.
func Contiguous(st *acl.Stream, t *Tensor) (*Tensor, error) {
	if err := usable(st, t); err != nil {
		return nil, err
	}
	switch {
	case t.Format() != FractalNZ && !t.Contiguous():
		return gather(st, t)
	case t.Format() != FractalNZ:
		v := t.view()
		return &v, nil
	case t.swapped():
		plain, err := Contiguous(st, t.Transpose(-2, -1))
		if err != nil {
			return nil, err
		}
		c, err := gather(st, plain.Transpose(-2, -1))
		if err = errors.Join(err, plain.Close()); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return c, nil
	}
	c, err := New(st, t.DType(), t.Shape()...)
	if err != nil || t.Len() == 0 {
		return c, err
	}
	if err := Copy(st, c, t); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Copy queues a copy of the elements of src to dst. Either may have gaps; dtypes are converted
// as CANN's Cast does, and src is broadcast to the shape of dst (aclnnInplaceCopy). Between ND
// and FRACTAL_NZ both must be contiguous and of one shape and dtype (aclnnNpuFormatCast).
func Copy(st *acl.Stream, dst, src *Tensor) error {
	if err := usable(st, dst, src); err != nil {
		return err
	}
	if (dst.Format() == FractalNZ) != (src.Format() == FractalNZ) {
		return NpuFormatCast(st, NpuFormatCastParams{SrcTensor: src, DstTensor: dst})
	}
	return InplaceCopy(st, InplaceCopyParams{Self: dst, Src: src})
}

// gather makes a contiguous tensor with the elements of a view.
func gather(st *acl.Stream, t *Tensor) (*Tensor, error) {
	if bits := int64(t.DType().Bits()); bits%8 != 0 && (!t.Contiguous() || t.desc.Offset*bits%8 != 0) {
		return nil, refuse(acl.ErrNotSupported, "%v does not begin and go on at whole bytes", t)
	}
	c, err := New(st, t.DType(), t.Shape()...)
	if err != nil || t.Len() == 0 {
		return c, err
	}
	if t.Contiguous() {
		var from *acl.Buffer
		if from, err = t.mem.buf.View(t.at(), t.Bytes()); err == nil {
			err = st.Copy(c.mem.buf, from, t.Bytes())
		}
	} else {
		err = InplaceCopy(st, InplaceCopyParams{Self: c.bits(), Src: t.bits()})
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// bits is the tensor with a dtype of the same size that CANN copies, where it may not copy the
// tensor's own.
func (t *Tensor) bits() *Tensor {
	v := t.view()
	switch t.DType() {
	case HiFloat8, Float8E5M2, Float8E4M3, Float8E8M0:
		v.desc.DType = int16(Uint8)
	case Complex32:
		v.desc.DType = int16(Int32)
	case Complex64:
		v.desc.DType = int16(Int64)
	}
	return &v
}
