package aclnn_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
)

func TestFilled(t *testing.T) {
	st := openStream(t)
	for _, shape := range [][]int64{{}, {1}, {3, 5}, {0, 4}, {100, 7}} {
		for _, dt := range []aclnn.DType{aclnn.Float32, aclnn.Float16, aclnn.BFloat16, aclnn.Float64} {
			for want, x := range map[float64]*aclnn.Tensor{
				0:   made(t)(aclnn.Zeros(st, dt, shape...)),
				1:   made(t)(aclnn.Ones(st, dt, shape...)),
				2.5: made(t)(aclnn.Full(st, dt, aclnn.Float(2.5), shape...)),
			} {
				got, err := aclnn.ToSlice[float64](t.Context(), st, x)
				require.NoError(t, err)
				require.Len(t, got, int(x.Len()))
				for _, v := range got {
					require.Equal(t, want, v, "%v", x)
				}
			}
		}
		for _, dt := range []aclnn.DType{aclnn.Int8, aclnn.Int16, aclnn.Int32, aclnn.Int64, aclnn.Uint8, aclnn.Bool} {
			for want, x := range map[int64]*aclnn.Tensor{0: made(t)(aclnn.Zeros(st, dt, shape...)), 1: made(t)(aclnn.Ones(st, dt, shape...))} {
				got, err := aclnn.ToSlice[int64](t.Context(), st, x)
				require.NoError(t, err)
				for _, v := range got {
					require.Equal(t, want, v, "%v", x)
				}
			}
		}
	}
	for _, dt := range []aclnn.DType{aclnn.Complex64, aclnn.Complex128} {
		got, err := aclnn.ToSlice[complex128](t.Context(), st, made(t)(aclnn.Zeros(st, dt, 3)))
		require.NoError(t, err)
		require.Equal(t, make([]complex128, 3), got)
	}
	got, err := aclnn.ToSlice[complex64](t.Context(), st, made(t)(aclnn.Ones(st, aclnn.Complex64, 2)))
	require.NoError(t, err)
	require.Equal(t, []complex64{1, 1}, got)
	whole, err := aclnn.ToSlice[int64](t.Context(), st, made(t)(aclnn.Full(st, aclnn.Int32, aclnn.Float(-2.5), 3)))
	require.NoError(t, err)
	require.Equal(t, []int64{-2, -2, -2}, whole, "CANN drops the fraction")
	made(t)(aclnn.Zeros(st, aclnn.Int4, 5))

	before := acl.Live()
	_, err = aclnn.Zeros(st, aclnn.Float8E8M0, 2)
	require.ErrorIs(t, err, acl.ErrInvalidArgument)
	require.ErrorContains(t, err, "no zero")
	_, err = aclnn.Full(st, aclnn.Float32, aclnn.Scalar{}, 2)
	require.ErrorIs(t, err, acl.ErrInvalidArgument)
	_, err = aclnn.Full(st, aclnn.Int4, aclnn.Int(1), 2)
	require.ErrorIs(t, err, acl.ErrInvalidArgument, "CANN fills no nibbles")
	_, err = aclnn.Ones(st, aclnn.HiFloat8, 2)
	require.ErrorIs(t, err, acl.ErrInvalidArgument)
	_, err = aclnn.Ones(nil, aclnn.Float32, 2)
	require.ErrorIs(t, err, acl.ErrInvalidArgument)
	_, err = aclnn.Zeros(nil, aclnn.Float32, 2)
	require.ErrorIs(t, err, acl.ErrInvalidArgument)
	require.Equal(t, before, acl.Live())
}

// TestCopies: clones, contiguous tensors and copies of every layout have its elements, and
// memory of their own.
func TestCopies(t *testing.T) {
	ctx, st := t.Context(), openStream(t)
	for _, dt := range []aclnn.DType{aclnn.Float32, aclnn.Float8E4M3, aclnn.HiFloat8, aclnn.Complex32, aclnn.Complex64, aclnn.Bool, aclnn.Int16, aclnn.BFloat16} {
		n := 4 * 3 * 6 * dt.Size()
		raw := make([]uint8, n)
		for i := range raw {
			raw[i] = uint8(i % 2)
		}
		bytes := made(t)(aclnn.FromSlice(ctx, st, aclnn.Uint8, raw, int64(n)))
		x, err := aclnn.Wrap(bytes.Buffer(), dt, 4, 3, 6)
		require.NoError(t, err)
		for _, l := range layouts {
			v := l.view(x)
			var want []uint8
			for _, p := range places(v) {
				want = append(want, raw[int(p)*dt.Size():][:dt.Size()]...)
			}
			clone := made(t)(aclnn.Clone(st, v))
			flat := made(t)(aclnn.Contiguous(st, v))
			for _, c := range []*aclnn.Tensor{clone, flat} {
				require.Equal(t, v.Shape(), c.Shape())
				require.Equal(t, dt, c.DType())
				require.True(t, c.Contiguous())
				require.Equal(t, want, bytesOf(t, st, c), "%v %s", dt, l.name)
			}
			if v.Len() > 0 {
				require.NotEqual(t, v.Address(), clone.Address())
				require.Equal(t, v.Contiguous(), v.Address() == flat.Address())
			}
		}
	}
}

// bytesOf reads a contiguous tensor of any dtype.
func bytesOf(t *testing.T, st *acl.Stream, x *aclnn.Tensor) []uint8 {
	t.Helper()
	if x.Len() == 0 {
		return nil
	}
	view, err := x.Buffer().View(int(x.Address()-x.Buffer().Address()), x.Bytes())
	require.NoError(t, err)
	raw := make([]uint8, x.Bytes())
	require.NoError(t, acl.CopyFromDevice(t.Context(), st, raw, view))
	return raw
}

// TestContiguousIsAView: a contiguous tensor is not copied, and closing the result leaves it.
func TestContiguousIsAView(t *testing.T) {
	ctx, st := t.Context(), openStream(t)
	x := made(t)(aclnn.FromSlice(ctx, st, aclnn.Float32, []float32{1, 2, 3, 4}, 2, 2))
	before := acl.Live()
	same, err := aclnn.Contiguous(st, x.Select(0, 1))
	require.NoError(t, err)
	require.Equal(t, before, acl.Live())
	require.NoError(t, same.Close())
	got, err := aclnn.ToSlice[float32](ctx, st, x)
	require.NoError(t, err)
	require.Equal(t, []float32{1, 2, 3, 4}, got)
	other, err := aclnn.Contiguous(st, x.Transpose(0, 1))
	require.NoError(t, err)
	require.Equal(t, before[acl.KindBuffer]+1, acl.Live()[acl.KindBuffer])
	require.NoError(t, other.Close())
	require.Equal(t, before, acl.Live())
}

// TestCopiesOfNZ: a clone keeps the format, a contiguous tensor is in ND, and Copy goes both
// ways.
func TestCopiesOfNZ(t *testing.T) {
	ctx, st := t.Context(), openStream(t)
	if err := new(aclnn.NpuFormatCastParams).Operator().Available(); err != nil {
		t.Skip(err)
	}
	for _, shape := range [][]int64{{2, 17, 33}, {1, 16, 16}, {3, 2, 5}} {
		x, values := inNZ(t, st, aclnn.Float16, shape...)
		floats := func(x *aclnn.Tensor) []float64 {
			got, err := aclnn.ToSlice[float64](ctx, st, x)
			require.NoError(t, err)
			return got
		}
		clone := made(t)(aclnn.Clone(st, x))
		require.Equal(t, x.String(), clone.String())
		require.Equal(t, x.StorageShape(), clone.StorageShape())
		require.NotEqual(t, x.Address(), clone.Address())
		require.Equal(t, values, floats(clone))
		part := made(t)(aclnn.Clone(st, x.Select(0, shape[0]-1).Transpose(0, 1)))
		require.Equal(t, floats(x.Select(0, shape[0]-1).Transpose(0, 1)), floats(part))

		flat := made(t)(aclnn.Contiguous(st, x))
		require.Equal(t, aclnn.ND, flat.Format())
		require.Equal(t, values, floats(flat))
		swapped := made(t)(aclnn.Contiguous(st, x.Transpose(1, 2)))
		require.Equal(t, aclnn.ND, swapped.Format())
		require.True(t, swapped.Contiguous())
		require.Equal(t, floats(x.Transpose(1, 2)), floats(swapped))

		back := made(t)(aclnn.Clone(st, x))
		require.NoError(t, st.Memset(back.Buffer(), 0, back.Buffer().Size()))
		require.NoError(t, aclnn.Copy(st, back, flat))
		require.Equal(t, values, floats(back))
	}
}

func TestCopyConverts(t *testing.T) {
	ctx, st := t.Context(), openStream(t)
	row := made(t)(aclnn.FromSlice(ctx, st, aclnn.Float32, []float32{1.5, -2.5}, 2))
	x := made(t)(aclnn.Zeros(st, aclnn.BFloat16, 3, 4))
	require.NoError(t, aclnn.Copy(st, x.Slice(1, 0, 4, 2), row))
	got, err := aclnn.ToSlice[float32](ctx, st, x)
	require.NoError(t, err)
	require.Equal(t, []float32{1.5, 0, -2.5, 0, 1.5, 0, -2.5, 0, 1.5, 0, -2.5, 0}, got)
}

func TestCopiesRefused(t *testing.T) {
	ctx, st := t.Context(), openStream(t)
	x := made(t)(aclnn.FromSlice(ctx, st, aclnn.Float32, []float32{1, 2}, 2))
	nibbles := made(t)(aclnn.New(st, aclnn.Int4, 4, 2))
	before := acl.Live()
	var missing *aclnn.Tensor
	for name, c := range map[string]struct {
		err   error
		group error
	}{
		"copy of nil":         {aclnn.Copy(st, x, nil), acl.ErrInvalidArgument},
		"copy to nil":         {aclnn.Copy(st, missing, x), acl.ErrInvalidArgument},
		"copy without stream": {aclnn.Copy(nil, x, x), acl.ErrInvalidArgument},
		"copy of a bad view":  {aclnn.Copy(st, x, x.Reshape(3)), acl.ErrInvalidArgument},
		"copy of two shapes":  {aclnn.Copy(st, x, x.Unsqueeze(1).Expand(2, 2)), acl.ErrInvalidArgument},
		"clone of nil":        {second(aclnn.Clone(st, missing)), acl.ErrInvalidArgument},
		"clone of a bad view": {second(aclnn.Clone(st, x.Transpose(0, 5))), acl.ErrInvalidArgument},
		"contiguous nil":      {second(aclnn.Contiguous(st, missing)), acl.ErrInvalidArgument},
		"transposed nibbles":  {second(aclnn.Contiguous(st, nibbles.Transpose(0, 1))), acl.ErrNotSupported},
		"half a byte":         {second(aclnn.Clone(st, nibbles.Reshape(8).Narrow(0, 1, 2))), acl.ErrNotSupported},
	} {
		require.ErrorIs(t, c.err, c.group, name)
	}
	require.Equal(t, before, acl.Live())
	made(t)(aclnn.Clone(st, nibbles))
}

func second(x *aclnn.Tensor, err error) error { return err }

// TestCopiesFail: a failure frees what was made before it.
func TestCopiesFail(t *testing.T) {
	acltest.Faults(t, "aclrtMemcpyAsync:2+=507899;aclrtMemsetAsync=507899;aclnnInplaceCopyGetWorkspaceSize=561000;aclnnInplaceFillScalar=561000", func(t *testing.T) {
		st := openStream(t)
		x := made(t)(aclnn.FromSlice(t.Context(), st, aclnn.Float32, []float32{1, 2, 3, 4}, 2, 2))
		before := acl.Live()
		for name, err := range map[string]error{
			"zeros":      second(aclnn.Zeros(st, aclnn.Float32, 2)),
			"ones":       second(aclnn.Ones(st, aclnn.Float32, 2)),
			"clone":      second(aclnn.Clone(st, x)),
			"contiguous": second(aclnn.Contiguous(st, x.Transpose(0, 1))),
			"NZ":         second(aclnn.Clone(st, nzOn(t, st))),
			"print":      aclnn.Print(t.Context(), st, io.Discard, x.Unsqueeze(0).Expand(500, 2, 2)),
			"values":     to[float32](t.Context(), st, x),
		} {
			require.Error(t, err, name)
		}
		before[acl.KindBuffer]++ // the NZ tensor's
		require.Equal(t, before, acl.Live())
	})
}

func nzOn(t *testing.T, st *acl.Stream) *aclnn.Tensor {
	x := made(t)(aclnn.New(st, aclnn.Float16, 16, 16))
	return x.AsNZ()
}
