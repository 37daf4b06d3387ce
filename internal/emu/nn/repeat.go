package nn

import (
	"fmt"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

func (l *Library) destroyExecutor(t *rt.Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return l.fail(t, &Error{Code: int32(abi.ACLNN_ERR_INNER_NULLPTR), Text: "aclDestroyAclOpExecutor: executor is null"})
	}
	if _, ok := rt.Lookup[*executor](&l.rt.Handles, a[0]); !ok {
		return l.stale(t, "aclOpExecutor", a[0])
	}
	l.rt.Handles.Delete(a[0])
	return 0
}

func (l *Library) setRepeatable(t *rt.Thread, a []uint64) uint64 {
	e, code := l.executor(t, "aclSetAclOpExecutorRepeatable", a[0])
	if e != nil {
		e.repeatable = true
	}
	return code
}

func (l *Library) executor(t *rt.Thread, function string, w uint64) (*executor, uint64) {
	if w == 0 {
		return nil, l.null(t, function, "executor")
	}
	e, ok := rt.Lookup[*executor](&l.rt.Handles, w)
	if !ok {
		return nil, l.stale(t, "aclOpExecutor", w)
	}
	return e, 0
}

// selector says which tensor arguments an address setter counts.
type selector func(param) bool

func anyTensor(param) bool      { return true }
func inputTensor(p param) bool  { return p.use != written }
func outputTensor(p param) bool { return p.use == written }

// setTensorAddr gives a tensor of a repeatable executor another address. The index counts
// tensors in declaration order, members of lists included, absent ones not.
func (l *Library) setTensorAddr(selects selector) rt.Func {
	return func(t *rt.Thread, a []uint64) uint64 {
		e, code := l.executor(t, "aclSetTensorAddr", a[0])
		if e == nil {
			return code
		}
		index := a[1]
		for i, p := range e.call.op.params {
			if !selects(p) {
				continue
			}
			switch x := e.call.args[i].(type) {
			case *Tensor:
				if index == 0 {
					x.Addr = a[3]
					return 0
				}
				index--
			case []*Tensor:
				if index < uint64(len(x)) {
					x[index].Addr = a[3]
					return 0
				}
				index -= uint64(len(x))
			}
		}
		return l.fail(t, &Error{Code: invalidParam, Text: fmt.Sprintf("%s: there is no tensor with index %d", e.call, a[1])})
	}
}

// setDynamicAddr gives a member of a tensor list another address: irIndex counts the
// tensor arguments, a list as one, and relativeIndex its members.
func (l *Library) setDynamicAddr(selects selector) rt.Func {
	return func(t *rt.Thread, a []uint64) uint64 {
		e, code := l.executor(t, "aclSetDynamicTensorAddr", a[0])
		if e == nil {
			return code
		}
		index := a[1]
		for i, p := range e.call.op.params {
			if !selects(p) || p.class != tensorClass && p.class != tensorListClass {
				continue
			}
			if index > 0 {
				index--
				continue
			}
			list, ok := e.call.args[i].([]*Tensor)
			if !ok || a[2] >= uint64(len(list)) {
				break
			}
			list[a[2]].Addr = a[4]
			return 0
		}
		return l.fail(t, &Error{Code: invalidParam, Text: fmt.Sprintf("%s: there is no tensor list %d with a member %d", e.call, a[1], a[2])})
	}
}
