package safetensors

import (
	"bytes"
	"io"

	"github.com/goascend/cann/internal/element"
)

// Data is a tensor in memory, to be written.
type Data struct {
	Info
	Elements []byte // row-major, little-endian
}

// Of is a tensor with the values of a slice, which it shares, and their element type. Without a
// shape it is a scalar. That the shape fits the values is checked when it is written.
func Of[T Element](name string, values []T, shape ...int) Data {
	return Data{Info{Name: name, DType: element.Of[T](), Shape: shape}, element.Bytes(values)}
}

// Encode writes a whole file to a stream; metadata may be nil. It has the bytes that a Writer
// gives it, and the same errors; those of the stream are returned as they are.
func Encode(to io.Writer, tensors []Data, metadata map[string]string) error {
	infos := make([]Info, len(tensors))
	elements := make(map[string][]byte, len(tensors))
	for i, t := range tensors {
		infos[i], elements[t.Name] = t.Info, t.Elements
	}
	entries, err := layout(infos)
	if err != nil {
		return err
	}
	header, err := formatHeader(entries, metadata, maxHeader)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := e.fits(elements[e.Name]); err != nil {
			return err
		}
	}
	if _, err := to.Write(header); err != nil {
		return err
	}
	for _, e := range entries {
		if _, err := to.Write(elements[e.Name]); err != nil {
			return err
		}
	}
	return nil
}

// Marshal is a whole file in memory; see Encode.
func Marshal(tensors []Data, metadata map[string]string) ([]byte, error) {
	var b bytes.Buffer
	err := Encode(&b, tensors, metadata)
	return b.Bytes(), err
}

// WriteFile writes a whole file, which appears complete or not at all; metadata may be nil. See
// Create for tensors that do not fit into memory together.
func WriteFile(path string, tensors []Data, metadata map[string]string) error {
	infos := make([]Info, len(tensors))
	for i, t := range tensors {
		infos[i] = t.Info
	}
	w, err := Create(path, infos, metadata)
	if err != nil {
		return err
	}
	defer w.Close()
	for _, t := range tensors {
		if err := w.Write(t.Name, t.Elements); err != nil {
			return err
		}
	}
	return w.Commit()
}
