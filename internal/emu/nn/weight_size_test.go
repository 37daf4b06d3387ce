package nn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

func TestMatmulWeightSize(t *testing.T) {
	l := New(rt.New())
	result := kerneltest.New(t, dtype.Int64, kerneltest.Contiguous, []int64{1}, nil)
	at := uint64(uintptr(result.Data))
	v1, v2 := l.Functions()["aclnnCalculateMatmulWeightSize"], l.Functions()["aclnnCalculateMatmulWeightSizeV2"]
	var thread rt.Thread
	array := func(d ...int64) uint64 { return l.rt.Handles.New(rt.IntArrayKind, &intArray{d}) }
	for _, c := range []struct {
		shape  []int64
		d      dtype.Type
		v1, v2 float64
	}{
		{[]int64{510, 510}, dtype.Float16, 262144, 262144},
		{[]int64{510, 270}, dtype.Int8, 139264, 147456},
		{[]int64{3, 20, 40}, dtype.BFloat16, 3 * 32 * 48, 3 * 32 * 48},
		{[]int64{2, 3, 20, 40}, dtype.Float32, 6 * 32 * 48, 6 * 32 * 64},
	} {
		require.Zero(t, v1(&thread, []uint64{array(c.shape...), at}))
		require.Equal(t, []float64{c.v1}, kerneltest.Values(result))
		require.Zero(t, v2(&thread, []uint64{array(c.shape...), uint64(c.d), at}))
		require.Equal(t, []float64{c.v2}, kerneltest.Values(result))
	}
	code := func(w uint64) int32 { return int32(uint32(w)) }
	require.Equal(t, op.NullPointer, code(v1(&thread, []uint64{0, at})))
	require.Equal(t, op.NullPointer, code(v2(&thread, []uint64{array(2, 2), 1, 0})))
	require.Equal(t, op.InvalidParam, code(v1(&thread, []uint64{array(2), at})))
	require.Equal(t, op.InvalidParam, code(v2(&thread, []uint64{array(1, 1, 1, 1, 1, 1, 1), 1, at})))
	require.Equal(t, op.InvalidParam, code(v2(&thread, []uint64{array(0, 2), 1, at})))
	require.Equal(t, op.InvalidParam, code(v1(&thread, []uint64{at, at})))
}
