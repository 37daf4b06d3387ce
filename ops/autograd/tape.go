package autograd

import (
	"context"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/parallel"
)

// Options configures a tape. The zero value records gradients and overwrites those of the parameters.
type Options struct {
	// NoGrad records nothing: Backward is refused, and values are freed when their blocks end.
	NoGrad bool
	// Accumulate adds to the gradients of parameters what Backward computes, for all but the first of several
	// micro-batches. Without it the first write of a backward pass overwrites the gradient.
	Accumulate bool
	// Complete, if not nil, is called in the backward pass as soon as the gradient of a parameter is
	// complete: all launches that write it are queued. A data-parallel program exchanges it then.
	Complete func(parameter *Var) error
	// DeferWeights lets Backward leave the gradients of the weights of linear layers and embeddings to BackwardWeights, which must follow. Until then
	// the tape keeps what they read. The stages of a pipeline first compute what the stages before them wait for.
	DeferWeights bool
	// Offload, if not nil, keeps in host memory what checkpoints read from outside.
	Offload *Offload
	// Seed is the seed of dropout.
	Seed int64
}

// Tape records operators while they are queued. Make one for each forward and backward pass with New and Close it.
type Tape struct {
	ctx  context.Context
	st   *acl.Stream
	reg  *ops.Registry
	opts Options

	err    error
	nodes  []*node
	block  *block
	made   int   // variables so far
	paused int   // blocks that run without being recorded
	drawn  int64 // random numbers so far, in blocks of the generator

	watching   []*watch
	parameters map[*Var]*use
	deferred   []*node // for BackwardWeights, in the order of the backward pass
	late       *node   // its gradients of weights are computed once the next exchange has begun
	exchanges  []*parallel.UlyssesExchange
	backward   bool // during Backward
	done       bool // after Backward
	closed     bool
}

// New makes a tape for one forward pass, and its backward pass, on a stream. The operators that wait, because they
// copy a mask or counts, wait until ctx ends at most.
func New(ctx context.Context, st *acl.Stream, reg *ops.Registry, o Options) *Tape {
	t := &Tape{ctx: ctx, st: st, reg: reg, opts: o, block: &block{}, parameters: map[*Var]*use{}}
	switch {
	case ctx == nil:
		t.Fail(fmt.Errorf("%w: the context is nil", acl.ErrInvalidArgument))
	case st == nil:
		t.Fail(fmt.Errorf("%w: the stream is nil", acl.ErrInvalidArgument))
	case reg == nil:
		t.Fail(fmt.Errorf("%w: the registry is nil", acl.ErrInvalidArgument))
	}
	return t
}

// Err returns the first error of the tape.
func (t *Tape) Err() error { return t.err }

// Fail makes err the error of the tape unless it has one. The program's own checks in a forward pass report
// with it. Nil changes nothing.
func (t *Tape) Fail(err error) {
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("autograd: %s%w", t.block.path(), err)
	}
}

// Stream returns the stream on which the tape computes.
func (t *Tape) Stream() *acl.Stream { return t.st }

// Registry returns the operators with which the tape computes.
func (t *Tape) Registry() *ops.Registry { return t.reg }

// Records reports whether operators are recorded now: not with NoGrad, nor in the forward pass of a Checkpoint.
func (t *Tape) Records() bool { return !t.opts.NoGrad && t.paused == 0 }

// Close frees everything that the tape owns, in stream order, and returns its error, if it has one.
// It does not wait. Closing again does nothing.
func (t *Tape) Close() error {
	if t.closed {
		return nil
	}
	t.closed = true
	if len(t.deferred) > 0 {
		t.Fail(fmt.Errorf("%w: BackwardWeights has not run, so gradients of weights are missing", acl.ErrInvalidArgument))
	}
	for _, h := range t.exchanges { // of a pass that has failed, or ended before them
		t.Fail(h.Close())
	}
	t.exchanges = nil
	for _, n := range append(t.nodes, t.deferred...) {
		t.finish(n)
	}
	t.nodes, t.deferred = nil, nil
	for b := t.block; b != nil; b = b.outer {
		t.leave(b, nil)
	}
	return t.err
}

// ready reports whether an operator may be launched. A finished tape launches nothing.
func (t *Tape) ready() bool {
	switch {
	case t.err != nil:
	case t.closed:
		t.Fail(fmt.Errorf("%w: the tape is closed", acl.ErrClosed))
	case t.done:
		t.Fail(fmt.Errorf("%w: the backward pass is over; make another tape for the next forward pass", acl.ErrInvalidArgument))
	}
	return t.err == nil
}

// Input makes a variable of the caller's tensor that gets no gradient. NewParameter makes one that does.
func (t *Tape) Input(value *aclnn.Tensor) *Var {
	if t.ready() {
		t.Fail(value.Err())
	}
	return &Var{Value: value, like: value}
}

// Detach returns the value of x as a constant: no gradient goes back through it.
func (t *Tape) Detach(x *Var) *Var {
	if !t.usable("detach", "x", x) {
		return &Var{tape: t}
	}
	return t.own(x.Value, x.mem)
}

// usable refuses a variable without a value, one that was freed, and one of another tape.
func (t *Tape) usable(operator, name string, v *Var) bool {
	if !t.ready() {
		return false
	}
	switch {
	case v == nil:
		t.Fail(fmt.Errorf("%s: %w: %s is nil", operator, acl.ErrInvalidArgument, name))
	case v.tape != nil && v.tape != t:
		t.Fail(fmt.Errorf("%s: %w: %s %v belongs to another tape; hand it over with Input", operator, acl.ErrInvalidArgument, name, v))
	case v.Value == nil:
		t.Fail(fmt.Errorf("%s: %w: %s has no value: its block has ended; return it from the block", operator, acl.ErrInvalidArgument, name))
	}
	return t.err == nil
}

// own makes a variable of the tape with a value whose memory the tape counts. It belongs to the current block.
func (t *Tape) own(value *aclnn.Tensor, mem *memory) *Var {
	v := &Var{tape: t, Value: value, like: value, mem: mem, number: t.made}
	t.made++
	if mem != nil {
		mem.refs++
	}
	t.block.vars = append(t.block.vars, v)
	return v
}

// allocate makes a tensor with memory of its own, which nobody needs yet.
func (t *Tape) allocate(dt aclnn.DType, shape ...int64) (*aclnn.Tensor, *memory) {
	x, err := aclnn.New(t.st, dt, shape...)
	if err != nil {
		t.Fail(err)
		return nil, nil
	}
	return x, &memory{closer: x}
}

// drop gives up a need of memory, and frees it with the last one.
func (t *Tape) drop(m *memory) {
	if m == nil {
		return
	}
	if m.refs--; m.refs > 0 {
		t.evict(m)
		return
	}
	t.settle(m)
	if m.closer != nil {
		t.Fail(m.closer.Close())
		m.closer = nil
	}
}

// do runs f unless the tape has failed.
func (t *Tape) do(f func() error) {
	if t.err == nil {
		t.Fail(f())
	}
}

// launch queues an operator of aclnn.
func launch[P any](t *Tape, operator func(*acl.Stream, P) error, p P) {
	if t.err == nil {
		t.Fail(operator(t.st, p))
	}
}
