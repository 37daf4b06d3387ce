package aclnn

import (
	"fmt"
	"strings"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/dtype"
)

// MaxRank is the largest number of dimensions of a tensor.
const MaxRank = cshim.MaxRank

// Tensor describes device memory as a strided view: shape, strides, offset, dtype, format.
// It becomes an aclTensor during a launch only. Views share the memory and own nothing; a
// tensor made by New owns its memory, and Close frees it.
//
// A view that is impossible (an axis out of range, a reshape that would copy) carries its
// error, which Err and every launch with it return: views can be chained without checks.
type Tensor struct {
	desc  cshim.TensorDesc
	buf   *acl.Buffer // keeps the memory alive; nil for memory of others
	owned bool
	err   error
}

// New allocates a contiguous ND tensor on the stream's device, from the caching allocator
// in stream order. Its contents are undefined.
func New(st *acl.Stream, dt DType, shape ...int64) (*Tensor, error) {
	d, n, err := describe(dt, shape)
	if err != nil {
		return nil, err
	}
	buf, err := st.Malloc(max(dt.Bytes(int(n)), 1))
	if err != nil {
		return nil, fmt.Errorf("aclnn: allocating %v%s: %w", dt, dims(shape), err)
	}
	t := &Tensor{desc: d, buf: buf, owned: true}
	t.desc.Address = buf.Address()
	return t, nil
}

// Wrap views device memory that the caller owns as a contiguous ND tensor. The buffer must
// be large enough.
func Wrap(buf *acl.Buffer, dt DType, shape ...int64) (*Tensor, error) {
	d, n, err := describe(dt, shape)
	if err != nil {
		return nil, err
	}
	if need := dt.Bytes(int(n)); need > buf.Size() {
		return nil, fmt.Errorf("aclnn: %v%s needs %d bytes, the buffer has %d", dt, dims(shape), need, buf.Size())
	}
	d.Address = buf.Address()
	return &Tensor{desc: d, buf: buf}, nil
}

// describe is the descriptor of a contiguous ND tensor and its number of elements.
func describe(dt DType, shape []int64) (d cshim.TensorDesc, n int64, err error) {
	if dt.Bits() == 0 {
		return d, 0, fmt.Errorf("aclnn: a tensor cannot have dtype %v", dt)
	}
	if len(shape) > MaxRank {
		return d, 0, fmt.Errorf("aclnn: shape %s has %d dimensions, at most %d are possible", dims(shape), len(shape), MaxRank)
	}
	d = cshim.TensorDesc{DType: int16(dt), Format: int16(dtype.ND), Rank: uint8(len(shape)), StorageRank: 1}
	n = 1
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] < 0 {
			return d, 0, fmt.Errorf("aclnn: shape %s has a negative dimension", dims(shape))
		}
		d.Dims[i], d.Strides[i] = shape[i], n
		if n *= shape[i]; n > 1<<48 {
			return d, 0, fmt.Errorf("aclnn: shape %s has more than 2^48 elements", dims(shape))
		}
	}
	d.Storage[0] = n
	return d, n, nil
}

// Close frees the memory of a tensor that New made, in stream order: work queued on its
// stream still sees it. Closing a view or closing twice does nothing.
func (t *Tensor) Close() error {
	if t == nil || !t.owned {
		return nil
	}
	t.owned = false
	return t.buf.Close()
}

// Err is why the view is impossible, or nil.
func (t *Tensor) Err() error { return t.err }

// DType is the element type.
func (t *Tensor) DType() DType { return DType(t.desc.DType) }

// Format is the storage format.
func (t *Tensor) Format() Format { return Format(t.desc.Format) }

// Rank is the number of dimensions.
func (t *Tensor) Rank() int { return int(t.desc.Rank) }

// Shape is a copy of the dimensions.
func (t *Tensor) Shape() []int64 { return append([]int64(nil), t.desc.Dims[:t.desc.Rank]...) }

// Strides is a copy of the strides, in elements.
func (t *Tensor) Strides() []int64 { return append([]int64(nil), t.desc.Strides[:t.desc.Rank]...) }

// StorageShape is a copy of the storage dimensions: one for ND, the tiled ones for NZ.
func (t *Tensor) StorageShape() []int64 {
	return append([]int64(nil), t.desc.Storage[:t.desc.StorageRank]...)
}

// Dim is dimension i, negative i counting from the end; 0 when there is none.
func (t *Tensor) Dim(i int) int64 {
	if i < 0 {
		i += t.Rank()
	}
	if i < 0 || i >= t.Rank() {
		return 0
	}
	return t.desc.Dims[i]
}

// Len is the number of elements of the view.
func (t *Tensor) Len() int64 {
	n := int64(1)
	for _, d := range t.desc.Dims[:t.desc.Rank] {
		n *= d
	}
	return n
}

// Bytes is the size of the elements of the view, gaps not counted.
func (t *Tensor) Bytes() int { return t.DType().Bytes(int(t.Len())) }

// Offset is the position of the first element in the storage, in elements.
func (t *Tensor) Offset() int64 { return t.desc.Offset }

// Buffer is the memory the tensor views.
func (t *Tensor) Buffer() *acl.Buffer { return t.buf }

// Address is the device address of the first element.
func (t *Tensor) Address() uint64 {
	return t.desc.Address + uint64(t.DType().Bytes(int(t.desc.Offset)))
}

// Contiguous reports whether the elements lie in row-major order without gaps.
func (t *Tensor) Contiguous() bool {
	want := int64(1)
	for i := t.Rank() - 1; i >= 0; i-- {
		if t.desc.Dims[i] != 1 && t.desc.Strides[i] != want {
			return false
		}
		want *= t.desc.Dims[i]
	}
	return true
}

// String is the form used in errors: dtype[shape]FORMAT, with the strides of a view that is
// not contiguous.
func (t *Tensor) String() string {
	if t == nil {
		return "null"
	}
	return describeDesc(&t.desc)
}

func describeDesc(d *cshim.TensorDesc) string {
	s := fmt.Sprintf("%v%s%v", dtype.Type(d.DType), dims(d.Dims[:d.Rank]), dtype.Format(d.Format))
	if t := (&Tensor{desc: *d}); !t.Contiguous() {
		s += " strides" + dims(d.Strides[:d.Rank])
	}
	return s
}

func dims(d []int64) string {
	return "[" + strings.Join(strings.Fields(strings.Trim(fmt.Sprint(d), "[]")), ",") + "]"
}
