package safetensors

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// seen is all that a program sees of a file: tensors with their bytes, and metadata.
func seen(t *testing.T, f *File, err error) string {
	if err != nil {
		return err.Error()
	}
	defer func() { require.NoError(t, f.Close()) }()
	all := fmt.Sprint(f.Metadata())
	for _, name := range f.Names() {
		tensor, err := f.Tensor(name)
		require.NoError(t, err)
		raw, err := tensor.Bytes()
		require.NoError(t, err)
		all += fmt.Sprint(" ", name, tensor.DType, tensor.Shape, raw)
	}
	return all
}

// TestEveryKey changes each key of a header and of an index to another legal value: what a program sees changes. Keys that nobody knows are
// refused by name.
func TestEveryKey(t *testing.T) {
	const header = `{"__metadata__":{"format":"pt"},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[2,2],"data_offsets":[4,8]}}`
	read := func(header string) string {
		f, err := open(pack(header, 8))
		return seen(t, f, err)
	}
	want := read(header)
	for name, change := range map[string]string{
		"dtype":         strings.Replace(header, `"U8","shape":[4]`, `"I8","shape":[4]`, 1),
		"shape":         strings.Replace(header, "[2,2]", "[1,4]", 1),
		"data_offsets":  strings.NewReplacer("[0,4]", "[4,8]", "[4,8]", "[0,4]").Replace(header),
		"a name":        strings.Replace(header, `"b"`, `"c"`, 1),
		"__metadata__":  strings.Replace(header, `{"format":"pt"}`, `{}`, 1),
		"of metadata":   strings.Replace(header, `"pt"`, `"tf"`, 1),
		"nobody knows":  strings.Replace(header, `"shape":[4]`, `"shape":[4],"order":"F"`, 1),
		"another order": strings.Replace(header, `"format":"pt"`, `"format":"pt","nobody":"knows"`, 1),
	} {
		require.NotEqual(t, want, read(change), name)
	}
	require.Contains(t, read(strings.Replace(header, `"shape":[4]`, `"shape":[4],"order":"F"`, 1)), `unknown field "order"`)

	dir := t.TempDir()
	for i, file := range []string{"one.safetensors", "two.safetensors"} {
		one := pack(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1)
		one[len(one)-1] = byte(i)
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), one, 0o600))
	}
	const index = `{"metadata":{"total_size":1},"weight_map":{"a":"one.safetensors"}}`
	shards := func(text string) string {
		require.NoError(t, os.WriteFile(filepath.Join(dir, indexName), bytes.TrimSpace([]byte(text)), 0o600))
		f, err := Open(dir)
		return seen(t, f, err)
	}
	want = shards(index)
	for _, change := range []string{strings.Replace(index, "one", "two", 1), strings.Replace(index, `:1}`, `:2}`, 1), strings.Replace(index, `"a":`, `"b":`, 1)} {
		require.NotEqual(t, want, shards(change), change)
	}
	require.Contains(t, shards(strings.Replace(index, `{"metadata"`, `{"order":{},"metadata"`, 1)), `unknown field "order"`)
}
