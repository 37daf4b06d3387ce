package aclnn_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/half"
)

// TestSlices brings every Go type to the device and back, through every layout.
func TestSlices(t *testing.T) {
	layoutsOf(t, aclnn.Float32, func(i int) float32 { return float32(i) - 3.5 })
	layoutsOf(t, aclnn.Float64, func(i int) float64 { return float64(i) / 3 })
	layoutsOf(t, aclnn.Float16, func(i int) half.Float16 { return half.Float16FromFloat32(float32(i) / 8) })
	layoutsOf(t, aclnn.BFloat16, func(i int) half.BFloat16 { return half.BFloat16FromFloat32(float32(-i)) })
	layoutsOf(t, aclnn.Int8, func(i int) int8 { return int8(i) })
	layoutsOf(t, aclnn.Int16, func(i int) int16 { return int16(-i) })
	layoutsOf(t, aclnn.Int32, func(i int) int32 { return int32(i) << 20 })
	layoutsOf(t, aclnn.Int64, func(i int) int64 { return int64(i) << 40 })
	layoutsOf(t, aclnn.Int64, func(i int) int { return -i })
	layoutsOf(t, aclnn.Uint8, func(i int) uint8 { return uint8(i * 3) })
	layoutsOf(t, aclnn.Uint16, func(i int) uint16 { return uint16(i * 900) })
	layoutsOf(t, aclnn.Uint32, func(i int) uint32 { return uint32(i) << 25 })
	layoutsOf(t, aclnn.Uint64, func(i int) uint64 { return uint64(i) << 57 })
	layoutsOf(t, aclnn.Bool, func(i int) bool { return i%3 == 0 })
	layoutsOf(t, aclnn.Complex64, func(i int) complex64 { return complex(float32(i), -1) })
	layoutsOf(t, aclnn.Complex128, func(i int) complex128 { return complex(1, float64(i)) })
}

func layoutsOf[T aclnn.Value](t *testing.T, dt aclnn.DType, value func(i int) T) {
	t.Run(fmt.Sprintf("%v of %T", dt, value(0)), func(t *testing.T) {
		st := openStream(t)
		values := make([]T, 4*3*6)
		for i := range values {
			values[i] = value(i)
		}
		x := made(t)(aclnn.FromSlice(t.Context(), st, dt, values, 4, 3, 6))
		require.Equal(t, dt, x.DType())
		for _, l := range layouts {
			v := l.view(x)
			require.NoError(t, v.Err(), l.name)
			want := []T{}
			for _, p := range places(v) {
				want = append(want, values[p])
			}
			got, err := aclnn.ToSlice[T](t.Context(), st, v)
			require.NoError(t, err, l.name)
			require.Equal(t, want, got, l.name)
		}
	})
}

// TestSliceSizes: no element, one, odd numbers, and more than go at a time, with and without
// conversion.
func TestSliceSizes(t *testing.T) {
	st := openStream(t)
	const chunk = 4 << 20
	for _, n := range []int64{0, 1, 3, 1001, chunk/4 - 1, chunk / 4, chunk/4 + 1, chunk/2 + 5} {
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(i % 251)
		}
		for _, dt := range []aclnn.DType{aclnn.Float32, aclnn.BFloat16, aclnn.Float64} {
			x := made(t)(aclnn.FromSlice(t.Context(), st, dt, values, n))
			got, err := aclnn.ToSlice[float32](t.Context(), st, x)
			require.NoError(t, err)
			require.True(t, assert.ObjectsAreEqual(values, got), "%d values of %v", n, dt)
		}
	}
	for _, shape := range [][]int64{{}, {1}, {1, 1}, {0}, {3, 0}, {0, 1 << 30}, {1, 0, 5, 1, 1, 1, 1, 1}} {
		n := int64(1)
		for _, d := range shape {
			n *= d
		}
		x := made(t)(aclnn.FromSlice(t.Context(), st, aclnn.Int32, make([]int, n), shape...))
		require.Len(t, x.Shape(), len(shape))
		got, err := aclnn.ToSlice[int64](t.Context(), st, x)
		require.NoError(t, err)
		require.Len(t, got, int(n))
	}
}

func TestSliceConversions(t *testing.T) {
	ctx, st := t.Context(), openStream(t)
	inf := float32(math.Inf(1))
	x := made(t)(aclnn.FromSlice(ctx, st, aclnn.BFloat16, []float32{1, 1 + 0x1p-8, 1 + 3*0x1p-8, 3.4e38, -0.1}, 5))
	floats, err := aclnn.ToSlice[float32](ctx, st, x)
	require.NoError(t, err)
	require.Equal(t, []float32{1, 1, 1 + 0x1p-6, inf, half.BFloat16FromFloat32(-0.1).Float32()}, floats)
	x = made(t)(aclnn.FromSlice(ctx, st, aclnn.Float16, []float64{1 + 0x1p-11 + 0x1p-40, 1e6}, 2))
	raw, err := aclnn.ToSlice[half.Float16](ctx, st, x)
	require.NoError(t, err)
	require.Equal(t, []half.Float16{0x3c01, 0x7c00}, raw, "rounded once")
	x = made(t)(aclnn.FromSlice(ctx, st, aclnn.Int8, []int{-128, 127}, 2))
	ints, err := aclnn.ToSlice[uint8](ctx, st, x.Narrow(0, 1, 1))
	require.NoError(t, err)
	require.Equal(t, []uint8{127}, ints)
	x = made(t)(aclnn.FromSlice(ctx, st, aclnn.Int32, []bool{true, false}, 2))
	wide, err := aclnn.ToSlice[int](ctx, st, x)
	require.NoError(t, err)
	require.Equal(t, []int{1, 0}, wide)
	type token int32
	x = made(t)(aclnn.FromSlice(ctx, st, aclnn.Int64, []token{7}, 1))
	tokens, err := aclnn.ToSlice[token](ctx, st, x)
	require.NoError(t, err)
	require.Equal(t, []token{7}, tokens)
}

// TestBoolsAreBools: bytes of a bool tensor that are neither 0 nor 1 do not become Go's bool.
func TestBoolsAreBools(t *testing.T) {
	st := openStream(t)
	x := made(t)(aclnn.New(st, aclnn.Bool, 2))
	require.NoError(t, aclnn.CopyToDevice(t.Context(), st, x, []uint8{0, 255}))
	got, err := aclnn.ToSlice[bool](t.Context(), st, x)
	require.NoError(t, err)
	require.Equal(t, []bool{false, true}, got)
	ones, err := aclnn.ToSlice[int](t.Context(), st, x)
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, ones)
}

// TestSlicesOfNZ reads FRACTAL_NZ storage, whole matrices of it, and its transpose.
func TestSlicesOfNZ(t *testing.T) {
	st := openStream(t)
	for _, dt := range []aclnn.DType{aclnn.Float32, aclnn.BFloat16, aclnn.Int8} {
		for _, shape := range [][]int64{{1, 2, 3}, {3, 17, 33}, {2, 16, 64}, {1, 1, 40}, {1, 40, 1}} {
			x, values := inNZ(t, st, dt, shape...)
			rows, columns := shape[1], shape[2]
			read := func(v *aclnn.Tensor) []float64 {
				require.NoError(t, v.Err())
				var got []float64
				if dt == aclnn.Int8 {
					ints, err := aclnn.ToSlice[int](t.Context(), st, v)
					require.NoError(t, err)
					for _, i := range ints {
						got = append(got, float64(i))
					}
					return got
				}
				got, err := aclnn.ToSlice[float64](t.Context(), st, v)
				require.NoError(t, err)
				return got
			}
			require.Equal(t, values, read(x), "%v", x)
			last := values[(shape[0]-1)*rows*columns:]
			require.Equal(t, last, read(x.Select(0, shape[0]-1)))
			swapped := read(x.Select(0, shape[0]-1).Transpose(0, 1))
			for i := range rows {
				for j := range columns {
					require.Equal(t, last[i*columns+j], swapped[j*rows+i], "%v", x)
				}
			}
		}
	}
}

// inNZ makes a tensor in FRACTAL_NZ and its values: the host sorts them into tiles.
func inNZ(t *testing.T, st *acl.Stream, dt aclnn.DType, shape ...int64) (x *aclnn.Tensor, values []float64) {
	t.Helper()
	batch, rows, columns := shape[0], shape[1], shape[2]
	c0 := aclnn.NZBlock(dt)
	across, down := (columns+c0-1)/c0, (rows+15)/16
	tiles := make([]float64, batch*across*down*16*c0)
	for b := range batch {
		for i := range rows {
			for j := range columns {
				v := float64((b*rows*columns + i*columns + j) % 101)
				values = append(values, v)
				tiles[((b*across+j/c0)*down*16+i)*c0+j%c0] = v
			}
		}
	}
	n := int64(len(tiles))
	var storage *aclnn.Tensor
	if dt == aclnn.Int8 {
		ints := make([]int, n)
		for i, v := range tiles {
			ints[i] = int(v)
		}
		storage = made(t)(aclnn.FromSlice(t.Context(), st, dt, ints, n))
	} else {
		storage = made(t)(aclnn.FromSlice(t.Context(), st, dt, tiles, n))
	}
	nd, err := aclnn.Wrap(storage.Buffer(), dt, shape...)
	require.NoError(t, err)
	require.NoError(t, nd.AsNZ().Err())
	return nd.AsNZ(), values
}

// TestSlicesRefused: what cannot be converted is refused before anything is allocated.
func TestSlicesRefused(t *testing.T) {
	ctx, st := t.Context(), openStream(t)
	floats := made(t)(aclnn.FromSlice(ctx, st, aclnn.Float32, []float32{1, 300}, 2))
	ints := made(t)(aclnn.FromSlice(ctx, st, aclnn.Int32, []int{1, -300}, 2))
	nibbles := made(t)(aclnn.New(st, aclnn.Int4, 4))
	before := acl.Live()
	from := func(_ *aclnn.Tensor, err error) error { return err }
	for name, c := range map[string]struct {
		err  error
		text string
	}{
		"float as int":    {from(aclnn.FromSlice(ctx, st, aclnn.Int32, []float32{1}, 1)), "values of type float32 cannot become int32"},
		"int as float":    {from(aclnn.FromSlice(ctx, st, aclnn.Float32, []int{1}, 1)), "values of type int cannot become float32"},
		"int as bool":     {from(aclnn.FromSlice(ctx, st, aclnn.Bool, []uint8{1}, 1)), "cannot become bool"},
		"to float8":       {from(aclnn.FromSlice(ctx, st, aclnn.Float8E4M3, []float32{1}, 1)), "cannot become float8_e4m3fn"},
		"too large":       {from(aclnn.FromSlice(ctx, st, aclnn.Int8, []int{7, 128}, 2)), "int8[2]ND: element 1, 128, exceeds int8"},
		"too few":         {from(aclnn.FromSlice(ctx, st, aclnn.Int8, []int{7}, 2)), "1 values for int8[2], which has 2"},
		"no shape":        {from(aclnn.FromSlice(ctx, st, aclnn.Int8, []int{7, 8})), "2 values for int8[], which has 1"},
		"negative":        {from(aclnn.FromSlice(ctx, st, aclnn.Int8, []int{7}, -1)), "negative dimension"},
		"no dtype":        {from(aclnn.FromSlice(ctx, st, aclnn.Undefined, []int{7}, 1)), "cannot have dtype undefined"},
		"no stream":       {from(aclnn.FromSlice(ctx, nil, aclnn.Int8, []int{7}, 1)), "the stream is nil"},
		"no context":      {from(aclnn.FromSlice(nothing, st, aclnn.Int8, []int{7}, 1)), "the context is nil"},
		"read as int":     {to[int](ctx, st, floats), "float32[2]ND cannot become values of type int"},
		"read as float":   {to[float32](ctx, st, ints), "int32[2]ND cannot become values of type float32"},
		"read too large":  {to[uint8](ctx, st, ints), "int32[2]ND: element 1, -300, exceeds uint8"},
		"read nibbles":    {to[uint8](ctx, st, nibbles), "int4[4]ND cannot become"},
		"read nothing":    {to[int](ctx, st, nil), "a tensor is nil"},
		"read bad view":   {to[int](ctx, st, ints.Narrow(0, 1, 2)), "out of range"},
		"read no memory":  {to[float32](ctx, st, new(aclnn.Tensor)), "has no memory"},
		"read no stream":  {to[int](ctx, nil, ints), "the stream is nil"},
		"copy nil":        {aclnn.CopyToDevice(ctx, st, nil, []int32{1}), "a tensor is nil"},
		"copy wrong type": {aclnn.CopyFromDevice(ctx, st, []float32{1, 2}, ints), "FromSlice and ToSlice convert"},
		"copy a view":     {aclnn.CopyFromDevice(ctx, st, []int32{1}, ints.Slice(0, 0, 2, 2).Reshape(1, 1).Transpose(0, 1).Slice(0, 0, 1, 1)), ""},
		"copy too few":    {aclnn.CopyFromDevice(ctx, st, []int32{1}, ints), "1 values for int32[2]ND, which has 2"},
	} {
		if c.text == "" {
			require.NoError(t, c.err, name)
			continue
		}
		require.ErrorIs(t, c.err, acl.ErrInvalidArgument, name)
		require.ErrorContains(t, c.err, c.text, name)
	}
	require.Equal(t, before, acl.Live())
}

// nothing is no context, which callers should not have.
var nothing context.Context

func to[T aclnn.Value](ctx context.Context, st *acl.Stream, x *aclnn.Tensor) error {
	_, err := aclnn.ToSlice[T](ctx, st, x)
	return err
}

// TestClosed: a tensor or a stream that was closed is acl.ErrClosed.
func TestClosed(t *testing.T) {
	ctx := t.Context()
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	x, err := aclnn.FromSlice(ctx, st, aclnn.Float32, []float32{1, 2}, 2)
	require.NoError(t, err)
	require.NoError(t, x.Close())
	require.NoError(t, x.Close())
	require.ErrorIs(t, to[float32](ctx, st, x), acl.ErrClosed)
	_, err = aclnn.Clone(st, x)
	require.ErrorIs(t, err, acl.ErrClosed)
	gone, err := dev.NewStream()
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	_, err = aclnn.FromSlice(ctx, gone, aclnn.Float32, []float32{1, 2}, 2)
	require.ErrorIs(t, err, acl.ErrClosed)
	_, err = aclnn.Zeros(gone, aclnn.Float32, 2)
	require.ErrorIs(t, err, acl.ErrClosed)
	require.Zero(t, acl.Live()[acl.KindBuffer])
}

// TestCancelled: a context that has ended ends the wait, and the tensor that was begun is freed.
func TestCancelled(t *testing.T) {
	st := openStream(t)
	x := made(t)(aclnn.Zeros(st, aclnn.Float32, 1000))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	gate := make(chan struct{})
	if err := st.HostFunc(func() { <-gate }); err != nil {
		t.Skip("the stream cannot be held: ", err)
	}
	require.ErrorIs(t, to[float32](ctx, st, x), context.Canceled)
	close(gate)
	require.NoError(t, st.Synchronize(t.Context()))
	require.Equal(t, 1, acl.Live()[acl.KindBuffer])
}

// TestSlicesFail: when a copy fails, nothing of the tensor stays.
func TestSlicesFail(t *testing.T) {
	acltest.Faults(t, "aclrtMemcpyAsync=507899", func(t *testing.T) {
		st := openStream(t)
		_, err := aclnn.FromSlice(t.Context(), st, aclnn.BFloat16, []float32{1, 2}, 2)
		require.ErrorContains(t, err, "507899")
		x := made(t)(aclnn.Zeros(st, aclnn.Float32, 4, 4))
		require.Error(t, to[float32](t.Context(), st, x.Transpose(0, 1)))
		_, err = aclnn.Clone(st, x)
		require.Error(t, err)
		require.Equal(t, 1, acl.Live()[acl.KindBuffer])
	})
}
