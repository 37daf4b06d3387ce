//go:build emu && linux && cgo && (amd64 || arm64)

package emu

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/emu/op"
)

// Tensor is an argument of a call: a view over device memory, which is there while the Run runs.
type Tensor struct{ t *op.Tensor }

// DType is the type of the elements.
func (t *Tensor) DType() aclnn.DType { return t.t.DType }

// Format is the storage format.
func (t *Tensor) Format() aclnn.Format { return t.t.Format }

// Shape returns the sizes of the dimensions.
func (t *Tensor) Shape() []int64 { return slices.Clone(t.t.Shape) }

// Strides returns the distances of neighbours in each dimension, in elements.
func (t *Tensor) Strides() []int64 { return slices.Clone(t.t.Strides) }

// Storage returns the sizes of the storage, which differ from Shape in private formats.
func (t *Tensor) Storage() []int64 { return slices.Clone(t.t.Storage) }

// Len is the number of elements.
func (t *Tensor) Len() int { return int(t.t.Len()) }

// String describes the tensor for errors: name, dtype, shape and format.
func (t *Tensor) String() string { return t.t.String() }

// Bytes returns the memory from the first element of the view to the last, with what lies between them, or
// the storage of a private format. It is nil outside of a Run, and of a tensor without elements.
func (t *Tensor) Bytes() []byte {
	if t.t.Data == nil {
		return nil
	}
	low, high := t.t.Region()
	before := int64(t.t.Addr-low) + t.t.Offset*int64(t.t.DType.Bits())/8 // negative strides
	return unsafe.Slice((*byte)(unsafe.Add(t.t.Data, -before)), high-low)
}

// Load returns the elements in row-major order, whatever the strides. T must have their size; the 16-bit
// floats of package half convert themselves. Private formats and elements of less than a byte are read
// with Bytes.
func Load[T acl.Element](t *Tensor) ([]T, error) {
	values := make([]T, t.Len())
	if err := each(t, func(i int, element *T) { values[i] = *element }); err != nil {
		return nil, err
	}
	return values, nil
}

// Store sets the elements in row-major order, as Load reads them.
func Store[T acl.Element](t *Tensor, values []T) error {
	if len(values) != t.Len() {
		return fmt.Errorf("%d values for %v", len(values), t)
	}
	return each(t, func(i int, element *T) { *element = values[i] })
}

// each visits the elements in row-major order.
func each[T acl.Element](t *Tensor, visit func(i int, element *T)) error {
	var zero T
	size, n := int64(unsafe.Sizeof(zero)), t.Len()
	switch {
	case int64(t.t.DType.Bits()) != 8*size:
		return fmt.Errorf("%v has no elements of %d bytes", t, size)
	case t.t.Permuted():
		return fmt.Errorf("%v stores its elements in another order; use Bytes", t)
	case n > 0 && t.t.Data == nil:
		return errors.New(t.String() + " has memory in the Run only")
	}
	at, place := int64(0), make([]int64, len(t.t.Shape))
	for i := range n {
		visit(i, (*T)(unsafe.Add(t.t.Data, at*size)))
		for d := len(place) - 1; d >= 0; d-- {
			place[d]++
			if at += t.t.Strides[d]; place[d] < t.t.Shape[d] {
				break
			}
			at -= place[d] * t.t.Strides[d]
			place[d] = 0
		}
	}
	return nil
}
