package safetensors

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/half"
)

// TestShardsRoundTrip writes a model in shards, part by part, and reads it as one file.
func TestShardsRoundTrip(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new", "model")
	var infos []Info
	for i := range 7 {
		infos = append(infos, Info{fmt.Sprint("layer.", i), dtype.BFloat16, []int{i, 50}})
	}
	metadata := map[string]string{"format": "pt"}
	w, err := CreateShards(folder, 1000, infos, metadata)
	require.NoError(t, err)
	defer w.Close()
	for i, info := range infos {
		raw := bytes.Repeat([]byte{byte(i)}, int(info.Size()))
		require.NoError(t, w.Append(info.Name, raw[:i*10]))
		require.NoError(t, w.Append(info.Name, raw[i*10:]))
	}
	_, err = Open(folder)
	require.ErrorIs(t, err, os.ErrNotExist, "nothing is there before Commit")
	require.NoError(t, w.Commit())
	// Sizes 0 100 200 300 400 | 500 | 600: the limit of 1000 is reached exactly and not passed.
	assertFiles(t, folder, "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors", indexName)

	f, err := Open(folder)
	require.NoError(t, err)
	defer f.Close()
	require.Len(t, f.Names(), len(infos))
	assert.Equal(t, map[string]string{"format": "pt", "total_size": "2100"}, f.Metadata())
	for i, info := range infos {
		tensor, err := f.Tensor(info.Name)
		require.NoError(t, err)
		require.Equal(t, info, tensor.Info)
		raw, err := tensor.Bytes()
		require.NoError(t, err)
		require.Equal(t, bytes.Repeat([]byte{byte(i)}, int(info.Size())), raw)
	}
	shard, err := Open(filepath.Join(folder, "model-00002-of-00003.safetensors"))
	require.NoError(t, err)
	defer shard.Close()
	assert.Equal(t, []string{"layer.5"}, shard.Names())
	assert.Equal(t, metadata, shard.Metadata())
}

func TestShardsOfLittle(t *testing.T) {
	for name, infos := range map[string][]Info{"no tensor": nil, "one": {{"a", dtype.Int8, []int{3}}}} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			w, err := CreateShards(folder, 1, infos, nil)
			require.NoError(t, err)
			for _, info := range infos {
				require.NoError(t, w.Write(info.Name, []byte{1, 2, 3}), "a tensor above the limit has a file of its own")
			}
			require.NoError(t, w.Commit())
			assertFiles(t, folder, "model-00001-of-00001.safetensors", indexName)
			f, err := Open(folder)
			require.NoError(t, err)
			require.Len(t, f.Names(), len(infos))
			require.NoError(t, f.Close())
		})
	}
}

func TestShardsRefused(t *testing.T) {
	folder := t.TempDir()
	a, b := Info{"a", dtype.Int8, []int{3}}, Info{"b", dtype.Int8, []int{3}}
	_, err := CreateShards(folder, 3, []Info{a, b, a}, nil)
	require.ErrorIs(t, err, ErrDuplicate, "although they would be in different files")
	require.ErrorContains(t, err, folder)
	_, err = CreateShards(folder, 3, []Info{a, b}, map[string]string{"k": "\xff"})
	require.ErrorIs(t, err, ErrHeader)
	assertFiles(t, folder)

	w, err := CreateShards(folder, 3, []Info{a, b}, nil)
	require.NoError(t, err)
	require.NoError(t, w.Write("b", []byte{1, 2, 3}))
	require.ErrorIs(t, w.Commit(), ErrIncomplete)
	require.NoError(t, w.Close())
	require.ErrorIs(t, w.Commit(), os.ErrClosed)
	assertFiles(t, folder)

	// A shard whose place is taken by a folder: the index must not appear.
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "model-00002-of-00002.safetensors", "x"), 0o777))
	w, err = CreateShards(folder, 3, []Info{a, b}, nil)
	require.NoError(t, err)
	require.NoError(t, w.Write("a", []byte{1, 2, 3}))
	require.NoError(t, w.Write("b", []byte{1, 2, 3}))
	require.Error(t, w.Commit())
	require.NoError(t, w.Close())
	assertFiles(t, folder, "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
}

// TestStreams copies a file tensor by tensor and converts it on the way.
func TestStreams(t *testing.T) {
	dir := t.TempDir()
	values := []float32{1, 2.5, -3, 1.001}
	require.NoError(t, WriteFile(dir+"/x", []Data{Of("w", values, 2, 2), Of("ids", []int64{7}, 1)}, nil))
	f, err := Open(dir + "/x")
	require.NoError(t, err)
	defer f.Close()
	weight, err := f.Tensor("w")
	require.NoError(t, err)
	weight, err = weight.As(dtype.Float16)
	require.NoError(t, err)
	w, err := Create(dir+"/y", []Info{weight.Info}, f.Metadata())
	require.NoError(t, err)
	defer w.Close()
	info, err := w.Info("w")
	require.NoError(t, err)
	require.Equal(t, Info{"w", dtype.Float16, []int{2, 2}}, info)
	_, err = w.Info("ids")
	require.ErrorIs(t, err, ErrNotFound)
	n, err := io.Copy(w.To("w"), weight.Reader())
	require.NoError(t, err)
	require.EqualValues(t, 8, n)
	_, err = w.To("w").Write([]byte{0})
	require.ErrorIs(t, err, ErrSize)
	require.ErrorContains(t, err, "takes 8 bytes, got 1 after 8")
	require.ErrorIs(t, w.Write("w", make([]byte, 8)), ErrDuplicate)
	require.ErrorIs(t, w.Append("v", nil), ErrNotFound)
	require.NoError(t, w.Commit())
	require.ErrorIs(t, w.Append("w", nil), os.ErrClosed)

	f, err = Open(dir + "/y")
	require.NoError(t, err)
	defer f.Close()
	weight, err = f.Tensor("w")
	require.NoError(t, err)
	got, err := Values[half.Float16](weight)
	require.NoError(t, err)
	for i, v := range values {
		require.Equal(t, half.Float16FromFloat32(v), got[i])
	}
}

// TestEncode: the stream, the slice and the file have the same bytes.
func TestEncode(t *testing.T) {
	data := []Data{
		Of("b", []bool{true, false}, 2), Of("f", []float64{1, 2}, 2, 1), Of("h", []half.BFloat16{0x3f80}), Of("i", []int{-1}, 1),
		Of("empty", []uint16{}, 0, 3), Of("c", []complex64{1i}, 1),
	}
	metadata := map[string]string{"k": "v"}
	path := filepath.Join(t.TempDir(), "x")
	require.NoError(t, WriteFile(path, data, metadata))
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	got, err := Marshal(data, metadata)
	require.NoError(t, err)
	require.Equal(t, want, got)

	f, err := NewFile(bytes.NewReader(got), int64(len(got)))
	require.NoError(t, err)
	for name, dt := range map[string]dtype.Type{"b": dtype.Bool, "f": dtype.Float64, "h": dtype.BFloat16, "i": dtype.Int64, "empty": dtype.Uint16, "c": dtype.Complex64} {
		tensor, err := f.Tensor(name)
		require.NoError(t, err)
		require.Equal(t, dt, tensor.DType, name)
	}
	i, err := f.Tensor("i")
	require.NoError(t, err)
	ints, err := Values[int32](i)
	require.NoError(t, err)
	require.Equal(t, []int32{-1}, ints)

	for name, bad := range map[string]struct {
		data []Data
		want error
	}{
		"shape":     {[]Data{Of("a", []int8{1, 2}, 3)}, ErrSize},
		"no shape":  {[]Data{Of("a", []int8{1, 2})}, ErrSize},
		"twice":     {[]Data{Of("a", []int8{1}, 1), Of("a", []int8{1}, 1)}, ErrDuplicate},
		"undefined": {[]Data{{Info{"a", -1, nil}, nil}}, ErrDType},
	} {
		_, err := Marshal(bad.data, nil)
		require.ErrorIs(t, err, bad.want, name)
		require.ErrorIs(t, WriteFile(path, bad.data, nil), bad.want, name)
	}
	now, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, now, "what was refused left the file alone")
	for limit := range len(got) {
		require.ErrorIs(t, Encode(&shortWriter{limit}, data, metadata), io.ErrShortWrite)
	}
}

// shortWriter takes so many bytes and then fails.
type shortWriter struct{ left int }

func (w *shortWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	w.left -= n
	if n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}
