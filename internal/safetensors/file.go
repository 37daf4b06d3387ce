package safetensors

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
)

// What Hugging Face calls the files of a model.
const (
	singleName = "model.safetensors"
	indexName  = "model.safetensors.index.json"
)

// File is an open safetensors file, or the shards of one model seen as one file. Its methods,
// Close aside, may be called from several goroutines at once.
type File struct {
	path     string
	names    []string
	tensors  map[string]Tensor
	metadata map[string]string
	closers  []io.Closer
	read     *atomic.Int64
}

// Open opens a safetensors file, an index of shards (a path that ends in .json), or the
// folder of a Hugging Face model, whose index is preferred to its single file. It reads and
// checks the headers only. Errors are *Error; a missing file matches fs.ErrNotExist.
func Open(path string) (*File, error) {
	if st, err := os.Stat(path); err != nil {
		return nil, &Error{Path: path, Err: err}
	} else if st.IsDir() {
		index := filepath.Join(path, indexName)
		if _, err := os.Stat(index); err == nil {
			return openIndex(index)
		}
		path = filepath.Join(path, singleName)
	}
	if strings.HasSuffix(path, ".json") {
		return openIndex(path)
	}
	return openSingle(path)
}

// regular opens a regular file, or a link to one: to open a pipe would wait for who writes into it.
func regular(path string) (*os.File, error) {
	st, err := os.Stat(path)
	if err == nil && !st.Mode().IsRegular() {
		return nil, &Error{Path: path, Err: ErrHeader, Detail: fmt.Sprintf("it is no regular file: %v", st.Mode())}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, &Error{Path: path, Err: err}
	}
	return f, nil
}

func openSingle(path string) (*File, error) {
	opened, err := regular(path)
	if err != nil {
		return nil, err
	}
	st, err := opened.Stat()
	if err != nil {
		return nil, errors.Join(&Error{Path: path, Err: err}, opened.Close())
	}
	f, err := newFile(path, opened, st.Size())
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	f.closers = []io.Closer{opened}
	return f, nil
}

// NewFile reads a safetensors file of size bytes from r, which must stay open while the
// tensors are read; Close does not close it.
func NewFile(r io.ReaderAt, size int64) (*File, error) { return newFile("", r, size) }

func newFile(path string, r io.ReaderAt, size int64) (*File, error) {
	entries, metadata, start, err := readHeader(r, size)
	if err != nil {
		return nil, withPlace(err, path, "")
	}
	f := &File{path: path, tensors: make(map[string]Tensor, len(entries)), metadata: metadata, read: new(atomic.Int64)}
	for _, e := range entries {
		f.tensors[e.Name] = Tensor{Info: e.Info, path: path, data: &span{r: r, at: start + e.begin, size: e.Size(), path: path, tensor: e.Name, read: f.read}}
	}
	f.names = slices.Sorted(maps.Keys(f.tensors))
	return f, nil
}

// View is the file with other tensors: those named without are left out, and those of with are in it, also in the
// place of others of their names. Closing it closes the file.
func (f *File) View(without []string, with ...Tensor) *File {
	v := &File{path: f.path, tensors: maps.Clone(f.tensors), metadata: f.metadata, closers: []io.Closer{f}}
	for _, name := range without {
		delete(v.tensors, name)
	}
	for _, t := range with {
		v.tensors[t.Name] = t
	}
	v.names = slices.Sorted(maps.Keys(v.tensors))
	return v
}

// Names lists the tensors in alphabetical order.
func (f *File) Names() []string { return slices.Clone(f.names) }

// Metadata is the header's free-form text; of shards it is the index's. Nil when there is none.
func (f *File) Metadata() map[string]string { return maps.Clone(f.metadata) }

// Tensor finds a tensor without reading its elements. An unknown name is ErrNotFound.
func (f *File) Tensor(name string) (Tensor, error) {
	t, ok := f.tensors[name]
	if !ok {
		return Tensor{}, &Error{Path: f.path, Tensor: name, Err: ErrNotFound}
	}
	t.Shape = slices.Clone(t.Shape)
	return t, nil
}

// BytesRead is how many bytes of elements were read so far, with those between the parts of tensors
// that are cheaper to read along. The headers do not count.
func (f *File) BytesRead() int64 {
	n := int64(0)
	for _, c := range f.closers {
		if shard, ok := c.(*File); ok {
			n += shard.BytesRead()
		}
	}
	if f.read != nil {
		n += f.read.Load()
	}
	return n
}

// Close closes the files Open opened. Tensors cannot be read afterwards. A second Close does
// nothing.
func (f *File) Close() error {
	var errs []error
	for _, c := range f.closers {
		errs = append(errs, c.Close())
	}
	f.closers = nil
	return errors.Join(errs...)
}

// withPlace completes an *Error that was made where file and tensor are not known.
func withPlace(err error, path, tensor string) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.Path, e.Tensor = cmp.Or(e.Path, path), cmp.Or(e.Tensor, tensor)
	}
	return err
}
