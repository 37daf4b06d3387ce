package nn

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/dump"
)

// Without a listener for dumps, the call's own Run is queued.
func TestNoDumps(t *testing.T) {
	r := rt.NewMachine(rt.Config{Devices: 1})
	l := New(r)
	l.Dumps = dump.New(r)
	ran := false
	e := &op.Executor{Run: func(*op.Exec) error { ran = true; return nil }}
	require.NoError(t, l.run(nil, e)(nil))
	assert.True(t, ran)
}

// When tiling fails, phase one returns 0 and an executor, phase two returns 561103 with the error
// text, and the executor is consumed.
func TestFlashAttentionRefusedByPhaseTwo(t *testing.T) {
	l, thread := New(rt.New()), new(rt.Thread)
	heads, stats := []int64{2, 1, 8, 16}, []int64{2, 1, 8, 8}
	x := optest.Tensor(t, dtype.Float16, heads, 1)
	a := optest.Args{
		"query": x, "key": x, "value": x, "scaleValue": 0.25, "keepProb": 1.0, "preTokens": 8, "nextTokens": 8, "headNum": 1, "inputLayout": "BNSD",
		"attenMaskOptional": optest.Tensor(t, dtype.Bool, []int64{2, 1, 1, 8}, 0),
		"softmaxMaxOut":     optest.Tensor(t, dtype.Float32, stats), "softmaxSumOut": optest.Tensor(t, dtype.Float32, stats), "attentionOutOut": optest.Tensor(t, dtype.Float16, heads),
	}
	declared := op.Find("FlashAttentionScore")
	id := slices.IndexFunc(op.Operators[:], func(o op.Operator) bool { return o.Name == declared.Name })
	words := l.words(t, declared, a)
	outs := kerneltest.New(t, dtype.Uint64, kerneltest.Contiguous, []int64{2}, []float64{0})
	first := uint64(uintptr(outs.Data))
	words = append(words, first, first+8)
	require.Zero(t, l.Prepare(thread, id, words))
	require.Equal(t, 1, l.rt.Handles.Count(rt.ExecutorKind))
	executor := *(*uint64)(rt.Pointer(first + 8))
	require.EqualValues(t, 561103, l.Execute(thread, id, 0, 0, executor, 0))
	require.Contains(t, rt.CString(thread.TakeText()), "get unsupported atten_mask shape, the shape is [2,1,1,8]")
	require.Zero(t, l.rt.Handles.Count(rt.ExecutorKind))
}

// A null workspace with a size is refused, also when the call needs none, and the executor is gone.
func TestNullWorkspaceWithSize(t *testing.T) {
	l, thread := New(rt.New()), new(rt.Thread)
	x := optest.Tensor(t, dtype.Float32, []int64{4}, 1)
	declared := op.Find("Abs")
	id := slices.IndexFunc(op.Operators[:], func(o op.Operator) bool { return o.Name == declared.Name })
	outs := kerneltest.New(t, dtype.Uint64, kerneltest.Contiguous, []int64{2}, []float64{0})
	first := uint64(uintptr(outs.Data))
	words := append(l.words(t, declared, optest.Args{"self": x, "out": optest.Tensor(t, dtype.Float32, []int64{4})}), first, first+8)
	require.Zero(t, l.Prepare(thread, id, words))
	require.Zero(t, *(*uint64)(rt.Pointer(first)))
	require.EqualValues(t, 161001, l.Execute(thread, id, 0, 512, *(*uint64)(rt.Pointer(first + 8)), 0))
	require.Contains(t, rt.CString(thread.TakeText()), "workspace is null, its size is 512")
	require.Zero(t, l.rt.Handles.Count(rt.ExecutorKind))
}

func bytesOf(s string) (out []float64) {
	for _, b := range []byte(s) {
		out = append(out, float64(b))
	}
	return out
}

// The texts of some refusals begin with other identifiers than those of most.
func TestIdentifiers(t *testing.T) {
	l, thread := New(rt.New()), new(rt.Thread)
	declared := op.Find("Add")
	id := slices.IndexFunc(op.Operators[:], func(o op.Operator) bool { return o.Name == declared.Name })
	outs := kerneltest.New(t, dtype.Uint64, kerneltest.Contiguous, []int64{2}, []float64{0})
	first := uint64(uintptr(outs.Data))
	call := func(self, out int64, size, executor uint64) string {
		x := func(n int64) *op.Tensor { return optest.Tensor(t, dtype.Float32, []int64{n}, 1) }
		words := l.words(t, declared, optest.Args{"self": x(self), "other": x(4), "alpha": &op.Scalar{DType: dtype.Float32}, "out": x(out)})
		require.NotZero(t, l.Prepare(thread, id, append(words, size, executor)))
		return rt.CString(thread.TakeText())
	}
	require.Contains(t, call(3, 4, first, first+8), "Invalid_Argument_Tensor_Input_Shape(EZ1007)", "no common shape")
	require.Contains(t, call(4, 3, first, first+8), "AclNN_Parameter_Error(EZ1001)", "another result")
	require.Contains(t, call(4, 4, first, 0), "(EZ1011)", "a null executor")
	require.EqualValues(t, op.NullPointer, l.Execute(thread, id, 0, 0, 0, 0))
	require.Contains(t, rt.CString(thread.TakeText()), "(EZ1011)")
}

// Phase one refuses every operator on a machine that the environment describes wrongly, also where nobody has called
// aclInit: an unknown chip does not count as another one.
func TestPrepareWithoutAMachine(t *testing.T) {
	t.Setenv("CANN_EMU_SOC", "910B5")
	l, thread := New(rt.New()), new(rt.Thread)
	x := optest.Tensor(t, dtype.Float32, []int64{4}, 1)
	declared := op.Find("Abs")
	id := slices.IndexFunc(op.Operators[:], func(o op.Operator) bool { return o.Name == declared.Name })
	outs := kerneltest.New(t, dtype.Uint64, kerneltest.Contiguous, []int64{2}, []float64{0})
	first := uint64(uintptr(outs.Data))
	require.EqualValues(t, 561000, l.Prepare(thread, id, append(l.words(t, declared, optest.Args{"self": x, "out": x}), first, first+8)))
	require.Contains(t, rt.CString(thread.TakeText()), `aclnnAbs: CANN_EMU_SOC: unknown chip "Ascend910B5"`)
	require.Zero(t, l.rt.Handles.Count(rt.ExecutorKind))
}
