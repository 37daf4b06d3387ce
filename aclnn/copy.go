package aclnn

import (
	"context"
	"unsafe"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn/half"
	"github.com/goascend/cann/internal/dtype"
)

// CopyToDevice copies host values to a tensor, in row-major order, in the order of the
// stream; the values may be changed when it returns. Nothing is converted: the tensor must be
// contiguous and in ND, and T must be its element type (half.Float16, half.BFloat16 or uint16
// for the 16-bit floats; uint8 for types of 8 bits). FromSlice makes a tensor and converts.
// Refusals match acl.ErrInvalidArgument.
func CopyToDevice[T acl.Element](ctx context.Context, st *acl.Stream, dst *Tensor, src []T) error {
	if err := waits(ctx, st, dst); err != nil {
		return err
	}
	b, err := hostView(dst, src)
	if err != nil || b == nil {
		return err
	}
	return acl.CopyToDevice(ctx, st, b, src)
}

// CopyFromDevice copies a tensor to host values, in row-major order, after the work queued
// on the stream; it waits for that. The conditions are those of CopyToDevice; ToSlice reads
// any tensor and converts.
func CopyFromDevice[T acl.Element](ctx context.Context, st *acl.Stream, dst []T, src *Tensor) error {
	if err := waits(ctx, st, src); err != nil {
		return err
	}
	b, err := hostView(src, dst)
	if err != nil || b == nil {
		return err
	}
	return acl.CopyFromDevice(ctx, st, dst, b)
}

// hostView is the memory of a tensor, if it can be exchanged with values; nil when there
// is nothing to copy.
func hostView[T acl.Element](t *Tensor, values []T) (*acl.Buffer, error) {
	var zero T
	size := int(unsafe.Sizeof(zero))
	switch {
	case int64(len(values)) != t.Len():
		return nil, refuse(acl.ErrInvalidArgument, "%d values for %v, which has %d", len(values), t, t.Len())
	case t.DType().Size() != size || !accepts(t.DType(), any(zero)):
		return nil, refuse(acl.ErrInvalidArgument, "values of type %T for %v; FromSlice and ToSlice convert", zero, t)
	case !t.Contiguous() || t.Format() == dtype.FractalNZ:
		return nil, refuse(acl.ErrInvalidArgument, "%v is not contiguous in memory; ToSlice reads it, and Copy writes it from a tensor that is", t)
	case len(values) == 0:
		return nil, nil
	}
	return t.mem.buf.View(int(t.desc.Offset)*size, len(values)*size)
}

// accepts reports whether a Go type may hold a dtype of its size. Unsigned types of 8 and 16
// bits may be bit patterns of any dtype, and so may types that the caller has defined.
func accepts(dt DType, value any) bool {
	switch value.(type) {
	case float32:
		return dt == Float32
	case float64:
		return dt == Float64
	case int32:
		return dt == Int32
	case int64:
		return dt == Int64
	case uint32:
		return dt == Uint32
	case uint64:
		return dt == Uint64
	case int16:
		return dt == Int16
	case half.Float16:
		return dt == Float16
	case half.BFloat16:
		return dt == BFloat16
	case bool:
		return dt == Bool
	}
	return true
}
