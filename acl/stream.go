package acl

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

// Stream is a queue of work on a device; work on one stream runs in order, work on two runs
// in any order but for events. Streams are scarce: a device has about 1984 for all
// processes.
type Stream struct {
	owned
	q   *queue
	dev *Device
}

// queue is the inner part of a stream, which memory and errors refer to.
type queue struct {
	scope   *scope
	handle  uint64
	id      int
	gone    atomic.Bool // all work has ended and no more comes
	ring    ring
	arena   workspace
	hosted  hosted
	reports reporter
}

// StreamOption is an option of NewStream.
type StreamOption func(*streamConfig)

type streamConfig struct {
	flags, priority uint64
	stopOnFailure   bool
}

// StreamFast makes launches cheaper, for some device memory, and lets Synchronize poll
// instead of sleep (ACL_STREAM_FAST_LAUNCH, ACL_STREAM_FAST_SYNC).
func StreamFast() StreamOption {
	return StreamFlags(abi.ACL_STREAM_FAST_LAUNCH | abi.ACL_STREAM_FAST_SYNC)
}

// StreamFlags adds flags as aclrtCreateStreamWithConfig takes them.
func StreamFlags(flags uint32) StreamOption {
	return func(c *streamConfig) { c.flags |= uint64(flags) }
}

// StreamPriority sets the priority, 0 (the highest and the default) to 7.
func StreamPriority(p uint32) StreamOption {
	return func(c *streamConfig) { c.priority = uint64(p) }
}

// StreamStopOnFailure halts the whole context at the first failure of a task: later calls on
// its streams return the failure's code (ACL_STOP_ON_FAILURE). Without it the failing task
// is skipped and the next Synchronize tells.
func StreamStopOnFailure() StreamOption {
	return func(c *streamConfig) { c.stopOnFailure = true }
}

// NewStream makes a stream (aclrtCreateStreamWithConfig).
func (x *Context) NewStream(options ...StreamOption) (*Stream, error) {
	if err := x.usable("Context.NewStream"); err != nil {
		return nil, err
	}
	var cfg streamConfig
	for _, o := range options {
		o(&cfg)
	}
	sc := x.scope
	c := cshim.Call{Args: [cshim.Args]uint64{0, cfg.priority, cfg.flags}, Out: 1 << 0}
	if err := c.Do(createStream, sc.handle); err != nil {
		return nil, sc.fail(err)
	}
	q, err := sc.newQueue(c.Args[0])
	if err == nil && cfg.stopOnFailure {
		c = cshim.Call{Args: [cshim.Args]uint64{q.handle, abi.ACL_STOP_ON_FAILURE}}
		if err = c.Do(setFailureMode, sc.handle); err != nil {
			err = q.fail(err)
		}
	}
	if err != nil {
		return nil, errors.Join(err, sc.destroyQueue(q, c.Args[0]))
	}
	sc.retain()
	s := &Stream{q: q, dev: x.dev}
	s.open(KindStream)
	return s, nil
}

// newQueue is the inner part of a stream that CANN has made.
func (sc *scope) newQueue(handle uint64) (*queue, error) {
	c := cshim.Call{Args: [cshim.Args]uint64{handle}, Out: 1 << 1}
	if err := c.Do(getStreamID, sc.handle); err != nil {
		return nil, sc.fail(err)
	}
	q := &queue{scope: sc, handle: handle, id: int(int32(c.Args[1]))}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.queues[q] = struct{}{}
	return q, nil
}

func (sc *scope) destroyQueue(q *queue, handle uint64) error {
	sc.mu.Lock()
	delete(sc.queues, q)
	sc.mu.Unlock()
	c := cshim.Call{Args: [cshim.Args]uint64{handle}}
	if err := c.Do(destroyStream, sc.handle); err != nil {
		return sc.fail(err)
	}
	return nil
}

// DefaultStream is the stream that every context has, always the same object. It is not
// ordered with other streams. Closing it does nothing; it ends with its context.
func (x *Context) DefaultStream() (*Stream, error) {
	if err := x.usable("Context.DefaultStream"); err != nil {
		return nil, err
	}
	sc := x.scope
	sc.mu.Lock()
	s := sc.fallback
	sc.mu.Unlock()
	if s != nil {
		return s, nil
	}
	q, err := sc.newQueue(0)
	if err != nil {
		return nil, err
	}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if sc.fallback != nil { // another goroutine was first
		delete(sc.queues, q)
		return sc.fallback, nil
	}
	sc.fallback = &Stream{q: q, dev: x.dev}
	return sc.fallback, nil
}

// Close waits for the stream's work and destroys the stream (aclrtDestroyStream); call Abort
// first to drop the work instead. The error is that of the work, if some failed.
func (s *Stream) Close() error {
	if s.q.handle == 0 || !s.close() {
		return nil
	}
	sc := s.q.scope
	err := errors.Join(s.q.end(), sc.destroyQueue(s.q, s.q.handle))
	return errors.Join(err, sc.release())
}

// end waits for the work and gives back what the stream holds.
func (q *queue) end() error {
	c := cshim.Call{Args: [cshim.Args]uint64{q.handle, forever}}
	err := c.Do(synchronizeStream, q.scope.handle)
	if err != nil {
		err = q.fault(err)
	}
	q.gone.Store(true)
	q.hosted.cancel()
	q.reports.end(q)
	q.arena.close(q)
	q.scope.chip.pool.Forget(q)
	return err
}

// usable refuses calls on a closed stream.
func (s *Stream) usable(op string) error {
	if s.closed.Load() {
		return s.q.refuse(op, ErrClosed, "the stream is closed")
	}
	return nil
}

func (q *queue) refuse(op string, group error, format string, args ...any) *Error {
	e := q.scope.refuse(op, group, format, args...)
	e.Stream = q.id
	return e
}

func (q *queue) fail(err error) *Error {
	e := q.scope.fail(err)
	e.Stream = q.id
	return e
}

// fault is fail for a call that may bring out what failed in earlier work.
func (q *queue) fault(err error) *Error {
	e := q.fail(err)
	if e.blamesOperator() {
		e.Suspects = rankSuspects(q.ring.recent(), e.Message)
	}
	return e
}

// Device is the device that the stream was made on.
func (s *Stream) Device() *Device { return s.dev }

// ID is CANN's number of the stream (aclrtStreamGetId), which its logs use.
func (s *Stream) ID() int { return s.q.id }

// Handle is the aclrtStream, for C libraries; 0 is the context's default stream.
func (s *Stream) Handle() uint64 { return s.q.handle }

// ContextHandle is the aclrtContext that must be current where Handle is used.
func (s *Stream) ContextHandle() uint64 { return s.q.scope.handle }

// Recent names the operators launched last, the newest first, at most 32.
func (s *Stream) Recent() []string { return s.q.ring.names(0) }

// Synchronize waits until all work queued before the call has ended, and returns what failed
// in it (aclrtSynchronizeStreamWithTimeout). If ctx ends first the work goes on, the stream
// stays usable, and the error matches ctx.Err(). A cancellation is noticed within 160 ms, a
// deadline within 1 ms.
func (s *Stream) Synchronize(ctx context.Context) error {
	if err := s.usable("Stream.Synchronize"); err != nil {
		return err
	}
	q := s.q
	launched := q.ring.launched.Load()
	cut, err := q.scope.wait(ctx, synchronizeStream, q.handle, false)
	switch {
	case cut:
		return q.interrupted("Stream.Synchronize", ctx)
	case err != nil:
		e := q.fault(err)
		q.ring.passed(launched) // the failure is told; it is not that of later launches
		return e
	}
	q.ring.passed(launched)
	return nil
}

func (q *queue) interrupted(op string, ctx context.Context) *Error {
	e := interrupted(op, ctx)
	e.Device, e.Stream = q.scope.chip.id, q.id
	return e
}

// Query reports whether all work queued so far has ended (aclrtStreamQuery).
func (s *Stream) Query() (done bool, err error) {
	if err := s.usable("Stream.Query"); err != nil {
		return false, err
	}
	return s.q.query()
}

func (q *queue) query() (bool, error) {
	c := cshim.Call{Args: [cshim.Args]uint64{q.handle}, Out: 1 << 1}
	if err := c.Do(queryStream, q.scope.handle); err != nil {
		return false, q.fault(err)
	}
	return uint32(c.Args[1]) == abi.ACL_STREAM_STATUS_COMPLETE, nil
}

// Abort stops the task that runs and drops those that are queued (aclrtStreamAbort).
// Whoever waits for the stream gets ErrAborted. The stream stays usable.
func (s *Stream) Abort() error { return s.control("Stream.Abort", abortStream) }

// Stop stops the stream and keeps what is queued (aclrtStreamStop, from CANN 8.5).
func (s *Stream) Stop() error { return s.control("Stream.Stop", stopStream) }

func (s *Stream) control(op string, f *cshim.Func) error {
	if err := s.usable(op); err != nil {
		return err
	}
	c := cshim.Call{Args: [cshim.Args]uint64{s.q.handle}}
	if err := c.Do(f, s.q.scope.handle); err != nil {
		return s.q.fail(err)
	}
	return nil
}
