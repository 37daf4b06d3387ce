package acl

import (
	"context"
	"errors"
	"runtime"

	"github.com/goascend/cann/cshim"
)

// Graph is work that Stream.Capture recorded, and that Replay queues again with one call. It
// works with the addresses, the scalars and the host lists of the capture; what changes between
// replays must be in device memory, or in a HostBuffer from which the graph copies, or in a
// GraphPart that is updated.
type Graph struct {
	owned
	rec *recording
	dev *Device
}

// usable refuses calls on a graph that is nil, was never made, or is closed.
func (g *Graph) usable(op string) error {
	switch {
	case g == nil || g.rec == nil:
		return neverMade(op, KindGraph)
	case !g.isOpen():
		return g.rec.scope.refuse(op, ErrClosed, "the graph is closed")
	}
	return nil
}

// Device is the device of the stream on which the graph was captured.
func (g *Graph) Device() *Device {
	if g == nil {
		return nil
	}
	return g.dev
}

// Handle is the aclmdlRI, for C libraries.
func (g *Graph) Handle() uint64 {
	if g == nil || g.rec == nil {
		return 0
	}
	return uint64(g.rec.handle)
}

// Memory returns the bytes that the graph keeps for its replays.
func (g *Graph) Memory() GraphMemory {
	if g == nil || g.rec == nil {
		return GraphMemory{}
	}
	return g.rec.memory()
}

// Replay queues the graph's work on a stream of its device (aclmdlRIExecuteAsync), after its
// replays on other streams. An error of a task appears at the next Synchronize. A graph whose
// buffers were closed after the capture is refused with ErrClosed, and one that Update is changing
// with ErrBusy.
func (g *Graph) Replay(s *Stream) error {
	if observed() {
		return s.watch(CallLaunch, "Graph.Replay", 0, func() error { return g.replay(s) })
	}
	return g.replay(s)
}

func (g *Graph) replay(s *Stream) error {
	const op = "Graph.Replay"
	if err := g.usable(op); err != nil {
		return err
	}
	if err := s.usable(op); err != nil {
		return err
	}
	q, r := s.q, g.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case q.scope.chip != r.scope.chip:
		return q.refuse(op, ErrWrongDevice, "the graph is of device %d", r.scope.chip.id)
	case r.updating:
		return q.refuse(op, ErrBusy, "the graph is being updated; replay it after Graph.Update has returned")
	case q.member.Load() != nil:
		return q.refuse(op, ErrCapture, "the stream is capturing, and a graph does not contain another")
	}
	if err := r.usable(op); err != nil {
		return err
	}
	if err := r.use(q); err != nil {
		return err
	}
	if err := aclmdlRIExecuteAsync(q.scope.handle, r.handle, q.handle); err != nil {
		return q.fault(err)
	}
	runtime.KeepAlive(g)
	return s.launched(&replayed)
}

// replayed stands for a graph among the launches of a stream.
var replayed = cshim.Operator{Symbol: "aclmdlRIExecuteAsync"}

// Close waits for the graph's replays and destroys it (aclmdlRIDestroy). The memory that it kept
// goes back, that of closed buffers too. The error is that of the replays, if some failed.
func (g *Graph) Close() error { return g.CloseContext(context.Background()) }

// CloseContext is Close that waits at most until ctx ends. Then the graph is still open, and
// CloseContext can be called again; the error matches ctx.Err().
func (g *Graph) CloseContext(ctx context.Context) error {
	const op = "Graph.CloseContext"
	if g == nil || !g.isOpen() {
		return nil
	}
	if ctx == nil {
		return noContext(op)
	}
	failed, err := g.rec.settle(op, ctx)
	if err != nil || !g.close() {
		return errors.Join(failed, err)
	}
	return errors.Join(failed, g.rec.end())
}

// settle waits for the replays and updates, at most until ctx ends. failed is the error of
// their work, err the reason why they may not have ended.
func (r *recording) settle(op string, ctx context.Context) (failed, err error) {
	r.mu.Lock()
	queues := append([]*queue(nil), r.queues...)
	r.mu.Unlock()
	var errs []error
	for _, q := range queues {
		if q.gone.Load() {
			continue
		}
		if q.member.Load() != nil {
			return errors.Join(errs...), q.refuse(op, ErrCapture, "the stream of a replay is capturing, and cannot be waited for")
		}
		cut, err := q.wait(ctx)
		if cut {
			return errors.Join(errs...), q.interrupted(op, ctx)
		}
		errs = append(errs, q.faulty(err))
	}
	return errors.Join(errs...), nil
}
