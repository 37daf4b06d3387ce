package acl

import (
	"context"
	"errors"
	"runtime"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/bridge"
)

// Stream is a queue of work on a device; work on one stream runs in order, work on two runs
// in any order except for events. Streams are scarce: a device has about 1984 for all
// processes.
type Stream struct {
	owned
	bridgedStream
	q   *queue
	dev *Device
}

// StreamOption is an option of NewStream.
type StreamOption func(*streamConfig)

type streamConfig struct {
	flags, priority uint32
	stopOnFailure   bool
}

// StreamFast makes launches cheaper, for some device memory, and lets Synchronize poll
// instead of sleep (ACL_STREAM_FAST_LAUNCH, ACL_STREAM_FAST_SYNC).
func StreamFast() StreamOption {
	return StreamFlags(abi.ACL_STREAM_FAST_LAUNCH | abi.ACL_STREAM_FAST_SYNC)
}

// StreamFlags adds flags as aclrtCreateStreamWithConfig takes them.
func StreamFlags(flags uint32) StreamOption {
	return func(c *streamConfig) { c.flags |= flags }
}

// StreamPriority sets the priority, 0 (the highest and the default) to 7.
func StreamPriority(p uint32) StreamOption {
	return func(c *streamConfig) { c.priority = p }
}

// StreamStopOnFailure halts the whole context at the first failure of a task: later calls on
// its streams return the failure's code (ACL_STOP_ON_FAILURE). Without it the failing task
// is skipped and the next Synchronize reports it.
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
		if o != nil {
			o(&cfg)
		}
	}
	sc := x.scope
	handle, err := aclrtCreateStreamWithConfig(sc.handle, cfg.priority, cfg.flags)
	if err != nil {
		return nil, sc.fail(err)
	}
	q, err := sc.newQueue(handle)
	if err == nil {
		const aloof = abi.ACL_STREAM_PERSISTENT | abi.ACL_STREAM_CPU_SCHEDULE | abi.ACL_STREAM_DEVICE_USE_ONLY
		q.unasked = cfg.flags&aloof != 0
	}
	if err == nil && cfg.stopOnFailure {
		if err = aclrtSetStreamFailureMode(sc.handle, handle, abi.ACL_STOP_ON_FAILURE); err != nil {
			err = q.fail(err)
		} else {
			sc.stops.Store(true)
		}
	}
	if err != nil {
		return nil, errors.Join(err, sc.destroyQueue(q, handle))
	}
	sc.retain()
	s := newStream(q, x.dev)
	s.open(KindStream, leak{remains: heir(&lostStream{q: q})})
	return s, nil
}

// newStream makes a Stream, which is not counted.
func newStream(q *queue, dev *Device) *Stream {
	s := &Stream{q: q, dev: dev}
	s.bridgedStream = bridge.NewStream((*launcher)(s))
	return s
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
	sc.fallback = newStream(q, x.dev)
	sc.fallback.state.Store(stateOpen) // it is not counted: it ends with its context
	return sc.fallback, nil
}

// Close waits for the stream's work and destroys the stream (aclrtDestroyStream); call Abort
// first to drop the work instead. The error is that of the work, if some failed.
func (s *Stream) Close() error { return s.CloseContext(context.Background()) }

// CloseContext is Close that waits at most until ctx ends. Then the stream is still open, its
// work goes on, and CloseContext can be called again; the error matches ctx.Err().
func (s *Stream) CloseContext(ctx context.Context) error {
	const op = "Stream.CloseContext"
	if !s.ready() || s.q.handle == 0 {
		return nil
	}
	if ctx == nil {
		return noContext(op)
	}
	if s.q.member.Load() != nil {
		return s.q.refuse(op, ErrCapture, "the stream is capturing")
	}
	cut, err := s.q.wait(ctx)
	if cut {
		return s.q.interrupted(op, ctx)
	}
	if !s.close() {
		return s.q.faulty(err)
	}
	return errors.Join(s.q.faulty(err), s.q.destroy())
}

// ready reports whether the stream is open. It is small enough to be inlined.
func (s *Stream) ready() bool { return s != nil && s.isOpen() }

// usable refuses calls on a stream that is nil, was never made, or is closed.
func (s *Stream) usable(op string) error {
	switch {
	case s == nil || s.q == nil:
		return neverMade(op, KindStream)
	case !s.isOpen():
		return s.q.refuse(op, ErrClosed, "the stream is closed")
	}
	return nil
}

// Device is the device that the stream was made on.
func (s *Stream) Device() *Device {
	if s == nil {
		return nil
	}
	return s.dev
}

// ID is CANN's number of the stream (aclrtStreamGetId), which its logs use; -1 of a Stream that
// NewStream did not make.
func (s *Stream) ID() int {
	if s == nil || s.q == nil {
		return -1
	}
	return s.q.id
}

// Handle is the aclrtStream, for C libraries; 0 is the context's default stream.
func (s *Stream) Handle() uint64 {
	if s == nil || s.q == nil {
		return 0
	}
	return uint64(s.q.handle)
}

// ContextHandle is the aclrtContext that must be current where Handle is used.
func (s *Stream) ContextHandle() uint64 {
	if s == nil || s.q == nil {
		return 0
	}
	return uint64(s.q.scope.handle)
}

// Recent names the operators launched last, the newest first, at most 32.
func (s *Stream) Recent() []string {
	if s == nil || s.q == nil {
		return nil
	}
	return s.q.ring.names(0)
}

// Synchronize waits until all work queued before the call has ended, and returns what failed
// in it (aclrtSynchronizeStream). If ctx ends first the work goes on, the stream stays usable, and
// the error matches ctx.Err(); nothing of the wait stays on the stream. A failure is reported once,
// by whichever wait comes first, and the stream can be used again.
func (s *Stream) Synchronize(ctx context.Context) error {
	if observed() {
		return s.watch(CallWait, "Stream.Synchronize", 0, func() error { return s.synchronize(ctx) })
	}
	return s.synchronize(ctx)
}

func (s *Stream) synchronize(ctx context.Context) error {
	if err := s.usable("Stream.Synchronize"); err != nil {
		return err
	}
	if ctx == nil {
		return noContext("Stream.Synchronize")
	}
	defer runtime.KeepAlive(s)
	_, err := s.q.settle(ctx, "Stream.Synchronize")
	return err
}

// settle is wait with the error that the caller of op gets.
func (q *queue) settle(ctx context.Context, op string) (interrupted bool, err error) {
	launched := q.ring.launched.Load()
	if interrupted, err = q.wait(ctx); interrupted {
		return true, q.interrupted(op, ctx)
	}
	err = q.faulty(err)
	q.ring.passed(launched) // a failure is reported now, and is not that of later launches
	return false, err
}

// Query reports whether all work queued so far has ended (aclrtStreamQuery). What failed in it
// is reported by Synchronize.
func (s *Stream) Query() (done bool, err error) {
	if err := s.usable("Stream.Query"); err != nil {
		return false, err
	}
	done, err = s.q.query()
	runtime.KeepAlive(s)
	return done, err
}

// Abort stops the task that runs and drops those that are queued (aclrtStreamAbort).
// Whoever waits for the stream gets ErrAborted. The stream stays usable.
func (s *Stream) Abort() error { return s.control("Stream.Abort", aclrtStreamAbort) }

// Stop stops the stream and keeps what is queued (aclrtStreamStop, from CANN 8.5).
func (s *Stream) Stop() error { return s.control("Stream.Stop", aclrtStreamStop) }

func (s *Stream) control(op string, call func(aclrtContext, aclrtStream) error) error {
	if err := s.usable(op); err != nil {
		return err
	}
	err := call(s.q.scope.handle, s.q.handle)
	runtime.KeepAlive(s)
	if err != nil {
		return s.q.fail(err)
	}
	return nil
}
