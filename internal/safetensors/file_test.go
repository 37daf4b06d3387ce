package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
)

// pack builds a file by hand: what a foreign, possibly hostile, program may have written.
func pack(header string, dataBytes int) []byte {
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	file = append(file, header...)
	for i := range dataBytes {
		file = append(file, byte(i))
	}
	return file
}

func open(file []byte) (*File, error) { return NewFile(bytes.NewReader(file), int64(len(file))) }

func TestRefused(t *testing.T) {
	cases := []struct {
		name string
		file []byte
		want error
		text string
	}{
		{"empty file", nil, ErrTruncated, "0 bytes"},
		{"short length word", []byte{1, 2, 3}, ErrTruncated, "3 bytes"},
		{"header beyond the file", pack(`{}`, 0)[:9], ErrTruncated, "a header of 2 bytes in a file of 9"},
		{"header over the limit", binary.LittleEndian.AppendUint64(nil, maxHeader+1), ErrHeaderTooLarge, "100000001"},
		{"header length with the top bit", binary.LittleEndian.AppendUint64(nil, 1<<63), ErrHeaderTooLarge, ""},
		{"empty header", pack(``, 0), ErrHeader, "start with {"},
		{"leading space", pack(` {}`, 0), ErrHeader, "start with {"},
		{"array", pack(`[]`, 0), ErrHeader, "start with {"},
		{"unclosed", pack(`{`, 0), ErrHeader, ""},
		{"text after", pack(`{} x`, 0), ErrHeader, "after top-level value"},
		{"second value", pack(`{}{}`, 0), ErrHeader, "after top-level value"},
		{"not UTF-8", pack("{\"\xff\":1}", 0), ErrHeader, "UTF-8"},
		{"record is a number", pack(`{"a":1}`, 0), ErrHeader, "{ is due"},
		{"record is null", pack(`{"a":null}`, 0), ErrHeader, "{ is due"},
		{"unknown field", pack(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4],"x":1}}`, 4), ErrHeader, `unknown field "x"`},
		{"field in the wrong case", pack(`{"a":{"DType":"F32","shape":[],"data_offsets":[0,4]}}`, 4), ErrHeader, `unknown field "DType"`},
		{"no dtype", pack(`{"a":{"shape":[],"data_offsets":[0,4]}}`, 4), ErrHeader, "needs dtype"},
		{"no shape", pack(`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, 4), ErrHeader, "needs dtype"},
		{"no offsets", pack(`{"a":{"dtype":"F32","shape":[]}}`, 4), ErrHeader, "needs dtype"},
		{"three offsets", pack(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4,8]}}`, 4), ErrHeader, "needs dtype"},
		{"null in the shape", pack(`{"a":{"dtype":"F32","shape":[null],"data_offsets":[0,0]}}`, 0), ErrHeader, "number is due"},
		{"negative dimension", pack(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}}`, 0), ErrHeader, "-1 is not a count"},
		{"fractional dimension", pack(`{"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}}`, 4), ErrHeader, "1.0 is not a count"},
		{"dimension beyond int", pack(`{"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]}}`, 4), ErrHeader, "not a count"},
		{"unknown dtype", pack(`{"a":{"dtype":"F31","shape":[],"data_offsets":[0,4]}}`, 4), ErrDType, "F31"},
		{"packed dtype", pack(`{"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}`, 1), ErrDType, "F4"},
		{"size overflow", pack(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0), ErrShape, "2^63"},
		{"span too small", pack(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4), ErrSize, "takes 8 bytes, the offsets [0, 4] span 4"},
		{"span too large", pack(`{"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,8]}}`, 8), ErrSize, "bfloat16[2] takes 4"},
		{"backwards", pack(`{"a":{"dtype":"F32","shape":[],"data_offsets":[4,0]}}`, 4), ErrOffsets, "backwards"},
		{"past the end", pack(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 7), ErrTruncated, "ends at 8 of 7"},
		{"overlap", pack(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}`, 6), ErrOffsets, `"b"`},
		{"same bytes twice", pack(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}`, 4), ErrOffsets, "starts at 0"},
		{"hole in front", pack(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), ErrOffsets, "starts at 1"},
		{"bytes behind", pack(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 2), ErrOffsets, "end at 1 of 2"},
		{"data without tensors", pack(`{}`, 1), ErrOffsets, "end at 0 of 1"},
		{"tensor twice", pack(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), ErrDuplicate, `"a"`},
		{"tensor twice by escape", pack(`{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"\u0061":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, 0), ErrDuplicate, `"a"`},
		{"field twice", pack(`{"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}}`, 1), ErrDuplicate, `"dtype"`},
		{"metadata not text", pack(`{"__metadata__":{"n":1}}`, 0), ErrHeader, "string is due"},
		{"Git LFS", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 7\n"), ErrHeader, "git lfs pull"},
		{"HTML", []byte("<!DOCTYPE html><html></html>"), ErrHeader, "HTML"},
		{"HTML without a type", []byte("<html><body>"), ErrHeader, "HTML"},
		{"pickle", []byte("PK\x03\x04................"), ErrHeader, "PyTorch"},
		{"GGUF", []byte("GGUF\x03\x00\x00\x00\x01"), ErrHeader, "GGUF"},
		{"JSON", []byte(`{"error":"no such file"}`), ErrHeader, "JSON"},
		{"metadata of many keys", pack(`{"__metadata__":{`+keys(10_001)+`}}`, 0), ErrHeader, "more than 10000 keys"},
		{"a long type", pack(`{"a":{"dtype":"`+strings.Repeat("F", 5000)+`","shape":[],"data_offsets":[0,0]}}`, 0), ErrDType, "FFF …"},
		{"metadata twice", pack(`{"__metadata__":{},"__metadata__":{}}`, 0), ErrDuplicate, "__metadata__"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := open(c.file)
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.text)
			require.Less(t, len(err.Error()), 1000, "what a file says is not repeated whole")
			_, typed := errors.AsType[*Error](err)
			require.True(t, typed)
		})
	}
}

// keys are n members of an object.
func keys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":""`, i)
	}
	return b.String()[1:]
}

func TestForeignFiles(t *testing.T) {
	f, err := open(pack(`{}`, 0))
	require.NoError(t, err)
	assert.Empty(t, f.Names())
	assert.Nil(t, f.Metadata())

	// Any order of the header, padding of any width, empty tensors between others, no alignment.
	f, err = open(pack(`{"b":{"shape":[],"data_offsets":[1,5],"dtype":"I32"},"e":{"dtype":"F64","shape":[3,0],"data_offsets":[1,1]},
		"__metadata__":{"k":"ü"},"a":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}}   `, 5))
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "e"}, f.Names())
	assert.Equal(t, map[string]string{"k": "ü"}, f.Metadata())
	b, err := f.Tensor("b")
	require.NoError(t, err)
	ints, err := Values[int64](b)
	require.NoError(t, err)
	assert.Equal(t, []int64{0x04030201}, ints)
	e, err := f.Tensor("e")
	require.NoError(t, err)
	floats, err := Values[float32](e)
	require.NoError(t, err)
	assert.Empty(t, floats)
	assert.Equal(t, []int{3, 0}, e.Shape)

	null, err := open(pack(`{"__metadata__":null,"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, 0))
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, null.Names())
	require.Nil(t, null.Metadata())

	_, err = f.Tensor("z")
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorContains(t, err, `"z"`)
	require.ErrorIs(t, b.ReadInto(make([]byte, 5)), ErrSize)
	require.NoError(t, f.Close())
}

// TestShapeIsACopy: callers may reshape what they got without changing the file's idea.
func TestShapeIsACopy(t *testing.T) {
	f, err := open(pack(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 2))
	require.NoError(t, err)
	first, err := f.Tensor("a")
	require.NoError(t, err)
	first.Shape[0] = 99
	second, err := f.Tensor("a")
	require.NoError(t, err)
	assert.Equal(t, []int{2}, second.Shape)
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(filepath.Join(dir, "absent.safetensors"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = Open(dir)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, singleName)

	path := filepath.Join(dir, singleName)
	require.NoError(t, os.WriteFile(path, pack(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,3]}}`, 3), 0o600))
	_, err = Open(dir)
	require.ErrorIs(t, err, ErrSize)
	require.ErrorContains(t, err, path)

	require.NoError(t, os.WriteFile(path, pack(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 2), 0o600))
	f, err := Open(dir)
	require.NoError(t, err)
	a, err := f.Tensor("a")
	require.NoError(t, err)
	raw, err := a.Bytes()
	require.NoError(t, err)
	assert.Equal(t, []byte{0, 1}, raw)

	require.NoError(t, os.Truncate(path, 60))
	_, err = a.Bytes()
	require.ErrorIs(t, err, ErrTruncated)
	require.ErrorContains(t, err, path)
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	_, err = a.Bytes()
	require.ErrorIs(t, err, os.ErrClosed)
}

// brokenReader fails as a disk does.
type brokenReader struct{ err error }

func (r brokenReader) ReadAt([]byte, int64) (int, error) { return 0, r.err }

func TestReadErrorsAreKept(t *testing.T) {
	_, err := NewFile(brokenReader{io.ErrClosedPipe}, 100)
	require.ErrorIs(t, err, io.ErrClosedPipe)
	_, err = NewFile(strings.NewReader("short"), 100)
	require.ErrorIs(t, err, ErrTruncated)
}

func TestShards(t *testing.T) {
	dir := t.TempDir()
	write := func(file string, infos ...Info) {
		w, err := Create(filepath.Join(dir, file), infos, nil)
		require.NoError(t, err)
		for _, i := range infos {
			require.NoError(t, w.Write(i.Name, bytes.Repeat([]byte(i.Name[:1]), int(i.Size()))))
		}
		require.NoError(t, w.Commit())
	}
	write("model-00001-of-00002.safetensors", Info{"a", dtype.Uint8, []int{2}}, Info{"spare", dtype.Uint8, []int{1}})
	write("model-00002-of-00002.safetensors", Info{"b", dtype.Uint8, []int{3}})
	index := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, indexName), []byte(text), 0o600))
	}

	index(`{"metadata":{"total_size":5,"by":"a test"},"weight_map":{"b":"model-00002-of-00002.safetensors","a":"model-00001-of-00002.safetensors"}}`)
	for _, path := range []string{dir, filepath.Join(dir, indexName)} {
		f, err := Open(path)
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "b", "spare"}, f.Names(), "what the index leaves out is not lost")
		assert.Equal(t, map[string]string{"total_size": "5", "by": "a test"}, f.Metadata())
		for name, want := range map[string]string{"a": "aa", "b": "bbb", "spare": "s"} {
			tensor, err := f.Tensor(name)
			require.NoError(t, err)
			raw, err := tensor.Bytes()
			require.NoError(t, err)
			assert.Equal(t, want, string(raw))
		}
		require.NoError(t, f.Close())
		require.NoError(t, f.Close())
	}

	for _, c := range []struct {
		text string
		want error
	}{
		{``, ErrIndex},
		{`[]`, ErrIndex},
		{`{}`, ErrIndex},
		{`{"weight_map":{"a":1}}`, ErrIndex},
		{`{"weight_map":{},"x":1}`, ErrIndex},
		{`{"weight_map":{"a":"../escape.safetensors"}}`, ErrIndex},
		{`{"weight_map":{"a":"/escape.safetensors"}}`, ErrIndex},
		{`{"weight_map":{"a":".."}}`, ErrIndex},
		{`{"weight_map":{"a":""}}`, ErrIndex},
		{`{"weight_map":{"a":"x","a":"y"}}`, ErrIndex},
		{`{"weight_map":{"a":"absent.safetensors"}}`, fs.ErrNotExist},
		{`{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00001-of-00002.safetensors"}}`, ErrNotFound},
	} {
		index(c.text)
		_, err := Open(dir)
		require.ErrorIs(t, err, c.want, c.text)
	}
}

// FuzzNewFile: whatever the bytes, the reader neither panics nor hands out a tensor that is
// not inside the file.
func FuzzNewFile(f *testing.F) {
	f.Add(pack(`{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"__metadata__":{"k":"v"}}`, 16))
	f.Add(pack(`{"a":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"I64","shape":[],"data_offsets":[3,11]}}`, 11))
	f.Add(pack(`{"a":{"dtype":"U8","shape":[0,9],"data_offsets":[0,0]}}`, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := open(data)
		if err != nil {
			if _, typed := errors.AsType[*Error](err); !typed {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		total := int64(0)
		for _, name := range file.Names() {
			tensor, err := file.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tensor.Bytes(); err != nil {
				t.Fatal(err)
			}
			total += tensor.Size()
			_, errFloat := Values[float32](tensor)
			_, errInt := Values[int64](tensor)
			if errFloat == nil && errInt == nil {
				t.Fatalf("%v reads as float and as integer", tensor.DType)
			}
			if len(tensor.Shape) == 0 {
				continue
			}
			last := tensor.Shape[len(tensor.Shape)-1]
			part, err := tensor.Narrow(-1, last/3, last/2)
			if err != nil {
				t.Fatal(err)
			}
			if raw, err := part.Bytes(); err != nil || int64(len(raw)) != part.Size() {
				t.Fatal(part.Info, err)
			}
			flat, err := part.Range(part.Len()/3, part.Len()/2)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, flat.Reader()); err != nil {
				t.Fatal(flat.Info, err)
			}
		}
		if total > int64(len(data)) {
			t.Fatalf("%d bytes of tensors in %d bytes", total, len(data))
		}
	})
}

func FuzzIndex(f *testing.F) {
	f.Add(`{"metadata":{"total_size":5},"weight_map":{"b":"x.safetensors"}}`)
	f.Add(`{"weight_map":{"b":"../x"}}`)
	f.Add(`{"weight_map":{"b":"."}}`)
	f.Fuzz(func(t *testing.T, text string) {
		shardOf, _, err := parseIndex([]byte(text))
		if err != nil {
			return
		}
		for name, shard := range shardOf {
			if filepath.Join("folder", shard) != fmt.Sprintf("folder%c%s", filepath.Separator, shard) {
				t.Fatalf("%q: shard %q leaves the folder", name, shard)
			}
		}
	})
}
