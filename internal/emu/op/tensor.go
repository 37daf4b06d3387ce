package op

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// Tensor is an aclTensor: a strided view over device memory.
type Tensor struct {
	Shape   []int64
	Strides []int64 // in elements
	Offset  int64   // in elements
	DType   dtype.Type
	Format  dtype.Format
	Storage []int64 // storage dimensions
	Addr    uint64  // device address of the storage

	Data   unsafe.Pointer // first element of the view; set before Run, nil when empty
	Name   string         // argument name, for messages
	object *Tensor        // the caller's tensor, of which this one is a copy
	call   *Call          // whose argument the tensor is; nil for a tensor of the caller
	use    Use            // what the operator does with the argument

	inWorkspace bool // Addr is an offset from the workspace
}

// Len returns the number of elements.
func (t *Tensor) Len() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Rank returns the number of dimensions.
func (t *Tensor) Rank() int { return len(t.Shape) }

// Dim returns the size of dimension i. Negative i count from the end. If an argument has fewer dimensions, phase one records an
// error and gets 1.
func (t *Tensor) Dim(i int) int64 {
	if i < 0 {
		i += len(t.Shape)
	}
	if i >= 0 && i < len(t.Shape) || t.call != nil && t.call.prepared {
		return t.Shape[i]
	}
	if t != &Absent {
		t.call.Invalid("%v has %d dimensions; the operator needs more", t, len(t.Shape))
	}
	return 1
}

// View returns the tensor as a view for kernels. It is valid inside Run only, and for ND layouts
// only.
func (t *Tensor) View() kernel.View {
	return kernel.View{Data: t.Data, DType: t.DType, Shape: t.Shape, Strides: t.Strides}
}

// As is like View, with another shape and strides over the same first element.
func (t *Tensor) As(shape, strides []int64) kernel.View {
	return kernel.View{Data: t.Data, DType: t.DType, Shape: shape, Strides: strides}
}

// Contiguous reports whether the elements lie in row-major order without gaps.
func (t *Tensor) Contiguous() bool {
	return kernel.View{Shape: t.Shape, Strides: t.Strides}.Contiguous()
}

// String describes the tensor in messages: name, dtype, shape and format, and the strides unless it
// is contiguous.
func (t *Tensor) String() string {
	if t == nil {
		return "null"
	}
	s := fmt.Sprintf("%v%s%v", t.DType, Dims(t.Shape), t.Format)
	if !t.Contiguous() {
		s += " strides" + Dims(t.Strides)
	}
	if t.Name != "" {
		s = t.Name + " " + s
	}
	return s
}

// Dims formats a shape for messages.
func Dims(d []int64) string {
	return "[" + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(d)), ","), "[]") + "]"
}

// span returns the lowest and the one-past-highest element of the view relative to the
// storage address; ok is false for an empty view.
func (t *Tensor) span() (lo, hi int64, ok bool) {
	if t.Format != dtype.ND && len(t.Storage) > 0 && IsPrivate(t.Format) {
		n := int64(1)
		for _, d := range t.Storage {
			n *= d
		}
		return t.Offset, t.Offset + n, n > 0
	}
	lo, hi = t.Offset, t.Offset
	for i, d := range t.Shape {
		if d == 0 {
			return 0, 0, false
		}
		if s := t.Strides[i] * (d - 1); s < 0 {
			lo += s
		} else {
			hi += s
		}
	}
	return lo, hi + 1, true
}

// IsPrivate reports whether a format permutes the elements in storage.
func IsPrivate(f dtype.Format) bool {
	switch f {
	case dtype.ND, dtype.NCHW, dtype.NHWC, dtype.HWCN, dtype.NDHWC, dtype.NCDHW, dtype.NC, dtype.NCL, dtype.FormatUndefined:
		return false
	}
	return true
}

// Permuted reports whether the storage holds the elements in another order than the view: the format
// is private, and the storage has not the shape of the view.
func (t *Tensor) Permuted() bool {
	return IsPrivate(t.Format) && !slices.Equal(t.Shape, t.Storage)
}

// ContiguousStrides returns the strides, in elements, of a contiguous row-major tensor.
func ContiguousStrides(shape []int64) []int64 {
	s := make([]int64, len(shape))
	n := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= shape[i]
	}
	return s
}

// SameShape reports whether two shapes are equal.
func SameShape(a, b []int64) bool { return slices.Equal(a, b) }

// Scalar is an aclScalar. Bits holds the value in the representation of its type.
type Scalar struct {
	DType dtype.Type
	Bits  [16]byte
}

// Settle sets the shape of an output whose size is known only after the computation. The result
// occupies the leading elements of the memory contiguously. The caller's tensor gets the shape too,
// so programs can read it with aclGetViewShape after synchronizing the stream. Settle fails if the
// tensor is too small.
func (t *Tensor) Settle(shape []int64) error {
	if n := (kernel.View{Shape: shape}).Len(); n > t.Len() {
		return fmt.Errorf("%v has no room for the %d elements of the result %s", t, n, Dims(shape))
	}
	t.call.once = true
	for o := t; o != nil; o = o.object {
		o.Shape, o.Strides = slices.Clone(shape), ContiguousStrides(shape)
	}
	return nil
}

// SplitInt32 views an int32 column as eight int4 columns. CANN accepts this form from frameworks
// that have no int4 type. The tiles of FRACTAL_NZ are those of int4, whichever type the program
// stored. Other tensors stay as they are.
func (t *Tensor) SplitInt32() {
	n := t.Rank()
	if t.DType != dtype.Int32 || n == 0 || t.Strides[n-1] != 1 {
		return
	}
	t.DType = dtype.Int4
	t.Offset *= 8
	t.Shape, t.Strides = slices.Clone(t.Shape), slices.Clone(t.Strides)
	t.Shape[n-1] *= 8
	for i := range n - 1 {
		t.Strides[i] *= 8
	}
	if last := len(t.Storage) - 1; IsNZ(t.Format) && last >= 3 {
		t.Storage = slices.Clone(t.Storage)
		t.Storage[last] = DefaultC0(dtype.Int4)
	}
}

// Count returns the number of elements of a shape.
func Count(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// Recast changes the format and the storage shape of the tensor, and of the caller's tensor at
// once.
func (t *Tensor) Recast(f dtype.Format, storage []int64) {
	t.call.once = true
	t.Format, t.Storage = f, storage
	t.object.Format, t.object.Storage = f, slices.Clone(storage)
}
