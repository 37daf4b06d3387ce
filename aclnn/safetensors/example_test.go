package safetensors_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/goascend/cann/aclnn/safetensors"
)

// A file is written from slices, and read as a whole and in part.
func Example() {
	folder, err := os.MkdirTemp("", "example")
	check(err)
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "model.safetensors")
	check(safetensors.WriteFile(path, []safetensors.Data{
		safetensors.Of("embed", []float32{1, 2, 3, 4, 5, 6}, 3, 2),
		safetensors.Of("step", []int64{1000}),
	}, map[string]string{"format": "pt"}))

	f, err := safetensors.Open(path)
	check(err)
	defer f.Close()
	fmt.Println(f.Names(), f.Metadata())
	embed, err := f.Tensor("embed")
	check(err)
	fmt.Println(embed.Info)
	rows, err := embed.Narrow(0, 1, 2)
	check(err)
	column, err := embed.Narrow(1, 0, 1)
	check(err)
	for _, part := range []safetensors.Tensor{embed, rows, column} {
		values, err := safetensors.Values[float64](part)
		fmt.Println(part.Shape, values, err)
	}
	// Output:
	// [embed step] map[format:pt]
	// float32[3,2]
	// [3 2] [1 2 3 4 5 6] <nil>
	// [2 2] [3 4 5 6] <nil>
	// [3 1] [1 3 5] <nil>
}

// A model is converted to 16 bits, in files of a limited size; no tensor is in memory as a
// whole.
func ExampleCreateShards() {
	folder, err := os.MkdirTemp("", "example")
	check(err)
	defer os.RemoveAll(folder)
	check(safetensors.WriteFile(filepath.Join(folder, "model.safetensors"), []safetensors.Data{
		safetensors.Of("a", make([]float32, 300), 300),
		safetensors.Of("b", make([]float32, 300), 300),
	}, nil))
	f, err := safetensors.Open(folder)
	check(err)
	defer f.Close()

	var tensors []safetensors.Tensor
	var infos []safetensors.Info
	for _, name := range f.Names() {
		t, err := f.Tensor(name)
		check(err)
		t, err = t.As(safetensors.BFloat16)
		check(err)
		tensors, infos = append(tensors, t), append(infos, t.Info)
	}
	w, err := safetensors.CreateShards(filepath.Join(folder, "bf16"), 1000, infos, f.Metadata())
	check(err)
	defer w.Close()
	for _, t := range tensors {
		_, err := io.Copy(w.To(t.Name), t.Reader())
		check(err)
	}
	check(w.Commit())
	files, err := os.ReadDir(filepath.Join(folder, "bf16"))
	check(err)
	for _, file := range files {
		fmt.Println(file.Name())
	}
	// Output:
	// model-00001-of-00002.safetensors
	// model-00002-of-00002.safetensors
	// model.safetensors.index.json
}

// Encode writes to any stream; what is read back need not be a file either.
func ExampleEncode() {
	var b bytes.Buffer
	check(safetensors.Encode(&b, []safetensors.Data{safetensors.Of("mask", []bool{true, false}, 2)}, nil))
	f, err := safetensors.NewFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	check(err)
	mask, err := f.Tensor("mask")
	check(err)
	values, err := safetensors.Values[bool](mask)
	fmt.Println(values, err)
	// Output: [true false] <nil>
}

// Errors are of one type and name file, tensor and cause.
func ExampleError() {
	file := []byte("\x3f\x00\x00\x00\x00\x00\x00\x00" + `{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,9]}}         `)
	_, err := safetensors.NewFile(bytes.NewReader(file), int64(len(file)))
	var e *safetensors.Error
	fmt.Println(errors.As(err, &e), errors.Is(err, safetensors.ErrSize))
	fmt.Println(err)
	// Output:
	// true true
	// safetensors: tensor "w": the bytes do not match dtype and shape: float32[2] takes 8 bytes, the offsets [0, 9] span 9
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
