package nn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

func TestTransQuantParamOnHost(t *testing.T) {
	l := New(rt.New())
	pack := l.Functions()["aclnnTransQuantParam"]
	var thread rt.Thread
	host := func(d dtype.Type, v ...float64) uint64 {
		return uint64(uintptr(kerneltest.New(t, d, kerneltest.Contiguous, []int64{int64(len(v))}, v).Data))
	}
	scales, offsets, out := host(dtype.Float32, 1, 1.1), host(dtype.Float32, -2.5, 300, -300), kerneltest.New(t, dtype.Int64, kerneltest.Contiguous, []int64{2}, nil)
	at := uint64(uintptr(out.Data))
	for _, c := range []struct {
		offsets, n uint64
		want       []uint64
	}{
		{0, 0, []uint64{1<<46 | 0x3f800000, 1<<46 | 0x3f8ccccd}},
		{offsets, 1, []uint64{1<<46 | 0x3f800000 | 0x1fd<<37, 1<<46 | 0x3f8ccccd}},
		{offsets, 3, []uint64{1<<46 | 0x3f800000 | 0x1fd<<37, 1<<46 | 0x3f8ccccd | 0xff<<37, 0x100 << 37}},
	} {
		require.Zero(t, pack(&thread, []uint64{scales, 2, c.offsets, c.n, at, at + 8}))
		result := rt.Read[uint64](at, 2)
		require.Equal(t, uint64(16), result[1])
		want := make([]uint64, 16)
		copy(want, c.want)
		require.Equal(t, want, rt.Read[uint64](result[0], 16))
		rt.Free(rt.Pointer(result[0]))
	}
	require.Zero(t, pack(&thread, []uint64{scales, 1, 0, 0, at, at + 8}))
	result := rt.Read[uint64](at, 2)
	require.Equal(t, uint64(1), result[1], "a single scale is not padded")
	rt.Free(rt.Pointer(result[0]))
	code := func(a ...uint64) int32 { return int32(uint32(pack(&thread, a))) }
	require.Equal(t, op.InvalidParam, code(0, 2, 0, 0, at, at+8))
	require.Equal(t, op.NullPointer, code(scales, 2, 0, 0, at, 0))
	require.Equal(t, op.InvalidParam, code(scales, 0, 0, 0, at, at+8))
	require.Equal(t, op.InvalidParam, code(scales, 2, offsets, 0, at, at+8))
	require.Equal(t, op.InvalidParam, code(scales, 2, 0, 3, at, at+8))
}
