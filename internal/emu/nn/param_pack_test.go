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
	scales, offsets, out := host(dtype.Float32, 1, .5), host(dtype.Float32, -2), kerneltest.New(t, dtype.Int64, kerneltest.Contiguous, []int64{2}, nil)
	at := uint64(uintptr(out.Data))
	for _, c := range []struct {
		offsets, n uint64
		want       []uint64
	}{
		{0, 0, []uint64{1<<46 | 0x3f800000, 1<<46 | 0x3f000000}},
		{offsets, 1, []uint64{1<<46 | 0x3f800000 | 0x1fe<<37, 1<<46 | 0x3f000000 | 0x1fe<<37}},
	} {
		require.Zero(t, pack(&thread, []uint64{scales, 2, c.offsets, c.n, at, at + 8}))
		result := rt.Read[uint64](at, 2)
		require.Equal(t, uint64(2), result[1])
		require.Equal(t, c.want, rt.Read[uint64](result[0], 2))
		rt.Free(rt.Pointer(result[0]))
	}
	code := func(a ...uint64) int32 { return int32(uint32(pack(&thread, a))) }
	require.Equal(t, op.NullPointer, code(0, 2, 0, 0, at, at+8))
	require.Equal(t, op.NullPointer, code(scales, 2, 0, 0, at, 0))
	require.Equal(t, op.InvalidParam, code(scales, 0, 0, 0, at, at+8))
	require.Equal(t, op.InvalidParam, code(scales, 2, offsets, 3, at, at+8))
}
