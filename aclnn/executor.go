package aclnn

import (
	"reflect"
	"slices"
	"sync"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/bridge"
)

// Executor is an operator prepared for a fixed set of arguments (a repeatable
// aclOpExecutor): Run skips phase one. Tensors may get other memory of the same shape
// between runs. It is safe for concurrent use, one Run at a time.
type Executor struct {
	mu       sync.Mutex
	st       bridge.Queue
	user     *bridge.User
	op       *Operator
	prepared *cshim.Prepared
	tensors  []memory // of the call, in declaration order
}

// anybody is a user that no memory was used by last. A call that is prepared has it as its stream's, so
// that Call.admit keeps the memory of every tensor.
var anybody bridge.User

// Prepare runs phase one of an operator and keeps it. CANN refuses operators that copy
// between host and device inside (code 561000). The memory of the tensors, unless
// rebound, must stay open until Close.
func Prepare(st *acl.Stream, p Params) (*Executor, error) {
	if v := reflect.ValueOf(p); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, refuse(acl.ErrInvalidArgument, "the parameters are nil")
	}
	c := NewCall(st, p.Operator())
	defer c.free()
	user := c.user
	c.user = &anybody
	p.Encode(c)
	if c.err != nil {
		return nil, c.failure(c.err)
	}
	prepared, err := c.st.Prepare(&c.launch)
	if err != nil {
		return nil, c.failure(err)
	}
	return &Executor{st: c.st, user: user, op: c.op, prepared: prepared, tensors: slices.Clone(c.used)}, nil
}

// Bind gives the i-th tensor of the call other memory from the next Run on. Tensors count
// in declaration order, members of lists one by one, absent ones not. The shape, strides
// and offset stay those of Prepare; t gives the memory only, whose address must be a multiple
// of 32 bytes.
func (e *Executor) Bind(i int, t *Tensor) error {
	if err := e.lock(); err != nil {
		return err
	}
	defer e.mu.Unlock()
	switch {
	case i < 0 || i >= len(e.tensors):
		return e.failure(refuse(acl.ErrInvalidArgument, "there is no tensor %d, the call has %d", i, len(e.tensors)))
	case t == nil:
		return e.failure(refuse(acl.ErrInvalidArgument, "the tensor is nil"))
	case t.err != nil:
		return e.failure(t.err)
	case t.mem.last == nil:
		return e.failure(refuse(acl.ErrInvalidArgument, "%v has no memory", t))
	case t.desc.Address%32 != 0:
		return e.failure(refuse(acl.ErrInvalidArgument, "%v lies at %#x, and CANN takes multiples of 32 bytes", t, t.desc.Address))
	}
	if err := e.st.Use(bridge.MemoryOf(t.mem.buf)); err != nil {
		return e.failure(err)
	}
	if err := e.prepared.Bind(i, t.desc.Address); err != nil {
		return e.failure(err)
	}
	e.tensors[i] = t.mem
	return nil
}

// Run queues the operator on the stream it was prepared for. It is refused when the memory of a
// tensor was closed.
func (e *Executor) Run() error {
	if err := e.lock(); err != nil {
		return err
	}
	defer e.mu.Unlock()
	for i := range e.tensors {
		if m := &e.tensors[i]; m.last.Load() != e.user {
			if err := e.st.Use(bridge.MemoryOf(m.buf)); err != nil {
				return e.failure(err)
			}
		}
	}
	if err := e.st.Run(e.prepared); err != nil {
		return e.failure(err)
	}
	return nil
}

// lock begins a call, unless there is nothing to run.
func (e *Executor) lock() error {
	if e == nil || e.st == nil {
		return refuse(acl.ErrInvalidArgument, "the executor was not made by Prepare")
	}
	e.mu.Lock()
	if e.prepared == nil {
		e.mu.Unlock()
		return e.failure(refuse(acl.ErrClosed, "the executor is closed"))
	}
	return nil
}

func (e *Executor) failure(err error) error { return &Error{Op: e.op.Symbol, Err: err} }

// Close frees the executor; closing twice does nothing. Work already queued is not affected.
func (e *Executor) Close() error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.prepared != nil {
		e.prepared.Close()
		e.prepared, e.tensors = nil, nil
	}
	return nil
}
