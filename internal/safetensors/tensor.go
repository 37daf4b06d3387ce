package safetensors

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/goascend/cann/internal/element"
)

// Tensor is one tensor of an open File, or a part of one. Its elements stay in the file until
// they are read; any number of goroutines may read at once.
type Tensor struct {
	Info
	path string
	data io.ReaderAt // Size bytes, row-major
}

// NewTensor is a tensor whose elements, row-major and little-endian, data returns: one that is computed as it is read.
func NewTensor(info Info, data io.ReaderAt) Tensor { return Tensor{Info: info, data: data} }

// ReadAt reads bytes of the elements from an offset on, as io.ReaderAt does: the elements are
// row-major and little-endian.
func (t Tensor) ReadAt(p []byte, off int64) (int, error) {
	if t.data == nil {
		return 0, t.fail(ErrNotFound, "the tensor is of no file")
	}
	if off < 0 {
		return 0, t.fail(ErrRange, "byte %d of %v", off, t.Info)
	}
	return t.data.ReadAt(p, off)
}

// Reader reads the bytes of the elements from the first to the last.
func (t Tensor) Reader() *io.SectionReader { return io.NewSectionReader(t, 0, t.Size()) }

// ReadInto fills dst, which must be Size bytes long, with the elements: row-major,
// little-endian.
func (t Tensor) ReadInto(dst []byte) error {
	if int64(len(dst)) != t.Size() {
		return t.fail(ErrSize, "%v takes %d bytes, the buffer has %d", t.Info, t.Size(), len(dst))
	}
	if n, err := t.ReadAt(dst, 0); n < len(dst) {
		return err
	}
	return nil
}

// Bytes reads the elements: row-major, little-endian.
func (t Tensor) Bytes() ([]byte, error) {
	raw := make([]byte, t.Size())
	return raw, t.ReadInto(raw)
}

// Values reads the elements as values of a Go type, which need not be the tensor's own: see
// Tensor.As for what is converted. An integer that T cannot hold is ErrValue.
//
//	weights, err := safetensors.Values[float32](t) // of any floating-point type
func Values[T Element](t Tensor) ([]T, error) {
	t, err := t.As(element.Of[T]())
	if err != nil {
		return nil, err
	}
	list := make([]T, t.Len())
	if err := t.ReadInto(element.Bytes(list)); err != nil {
		return nil, err
	}
	return list, nil
}

func (t Tensor) fail(cause error, format string, args ...any) error {
	return &Error{Path: t.path, Tensor: t.Name, Err: cause, Detail: fmt.Sprintf(format, args...)}
}

// span is the place of a tensor's bytes in a file.
type span struct {
	r        io.ReaderAt
	at, size int64
	path     string
	tensor   string
	read     *atomic.Int64 // bytes, of the file
}

// ReadAt reads from the span. A file that has become shorter is ErrTruncated.
func (s *span) ReadAt(p []byte, off int64) (int, error) {
	want := p[:max(0, min(int64(len(p)), s.size-off))]
	if len(want) > 0 {
		if err := readAt(s.r, want, s.at+off); err != nil {
			return 0, withPlace(err, s.path, s.tensor)
		}
		s.read.Add(int64(len(want)))
	}
	if len(want) < len(p) {
		return len(want), io.EOF
	}
	return len(p), nil
}
