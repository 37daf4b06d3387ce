package nn

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

// callOf returns a call with tensors, lists of two tensors and arrays; what absent names is null.
func callOf(t *testing.T, name string, absent ...string) *op.Call {
	o := op.Find(name)
	require.NotNil(t, o, name)
	tensor := func() *op.Tensor {
		return &op.Tensor{Shape: []int64{1}, Strides: []int64{1}, Storage: []int64{1}, DType: dtype.Float32, Format: dtype.ND}
	}
	null := make(map[string]bool)
	for _, n := range absent {
		null[n] = true
	}
	args := make([]any, len(o.Params))
	for i, p := range o.Params {
		switch {
		case null[p.Name]:
		case p.Class == op.TensorClass:
			args[i] = tensor()
		case p.Class == op.TensorListClass:
			args[i] = []*op.Tensor{tensor(), tensor()}
		case p.Class == op.IntArrayClass:
			args[i] = []int64{1}
		}
	}
	return op.NewCall(o, args, op.Env{})
}

// names returns the parameters of some places, in brackets when there is no address to set.
func names(places []slot) (all []string) {
	for _, s := range places {
		name := s.param.Name
		if s.tensor == nil {
			name = "(" + name + ")"
		}
		all = append(all, name)
	}
	return all
}

// Absent tensors, members of lists and arrays between tensors take places among the inputs.
func TestSlots(t *testing.T) {
	c := callOf(t, "IncreFlashAttentionV4", "pseShift", "dequantScale1", "antiquantScale")
	assert.Equal(t, []string{"query", "key", "key", "value", "value", "(pseShift)", "attenMask", "(actualSeqLengths)", "(dequantScale1)",
		"quantScale1", "dequantScale2", "quantScale2", "quantOffset2", "(antiquantScale)", "antiquantOffset", "blocktable", "kvPaddingSize"}, names(slots(c, inputs)))
	assert.Equal(t, []string{"attentionOut"}, names(slots(c, outputs)))

	c = callOf(t, "MoeTokenUnpermute", "probsOptional")
	x := &prepared{Executor: &op.Executor{Call: c}}
	assert.Equal(t, []string{"permutedTokens", "sortedIndices", "(probsOptional)", "out"}, names(x.places()))
}

// An NNOPBASE executor goes by the place, another one by the tensor.
func TestSetAddress(t *testing.T) {
	l := New(rt.NewMachine(rt.Config{}))
	object := &op.Tensor{Addr: 64}
	handle := l.rt.Handles.New(rt.TensorKind, object)
	code := func(err error) int32 {
		if err == nil {
			return 0
		}
		var e *op.Error
		require.ErrorAs(t, err, &e)
		return e.Code
	}
	x := &prepared{Executor: &op.Executor{Call: callOf(t, "MoeTokenUnpermute", "probsOptional")}}
	at := func(param string) uint64 {
		for i, p := range x.Call.Op.Params {
			if p.Name == param {
				return x.Call.Args()[i].(*op.Tensor).Addr
			}
		}
		return 0
	}
	assert.Zero(t, code(l.aclSetTensorAddr(x, 3, handle, 128)))
	assert.EqualValues(t, 128, at("out"))
	assert.EqualValues(t, 128, object.Addr)
	assert.Zero(t, code(l.aclSetInputTensorAddr(x, 1, handle, 256)))
	assert.EqualValues(t, 256, at("sortedIndices"))
	assert.Zero(t, code(l.aclSetOutputTensorAddr(x, 0, handle, 512)))
	assert.EqualValues(t, 512, at("out"))
	assert.Equal(t, op.InvalidParam, code(l.aclSetTensorAddr(x, 2, handle, 128)), "an absent tensor")
	assert.Equal(t, op.InvalidParam, code(l.aclSetTensorAddr(x, 4, handle, 128)))
	assert.Equal(t, op.InvalidParam, code(l.aclSetInputTensorAddr(x, 3, handle, 128)))
	assert.Equal(t, op.InvalidParam, code(l.aclSetOutputTensorAddr(x, 1, handle, 128)))
	assert.Equal(t, op.InvalidParam, code(l.aclSetTensorAddr(x, 0, handle, 48)), "alignment")
	assert.EqualValues(t, abi.ACLNN_ERR_INNER_NULLPTR, code(l.aclSetTensorAddr(x, 0, 0, 64)))

	o := op.Find("Abs")
	composed := &prepared{Executor: &op.Executor{Call: op.NewCall(o, []any{object, &op.Tensor{Addr: 32}}, op.Env{})}}
	assert.Zero(t, code(l.aclSetTensorAddr(composed, 77, handle, 1024)), "the index does not count")
	assert.EqualValues(t, 1024, composed.Call.AllTensors()[0].Addr)
	assert.EqualValues(t, 32, composed.Call.AllTensors()[1].Addr)
}

// Members of lists are addressed by the list's place among the parameters.
func TestSetAddressOfMember(t *testing.T) {
	l := New(rt.NewMachine(rt.Config{}))
	var members []rt.Handle
	for range 2 {
		members = append(members, l.rt.Handles.New(rt.TensorKind, new(op.Tensor)))
	}
	list := l.rt.Handles.New(rt.TensorListKind, &tensorList{members})
	x := &prepared{Executor: &op.Executor{Call: callOf(t, "IncreFlashAttentionV4")}}
	require.NoError(t, l.aclSetDynamicInputTensorAddr(x, 2, 1, list, 96))
	require.NoError(t, l.aclSetDynamicTensorAddr(x, 1, 0, list, 64))
	assert.EqualValues(t, 96, x.Call.Args()[2].([]*op.Tensor)[1].Addr)
	assert.EqualValues(t, 64, x.Call.Args()[1].([]*op.Tensor)[0].Addr)
	for _, err := range []error{
		l.aclSetDynamicInputTensorAddr(x, 2, 2, list, 96), l.aclSetDynamicInputTensorAddr(x, 0, 1, list, 96),
		l.aclSetDynamicInputTensorAddr(x, 99, 0, list, 96), l.aclSetDynamicOutputTensorAddr(x, 1, 0, list, 96),
		l.aclSetDynamicInputTensorAddr(x, 2, 0, 0, 96), l.aclSetDynamicInputTensorAddr(x, 2, 0, list, 97),
	} {
		assert.Error(t, err)
	}
}
