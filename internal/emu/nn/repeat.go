package nn

import (
	"fmt"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

func (l *Library) aclDestroyAclOpExecutor(executor rt.Handle) error {
	if executor == 0 {
		return &op.Error{Code: int32(abi.ACLNN_ERR_INNER_NULLPTR), Text: "aclDestroyAclOpExecutor: executor is null"}
	}
	x, ok := rt.Lookup[*prepared](&l.rt.Handles, executor)
	if !ok {
		return stale("aclOpExecutor", executor)
	}
	l.rt.Handles.Delete(executor)
	x.end(false)
	return nil
}

// aclSetAclOpExecutorRepeatable makes an executor usable several times. It knows two kinds of
// executors, and a wrap of the cache is neither.
func (l *Library) aclSetAclOpExecutorRepeatable(t *rt.Thread, executor *prepared) error {
	if executor.wrapped {
		return &op.Error{Code: int32(abi.ACLNN_ERR_INNER), Text: fmt.Sprintf("aclSetAclOpExecutorRepeatable: %v: the executor is a wrap of the thread's cache, which cannot be repeated", executor.Call)}
	}
	if err := executor.leave(t); err != nil {
		return err
	}
	executor.Repeatable = true
	return nil
}

//npugen:decode aclOpExecutor
func (l *Library) executor(function, parameter string, h rt.Handle) (*prepared, error) {
	if h == 0 {
		return nil, null(function, parameter)
	}
	e, ok := rt.Lookup[*prepared](&l.rt.Handles, h)
	if !ok {
		return nil, stale("aclOpExecutor", h)
	}
	return e, nil
}

func (l *Library) aclSetTensorAddr(executor *prepared, index uint64, tensor rt.Handle, addr uintptr) error {
	return l.setAddr(executor, executor.places(), index, tensor, addr)
}

func (l *Library) aclSetInputTensorAddr(executor *prepared, index uint64, tensor rt.Handle, addr uintptr) error {
	return l.setAddr(executor, slots(executor.Call, inputs), index, tensor, addr)
}

func (l *Library) aclSetOutputTensorAddr(executor *prepared, index uint64, tensor rt.Handle, addr uintptr) error {
	return l.setAddr(executor, slots(executor.Call, outputs), index, tensor, addr)
}

func (l *Library) aclSetDynamicTensorAddr(executor *prepared, irIndex, relativeIndex uint64, tensors rt.Handle, addr uintptr) error {
	return l.setDynamicAddr(executor, executor.places(), irIndex, relativeIndex, tensors, addr)
}

func (l *Library) aclSetDynamicInputTensorAddr(executor *prepared, irIndex, relativeIndex uint64, tensors rt.Handle, addr uintptr) error {
	return l.setDynamicAddr(executor, slots(executor.Call, inputs), irIndex, relativeIndex, tensors, addr)
}

func (l *Library) aclSetDynamicOutputTensorAddr(executor *prepared, irIndex, relativeIndex uint64, tensors rt.Handle, addr uintptr) error {
	return l.setDynamicAddr(executor, slots(executor.Call, outputs), irIndex, relativeIndex, tensors, addr)
}

// places are those of the inputs and, behind them, of the outputs.
func (x *prepared) places() []slot {
	return append(slots(x.Call, inputs), slots(x.Call, outputs)...)
}
