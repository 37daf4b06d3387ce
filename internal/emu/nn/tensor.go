package nn

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

	host   unsafe.Pointer // first element of the view; set before Run, nil when empty
	name   string         // argument name, for messages
	object *Tensor        // the caller's tensor that this is a copy of

	inWorkspace bool // Addr counts from the workspace
}

// Len is the number of elements.
func (t *Tensor) Len() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Rank is the number of dimensions.
func (t *Tensor) Rank() int { return len(t.Shape) }

// Dim is dimension i; negative i counts from the end.
func (t *Tensor) Dim(i int) int64 {
	if i < 0 {
		i += len(t.Shape)
	}
	return t.Shape[i]
}

// View is the tensor as a kernel sees it. Valid inside Run only; ND layouts only.
func (t *Tensor) View() kernel.View {
	return kernel.View{Data: t.host, DType: t.DType, Shape: t.Shape, Strides: t.Strides}
}

// As is View with another shape and strides over the same first element.
func (t *Tensor) As(shape, strides []int64) kernel.View {
	return kernel.View{Data: t.host, DType: t.DType, Shape: shape, Strides: strides}
}

// Contiguous reports whether the elements lie in row-major order without gaps.
func (t *Tensor) Contiguous() bool {
	return kernel.View{Shape: t.Shape, Strides: t.Strides}.Contiguous()
}

// String is the form used in messages: name dtype[shape]FORMAT, strides when not contiguous.
func (t *Tensor) String() string {
	if t == nil {
		return "null"
	}
	s := fmt.Sprintf("%v%s%v", t.DType, dims(t.Shape), t.Format)
	if !t.Contiguous() {
		s += " strides" + dims(t.Strides)
	}
	if t.name != "" {
		s = t.name + " " + s
	}
	return s
}

func dims(d []int64) string {
	return "[" + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(d)), ","), "[]") + "]"
}

// clone copies t, so that a running operator does not see later changes of the object.
func (t *Tensor) clone(name string) *Tensor {
	c := *t
	c.name, c.object = name, t
	return &c
}

// span returns the lowest and the one-past-highest element of the view relative to the
// storage address; ok is false for an empty view.
func (t *Tensor) span() (lo, hi int64, ok bool) {
	if t.Format != dtype.ND && len(t.Storage) > 0 && isPrivate(t.Format) {
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

// isPrivate reports whether a format permutes the elements in storage.
func isPrivate(f dtype.Format) bool {
	switch f {
	case dtype.ND, dtype.NCHW, dtype.NHWC, dtype.HWCN, dtype.NDHWC, dtype.NCDHW, dtype.NC, dtype.NCL, dtype.FormatUndefined:
		return false
	}
	return true
}

// ContiguousStrides are the strides of a row-major tensor without gaps.
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

// Scalar is an aclScalar.
type Scalar struct {
	DType dtype.Type
	Bits  [16]byte
}
