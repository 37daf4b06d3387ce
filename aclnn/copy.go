package aclnn

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/half"
)

// CopyToDevice copies host values to a tensor, in row-major order, in the order of the
// stream; the values may be changed when it returns. The tensor must be contiguous and not
// in a private format, T must be its element type (a type of 16 bits such as uint16 for the
// 16-bit floats, of 8 bits for bool and the 8-bit types).
func CopyToDevice[T acl.Element](ctx context.Context, st *acl.Stream, dst *Tensor, src []T) error {
	b, err := hostView(dst, src)
	if err != nil || b == nil {
		return err
	}
	return acl.CopyToDevice(ctx, st, b, src)
}

// CopyFromDevice copies a tensor to host values, in row-major order, after the work queued
// on the stream; it waits for that. The conditions are those of CopyToDevice.
func CopyFromDevice[T acl.Element](ctx context.Context, st *acl.Stream, dst []T, src *Tensor) error {
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
	case t.err != nil:
		return nil, t.err
	case t.buf == nil:
		return nil, fmt.Errorf("aclnn: %v has no memory of its own to copy", t)
	case int64(len(values)) != t.Len():
		return nil, fmt.Errorf("aclnn: %d values for %v, which has %d", len(values), t, t.Len())
	case t.DType().Size() != size || !accepts(t.DType(), any(zero)):
		return nil, fmt.Errorf("aclnn: values of type %T for %v", zero, t)
	case !t.Contiguous() || t.Format() == dtype.FractalNZ:
		return nil, fmt.Errorf("aclnn: %v is not contiguous in memory; copy it to a tensor that is (InplaceCopy)", t)
	case len(values) == 0:
		return nil, nil
	}
	return t.buf.View(int(t.desc.Offset)*size, len(values)*size)
}

// accepts reports whether a Go type may hold a dtype of its size. Types that Go does not
// tell from bytes or bit patterns, and the caller's own, are taken at their word.
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
