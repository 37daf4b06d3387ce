package aclnn

import (
	"errors"
	"sync"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/cshim"
)

// Executor is an operator prepared for a fixed set of arguments (a repeatable
// aclOpExecutor): Run skips phase one. Tensors may get other memory of the same shape
// between runs. It is safe for concurrent use, one Run at a time.
type Executor struct {
	mu       sync.Mutex
	st       *acl.Stream
	op       *Operator
	prepared *cshim.Prepared
}

var errExecutorClosed = errors.New("aclnn: the executor is closed")

// Prepare runs phase one of an operator and keeps it. CANN refuses operators that copy
// between host and device inside (code 561000). The memory of the tensors, unless
// rebound, must stay valid until Close.
func Prepare(st *acl.Stream, p Params) (*Executor, error) {
	c := NewCall(st, p.Operator())
	defer c.free()
	p.Encode(c)
	if c.err != nil {
		return nil, c.failure(c.err)
	}
	prepared, err := st.Prepare(&c.launch)
	if err != nil {
		return nil, c.failure(err)
	}
	return &Executor{st: st, op: c.op, prepared: prepared}, nil
}

// Bind gives the i-th tensor of the call other memory from the next Run on. Tensors count
// in declaration order, members of lists one by one, absent ones not. The shape, strides
// and offset stay those of Prepare; t gives the memory only.
func (e *Executor) Bind(i int, t *Tensor) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.prepared == nil {
		return errExecutorClosed
	}
	if t.buf != nil {
		if err := e.st.Accepts(t.buf); err != nil {
			return err
		}
	}
	return e.prepared.Bind(i, t.desc.Address)
}

// Run queues the operator on the stream it was prepared for.
func (e *Executor) Run() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.prepared == nil {
		return errExecutorClosed
	}
	if err := e.st.Run(e.prepared); err != nil {
		return &Error{Op: e.op.Symbol, Err: err}
	}
	return nil
}

// Close frees the executor; closing twice does nothing. Work already queued is not affected.
func (e *Executor) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.prepared != nil {
		e.prepared.Close()
		e.prepared = nil
	}
	return nil
}
