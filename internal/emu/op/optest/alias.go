package optest

import (
	"bytes"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

// verifyAliases repeats a call with each output in the memory of each input that it can be, and
// verifies the policy of the operator: the results are those of separate memory, or the call is
// refused. It leaves the tensors of the call as they are.
func verifyAliases(t testing.TB, name string, a Args, run func(*op.Executor) error) {
	t.Helper()
	o := op.Find(name)
	for _, out := range o.Params {
		for _, in := range o.Params {
			to, _ := a[out.Name].(*op.Tensor)
			from, _ := a[in.Name].(*op.Tensor)
			if out.Use == op.Written && in.Use == op.Read && to != nil && from != nil && replaceable(to, from) {
				verifyAlias(t, o, a, out.Name, in.Name, run)
			}
		}
	}
}

func verifyAlias(t testing.TB, o *op.Operator, a Args, out, in string, run func(*op.Executor) error) {
	t.Helper()
	// The output starts with the elements of the input in both calls, so that elements that the
	// operator does not write are equal.
	apart := duplicated(t, o, a)
	apart[out] = duplicate(t, a[in].(*op.Tensor))
	shared := duplicated(t, o, a)
	shared[out] = shared[in]
	call := called(t, o.Name, shared, op.Env{})
	e, err := op.NewExecutor(Tested[o.Name], call)
	if call.Exchanges() {
		require.ErrorContains(t, err, "shares memory", "aclnn%s with %s = %s", o.Name, out, in)
		return
	}
	reference, refused := Prepare(t, o.Name, apart)
	if refused != nil {
		return // the operator does not take the strides of the input for the output
	}
	require.NoError(t, err, "aclnn%s with %s = %s", o.Name, out, in)
	if run(reference) != nil {
		return
	}
	require.NoError(t, run(e), "aclnn%s with %s = %s", o.Name, out, in)
	got := touchedBy(e.Call)
	for i, want := range touchedBy(reference.Call) {
		if o.Use(want.name) != op.Read {
			require.True(t, bytes.Equal(want.copy(), got[i].copy()), "aclnn%s with %s = %s computes another %s: %s",
				o.Name, out, in, want.name, firstDifference(want.copy(), got[i].copy()))
		}
	}
}

// replaceable reports whether a call can have the tensor in as its output without a change of
// shapes, types and formats.
func replaceable(out, in *op.Tensor) bool {
	return out.DType == in.DType && out.Format == in.Format && slices.Equal(out.Shape, in.Shape) && slices.Equal(out.Storage, in.Storage) &&
		!slices.Contains(in.Strides, 0)
}

// duplicated returns the arguments of a call with its tensors in other memory.
func duplicated(t testing.TB, o *op.Operator, a Args) Args {
	b := a.With(nil)
	for _, p := range o.Params {
		switch x := a[p.Name].(type) {
		case *op.Tensor:
			if x != nil {
				b[p.Name] = duplicate(t, x)
			}
		case []*op.Tensor:
			list := make([]*op.Tensor, len(x))
			for k := range x {
				list[k] = duplicate(t, x[k])
			}
			b[p.Name] = list
		}
	}
	return b
}

// duplicate returns a tensor with the same elements at the same places of other memory.
func duplicate(t testing.TB, x *op.Tensor) *op.Tensor {
	lo, hi := x.Region()
	memory := kerneltest.New(t, dtype.Uint8, kerneltest.Contiguous, []int64{int64(hi - lo)}, nil)
	copy(unsafe.Slice((*byte)(memory.Data), hi-lo), rt.Read[byte](lo, hi-lo))
	y := *x
	y.Addr += uint64(uintptr(memory.Data)) - lo
	return &y
}
