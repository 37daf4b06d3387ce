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
	if _, ok := rt.Lookup[*op.Executor](&l.rt.Handles, executor); !ok {
		return stale("aclOpExecutor", executor)
	}
	l.rt.Handles.Delete(executor)
	return nil
}

func (l *Library) aclSetAclOpExecutorRepeatable(executor *op.Executor) error {
	executor.Repeatable = true
	return nil
}

//npugen:decode aclOpExecutor
func (l *Library) executor(function, parameter string, h rt.Handle) (*op.Executor, error) {
	if h == 0 {
		return nil, null(function, parameter)
	}
	e, ok := rt.Lookup[*op.Executor](&l.rt.Handles, h)
	if !ok {
		return nil, stale("aclOpExecutor", h)
	}
	return e, nil
}

// selector chooses the tensor parameters that an address setter counts.
type selector func(op.Param) bool

func anyTensor(op.Param) bool      { return true }
func inputTensor(p op.Param) bool  { return p.Use != op.Written }
func outputTensor(p op.Param) bool { return p.Use == op.Written }

func (l *Library) aclSetTensorAddr(executor *op.Executor, index uint64, _ rt.Handle, addr uintptr) error {
	return setTensorAddr(executor, anyTensor, index, addr)
}

func (l *Library) aclSetInputTensorAddr(executor *op.Executor, index uint64, _ rt.Handle, addr uintptr) error {
	return setTensorAddr(executor, inputTensor, index, addr)
}

func (l *Library) aclSetOutputTensorAddr(executor *op.Executor, index uint64, _ rt.Handle, addr uintptr) error {
	return setTensorAddr(executor, outputTensor, index, addr)
}

// setTensorAddr changes the address of a tensor of a repeatable executor. The index counts tensors
// in declaration order, including members of lists and excluding absent tensors.
func setTensorAddr(e *op.Executor, selects selector, index uint64, addr uintptr) error {
	left := index
	for i, p := range e.Call.Op.Params {
		if !selects(p) {
			continue
		}
		switch x := e.Call.Args()[i].(type) {
		case *op.Tensor:
			if left == 0 {
				x.Addr = uint64(addr)
				return nil
			}
			left--
		case []*op.Tensor:
			if left < uint64(len(x)) {
				x[left].Addr = uint64(addr)
				return nil
			}
			left -= uint64(len(x))
		}
	}
	return &op.Error{Code: op.InvalidParam, Text: fmt.Sprintf("%s: there is no tensor with index %d", e.Call, index)}
}

func (l *Library) aclSetDynamicTensorAddr(executor *op.Executor, irIndex, relativeIndex uint64, _ rt.Handle, addr uintptr) error {
	return setDynamicAddr(executor, anyTensor, irIndex, relativeIndex, addr)
}

func (l *Library) aclSetDynamicInputTensorAddr(executor *op.Executor, irIndex, relativeIndex uint64, _ rt.Handle, addr uintptr) error {
	return setDynamicAddr(executor, inputTensor, irIndex, relativeIndex, addr)
}

func (l *Library) aclSetDynamicOutputTensorAddr(executor *op.Executor, irIndex, relativeIndex uint64, _ rt.Handle, addr uintptr) error {
	return setDynamicAddr(executor, outputTensor, irIndex, relativeIndex, addr)
}

// setDynamicAddr changes the address of a member of a tensor list. irIndex counts tensor arguments,
// a list as one; relativeIndex counts the list's members.
func setDynamicAddr(e *op.Executor, selects selector, irIndex, relativeIndex uint64, addr uintptr) error {
	left := irIndex
	for i, p := range e.Call.Op.Params {
		if !selects(p) || p.Class != op.TensorClass && p.Class != op.TensorListClass {
			continue
		}
		if left > 0 {
			left--
			continue
		}
		list, ok := e.Call.Args()[i].([]*op.Tensor)
		if !ok || relativeIndex >= uint64(len(list)) {
			break
		}
		list[relativeIndex].Addr = uint64(addr)
		return nil
	}
	return &op.Error{Code: op.InvalidParam, Text: fmt.Sprintf("%s: there is no tensor list %d with a member %d", e.Call, irIndex, relativeIndex)}
}
