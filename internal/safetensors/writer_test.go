package safetensors

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goascend/cann/internal/dtype"
)

// save writes a whole file and returns its path.
func save(t testing.TB, infos []Info, metadata map[string]string, data map[string][]byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.safetensors")
	w, err := Create(path, infos, metadata)
	require.NoError(t, err)
	defer func() { require.NoError(t, w.Close()) }()
	for _, i := range infos {
		require.NoError(t, w.Write(i.Name, data[i.Name]))
	}
	require.NoError(t, w.Commit())
	return path
}

func TestRoundTripOfEveryType(t *testing.T) {
	shapes := map[string][]int{"scalar": {}, "one": {1}, "empty": {4, 0, 2}, "odd": {3, 5, 7}, "even": {8, 2}}
	var infos []Info
	data := map[string][]byte{}
	for typ, typeName := range formatNames {
		for shapeName, shape := range shapes {
			info := Info{typeName + "/" + shapeName, typ, shape}
			infos = append(infos, info)
			raw := make([]byte, info.Size())
			for i := range raw {
				raw[i] = byte(i*7 + int(typ))
			}
			data[info.Name] = raw
		}
	}
	metadata := map[string]string{"format": "pt", "note": "\"<ü>\"\n"}
	path := save(t, infos, metadata, data)
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	assert.Equal(t, metadata, f.Metadata())
	require.Len(t, f.Names(), len(infos))
	for _, want := range infos {
		got, err := f.Tensor(want.Name)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(want, got.Info))
		raw, err := got.Bytes()
		require.NoError(t, err)
		require.Equal(t, data[want.Name], raw, want.Name)
		at := got.data.(*span).at
		require.Zero(t, at%int64(want.DType.Size()), "%s at %d is not aligned", want.Name, at)
	}
}

// TestBytes pins the file format itself: this text was put together from the format's
// description, not by the writer.
func TestBytes(t *testing.T) {
	infos := []Info{{"b", dtype.Uint8, []int{3}}, {"a", dtype.Uint8, []int{1}}, {"z", dtype.Float32, nil}}
	data := map[string][]byte{"a": {1}, "b": {2, 3, 4}, "z": {5, 6, 7, 8}}
	header := `{"__metadata__":{"k":"v"},"z":{"dtype":"F32","shape":[],"data_offsets":[0,4]},` +
		`"a":{"dtype":"U8","shape":[1],"data_offsets":[4,5]},"b":{"dtype":"U8","shape":[3],"data_offsets":[5,8]}}`
	header += strings.Repeat(" ", (8-len(header)%8)%8)
	want := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	want = append(append(want, header...), 5, 6, 7, 8, 1, 2, 3, 4)
	for range 2 {
		got, err := os.ReadFile(save(t, infos, map[string]string{"k": "v"}, data))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
		slices.Reverse(infos) // the order of declaration and of writing leaves no trace
	}
}

func TestCreateRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name     string
		infos    []Info
		metadata map[string]string
		want     error
	}{
		{"duplicate", []Info{{"a", dtype.Int8, nil}, {"a", dtype.Int8, nil}}, nil, ErrDuplicate},
		{"reserved name", []Info{{metadataKey, dtype.Int8, nil}}, nil, ErrHeader},
		{"name not UTF-8", []Info{{"\xff", dtype.Int8, nil}}, nil, ErrHeader},
		{"metadata not UTF-8", nil, map[string]string{"k": "\xff"}, ErrHeader},
		{"packed type", []Info{{"a", dtype.Int4, []int{2}}}, nil, ErrDType},
		{"undefined type", []Info{{"a", dtype.Undefined, nil}}, nil, ErrDType},
		{"negative", []Info{{"a", dtype.Int8, []int{-1}}}, nil, ErrShape},
		{"two negatives", []Info{{"a", dtype.Int8, []int{-2, -2}}}, nil, ErrShape},
		{"overflow", []Info{{"a", dtype.Int64, []int{1 << 61}}}, nil, ErrShape},
		{"overflow of the sum", []Info{{"a", dtype.Int64, []int{1 << 59}}, {"b", dtype.Int64, []int{1 << 59}}}, nil, ErrShape},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Create(filepath.Join(dir, "x.safetensors"), c.infos, c.metadata)
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, "x.safetensors")
		})
	}
	_, err := Create(filepath.Join(dir, "absent", "x.safetensors"), nil, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	assertFiles(t, dir)
}

// TestHeaderLimit: the limit counts the padding, as the reader's does.
func TestHeaderLimit(t *testing.T) {
	metadata := map[string]string{"k": "v"} // spells 26 bytes, padded to 32
	header, err := formatHeader(nil, metadata, 32)
	require.NoError(t, err)
	require.Len(t, header, lengthBytes+32)
	_, err = formatHeader(nil, metadata, 31)
	require.ErrorIs(t, err, ErrHeaderTooLarge)
}

func assertFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	got := []string{}
	for _, f := range files {
		got = append(got, f.Name())
	}
	assert.ElementsMatch(t, want, got)
}

func TestWriter(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.safetensors")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	infos := []Info{{"a", dtype.Int16, []int{2}}, {"b", dtype.Int8, []int{1}}, {"none", dtype.Int8, []int{0}}}

	w, err := Create(path, infos, nil)
	require.NoError(t, err)
	require.ErrorIs(t, w.Write("c", nil), ErrNotFound)
	require.ErrorIs(t, w.Write("a", []byte{1, 2, 3}), ErrSize)
	err = w.Commit()
	require.ErrorIs(t, err, ErrIncomplete)
	require.ErrorContains(t, err, "a, b")
	require.NoError(t, w.Write("b", []byte{9}))
	require.ErrorIs(t, w.Write("b", []byte{9}), ErrDuplicate)
	require.NoError(t, w.Write("a", []byte{1, 2, 3, 4}))

	old, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "old", string(old), "the target changed before Commit")
	require.NoError(t, w.Commit())
	assertFiles(t, dir, "x.safetensors")
	require.ErrorIs(t, w.Commit(), os.ErrClosed)
	require.ErrorIs(t, w.Write("a", []byte{1, 2, 3, 4}), os.ErrClosed)
	require.NoError(t, w.Close())
	f, err := Open(path)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "none"}, f.Names())
	require.NoError(t, f.Close())

	w, err = Create(path, infos, nil)
	require.NoError(t, err)
	require.NoError(t, w.Write("b", []byte{1}))
	require.NoError(t, w.Close())
	require.NoError(t, w.Close())
	require.ErrorIs(t, w.Commit(), os.ErrClosed)
	assertFiles(t, dir, "x.safetensors")
}

// TestCommitFails: a target that cannot be replaced leaves no temporary file behind.
func TestCommitFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.safetensors")
	require.NoError(t, os.MkdirAll(filepath.Join(path, "occupied"), 0o700))
	w, err := Create(path, nil, nil)
	require.NoError(t, err)
	require.Error(t, w.Commit())
	require.NoError(t, w.Close())
	assertFiles(t, dir, "x.safetensors")
}

// TestHistories writes random sets of tensors and reads the same back.
func TestHistories(t *testing.T) {
	types := []dtype.Type{dtype.Bool, dtype.BFloat16, dtype.Float32, dtype.Int64}
	path := filepath.Join(t.TempDir(), "x.safetensors")
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.String().Filter(func(s string) bool { return s != metadataKey }), rapid.ID[string]).Draw(t, "names")
		metadata := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "metadata")
		var infos []Info
		data := map[string][]byte{}
		for _, name := range names {
			info := Info{name, rapid.SampledFrom(types).Draw(t, "dtype"), rapid.SliceOfN(rapid.IntRange(0, 5), 0, 3).Draw(t, "shape")}
			infos = append(infos, info)
			data[name] = rapid.SliceOfN(rapid.Byte(), int(info.Size()), int(info.Size())).Draw(t, "data")
		}
		w, err := Create(path, infos, metadata)
		require.NoError(t, err)
		defer w.Close()
		for _, name := range rapid.Permutation(names).Draw(t, "order") {
			require.NoError(t, w.Write(name, data[name]))
		}
		require.NoError(t, w.Commit())
		f, err := Open(path)
		require.NoError(t, err)
		defer f.Close()
		require.Len(t, f.Names(), len(infos))
		require.Equal(t, len(metadata), len(f.Metadata()))
		for key, value := range metadata {
			require.Equal(t, value, f.Metadata()[key])
		}
		for _, want := range infos {
			got, err := f.Tensor(want.Name)
			require.NoError(t, err)
			raw, err := got.Bytes()
			require.NoError(t, err)
			require.True(t, bytes.Equal(data[want.Name], raw) && got.DType == want.DType && slices.Equal(got.Shape, want.Shape))
		}
	})
}

func TestValues(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	le := binary.LittleEndian
	raw := func(values any) []byte {
		b, err := binary.Append(nil, le, values)
		require.NoError(t, err)
		return b
	}
	for _, c := range []struct {
		typ    dtype.Type
		data   []byte
		floats []float32
		ints   []int64
	}{
		{dtype.Float32, raw([]float32{-0.5, inf, nan, math.MaxFloat32}), []float32{-0.5, inf, nan, math.MaxFloat32}, nil},
		{dtype.Float64, raw([]float64{1.5, 1 + 0x1p-24, 1 + 3*0x1p-24, 1e300}), []float32{1.5, 1, 1 + 0x1p-22, inf}, nil},
		{dtype.Float16, raw([]uint16{0x3c00, 0xfbff, 1, 0x7c00, 0x7e00}), []float32{1, -65504, 0x1p-24, inf, nan}, nil},
		{dtype.BFloat16, raw([]uint16{0x3f80, 0xc020, 0x7f80}), []float32{1, -2.5, inf}, nil},
		{dtype.Float8E4M3, []byte{0, 1, 0x38, 0x7e, 0xfe, 0x7f, 0xff}, []float32{0, 0x1p-9, 1, 448, -448, nan, nan}, nil},
		{dtype.Float8E5M2, []byte{0, 1, 0x3c, 0x7b, 0xfb, 0x7c, 0x7f}, []float32{0, 0x1p-16, 1, 57344, -57344, inf, nan}, nil},
		{dtype.Float8E8M0, []byte{0, 127, 254, 255}, []float32{0x1p-127, 1, 0x1p127, nan}, nil},
		{dtype.Int64, raw([]int64{math.MinInt64, -1, math.MaxInt64}), nil, []int64{math.MinInt64, -1, math.MaxInt64}},
		{dtype.Uint64, raw([]uint64{0, math.MaxInt64}), nil, []int64{0, math.MaxInt64}},
		{dtype.Int32, raw([]int32{math.MinInt32, 7}), nil, []int64{math.MinInt32, 7}},
		{dtype.Uint32, raw([]uint32{math.MaxUint32}), nil, []int64{math.MaxUint32}},
		{dtype.Int16, raw([]int16{math.MinInt16, 7}), nil, []int64{math.MinInt16, 7}},
		{dtype.Uint16, raw([]uint16{math.MaxUint16}), nil, []int64{math.MaxUint16}},
		{dtype.Int8, []byte{0x80, 7}, nil, []int64{-128, 7}},
		{dtype.Uint8, []byte{0xff}, nil, []int64{255}},
		{dtype.Bool, []byte{0, 1, 2}, nil, []int64{0, 1, 1}},
		{dtype.Complex64, raw([]complex64{1}), nil, nil},
	} {
		t.Run(c.typ.String(), func(t *testing.T) {
			info := Info{"t", c.typ, []int{len(c.data) / c.typ.Size()}}
			f, err := Open(save(t, []Info{info}, nil, map[string][]byte{"t": c.data}))
			require.NoError(t, err)
			defer f.Close()
			tensor, err := f.Tensor("t")
			require.NoError(t, err)
			floats, err := Values[float32](tensor)
			if c.floats == nil {
				require.ErrorIs(t, err, ErrDType)
			} else {
				require.NoError(t, err)
				require.Len(t, floats, len(c.floats))
				for i, want := range c.floats {
					require.True(t, floats[i] == want || want != want && floats[i] != floats[i], "element %d: %v, want %v", i, floats[i], want)
				}
			}
			ints, err := Values[int64](tensor)
			if c.ints == nil {
				require.ErrorIs(t, err, ErrDType)
			} else {
				require.NoError(t, err)
				require.Equal(t, c.ints, ints)
			}
		})
	}
	f, err := Open(save(t, []Info{{"t", dtype.Uint64, []int{1}}}, nil, map[string][]byte{"t": raw(uint64(1 << 63))}))
	require.NoError(t, err)
	defer f.Close()
	tensor, err := f.Tensor("t")
	require.NoError(t, err)
	_, err = Values[int64](tensor)
	require.ErrorContains(t, err, "9223372036854775808, exceeds int64")
}
