package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/element"
	"github.com/goascend/cann/internal/half"
)

// counted is a tensor in memory whose elements count up, and the bytes of it that were read.
func counted(t require.TestingT, dt dtype.Type, shape ...int) (Tensor, *reads) {
	info := Info{"w", dt, shape}
	raw := make([]byte, info.Size())
	for i := range raw {
		raw[i] = byte(i * 31)
	}
	file, err := Marshal([]Data{{info, raw}, Of("after", []byte("not to be read"), 14)}, nil)
	require.NoError(t, err)
	r := &reads{Reader: bytes.NewReader(file)}
	f, err := NewFile(r, int64(len(file)))
	require.NoError(t, err)
	tensor, err := f.Tensor("w")
	require.NoError(t, err)
	*r = reads{Reader: r.Reader}
	return tensor, r
}

type reads struct {
	*bytes.Reader
	calls int
	bytes int64
}

func (r *reads) ReadAt(p []byte, off int64) (int, error) {
	r.calls++
	r.bytes += int64(len(p))
	return r.Reader.ReadAt(p, off)
}

// gathered returns the elements that Narrow should read, one by one.
func gathered(raw []byte, size int, shape []int, axis, start, length int) []byte {
	inner, outer := size, 1
	for _, d := range shape[axis+1:] {
		inner *= d
	}
	for _, d := range shape[:axis] {
		outer *= d
	}
	var out []byte
	for o := range outer {
		at := (o*shape[axis] + start) * inner
		out = append(out, raw[at:at+length*inner]...)
	}
	return out
}

// TestNarrow draws chains of parts, reads each at random offsets, and compares with parts of
// the bytes in memory.
func TestNarrow(t *testing.T) {
	types := []dtype.Type{dtype.Uint8, dtype.BFloat16, dtype.Float32, dtype.Float64}
	rapid.Check(t, func(t *rapid.T) {
		dt := rapid.SampledFrom(types).Draw(t, "dtype")
		shape := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 4), rapid.IntRange(5, 40)), 1, 4).Draw(t, "shape")
		tensor, _ := counted(t, dt, shape...)
		want, err := tensor.Bytes()
		require.NoError(t, err)
		for range rapid.IntRange(1, 3).Draw(t, "parts") {
			axis := rapid.IntRange(0, len(shape)-1).Draw(t, "axis")
			start := rapid.IntRange(0, shape[axis]).Draw(t, "start")
			length := rapid.IntRange(0, shape[axis]-start).Draw(t, "length")
			want = gathered(want, dt.Size(), shape, axis, start, length)
			tensor, err = tensor.Narrow(axis-len(shape)*rapid.IntRange(0, 1).Draw(t, "negative"), start, length)
			require.NoError(t, err)
			shape = append([]int{}, shape...)
			shape[axis] = length
			require.Equal(t, shape, tensor.Shape)
		}
		got, err := tensor.Bytes()
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
		checkReadAt(t, tensor, want)
		from := rapid.IntRange(0, tensor.Len()).Draw(t, "from")
		n := rapid.IntRange(0, tensor.Len()-from).Draw(t, "n")
		flat, err := tensor.Range(from, n)
		require.NoError(t, err)
		require.Equal(t, []int{n}, flat.Shape)
		checkReadAt(t, flat, want[from*dt.Size():(from+n)*dt.Size()])
	})
}

// checkReadAt reads at any offset any number of bytes.
func checkReadAt(t *rapid.T, tensor Tensor, want []byte) {
	require.EqualValues(t, len(want), tensor.Size())
	for range 4 {
		off := rapid.IntRange(0, len(want)+3).Draw(t, "offset")
		p := make([]byte, rapid.IntRange(0, len(want)+3).Draw(t, "bytes"))
		n, err := tensor.ReadAt(p, int64(off))
		there := min(len(p), max(0, len(want)-off))
		require.Equal(t, there, n)
		if there < len(p) {
			require.ErrorIs(t, err, io.EOF)
		} else {
			require.True(t, err == nil || errors.Is(err, io.EOF))
		}
		if there > 0 {
			require.True(t, bytes.Equal(want[off:off+n], p[:n]), "%d bytes at %d", n, off)
		}
	}
}

// TestNarrowReadsLittle: a part is read without the rest, and narrow columns in few calls.
func TestNarrowReadsLittle(t *testing.T) {
	tensor, r := counted(t, dtype.Float32, 64, 4096)
	rows, err := tensor.Narrow(0, 16, 16)
	require.NoError(t, err)
	_, err = rows.Bytes()
	require.NoError(t, err)
	assert.Equal(t, reads{r.Reader, 1, rows.Size()}, *r)

	*r = reads{Reader: r.Reader}
	columns, err := tensor.Narrow(1, 1024, 1024)
	require.NoError(t, err)
	_, err = columns.Bytes()
	require.NoError(t, err)
	assert.Equal(t, reads{r.Reader, 64, columns.Size()}, *r, "a call for each row")

	tensor, r = counted(t, dtype.Float32, 4096, 64)
	columns, err = tensor.Narrow(1, 8, 8)
	require.NoError(t, err)
	_, err = columns.Bytes()
	require.NoError(t, err)
	assert.LessOrEqual(t, r.calls, 5, "rows as short as these are read together")
	assert.LessOrEqual(t, r.bytes, tensor.Size())
}

func TestPartsRefused(t *testing.T) {
	tensor, _ := counted(t, dtype.Int32, 4, 6)
	scalar, _ := counted(t, dtype.Int32)
	for name, part := range map[string]func() (Tensor, error){
		"axis":            func() (Tensor, error) { return tensor.Narrow(2, 0, 1) },
		"negative axis":   func() (Tensor, error) { return tensor.Narrow(-3, 0, 1) },
		"scalar":          func() (Tensor, error) { return scalar.Narrow(0, 0, 1) },
		"start":           func() (Tensor, error) { return tensor.Narrow(0, -1, 1) },
		"beyond":          func() (Tensor, error) { return tensor.Narrow(1, 6, 1) },
		"length":          func() (Tensor, error) { return tensor.Narrow(1, 0, -1) },
		"overflow":        func() (Tensor, error) { return tensor.Narrow(1, 1, math.MaxInt) },
		"range start":     func() (Tensor, error) { return tensor.Range(-1, 1) },
		"range beyond":    func() (Tensor, error) { return tensor.Range(20, 5) },
		"range overflow":  func() (Tensor, error) { return tensor.Range(1, math.MaxInt) },
		"range of length": func() (Tensor, error) { return tensor.Range(0, -1) },
	} {
		_, err := part()
		require.ErrorIs(t, err, ErrRange, name)
		require.ErrorContains(t, err, `tensor "w"`, name)
		require.ErrorContains(t, err, "int32[", name)
	}
	_, err := tensor.ReadAt(nil, -1)
	require.ErrorIs(t, err, ErrRange)
}

// TestAs converts, narrows what is converted, and reads it at any offset.
func TestAs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, columns := rapid.IntRange(0, 9).Draw(t, "rows"), rapid.IntRange(1, 40).Draw(t, "columns")
		values := rapid.SliceOfN(rapid.Float32(), rows*columns, rows*columns).Draw(t, "values")
		file, err := Marshal([]Data{Of("w", values, rows, columns)}, nil)
		require.NoError(t, err)
		f, err := NewFile(bytes.NewReader(file), int64(len(file)))
		require.NoError(t, err)
		tensor, err := f.Tensor("w")
		require.NoError(t, err)
		short, err := tensor.As(dtype.BFloat16)
		require.NoError(t, err)
		first := rapid.IntRange(0, columns).Draw(t, "first")
		part, err := short.Narrow(1, first, columns-first)
		require.NoError(t, err)
		var want []byte
		for r := range rows {
			for _, v := range values[r*columns+first : (r+1)*columns] {
				want = binary.LittleEndian.AppendUint16(want, uint16(half.BFloat16FromFloat32(v)))
			}
		}
		checkReadAt(t, part, want)
		wide, err := part.As(dtype.Float64)
		require.NoError(t, err)
		require.Equal(t, dtype.Float64, wide.DType)
		doubles, err := Values[float64](part)
		require.NoError(t, err)
		for i, v := range doubles {
			require.Equal(t, half.BFloat16(binary.LittleEndian.Uint16(want[2*i:])).String(), half.BFloat16FromFloat64(v).String())
		}
	})
}

// TestBlocks: conversions and parts that are longer than what is read at a time.
func TestBlocks(t *testing.T) {
	values := make([]int16, 3*convertBlock+17)
	for i := range values {
		values[i] = int16(i * 7)
	}
	path := t.TempDir() + "/x.safetensors"
	require.NoError(t, WriteFile(path, []Data{Of("w", values, len(values))}, nil))
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	tensor, err := f.Tensor("w")
	require.NoError(t, err)
	wide, err := Values[int](tensor)
	require.NoError(t, err)
	for i, v := range values {
		require.Equal(t, int(v), wide[i])
	}
	_, err = Values[int8](tensor)
	require.ErrorIs(t, err, ErrValue)
	require.ErrorContains(t, err, `tensor "w": a value does not fit the element type: element 19, 133, exceeds int8`)
	require.ErrorContains(t, err, path)
	late, err := tensor.Range(2*convertBlock, convertBlock)
	require.NoError(t, err)
	_, err = Values[int8](late)
	require.ErrorContains(t, err, "element 19, 133, exceeds int8", "elements count from the part's first")

	columns, err := tensor.Range(0, 3*convertBlock)
	require.NoError(t, err)
	columns.Shape = []int{convertBlock, 3}
	part, err := columns.Narrow(1, 1, 1)
	require.NoError(t, err)
	got, err := Values[int16](part)
	require.NoError(t, err)
	for i, v := range got {
		require.Equal(t, values[3*i+1], v)
	}
}

func TestConversionsRefused(t *testing.T) {
	for from, refused := range map[dtype.Type][]dtype.Type{
		dtype.Float32:   {dtype.Int32, dtype.Bool, dtype.Complex64, dtype.Float8E4M3},
		dtype.Int8:      {dtype.Float32, dtype.BFloat16, dtype.Bool, dtype.Complex64},
		dtype.Bool:      {dtype.Float32, dtype.Complex64},
		dtype.Complex64: {dtype.Float32, dtype.Int64},
		dtype.BFloat16:  {dtype.Float8E5M2, dtype.Uint16},
	} {
		tensor, _ := counted(t, from, 2)
		for _, to := range refused {
			_, err := tensor.As(to)
			require.ErrorIs(t, err, ErrDType)
			require.ErrorContains(t, err, from.String()+" cannot be read as "+to.String())
		}
	}
}

// TestTruncatedLater: a file that shrinks after Open is an error that names file, tensor and
// offset, of a whole tensor and of a part.
func TestTruncatedLater(t *testing.T) {
	path := t.TempDir() + "/x.safetensors"
	require.NoError(t, WriteFile(path, []Data{Of("w", make([]float32, 1000), 10, 100)}, nil))
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	tensor, err := f.Tensor("w")
	require.NoError(t, err)
	at := tensor.data.(*span).at
	require.NoError(t, os.Truncate(path, at+2000))
	column, err := tensor.Narrow(1, 99, 1)
	require.NoError(t, err)
	first, err := tensor.Narrow(0, 0, 5)
	require.NoError(t, err)
	for _, part := range []Tensor{tensor, column} {
		_, err := Values[float64](part)
		require.ErrorIs(t, err, ErrTruncated)
		e, typed := errors.AsType[*Error](err)
		require.True(t, typed)
		assert.Equal(t, path, e.Path)
		assert.Equal(t, "w", e.Tensor)
		assert.Contains(t, e.Detail, "at offset ")
	}
	_, err = Values[float64](first)
	require.NoError(t, err, "this part is still there")
}

// TestBytesRead: a file counts what is read of its tensors, and an index what is read of its shards.
func TestBytesRead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, WriteFile(filepath.Join(dir, "one.safetensors"), []Data{Of("a", make([]float32, 12), 3, 4)}, nil))
	require.NoError(t, os.WriteFile(filepath.Join(dir, indexName), []byte(`{"weight_map":{"a":"one.safetensors"}}`), 0o600))
	for _, path := range []string{filepath.Join(dir, "one.safetensors"), dir} {
		f, err := Open(path)
		require.NoError(t, err)
		require.Zero(t, f.BytesRead())
		a, err := f.Tensor("a")
		require.NoError(t, err)
		rows, err := a.Narrow(0, 1, 2)
		require.NoError(t, err)
		_, err = Values[float64](rows)
		require.NoError(t, err)
		require.EqualValues(t, 32, f.BytesRead())
		require.NoError(t, f.Close())
	}
}

// TestView: a view has other tensors in place of some, which are computed as they are read, and closes its file.
func TestView(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.safetensors")
	require.NoError(t, WriteFile(path, []Data{Of("a", []float32{1, 2}, 2), Of("b", []float32{3}, 1), Of("c", []int8{4}, 1)}, nil))
	f, err := Open(path)
	require.NoError(t, err)
	computed := NewTensor(Info{Name: "b", DType: dtype.Float32, Shape: []int{2, 2}}, bytes.NewReader(element.Bytes([]float32{5, 6, 7, 8})))
	v := f.View([]string{"c"}, computed)
	require.Equal(t, []string{"a", "b"}, v.Names())
	require.Equal(t, []string{"a", "b", "c"}, f.Names())
	for name, want := range map[string][]float32{"a": {1, 2}, "b": {6, 8}} {
		tensor, err := v.Tensor(name)
		require.NoError(t, err)
		if name == "b" {
			tensor, err = tensor.Narrow(1, 1, 1)
			require.NoError(t, err)
		}
		got, err := Values[float32](tensor)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.EqualValues(t, 8, v.BytesRead())
	require.NoError(t, v.Close())
	tensor, err := f.Tensor("a")
	require.NoError(t, err)
	_, err = tensor.Bytes()
	require.ErrorIs(t, err, os.ErrClosed)
}
