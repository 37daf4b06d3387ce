package aclnn_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/half"
	"github.com/goascend/cann/aclnn/safetensors"
)

// weights writes a file for a test and opens it.
func weights(t *testing.T, data ...safetensors.Data) *safetensors.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "w.safetensors")
	require.NoError(t, safetensors.WriteFile(path, data, nil))
	f, err := safetensors.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, f.Close()) })
	return f
}

func tensorOf(t *testing.T, f *safetensors.File, name string) safetensors.Tensor {
	t.Helper()
	x, err := f.Tensor(name)
	require.NoError(t, err)
	return x
}

// TestLoadAndSave brings tensors of every size from a file to the device and back in every
// dtype of floats, and parts of them.
func TestLoadAndSave(t *testing.T) {
	ctx, st := t.Context(), openStream(t)
	for _, shape := range [][]int{{}, {0, 3}, {1}, {3, 5}, {7, 129}, {1 << 20, 3}} {
		n := 1
		for _, d := range shape {
			n *= d
		}
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(i%256) / 2
		}
		f := weights(t, safetensors.Of("w", values, shape...))
		for _, dt := range []aclnn.DType{aclnn.Float32, aclnn.Float64, aclnn.Float16, aclnn.BFloat16} {
			x, err := aclnn.Load(ctx, st, dt, tensorOf(t, f, "w"))
			require.NoError(t, err)
			require.Equal(t, dt, x.DType())
			require.Equal(t, x.Info("w").Shape, append([]int{}, shape...))
			got, err := aclnn.ToSlice[float32](ctx, st, x)
			require.NoError(t, err)
			require.True(t, assert.ObjectsAreEqual(values, got), "%v", x)

			path := filepath.Join(t.TempDir(), "out.safetensors")
			declared := x.Info("w")
			declared.DType = aclnn.Float32
			w, err := safetensors.Create(path, []safetensors.Info{declared}, nil)
			require.NoError(t, err)
			require.NoError(t, aclnn.Save(ctx, st, w, "w", x))
			require.NoError(t, w.Commit())
			back, err := safetensors.Open(path)
			require.NoError(t, err)
			saved, err := safetensors.Values[float32](tensorOf(t, back, "w"))
			require.NoError(t, err)
			require.True(t, assert.ObjectsAreEqual(values, saved), "%v", x)
			require.NoError(t, back.Close())
			require.NoError(t, x.Close())
		}
	}
}

// TestLoadParts: ranks take their rows, columns and flat ranges.
func TestLoadParts(t *testing.T) {
	ctx, st := t.Context(), openStream(t)
	values := make([]half.BFloat16, 8*6)
	for i := range values {
		values[i] = half.BFloat16FromFloat32(float32(i))
	}
	w := tensorOf(t, weights(t, safetensors.Of("w", values, 8, 6)), "w")
	for rank := range 2 {
		rows, err := w.Narrow(0, rank*4, 4)
		require.NoError(t, err)
		columns, err := w.Narrow(1, rank*3, 3)
		require.NoError(t, err)
		flat, err := w.Range(rank*24, 24)
		require.NoError(t, err)
		for part, want := range map[*safetensors.Tensor]func(i int) float32{
			&rows: func(i int) float32 { return float32(rank*24 + i) }, &flat: func(i int) float32 { return float32(rank*24 + i) },
			&columns: func(i int) float32 { return float32(i/3*6 + rank*3 + i%3) },
		} {
			x := made(t)(aclnn.Load(ctx, st, aclnn.Float32, *part))
			got, err := aclnn.ToSlice[float32](ctx, st, x)
			require.NoError(t, err)
			require.Len(t, got, 24)
			for i, v := range got {
				require.Equal(t, want(i), v)
			}
		}
	}
}

// TestLoadInto reads into views of a tensor and into FRACTAL_NZ storage; nothing around them
// changes.
func TestLoadInto(t *testing.T) {
	ctx, st := t.Context(), openStream(t)
	f := weights(t, safetensors.Of("w", []float32{1, 2, 3, 4, 5, 6}, 2, 3), safetensors.Of("none", []float32{}, 0, 3))
	w := tensorOf(t, f, "w")
	for name, c := range map[string]struct {
		view func(x *aclnn.Tensor) *aclnn.Tensor
		want []float32 // of [3, 4]
	}{
		"rows":       {func(x *aclnn.Tensor) *aclnn.Tensor { return x.Reshape(4, 3).Narrow(0, 1, 2) }, []float32{0, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0}},
		"columns":    {func(x *aclnn.Tensor) *aclnn.Tensor { return x.Narrow(0, 1, 2).Narrow(1, 1, 3) }, []float32{0, 0, 0, 0, 0, 1, 2, 3, 0, 4, 5, 6}},
		"transposed": {func(x *aclnn.Tensor) *aclnn.Tensor { return x.Narrow(1, 0, 2).Transpose(0, 1) }, []float32{1, 4, 0, 0, 2, 5, 0, 0, 3, 6, 0, 0}},
		"nothing":    {func(x *aclnn.Tensor) *aclnn.Tensor { return nil }, make([]float32, 12)},
	} {
		t.Run(name, func(t *testing.T) {
			x := made(t)(aclnn.Zeros(st, aclnn.BFloat16, 3, 4))
			if v := c.view(x); v != nil {
				require.NoError(t, aclnn.LoadInto(ctx, st, v, w))
			} else {
				require.NoError(t, aclnn.LoadInto(ctx, st, x.Narrow(1, 0, 3).Narrow(0, 0, 0), tensorOf(t, f, "none")))
			}
			got, err := aclnn.ToSlice[float32](ctx, st, x)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	t.Run("NZ", func(t *testing.T) {
		if err := new(aclnn.NpuFormatCastParams).Operator().Available(); err != nil {
			t.Skip(err)
		}
		x, _ := inNZ(t, st, aclnn.Float16, 1, 2, 3)
		require.NoError(t, aclnn.LoadInto(ctx, st, x.Select(0, 0), w))
		got, err := aclnn.ToSlice[float32](ctx, st, x)
		require.NoError(t, err)
		require.Equal(t, []float32{1, 2, 3, 4, 5, 6}, got)

		path := filepath.Join(t.TempDir(), "nz")
		out, err := safetensors.Create(path, []safetensors.Info{x.Info("w")}, nil)
		require.NoError(t, err)
		require.NoError(t, aclnn.Save(ctx, st, out, "w", x))
		require.NoError(t, out.Commit())
		back, err := safetensors.Open(path)
		require.NoError(t, err)
		defer back.Close()
		saved, err := safetensors.Values[float64](tensorOf(t, back, "w"))
		require.NoError(t, err)
		require.Equal(t, []float64{1, 2, 3, 4, 5, 6}, saved)
	})
}

// TestSaveLayouts writes views and integers of every width.
func TestSaveLayouts(t *testing.T) {
	ctx, st := t.Context(), openStream(t)
	x := made(t)(aclnn.FromSlice(ctx, st, aclnn.Int32, []int{1, 2, 3, 4, 5, 6}, 2, 3))
	infos := map[string]struct {
		view *aclnn.Tensor
		as   aclnn.DType
		want []int
	}{
		"whole": {x, aclnn.Int64, []int{1, 2, 3, 4, 5, 6}}, "transposed": {x.Transpose(0, 1), aclnn.Uint8, []int{1, 4, 2, 5, 3, 6}},
		"row": {x.Select(0, 1), aclnn.Int32, []int{4, 5, 6}}, "scalar": {x.Select(0, 1).Select(0, 2), aclnn.Int16, []int{6}},
		"empty": {x.Narrow(1, 1, 0), aclnn.Int32, []int{}},
	}
	var declared []safetensors.Info
	for name, c := range infos {
		info := c.view.Info(name)
		info.DType = c.as
		declared = append(declared, info)
	}
	path := filepath.Join(t.TempDir(), "x")
	w, err := safetensors.Create(path, declared, nil)
	require.NoError(t, err)
	defer w.Close()
	for name, c := range infos {
		require.NoError(t, aclnn.Save(ctx, st, w, name, c.view))
	}
	require.NoError(t, w.Commit())
	f, err := safetensors.Open(path)
	require.NoError(t, err)
	defer f.Close()
	for name, c := range infos {
		saved := tensorOf(t, f, name)
		require.Equal(t, c.as, saved.DType)
		got, err := safetensors.Values[int](saved)
		require.NoError(t, err)
		require.Equal(t, c.want, got, name)
	}
}

// TestLoadRefused: sentinels of both packages, and nothing left on the device.
func TestLoadRefused(t *testing.T) {
	ctx, st := t.Context(), openStream(t)
	f := weights(t, safetensors.Of("w", []float32{1, 2}, 2), safetensors.Of("i", []int{300}, 1))
	w, i := tensorOf(t, f, "w"), tensorOf(t, f, "i")
	x := made(t)(aclnn.FromSlice(ctx, st, aclnn.Float32, []float32{1, 2}, 2))
	ints := made(t)(aclnn.FromSlice(ctx, st, aclnn.Int64, []int{300, -1}, 2))
	out, err := safetensors.Create(filepath.Join(t.TempDir(), "x"), []safetensors.Info{x.Info("x"), {Name: "short", DType: aclnn.Int8, Shape: []int{2}}}, nil)
	require.NoError(t, err)
	defer out.Close()
	before := acl.Live()
	for name, c := range map[string]struct {
		err   error
		group error
		text  string
	}{
		"float as int":      {second(aclnn.Load(ctx, st, aclnn.Int32, w)), safetensors.ErrDType, `tensor "w"`},
		"int as float":      {second(aclnn.Load(ctx, st, aclnn.BFloat16, i)), safetensors.ErrDType, "int64 cannot be read as bfloat16"},
		"too large":         {second(aclnn.Load(ctx, st, aclnn.Uint8, i)), safetensors.ErrValue, "element 0, 300, exceeds uint8"},
		"no dtype":          {second(aclnn.Load(ctx, st, aclnn.Undefined, w)), safetensors.ErrDType, "undefined"},
		"no stream":         {second(aclnn.Load(ctx, nil, aclnn.Float32, w)), acl.ErrInvalidArgument, "stream"},
		"no context":        {second(aclnn.Load(nothing, st, aclnn.Float32, w)), acl.ErrInvalidArgument, "context"},
		"into another rank": {aclnn.LoadInto(ctx, st, x.Unsqueeze(0), w), acl.ErrInvalidArgument, "w is float32[2] in the file; it does not fit float32[1,2]ND"},
		"into nil":          {aclnn.LoadInto(ctx, st, nil, w), acl.ErrInvalidArgument, "nil"},
		"into integers":     {aclnn.LoadInto(ctx, st, ints, w), safetensors.ErrDType, "float32 cannot be read as int64"},
		"into a bad view":   {aclnn.LoadInto(ctx, st, x.Reshape(3), w), acl.ErrInvalidArgument, "reshaped"},
		"save undeclared":   {aclnn.Save(ctx, st, out, "y", x), safetensors.ErrNotFound, `"y"`},
		"save other shape":  {aclnn.Save(ctx, st, out, "x", x.Unsqueeze(0)), acl.ErrInvalidArgument, "x was declared as float32[2]; it does not fit float32[1,2]ND"},
		"save other kind":   {aclnn.Save(ctx, st, out, "short", x), acl.ErrInvalidArgument, "cannot be saved as int8[2]"},
		"save too large":    {aclnn.Save(ctx, st, out, "short", ints), acl.ErrInvalidArgument, "element 0, 300, exceeds int8"},
		"save nil":          {aclnn.Save(ctx, st, out, "x", nil), acl.ErrInvalidArgument, "nil"},
	} {
		require.ErrorIs(t, c.err, c.group, name)
		require.ErrorContains(t, c.err, c.text, name)
	}
	require.NoError(t, f.Close())
	require.ErrorIs(t, second(aclnn.Load(ctx, st, aclnn.Float32, w)), fs.ErrClosed)
	require.NoError(t, out.Close())
	require.ErrorIs(t, aclnn.Save(ctx, st, out, "x", x), fs.ErrClosed)
	require.Equal(t, before, acl.Live())
}

// pieces is a reader that remembers the longest piece that was asked for.
type pieces struct {
	*bytes.Reader
	longest int
}

func (p *pieces) ReadAt(b []byte, off int64) (int, error) {
	p.longest = max(p.longest, len(b))
	return p.Reader.ReadAt(b, off)
}

// TestLoadIsBounded: however large a tensor is, a few MiB of it are on the host at a time.
func TestLoadIsBounded(t *testing.T) {
	st := openStream(t)
	file, err := safetensors.Marshal([]safetensors.Data{safetensors.Of("w", make([]float32, 8<<20), 8<<20)}, nil)
	require.NoError(t, err)
	for _, dt := range []aclnn.DType{aclnn.Float32, aclnn.Float64, aclnn.BFloat16} {
		p := &pieces{Reader: bytes.NewReader(file)}
		f, err := safetensors.NewFile(p, int64(len(file)))
		require.NoError(t, err)
		p.longest = 0
		x := made(t)(aclnn.Load(t.Context(), st, dt, tensorOf(t, f, "w")))
		require.LessOrEqual(t, p.longest, 4<<20)
		require.EqualValues(t, 8<<20, x.Len())
	}
}

// TestLoadFails: a file that shrinks, and a device that does not take the elements.
func TestLoadFails(t *testing.T) {
	acltest.Faults(t, "aclrtMemcpyAsync:2=507899", func(t *testing.T) {
		st := openStream(t)
		path := filepath.Join(t.TempDir(), "w")
		require.NoError(t, safetensors.WriteFile(path, []safetensors.Data{safetensors.Of("w", make([]float32, 3<<20), 3<<20)}, nil))
		f, err := safetensors.Open(path)
		require.NoError(t, err)
		defer f.Close()
		_, err = aclnn.Load(t.Context(), st, aclnn.Float32, tensorOf(t, f, "w"))
		var e *acl.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, acl.Code(507899), e.Code)
		require.NoError(t, os.Truncate(path, 9<<20))
		_, err = aclnn.Load(t.Context(), st, aclnn.Float32, tensorOf(t, f, "w"))
		require.ErrorIs(t, err, safetensors.ErrTruncated)
		bad, typed := errors.AsType[*safetensors.Error](err)
		require.True(t, typed)
		require.Equal(t, [2]string{path, "w"}, [2]string{bad.Path, bad.Tensor})
		require.Zero(t, acl.Live()[acl.KindBuffer])
	})
}

// BenchmarkLoad is the rate at which weights reach the device.
func BenchmarkLoad(b *testing.B) {
	st := acltest.Stream(b, acltest.Device(b, acltest.Open(b), 0))
	path := filepath.Join(b.TempDir(), "w")
	values := make([]half.BFloat16, 16<<20)
	for i := range values {
		values[i] = half.BFloat16FromFloat32(float32(math.Sin(float64(i))))
	}
	require.NoError(b, safetensors.WriteFile(path, []safetensors.Data{safetensors.Of("w", values, 4096, 4096)}, nil))
	f, err := safetensors.Open(path)
	require.NoError(b, err)
	defer f.Close()
	whole, err := f.Tensor("w")
	require.NoError(b, err)
	columns, err := whole.Narrow(1, 512, 512)
	require.NoError(b, err)
	for _, c := range []struct {
		name string
		w    safetensors.Tensor
		dt   aclnn.DType
	}{{"as it is", whole, aclnn.BFloat16}, {"to float32", whole, aclnn.Float32}, {"columns", columns, aclnn.BFloat16}} {
		b.Run(fmt.Sprint(c.name), func(b *testing.B) {
			b.SetBytes(c.w.Size())
			for b.Loop() {
				x, err := aclnn.Load(b.Context(), st, c.dt, c.w)
				require.NoError(b, err)
				require.NoError(b, st.Synchronize(b.Context()))
				require.NoError(b, x.Close())
			}
		})
	}
}
