package safetensors

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Writer writes one safetensors file. The bytes go to a temporary file beside the target,
// which Commit renames, so that a reader, or a crash, sees the old file or the whole new one.
// Not safe for concurrent use.
type Writer struct {
	path    string
	file    *os.File // nil once committed or closed
	start   int64
	entries map[string]entry
	missing map[string]bool
}

// Create declares the tensors of a file and its metadata, which may be nil. Nothing appears
// at path before Commit. The bytes of the file depend on the tensors and metadata only, not on
// the order of the list or of the writes. Errors are *Error: ErrDuplicate, ErrDType, ErrShape,
// ErrHeader, ErrHeaderTooLarge, or the file system's.
func Create(path string, tensors []Info, metadata map[string]string) (*Writer, error) {
	entries, err := layout(tensors)
	if err != nil {
		return nil, withPath(err, path)
	}
	header, err := formatHeader(entries, metadata, maxHeader)
	if err != nil {
		return nil, withPath(err, path)
	}
	w := &Writer{path: path, start: int64(len(header)), entries: map[string]entry{}, missing: map[string]bool{}}
	size := w.start
	for _, e := range entries {
		w.entries[e.Name], w.missing[e.Name] = e, true
		size = w.start + e.end
	}
	// Unlike os.CreateTemp, this gives the file the permissions the umask asks for.
	temporary := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%016x.tmp", filepath.Base(path), rand.Uint64()))
	if w.file, err = os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666); err != nil {
		return nil, &Error{Path: path, Err: err}
	}
	_, err = w.file.Write(header)
	if err == nil {
		err = w.file.Truncate(size)
	}
	if err != nil {
		return nil, errors.Join(&Error{Path: path, Err: err}, w.Close())
	}
	return w, nil
}

// Write stores the elements of a declared tensor, row-major and little-endian, in any order
// of tensors and once each. An undeclared name is ErrNotFound, a second write ErrDuplicate, a
// wrong length ErrSize; after Commit or Close the error is os.ErrClosed.
func (w *Writer) Write(name string, data []byte) error {
	e, declared := w.entries[name]
	switch {
	case w.file == nil:
		return &Error{Path: w.path, Tensor: name, Err: os.ErrClosed}
	case !declared:
		return &Error{Path: w.path, Tensor: name, Err: ErrNotFound, Detail: "declare it in Create"}
	case !w.missing[name]:
		return &Error{Path: w.path, Tensor: name, Err: ErrDuplicate, Detail: "it is written already"}
	case int64(len(data)) != e.Size():
		return &Error{Path: w.path, Tensor: name, Err: ErrSize, Detail: fmt.Sprintf("%v%v takes %d bytes, got %d", e.DType, e.Shape, e.Size(), len(data))}
	}
	if _, err := w.file.WriteAt(data, w.start+e.begin); err != nil {
		return &Error{Path: w.path, Tensor: name, Err: err}
	}
	delete(w.missing, name)
	return nil
}

// Commit makes the file durable and puts it in place of whatever was at the path. It refuses,
// with ErrIncomplete, while a tensor that has elements is missing; the Writer stays usable
// then. After any other outcome only Close is left.
func (w *Writer) Commit() error {
	if w.file == nil {
		return &Error{Path: w.path, Err: os.ErrClosed}
	}
	var missing []string
	for name := range w.missing {
		if w.entries[name].Size() > 0 {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return &Error{Path: w.path, Err: ErrIncomplete, Detail: strings.Join(missing, ", ")}
	}
	if err := w.file.Sync(); err != nil {
		return errors.Join(&Error{Path: w.path, Err: err}, w.Close())
	}
	temporary := w.file.Name()
	err := w.file.Close()
	w.file = nil
	if err == nil {
		err = os.Rename(temporary, w.path)
	}
	if err != nil {
		return errors.Join(&Error{Path: w.path, Err: err}, os.Remove(temporary))
	}
	return syncFolder(filepath.Dir(w.path))
}

// syncFolder makes a rename durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return &Error{Path: path, Err: err}
	}
	defer folder.Close()
	if err := folder.Sync(); err != nil {
		return &Error{Path: path, Err: err}
	}
	return nil
}

// Close abandons a file that was not committed and removes its temporary file; after Commit
// it does nothing.
func (w *Writer) Close() error {
	if w.file == nil {
		return nil
	}
	temporary := w.file.Name()
	err := errors.Join(w.file.Close(), os.Remove(temporary))
	w.file = nil
	return err
}
