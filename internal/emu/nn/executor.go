package nn

import (
	"errors"
	"fmt"
	"runtime/debug"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// executor is an aclOpExecutor: a prepared call. Phase two consumes it unless the caller
// made it repeatable.
type executor struct {
	call       *Call
	run        Run
	prepare    Prepare
	repeatable bool
}

// resolver gives the host memory behind device addresses.
type resolver interface {
	Resolve(addr uint64, n int64) (unsafe.Pointer, error)
}

// Prepare is phase one of the operator with the given id: words are its arguments, then
// the addresses of workspaceSize and executor.
func (l *Library) Prepare(t *rt.Thread, id int, words []uint64) uint64 {
	op := &operators[id]
	sizeOut, executorOut := words[len(op.params)], words[len(op.params)+1]
	if sizeOut == 0 || executorOut == 0 {
		return l.fail(t, &Error{Code: nullPointer, Text: fmt.Sprintf("aclnn%s: workspaceSize or executor is null", op.name)})
	}
	e, err := l.prepare(t, op, words)
	if err != nil {
		return l.fail(t, err)
	}
	rt.Write(sizeOut, uint64(e.call.workspace))
	rt.Write(executorOut, l.rt.Handles.New(rt.ExecutorKind, e))
	return 0
}

func (l *Library) prepare(t *rt.Thread, op *operator, words []uint64) (*executor, error) {
	p, ok := implementations[op.name]
	if !ok {
		return nil, &Error{Code: invalidParam, Text: fmt.Sprintf("aclnn%s: the emulator does not implement this operator", op.name)}
	}
	c, err := l.decode(op, words)
	if err != nil {
		return nil, err
	}
	c.links = &l.links
	c.join = func(group string) (Communicator, error) { return l.communicator(t, group) }
	e, err := newExecutor(p, c)
	c.join = nil // the thread is the caller's only now
	return e, err
}

func newExecutor(p Prepare, c *Call) (e *executor, err error) {
	// A mistake in an operator must not take the caller's process down.
	defer func() {
		if r := recover(); r != nil {
			err = &Error{Code: int32(abi.ACLNN_ERR_INNER), Text: fmt.Sprintf("%v: internal error: %v\n%s", c, r, debug.Stack())}
		}
	}()
	run, err := p(c)
	if err == nil {
		err = c.Err()
	}
	if err != nil {
		return nil, err
	}
	return &executor{call: c, run: run, prepare: p}, nil
}

// Execute is phase two: it queues the prepared call on the stream.
func (l *Library) Execute(t *rt.Thread, id int, workspace, size, handle, stream uint64) uint64 {
	name := operators[id].name
	if handle == 0 {
		return l.fail(t, &Error{Code: nullPointer, Text: fmt.Sprintf("aclnn%s: executor is null", name)})
	}
	e, ok := rt.Lookup[*executor](&l.rt.Handles, handle)
	if !ok || e.call.op.name != name {
		return l.fail(t, &Error{Code: invalidParam, Text: fmt.Sprintf("aclnn%s: %#x is not a live executor of this operator", name, handle)})
	}
	if !e.repeatable {
		l.rt.Handles.Delete(handle)
	}
	if e.call.launchErr != nil {
		return l.fail(t, e.call.launchErr)
	}
	need := e.call.workspace
	switch {
	case need > 0 && workspace == 0:
		return l.fail(t, &Error{Code: nullPointer, Text: fmt.Sprintf("aclnn%s: workspace is null, %d bytes are needed", name, need)})
	case uint64(need) > size:
		return l.fail(t, &Error{Code: invalidParam, Text: fmt.Sprintf("aclnn%s: workspace of %d bytes, %d are needed", name, size, need)})
	}
	if e.repeatable {
		var err error
		if e, err = newExecutor(e.prepare, e.call.again()); err != nil {
			return l.fail(t, err)
		}
	}
	s, code := l.rt.Stream(t, stream)
	if code != 0 {
		return uint64(uint32(code))
	}
	for _, p := range e.call.stages {
		code := uint64(0)
		if p.collective != nil {
			code = l.collect(t, p.collective, workspace, stream)
		} else {
			code = l.compute(t, s, e, p.run, workspace)
		}
		if code != 0 {
			return code
		}
	}
	return l.compute(t, s, e, l.dumped(s, e), workspace)
}

// compute queues a Run of a call.
func (l *Library) compute(t *rt.Thread, s *rt.Stream, e *executor, run Run, workspace uint64) uint64 {
	memory := s.Memory()
	task := rt.Task{Name: e.call.Name(), Repeatable: true, Run: func() error { return e.execute(memory, workspace, run) }}
	if l.rt.Sanitizes() {
		task.Accesses = func() []rt.Access { return e.call.accesses(workspace) }
	}
	return l.rt.Submit(t, s, task)
}

// execute runs on the stream: it resolves the memory of the call and computes.
func (e *executor) execute(memory resolver, workspace uint64, run Run) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fault("%v: internal error: %v\n%s", e.call, r, debug.Stack())
		}
	}()
	var x Exec
	if e.call.workspace > 0 {
		if x.workspace, err = memory.Resolve(workspace, e.call.workspace); err != nil {
			return fault("%v: workspace: %v", e.call, err)
		}
	}
	for _, t := range e.call.tensors {
		if err := t.bind(memory); err != nil {
			return fault("%v: %v: %v", e.call, t, err)
		}
	}
	for _, v := range e.call.views {
		v.bind(x.workspace)
	}
	if err := run(&x); err != nil {
		var f *rt.Fault
		if errors.As(err, &f) {
			return f
		}
		return fault("%v: %v", e.call, err)
	}
	return nil
}

// bind resolves the memory of a view.
func (t *Tensor) bind(memory resolver) error {
	lo, hi, ok := t.span()
	if !ok {
		return nil
	}
	bits := int64(t.DType.Bits())
	if bits == 0 {
		return fmt.Errorf("dtype %v has no storage", t.DType)
	}
	if t.Addr == 0 {
		return errors.New("its data address is null")
	}
	first := lo * bits / 8
	p, err := memory.Resolve(t.Addr+uint64(first), (hi*bits+7)/8-first)
	if err != nil {
		return err
	}
	t.host = unsafe.Add(p, t.Offset*bits/8-first)
	return nil
}

// fault is the asynchronous error of a kernel: a vector-core exception.
func fault(format string, args ...any) error {
	return &rt.Fault{Code: int32(abi.ACL_ERROR_RT_VECTOR_CORE_EXCEPTION), Text: fmt.Sprintf(format, args...)}
}
