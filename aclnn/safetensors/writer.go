package safetensors

import (
	"io"

	"github.com/goascend/cann/internal/safetensors"
)

// Data is a tensor in memory, to be written: an Info, and Elements, which are row-major and
// little-endian.
type Data = safetensors.Data

// Of is a tensor with the values of a slice, which it shares, and their element type. Without a
// shape it is a scalar. That the shape fits the values is checked when it is written.
func Of[T Element](name string, values []T, shape ...int) Data {
	return safetensors.Of(name, values, shape...)
}

// WriteFile writes a whole file, which appears complete or not at all; metadata may be nil. See
// Create for tensors that do not fit into memory together.
func WriteFile(path string, tensors []Data, metadata map[string]string) error {
	return safetensors.WriteFile(path, tensors, metadata)
}

// Encode writes a whole file to a stream; metadata may be nil. It has the bytes that a Writer
// gives it, and the same errors; those of the stream are returned as they are.
func Encode(to io.Writer, tensors []Data, metadata map[string]string) error {
	return safetensors.Encode(to, tensors, metadata)
}

// Marshal is a whole file in memory; see Encode.
func Marshal(tensors []Data, metadata map[string]string) ([]byte, error) {
	return safetensors.Marshal(tensors, metadata)
}

// Writer writes one safetensors file, or the shards of one. The bytes go to temporary files
// beside the targets, which Commit renames, so that a reader, or a crash, finds the old files or
// the whole new ones. It is not safe for concurrent use. Its methods:
//
//	Write(name string, elements []byte) error // all elements of a declared tensor, in any order, once
//	Append(name string, part []byte) error    // the next bytes of a tensor's elements
//	To(name string) io.Writer                 // a stream to a tensor's elements, by Append
//	Info(name string) (Info, error)           // a tensor's declaration
//	Commit() error                            // puts the files in place, the index of shards last
//	Close() error                             // abandons what was not committed
//
// An undeclared name is ErrNotFound, a second Write ErrDuplicate, a wrong length ErrSize; after
// Commit or Close the error is os.ErrClosed. Commit refuses, with ErrIncomplete, while elements
// are missing, and the Writer stays usable then; after any other outcome only Close is left.
type Writer = safetensors.Writer

// Create declares the tensors of a file and its metadata, which may be nil. Nothing appears at
// path before Commit. The bytes of the file depend on the tensors and metadata only, not on the
// order of the list or of the writes. Errors are *Error: ErrDuplicate, ErrDType, ErrShape,
// ErrHeader, ErrHeaderTooLarge, or the file system's.
func Create(path string, tensors []Info, metadata map[string]string) (*Writer, error) {
	return safetensors.Create(path, tensors, metadata)
}

// CreateShards declares the tensors of a model that is written to several files of a folder,
// with an index, named as Hugging Face names them: model-00001-of-00003.safetensors, …,
// model.safetensors.index.json. The folder is made when it is not there. Tensors fill the files
// in the order of the list; a file has at most limit bytes of elements, or one tensor. The
// metadata, which may be nil, goes into the index and into each file; the index also has
// total_size, the bytes of all elements.
//
// Commit puts the files in place one by one, the index last: in a folder without a model
// readers see nothing or all. Files of an earlier model that has more of them stay, unused.
// The errors are those of Create.
func CreateShards(folder string, limit int64, tensors []Info, metadata map[string]string) (*Writer, error) {
	return safetensors.CreateShards(folder, limit, tensors, metadata)
}
