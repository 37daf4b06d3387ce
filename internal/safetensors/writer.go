package safetensors

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Writer writes one safetensors file, or the shards of one. The bytes go to temporary files
// beside the targets, which Commit renames, so that a reader, or a crash, finds the old files or
// the whole new ones. It is not safe for concurrent use.
type Writer struct {
	path   string // what errors name: the file, or the folder of shards
	parts  []*draft
	places map[string]*place // by tensor
	done   bool
}

// place is where the bytes of a tensor go, and how many have been written.
type place struct {
	entry
	in      *draft
	begun   bool
	written int64
}

// Create declares the tensors of a file and its metadata, which may be nil. Nothing appears
// at path before Commit. The bytes of the file depend on the tensors and metadata only, not on
// the order of the list or of the writes. Errors are *Error: ErrDuplicate, ErrDType, ErrShape,
// ErrHeader, ErrHeaderTooLarge, or the file system's.
func Create(path string, tensors []Info, metadata map[string]string) (*Writer, error) {
	w := &Writer{path: path, places: make(map[string]*place, len(tensors))}
	if err := w.add(path, tensors, metadata); err != nil {
		return nil, err
	}
	return w, nil
}

// add begins a file with some of the tensors.
func (w *Writer) add(path string, tensors []Info, metadata map[string]string) error {
	entries, err := layout(tensors)
	if err != nil {
		return withPlace(err, path, "")
	}
	header, err := formatHeader(entries, metadata, maxHeader)
	if err != nil {
		return withPlace(err, path, "")
	}
	size := int64(len(header))
	for _, e := range entries {
		size = int64(len(header)) + e.end
	}
	d, err := newDraft(path, header, size)
	if err != nil {
		return err
	}
	w.parts = append(w.parts, d)
	for _, e := range entries {
		w.places[e.Name] = &place{entry: e, in: d}
	}
	return nil
}

// Write stores the elements of a declared tensor, row-major and little-endian, in any order
// of tensors and once each. An undeclared name is ErrNotFound, a second write ErrDuplicate, a
// wrong length ErrSize; after Commit or Close the error is os.ErrClosed.
func (w *Writer) Write(name string, elements []byte) error {
	p, err := w.place(name)
	if err != nil {
		return err
	}
	if p.begun {
		return &Error{Path: p.in.path, Tensor: name, Err: ErrDuplicate, Detail: "it is written already"}
	}
	if err := p.fits(elements); err != nil {
		return withPlace(err, p.in.path, "")
	}
	return p.append(elements)
}

// Append stores the next bytes of a declared tensor's elements, for tensors that are not in
// memory as a whole. Bytes beyond the tensor's Size are ErrSize; the other errors are those of
// Write.
func (w *Writer) Append(name string, part []byte) error {
	p, err := w.place(name)
	if err != nil {
		return err
	}
	if int64(len(part)) > p.Size()-p.written {
		return &Error{Path: p.in.path, Tensor: name, Err: ErrSize, Detail: fmt.Sprintf("%v takes %d bytes, got %d after %d", p.Info, p.Size(), len(part), p.written)}
	}
	return p.append(part)
}

// To is a stream to a declared tensor's elements, by Append: for io.Copy from Tensor.Reader.
func (w *Writer) To(name string) io.Writer { return appender{w, name} }

type appender struct {
	w    *Writer
	name string
}

func (a appender) Write(part []byte) (int, error) {
	if err := a.w.Append(a.name, part); err != nil {
		return 0, err
	}
	return len(part), nil
}

// Info returns a tensor's declaration. An undeclared name is ErrNotFound.
func (w *Writer) Info(name string) (Info, error) {
	p, err := w.place(name)
	if err != nil {
		return Info{}, err
	}
	info := p.Info
	info.Shape = slices.Clone(info.Shape)
	return info, nil
}

func (w *Writer) place(name string) (*place, error) {
	if w.done {
		return nil, &Error{Path: w.path, Tensor: name, Err: os.ErrClosed}
	}
	p, declared := w.places[name]
	if !declared {
		return nil, &Error{Path: w.path, Tensor: name, Err: ErrNotFound, Detail: "it was not declared"}
	}
	return p, nil
}

// fits checks that elements are those of the whole tensor.
func (i Info) fits(elements []byte) error {
	if int64(len(elements)) != i.Size() {
		return &Error{Tensor: i.Name, Err: ErrSize, Detail: fmt.Sprintf("%v takes %d bytes, got %d", i, i.Size(), len(elements))}
	}
	return nil
}

func (p *place) append(part []byte) error {
	if _, err := p.in.file.WriteAt(part, p.in.start+p.begin+p.written); err != nil {
		return &Error{Path: p.in.path, Tensor: p.Name, Err: err}
	}
	p.begun = true
	p.written += int64(len(part))
	return nil
}

// Commit makes the files durable and puts them in place of whatever was at their paths; the
// index of shards comes last. It refuses, with ErrIncomplete, while elements of a tensor are
// missing; the Writer stays usable then. After any other outcome only Close is left.
func (w *Writer) Commit() error {
	if w.done {
		return &Error{Path: w.path, Err: os.ErrClosed}
	}
	var missing []string
	for name, p := range w.places {
		if p.written < p.Size() {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return &Error{Path: w.path, Err: ErrIncomplete, Detail: strings.Join(missing, ", ")}
	}
	w.done = true
	for _, d := range w.parts {
		if err := d.seal(); err != nil {
			return errors.Join(err, w.discard())
		}
	}
	for _, d := range w.parts {
		if err := d.publish(); err != nil {
			return errors.Join(err, w.discard())
		}
	}
	return syncFolder(filepath.Dir(w.parts[0].path))
}

// Close abandons files that were not committed and removes the temporary ones; after Commit
// it does nothing.
func (w *Writer) Close() error {
	if w.done {
		return nil
	}
	w.done = true
	return w.discard()
}

func (w *Writer) discard() error {
	var errs []error
	for _, d := range w.parts {
		errs = append(errs, d.discard())
	}
	return errors.Join(errs...)
}
