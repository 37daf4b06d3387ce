package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/model"
)

// Engine serves requests with a model on one device, or on Options.Tensor devices. Its methods are safe for concurrent use.
type Engine struct {
	o         Options
	rt        *acl.Runtime
	device    int
	load      Load
	config    model.Config
	vocab     int
	recurrent bool // some layers of the model are delta nets
	usual     int  // tokens of a sequence whose keys have the usual rotation (model.Config.SwitchesAfter), or 0 for any number

	arrivals   chan *sequence
	embeddings chan *embedding
	tasks      chan *task
	end        context.CancelCauseFunc // of the engine's goroutine
	done       chan struct{}           // closed when it has ended
	wake       chan struct{}           // has an element when something was found out about a text of a grammar
	guides     chan struct{}           // an element for each goroutine that follows a grammar

	mu         sync.Mutex
	published  Stats
	open       int // requests that have not ended
	queued     int // those of them that have not begun
	down       error
	out        error // see Suspend
	adapters   []*adapter
	draining   bool
	empty      chan struct{} // closed when a draining engine has no requests
	closed     error         // of the goroutine, when it has ended
	recovering atomic.Bool
	lost       error // why it has ended, unless it was closed

	// What follows belongs to the engine's goroutine.
	team    *team // nil while the device is down
	blocks  *blocks
	copies  [][2]int32 // blocks to copy before the next step
	eager   bool       // the log says why there are no graphs
	states  []int      // free places of states
	running []*sequence
	waiting []*sequence
	// embedding is the next one to compute.
	embedding *embedding
	stats     Stats
	idle      bool           // all running sequences wait for their grammars
	guiding   sync.WaitGroup // the goroutines that follow grammars
}

// Open makes an engine on a device of rt, which must stay open, or on Options.Tensor devices from this one on. ctx bounds the loading of the model only.
func Open(ctx context.Context, rt *acl.Runtime, device int, load Load, o Options) (*Engine, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if o.Group != nil && o.Group.Rank() > 0 {
		return nil, errors.New("engine: only the first rank of Group has an engine; the others Follow it")
	}
	t, err := newTeam(ctx, rt, device, load, &o)
	if err != nil {
		return nil, err
	}
	config := t.ranks[0].model.Config
	if err := o.within(config.MaxPositions); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	inner, end := context.WithCancelCause(context.Background())
	e := &Engine{
		o: o, rt: rt, device: device, load: load, config: config, vocab: config.VocabSize, recurrent: config.Recurrent(), usual: config.SwitchesAfter(), end: end,
		arrivals: make(chan *sequence, o.Queue), embeddings: make(chan *embedding, o.Queue), tasks: make(chan *task), done: make(chan struct{}), wake: make(chan struct{}, 1), guides: make(chan struct{}, guides()), empty: make(chan struct{}),
		team: t, blocks: newBlocks(o.Blocks, o.BlockSize, config.Reach(), !config.Recurrent()),
	}
	for i := range o.Sequences {
		e.states = append(e.states, i*o.statesOf(config))
	}
	e.publish()
	go e.run(inner)
	return e, nil
}

// Done is closed when the engine has ended: because it was closed, or because a rank in another process was lost.
// Ready then says why.
func (e *Engine) Done() <-chan struct{} { return e.done }

// MaxLength is the number of tokens that a request can have, its prompt included.
func (e *Engine) MaxLength() int { return e.o.MaxLength }

// Vocab is the number of tokens that the model knows.
func (e *Engine) Vocab() int { return e.vocab }

// Config describes the model.
func (e *Engine) Config() model.Config { return e.config }

// Submit begins a generation, which ends early with ctx. The error matches ErrRequest, ErrBusy, ErrClosed,
// ErrDevice or that of ctx.
func (e *Engine) Submit(ctx context.Context, r Request) (*Generation, error) {
	if !e.config.Generates() {
		return nil, fmt.Errorf("%w: the model makes embeddings or scores, and continues no texts", ErrRequest)
	}
	if err := r.check(&e.o, e.vocab); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s := newSequence(ctx, r)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.refusal(); err != nil {
		return nil, err
	}
	if e.queued == e.o.Queue {
		return nil, ErrBusy
	}
	if r.Adapter != "" {
		if s.adapter = e.named(r.Adapter); s.adapter == nil {
			return nil, fmt.Errorf("%w: there is no adapter %s", ErrRequest, r.Adapter)
		}
		s.adapter.users++
	}
	e.open++
	e.queued++
	e.arrivals <- s // there is a place for each queued request
	return s.out, nil
}

// Recovering reports whether the device is being opened again. Requests wait for it meanwhile.
func (e *Engine) Recovering() bool { return e.recovering.Load() }

// Ready returns why the engine takes no requests, or nil.
func (e *Engine) Ready() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.refusal()
}

// refusal returns why the engine takes no requests, or nil; its caller holds mu.
func (e *Engine) refusal() error {
	if e.draining {
		return ErrClosed
	}
	return cmp.Or(e.down, e.out)
}

// Drain refuses new requests and waits until all others have ended, or ctx has.
func (e *Engine) Drain(ctx context.Context) error {
	e.drain()
	select {
	case <-e.empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (e *Engine) drain() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.draining && e.open == 0 {
		close(e.empty)
	}
	e.draining = true
}

// Close ends all requests with ErrClosed, and closes what the engine has opened.
func (e *Engine) Close() error {
	e.drain()
	e.end(ErrClosed)
	<-e.done
	return e.closed
}

// left notes that n requests are no longer queued.
func (e *Engine) left(n int) {
	e.mu.Lock()
	e.queued -= n
	e.mu.Unlock()
}

// finish ends a sequence, wherever it is.
func (e *Engine) finish(s *sequence, reason Reason, err error) {
	if slices.Contains(e.running, s) {
		e.stop(s)
	} else {
		e.waiting = slices.DeleteFunc(e.waiting, func(x *sequence) bool { return x == s })
	}
	if !s.admitted {
		e.left(1)
	}
	e.publish() // who sees the end finds it counted
	s.ended = true
	s.out.end(reason, err)
	e.ended(s.adapter)
}

// ended notes that a request has ended, which used an adapter or none.
func (e *Engine) ended(a *adapter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.released(a)
	if e.open--; e.open == 0 && e.draining {
		close(e.empty)
	}
}

// finishAll ends all sequences with an error.
func (e *Engine) finishAll(err error) {
	for len(e.arrivals) > 0 {
		e.waiting = append(e.waiting, <-e.arrivals)
	}
	for _, s := range slices.Concat(e.running, e.waiting) {
		e.finish(s, noReason, err)
	}
	if e.embedding == nil {
		e.embedding = e.another()
	}
	for ; e.embedding != nil; e.embedding = e.another() {
		e.answer(e.embedding, nil, err)
	}
	for {
		select {
		case x := <-e.tasks:
			x.done <- err
		default:
			return
		}
	}
}

// another takes an embedding that waits, or returns nil.
func (e *Engine) another() *embedding {
	select {
	case x := <-e.embeddings:
		return x
	default:
		return nil
	}
}

// failed is the error of requests that a failure of the device has ended.
func failed(err error) error { return fmt.Errorf("%w: %w", ErrDevice, err) }
