package aclnn

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/bridge"
	"github.com/goascend/cann/internal/dtype"
)

// MaxRank is the largest number of dimensions of a tensor.
const MaxRank = cshim.MaxRank

// Tensor describes device memory as a strided view: shape, strides, offset, dtype, format.
// It becomes an aclTensor during a launch only. Views share the memory and own nothing; a
// tensor made by New, or by a function that says so, owns its memory, and Close frees it.
//
// A view that is impossible (an axis out of range, a reshape that would copy) carries its
// error, which Err and every launch with it return: views can be chained without checks.
type Tensor struct {
	desc  cshim.TensorDesc
	mem   memory
	owned bool
	err   error
}

// memory is the memory behind a tensor: a buffer, which it keeps from being collected, and where
// package acl notes the stream that used it last.
type memory struct {
	buf  *acl.Buffer
	last *bridge.LastUser
}

func memoryOf(buf *acl.Buffer) memory {
	m := memory{buf: buf}
	if known := bridge.MemoryOf(buf); known != nil {
		m.last = known.LastUser()
	}
	return m
}

// New allocates a contiguous ND tensor on the stream's device, from the caching allocator
// in stream order. Its contents are undefined.
func New(st *acl.Stream, dt DType, shape ...int64) (*Tensor, error) {
	d, n, err := describe(dt, shape)
	if err != nil {
		return nil, err
	}
	if err := usable(st); err != nil {
		return nil, err
	}
	buf, err := st.Malloc(max(dt.Bytes(int(n)), 1))
	if err != nil {
		return nil, fmt.Errorf("aclnn: allocating %v%s: %w", dt, dims(shape), err)
	}
	t := &Tensor{desc: d, mem: memoryOf(buf), owned: true}
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
	m := memoryOf(buf)
	if m.last == nil {
		return nil, refuse(acl.ErrInvalidArgument, "%v%s on a buffer that is nil or was not made by package acl", dt, dims(shape))
	}
	if need := dt.Bytes(int(n)); need > buf.Size() {
		return nil, refuse(acl.ErrInvalidArgument, "%v%s needs %d bytes, the buffer has %d", dt, dims(shape), need, buf.Size())
	}
	d.Address = buf.Address()
	return &Tensor{desc: d, mem: m}, nil
}

// describe is the descriptor of a contiguous ND tensor and its number of elements.
func describe(dt DType, shape []int64) (d cshim.TensorDesc, n int64, err error) {
	if dt.Bits() == 0 {
		return d, 0, refuse(acl.ErrInvalidArgument, "a tensor cannot have dtype %v", dt)
	}
	if len(shape) > MaxRank {
		return d, 0, refuse(acl.ErrInvalidArgument, "shape %s has %d dimensions, at most %d are possible", dims(shape), len(shape), MaxRank)
	}
	d = cshim.TensorDesc{DType: int16(dt), Format: int16(dtype.ND), Rank: uint8(len(shape)), StorageRank: 1}
	if slices.ContainsFunc(shape, func(d int64) bool { return d < 0 }) {
		return d, 0, refuse(acl.ErrInvalidArgument, "shape %s has a negative dimension", dims(shape))
	}
	n, ok := elements(shape)
	if !ok {
		return d, 0, refuse(acl.ErrInvalidArgument, "shape %s has more than 2^48 elements", dims(shape))
	}
	stride := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		d.Dims[i], d.Strides[i] = shape[i], stride
		stride *= shape[i]
	}
	d.Storage[0] = n
	return d, n, nil
}

// elements is the number of elements of a shape. It is not ok with a negative dimension, or
// when the dimensions from any one to the last have more than 2^48 elements together: strides
// and addresses stay far from overflow.
func elements(shape []int64) (n int64, ok bool) {
	n = 1
	for i := len(shape) - 1; i >= 0; i-- {
		if d := shape[i]; d < 0 || n > 0 && d > 1<<48/n {
			return 0, false
		} else {
			n *= d
		}
	}
	return n, true
}

// Close frees the memory of a tensor that New made, in stream order: work queued on its
// stream still sees it. Closing a view or closing twice does nothing.
func (t *Tensor) Close() error {
	if t == nil || !t.owned {
		return nil
	}
	t.owned = false
	return t.mem.buf.Close()
}

// Err is why the view is impossible, or why the tensor cannot be used: it is nil, or has no
// memory.
func (t *Tensor) Err() error {
	switch {
	case t == nil:
		return refuse(acl.ErrInvalidArgument, "the tensor is nil")
	case t.err == nil && t.mem.last == nil:
		return refuse(acl.ErrInvalidArgument, "%v has no memory; New, Wrap and FromSlice make tensors that have", t)
	}
	return t.err
}

// layout is the descriptor; that of a nil tensor is of a scalar without a dtype.
func (t *Tensor) layout() *cshim.TensorDesc {
	if t == nil {
		return &noTensor
	}
	return &t.desc
}

var noTensor = cshim.TensorDesc{DType: int16(dtype.Undefined), Format: int16(dtype.ND)}

// DType is the element type.
func (t *Tensor) DType() DType { return DType(t.layout().DType) }

// Format is the storage format.
func (t *Tensor) Format() Format { return Format(t.layout().Format) }

// Rank is the number of dimensions.
func (t *Tensor) Rank() int { return int(t.layout().Rank) }

// Shape is a copy of the dimensions.
func (t *Tensor) Shape() []int64 {
	d := t.layout()
	return append([]int64(nil), d.Dims[:d.Rank]...)
}

// Strides is a copy of the strides, in elements.
func (t *Tensor) Strides() []int64 {
	d := t.layout()
	return append([]int64(nil), d.Strides[:d.Rank]...)
}

// StorageShape is a copy of the storage dimensions: one for ND, the tiled ones for NZ.
func (t *Tensor) StorageShape() []int64 {
	d := t.layout()
	return append([]int64(nil), d.Storage[:d.StorageRank]...)
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

// Stride is the stride of dimension i in elements, negative i counting from the end; 0 when
// there is none.
func (t *Tensor) Stride(i int) int64 {
	if i < 0 {
		i += t.Rank()
	}
	if i < 0 || i >= t.Rank() {
		return 0
	}
	return t.desc.Strides[i]
}

// Len is the number of elements of the view.
func (t *Tensor) Len() int64 {
	n, d := int64(1), t.layout()
	for _, size := range d.Dims[:d.Rank] {
		n *= size
	}
	return n
}

// Bytes is the size of the elements of the view, gaps not counted.
func (t *Tensor) Bytes() int { return t.DType().Bytes(int(t.Len())) }

// Offset is the position of the first element in the storage, in elements.
func (t *Tensor) Offset() int64 { return t.layout().Offset }

// Buffer is the memory the tensor views.
func (t *Tensor) Buffer() *acl.Buffer {
	if t == nil {
		return nil
	}
	return t.mem.buf
}

// Address is the device address of the first element.
func (t *Tensor) Address() uint64 {
	d := t.layout()
	return d.Address + uint64(t.DType().Bytes(int(d.Offset)))
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
// not contiguous. Sprint shows the values too.
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
