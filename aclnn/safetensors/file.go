package safetensors

import (
	"io"

	"github.com/goascend/cann/internal/safetensors"
)

// File is an open safetensors file, or the shards of one model seen as one file. Its methods,
// except Close, may be called from several goroutines at once:
//
//	Names() []string                    // of the tensors, in alphabetical order
//	Tensor(name string) (Tensor, error) // without reading elements; an unknown name is ErrNotFound
//	Metadata() map[string]string        // the header's free-form text, of shards the index's
//	View(without []string, with ...Tensor) *File // the file with other tensors
//	BytesRead() int64                   // bytes of elements read so far
//	Close() error                       // closes the files Open opened
type File = safetensors.File

// Tensor is one tensor of an open File, or a part of one: an Info and its elements, which stay in
// the file until they are read. Any number of goroutines may read at once. Its methods read the
// elements, row-major and little-endian, or choose what is read:
//
//	Bytes() ([]byte, error)
//	ReadInto(dst []byte) error                     // dst has Size bytes
//	ReadAt(p []byte, off int64) (int, error)       // as io.ReaderAt
//	Reader() *io.SectionReader
//	Narrow(axis, start, length int) (Tensor, error) // a part along an axis; what is outside is ErrRange
//	Range(start, length int) (Tensor, error)        // elements in row-major order, in one dimension
//	As(to DType) (Tensor, error)                    // converted as they are read
//
// Reading a part of a tensor reads nothing else of the file, or little. As rounds floating-point
// types once, to nearest even (those of 8 bits can only be read); integers become integers, where
// one that does not fit is ErrValue, found when it is read; bool becomes the integers 0 and 1.
// Other conversions are ErrDType: quantised weights, above all, do not become floating-point
// numbers without their scales.
type Tensor = safetensors.Tensor

// Info describes one tensor: Name, DType and Shape, which is empty for a scalar. Len returns the
// number of elements, Size their bytes, String the form used in errors, such as
// bfloat16[4096,1024].
type Info = safetensors.Info

// Open opens a safetensors file, an index of shards (a path that ends in .json), or the
// folder of a Hugging Face model, whose index is preferred to its single file. It reads and
// checks the headers only. Errors are *Error; a missing file matches fs.ErrNotExist.
func Open(path string) (*File, error) { return safetensors.Open(path) }

// NewFile reads a safetensors file of size bytes from r, which must stay open while the
// tensors are read; Close does not close it.
func NewFile(r io.ReaderAt, size int64) (*File, error) { return safetensors.NewFile(r, size) }

// NewTensor is a tensor for File.View whose elements, row-major and little-endian, data computes as they are read.
func NewTensor(info Info, data io.ReaderAt) Tensor { return safetensors.NewTensor(info, data) }

// Values reads the elements as values of a Go type, which need not be the tensor's own: see
// Tensor for what As converts. An integer that T cannot hold is ErrValue.
//
//	weights, err := safetensors.Values[float32](t) // of any floating-point type
func Values[T Element](t Tensor) ([]T, error) { return safetensors.Values[T](t) }
