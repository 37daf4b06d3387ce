package nn

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
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

func TestConvolutionWeightSize(t *testing.T) {
	of := func(soc string) (*Library, func(...uint64) uint64) {
		l := New(rt.NewMachine(rt.Config{Devices: 1, SoC: soc}))
		f := l.Functions()["aclnnCalculateConvolutionWeightSize"]
		return l, func(words ...uint64) uint64 { return f(new(rt.Thread), words) & math.MaxUint32 }
	}
	l, size := of("Ascend310P3")
	array := func(d ...int64) uint64 { return l.rt.Handles.New(rt.IntArrayKind, &intArray{d}) }
	result := kerneltest.New(t, dtype.Int64, kerneltest.Contiguous, []int64{1}, nil)
	at, half := uint64(uintptr(result.Data)), uint64(dtype.Float16)
	for _, c := range []struct {
		shape  []int64
		groups uint64
		want   float64
	}{
		{[]int64{2, 2, 32, 16}, 1, 32 * 16 * 16 * 16}, {[]int64{18, 17, 1, 3}, 1, 2 * 3 * 2 * 256}, {[]int64{40, 1, 3, 3}, 40, 3 * 9 * 256}, {[]int64{2, 0, 3, 3}, 1, 0},
	} {
		require.Zero(t, size(array(c.shape...), 0, c.groups, half, at))
		require.Equal(t, []float64{c.want}, kerneltest.Values(result), c.shape)
	}
	weight := array(2, 2, 3, 3)
	require.EqualValues(t, op.NullPointer, size(0, 0, 1, half, at))
	require.EqualValues(t, op.NullPointer, size(weight, 0, 1, half, 0))
	for _, words := range [][]uint64{
		{at, 0, 1, half, at}, {array(2, 2, 3), 0, 1, half, at}, {array(2, -2, 3, 3), 0, 1, half, at}, {weight, 1, 1, half, at},
		{weight, 0, 0, half, at}, {weight, 0, 3, half, at}, {weight, 0, 1, uint64(dtype.Float32), at},
	} {
		require.EqualValues(t, op.InvalidParam, size(words...), words)
	}
	l, size = of("Ascend910B1")
	require.EqualValues(t, op.InvalidParam, size(array(2, 2, 3, 3), 0, 1, half, at))
}

// An operator that the emulator does not have refuses a null argument as CANN does, and every call that
// CANN accepts.
func TestUnimplementedOperator(t *testing.T) {
	l := New(rt.New())
	id := slices.IndexFunc(op.Operators[:], func(o op.Operator) bool { return o.Name == "WeightQuantPreprocess" })
	require.GreaterOrEqual(t, id, 0)
	require.NotContains(t, implementations, "WeightQuantPreprocess", "take another operator")
	outs := kerneltest.New(t, dtype.Uint64, kerneltest.Contiguous, []int64{2}, []float64{0})
	first := uint64(uintptr(outs.Data))
	handle := func(d dtype.Type, shape ...int64) uint64 {
		return l.rt.Handles.New(rt.TensorKind, optest.Tensor(t, d, shape))
	}
	weight := handle(dtype.Int8, 4)
	words := []uint64{weight, weight, 0, 0, 1, 1, 0, weight, weight, 0, 0, first, first + 8}
	refused := func(code int32, text string) {
		thread := new(rt.Thread)
		require.EqualValues(t, uint32(code), l.Prepare(thread, id, words)&math.MaxUint32)
		require.Contains(t, rt.CString(thread.TakeText()), text)
	}
	refused(op.InvalidParam, "does not implement")
	words[0] = 0
	refused(op.NullPointer, "weight is null")
}
