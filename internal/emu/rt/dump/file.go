package dump

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/safetensors"
)

// Tensor is a tensor of a call that is dumped. First is the address of its first element.
type Tensor struct {
	Name    string
	Output  bool
	DType   dtype.Type
	Format  dtype.Format
	Shape   []int64
	Strides []int64 // in elements
	First   unsafe.Pointer
}

// Wanted reports whether Write must be called for operators.
func (r *Runtime) Wanted() bool { return r.dumps.wanted.Load() }

// Write writes the dump files that are configured for a call that has run or failed.
func (r *Runtime) Write(s *rt.Stream, operator string, tensors []Tensor, failed bool) error {
	d := &r.dumps
	d.mu.Lock()
	c, since, arguments, callback := d.config, d.since, d.arguments, d.callback
	d.mu.Unlock()
	if arguments != "" {
		if err := describe(arguments, operator, tensors); err != nil {
			return err
		}
	}
	kind := strings.TrimPrefix(operator, "aclnn")
	name := fmt.Sprintf("%s.%s.%d.%d.%d", kind, operator, s.Completed(), s.ID(), time.Now().UnixMicro())
	switch {
	case failed && c.exceptions():
		return write(filepath.Join(c.exceptionFolder(s.Device()), name), tensors, nil)
	case failed || !c.operators():
		return nil
	}
	chosen := slices.DeleteFunc(slices.Clone(tensors), func(t Tensor) bool {
		return c.Mode == "output" && !t.Output || c.Mode == "input" && t.Output
	})
	path := filepath.Join(c.Path, since.Format("20060102150405"), fmt.Sprint(s.Device()), name)
	if callback != 0 {
		return send(callback, path, chosen)
	}
	return write(path, chosen, nil)
}

// namesOf returns a name for each tensor that shows whether it is an input or an output. Tensors
// of a list share an argument name and get numbers.
func namesOf(tensors []Tensor) []string {
	names := make([]string, len(tensors))
	for i, t := range tensors {
		names[i] = "input." + t.Name
		if t.Output {
			names[i] = "output." + t.Name
		}
		if n := slices.Index(names[:i], names[i]); n >= 0 {
			names[i] += fmt.Sprint(".", i)
		}
	}
	return names
}

// elements returns the tensor's elements in row-major order, or raw bytes when the file format
// lacks the type.
func (t Tensor) elements() (data []byte, info safetensors.Info) {
	info.DType = t.DType
	n := 1
	for _, d := range t.Shape {
		info.Shape = append(info.Shape, int(d))
		n *= int(d)
	}
	bits := t.DType.Bits()
	packed := bits%8 != 0
	if !safetensors.Has(t.DType) {
		info.DType, info.Shape = dtype.Uint8, []int{(n*bits + 7) / 8}
	}
	if n == 0 || t.First == nil {
		return nil, info
	}
	if packed {
		return slices.Clone(unsafe.Slice((*byte)(t.First), (n*bits+7)/8)), info
	}
	size := int64(bits / 8)
	data = make([]byte, 0, int64(n)*size)
	index := make([]int64, len(t.Shape))
	for range n {
		at := int64(0)
		for i, x := range index {
			at += x * t.Strides[i]
		}
		data = append(data, unsafe.Slice((*byte)(unsafe.Add(t.First, at*size)), size)...)
		for i := len(index) - 1; i >= 0; i-- {
			if index[i]++; index[i] < t.Shape[i] {
				break
			}
			index[i] = 0
		}
	}
	return data, info
}

// dumped converts the tensors to the form of a safetensors file.
func dumped(tensors []Tensor) []safetensors.Data {
	names := namesOf(tensors)
	data := make([]safetensors.Data, len(tensors))
	for i, t := range tensors {
		data[i].Elements, data[i].Info = t.elements()
		data[i].Name = names[i]
	}
	return data
}

// write writes the tensors into a new file.
func write(path string, tensors []Tensor, metadata map[string]string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return safetensors.WriteFile(path, dumped(tensors), metadata)
}

// Layout of C's acldumpChunk: its size, and the offset of the data.
const chunkSize, chunkData = 4120, 4116

// send passes the content of the file to the callback of the program, in one chunk.
func send(callback uintptr, path string, tensors []Tensor) error {
	data, err := safetensors.Marshal(dumped(tensors), nil)
	if err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	chunk := rt.Malloc(chunkSize + len(data))
	defer rt.Free(chunk)
	b := unsafe.Slice((*byte)(chunk), chunkSize+len(data))
	copy(b[:abi.ACL_DUMP_MAX_FILE_PATH_LENGTH-1], path)
	at := uint64(uintptr(chunk))
	rt.Write(at+4096, uint32(len(data)))
	rt.Write(at+4100, uint32(1)) // last chunk
	rt.Write(at+4104, int64(-1)) // offset: append
	copy(b[chunkData:], data)
	if code := rt.CallWith(callback, uintptr(at), int32(len(b))); code != 0 {
		return fmt.Errorf("the callback of acldumpRegCallback returned %d", code)
	}
	return nil
}

// describe writes one file for each operator and set of shapes.
func describe(folder, operator string, tensors []Tensor) error {
	type tensor struct {
		Name   string  `json:"name"`
		DType  string  `json:"dataType"`
		Format string  `json:"format"`
		Shape  []int64 `json:"shape"`
	}
	document := struct {
		Operator string   `json:"opType"`
		Inputs   []tensor `json:"inputs"`
		Outputs  []tensor `json:"outputs"`
	}{Operator: strings.TrimPrefix(operator, "aclnn")}
	for _, t := range tensors {
		to := &document.Inputs
		if t.Output {
			to = &document.Outputs
		}
		*to = append(*to, tensor{t.Name, t.DType.String(), t.Format.String(), t.Shape})
	}
	text, err := json.MarshalIndent(document, "", "\t")
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s_%x.json", document.Operator, sha256.Sum256(text))
	return os.WriteFile(filepath.Join(folder, name), append(text, '\n'), 0o640)
}
