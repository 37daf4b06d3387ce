package golden

import (
	"errors"
	"strings"
	"testing"

	"github.com/goascend/cann/internal/safetensors"
)

// Tensors reads the tensors of a golden file whose names begin with a prefix. It is bound to a
// test, which fails when a tensor is missing or has another type.
type Tensors struct {
	t      testing.TB
	file   *safetensors.File
	prefix string // empty, or ending in a slash
}

// openTensors opens a file until the test ends.
func openTensors(t testing.TB, path string) Tensors {
	t.Helper()
	file, err := safetensors.Open(path)
	if err != nil {
		t.Fatalf("golden: %v", err)
	}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Errorf("golden: %v", err)
		}
	})
	return Tensors{t: t, file: file}
}

// In is the same tensors bound to a subtest.
func (s Tensors) In(t testing.TB) Tensors {
	s.t = t
	return s
}

// Sub is the tensors whose names begin with group and a slash; their names are what follows.
func (s Tensors) Sub(group string) Tensors {
	s.prefix += group + "/"
	return s
}

// Names lists the tensors in alphabetical order.
func (s Tensors) Names() []string {
	var names []string
	for _, name := range s.file.Names() {
		if rest, ok := strings.CutPrefix(name, s.prefix); ok {
			names = append(names, rest)
		}
	}
	return names
}

// HasTensor reports whether a tensor is there: some cases have tensors that others lack.
func (s Tensors) HasTensor(name string) bool {
	s.t.Helper()
	_, err := s.file.Tensor(s.prefix + name)
	if err != nil && !errors.Is(err, safetensors.ErrNotFound) {
		s.t.Fatalf("golden: %v", err)
	}
	return err == nil
}

// Tensor finds a tensor of any type without reading its elements.
func (s Tensors) Tensor(name string) safetensors.Tensor {
	s.t.Helper()
	tensor, err := s.file.Tensor(s.prefix + name)
	return need(s.t, tensor, err)
}

// Shape is the shape of a tensor.
func (s Tensors) Shape(name string) []int {
	s.t.Helper()
	return s.Tensor(name).Shape
}

// Bytes reads a tensor as it is stored, row-major and little-endian: the bytes to upload.
func (s Tensors) Bytes(name string) []byte {
	s.t.Helper()
	raw, err := s.Tensor(name).Bytes()
	return need(s.t, raw, err)
}

// Float32 reads a tensor of any floating-point type as float32.
func (s Tensors) Float32(name string) []float32 {
	s.t.Helper()
	list, err := safetensors.Values[float32](s.Tensor(name))
	return need(s.t, list, err)
}

// Int64 reads a tensor of any integer type, or of bool as 0 and 1.
func (s Tensors) Int64(name string) []int64 {
	s.t.Helper()
	list, err := safetensors.Values[int64](s.Tensor(name))
	return need(s.t, list, err)
}

func need[T any](t testing.TB, value T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatalf("golden: %v", err)
	}
	return value
}
