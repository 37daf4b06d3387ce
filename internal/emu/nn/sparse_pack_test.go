package nn

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
	"github.com/goascend/cann/internal/emu/rt"
)

func TestTransSparse4to2Refuses(t *testing.T) {
	l := New(rt.New())
	var thread rt.Thread
	call := l.Functions()["aclnnTransSparse4to2Para"]
	array := func(d ...int64) uint64 { return l.rt.Handles.New(rt.IntArrayKind, &intArray{d}) }
	w, results := optest.Tensor(t, dtype.Int8, []int64{1, 4}, 1, 2, 3, 0), kerneltest.New(t, dtype.Int64, kerneltest.Contiguous, []int64{6}, []float64{1})
	at := uint64(uintptr(results.Data))
	ask := func(weight, shape uint64) int32 {
		return int32(uint32(call(&thread, []uint64{weight, shape, at, at + 8, at + 16, at + 24, at + 32, at + 40})))
	}
	assert.Equal(t, op.NullPointer, ask(0, array(1, 4)))
	assert.Equal(t, op.NullPointer, ask(w.Addr, 0))
	assert.Equal(t, op.InvalidParam, ask(w.Addr, at))
	assert.Equal(t, op.InvalidParam, ask(w.Addr, array(4)))
	assert.Equal(t, op.InvalidParam, ask(w.Addr, array(0, 4)))
	assert.Equal(t, op.InvalidParam, ask(w.Addr, array(1, 4)), "three of four")
	assert.Equal(t, []float64{1, 1, 1, 1, 1, 1}, kerneltest.Values(results), "a refusal gives nothing")
}

// The function packs weights in the form that the operator reads: rows with two of four elements
// kept, in tiles.
func TestTransSparse4to2(t *testing.T) {
	l := New(rt.New())
	var thread rt.Thread
	shape := l.rt.Handles.New(rt.IntArrayKind, &intArray{[]int64{2, 4}})
	w, results := optest.Tensor(t, dtype.Int8, []int64{2, 4}, 1, 0, 2, 0, 0, 3, 0, 4), kerneltest.New(t, dtype.Int64, kerneltest.Contiguous, []int64{6}, nil)
	at := uint64(uintptr(results.Data))
	call := l.Functions()["aclnnTransSparse4to2Para"]
	require.Zero(t, call(&thread, []uint64{w.Addr, shape, at, at + 8, at + 16, at + 24, at + 32, at + 40}), "code %d", thread.LastError)
	given := func(first int64) (bytes []byte, shape []int64) {
		words := unsafe.Slice((*uint64)(results.Data), 6)[first:]
		defer rt.Free(rt.Pointer(words[0]))
		defer rt.Free(rt.Pointer(words[1]))
		shape = rt.Read[int64](words[1], words[2])
		return rt.Read[byte](words[0], uint64(op.Count(shape))), shape
	}
	kept, keptShape := given(0)
	assert.Equal(t, []int64{1, 1, 16, 32}, keptShape)
	assert.Equal(t, []byte{1, 2, 0}, kept[:3])
	assert.Equal(t, []byte{3, 4, 0}, kept[32:35])
	index, indexShape := given(3)
	assert.Equal(t, []int64{1, 1, 16, 8}, indexShape)
	assert.Equal(t, []byte{0b0100, 0}, index[:2])
	assert.Equal(t, []byte{0b1001, 0}, index[8:10])
}
