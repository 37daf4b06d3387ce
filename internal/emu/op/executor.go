package op

import (
	"errors"
	"fmt"
	"runtime/debug"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// Executor is an aclOpExecutor: a prepared call. Phase two consumes it unless the caller
// made it repeatable.
type Executor struct {
	Call       *Call
	Run        Run
	prepare    Prepare
	overlapped []*Tensor // inputs that are copied before the computation because an output overlaps them
	Repeatable bool
	exec       Exec
}

// Memory returns the host memory at device addresses.
type Memory interface {
	Resolve(addr uint64, n int64) (unsafe.Pointer, error)
}

// NewExecutor runs phase one: first CANN's rules and then the operator check the call, and either
// accept or refuse it.
func NewExecutor(p Prepare, c *Call) (*Executor, error) {
	if err := c.Err(); err != nil { // the rules and the operator would calculate with impossible sizes
		return nil, err
	}
	refusal := c.refusal()
	args := c.args
	e, err := newExecutor(p, c)
	if refusal == nil {
		absence := c.absence(err)
		if (err != nil || absence != nil) && c.idle(err) {
			return newExecutor(doNothing, NewCall(c.Op, args, Env{Links: c.Links, Older: c.older, Chip: c.chip}))
		}
		if absence != nil {
			return nil, absence
		}
		if err == nil {
			err = c.withoutBFloat16()
		}
		if err != nil {
			return nil, err
		}
		return e, nil
	}
	// The operator's own words are better than those made from a rule, if it refuses for that reason.
	var own *Error
	if errors.As(err, &own) && (own.Code == refusal.Code || refusal.undefined) {
		return nil, err
	}
	return nil, refusal
}

// doNothing prepares a call for which CANN returns before it starts a kernel. Nothing reads the
// memory of its tensors.
func doNothing(c *Call) (Run, error) {
	c.tensors, c.once = nil, true
	return func(*Exec) error { return nil }, nil
}

func newExecutor(p Prepare, c *Call) (e *Executor, err error) {
	// A bug in an operator must not crash the caller's process.
	defer func() {
		if r := recover(); r != nil {
			err = &Error{Code: int32(abi.ACLNN_ERR_INNER), Text: fmt.Sprintf("%v: internal error: %v\n%s", c, r, debug.Stack())}
		}
	}()
	run, err := p(c)
	c.prepared = true
	c.join = nil // joining may need the thread of phase one, so phase two must not do it
	if err == nil {
		err = c.Err()
	}
	if err != nil {
		return nil, err
	}
	overlapped := c.settleOverlap()
	if err := c.Err(); err != nil {
		return nil, err
	}
	return &Executor{Call: c, Run: run, prepare: p, overlapped: overlapped}, nil
}

// Again prepares the same call with the current addresses of the tensors.
func (e *Executor) Again() (*Executor, error) { return newExecutor(e.prepare, e.Call.again()) }

// Rebind makes the executor that of another call of the operator. Its arguments may differ from those
// of the executor's own call only in the addresses of tensors, which may be other objects. The
// computation of the own call must have ended, and Once must be false.
func (e *Executor) Rebind(args []any) error {
	rest := e.Call.tensors
	bind := func(object *Tensor) {
		rest[0].object, rest[0].Addr = object, object.Addr
		rest = rest[1:]
	}
	for _, a := range args {
		switch a := a.(type) {
		case *Tensor:
			bind(a)
		case []*Tensor:
			for _, t := range a {
				bind(t)
			}
		}
	}
	e.overlapped = e.Call.settleOverlap()
	return e.Call.Err()
}

// Execute resolves the memory of the call and runs the computation. It is called on the stream.
func (e *Executor) Execute(memory Memory, workspace uint64, run Run) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = Fault("%v: internal error: %v\n%s", e.Call, r, debug.Stack())
		}
	}()
	x := &e.exec
	if err := e.Resolve(memory, workspace); err != nil {
		return err
	}
	for _, t := range e.overlapped {
		release, err := t.setApart()
		defer release()
		if err != nil {
			return Fault("%v: %v: %v", e.Call, t, err)
		}
	}
	for _, v := range e.Call.views {
		v.bind(x.workspace)
	}
	if err := run(x); err != nil {
		return e.faultOf(err)
	}
	return nil
}

// Resolve finds the memory of the call, which it does not touch.
func (e *Executor) Resolve(memory Memory, workspace uint64) (err error) {
	e.exec.memory = memory
	if e.Call.workspace > 0 {
		if e.exec.workspace, err = memory.Resolve(workspace, e.Call.workspace); err != nil {
			return Fault("%v: workspace: %v", e.Call, err)
		}
	}
	for _, t := range e.Call.tensors {
		if err := t.bind(memory); err != nil {
			return Fault("%v: %v: %v", e.Call, t, err)
		}
	}
	return nil
}

// bind resolves the memory of the tensor. An empty tensor needs none.
func (t *Tensor) bind(memory Memory) error {
	if err := t.checkExtent(); err != nil { // an operator may have changed the shape
		return err
	}
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
	t.Data = unsafe.Add(p, t.Offset*bits/8-first)
	return nil
}

// Fault returns the asynchronous error of a kernel, a vector-core exception.
func Fault(format string, args ...any) error {
	return &rt.Fault{Code: int32(abi.ACL_ERROR_RT_VECTOR_CORE_EXCEPTION), Text: fmt.Sprintf(format, args...)}
}
