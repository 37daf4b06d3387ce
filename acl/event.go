package acl

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goascend/cann/internal/abi"
)

// Event is a point in a stream that others can wait for. It can be recorded again and again;
// the last record counts, and a wait is for the last record at the time of the call.
type Event struct {
	owned
	scope  *scope
	handle aclrtEvent
	mu     sync.Mutex                // held for a record, so that those of several goroutines are noted in CANN's order
	last   atomic.Pointer[queue]     // stream of the last record
	rec    atomic.Pointer[recording] // capture of the last record, nil outside of one
}

// EventOption is an option of NewEvent.
type EventOption func(flags *uint32)

// EventTiming lets the event take the time, for Elapsed and Timestamp (ACL_EVENT_TIME_LINE).
func EventTiming() EventOption { return EventFlags(abi.ACL_EVENT_TIME_LINE) }

// EventFlags adds flags as aclrtCreateEventExWithFlag takes them.
func EventFlags(flags uint32) EventOption { return func(f *uint32) { *f |= flags } }

// NewEvent makes an event that is not recorded yet, which counts as having happened
// (aclrtCreateEventExWithFlag).
func (x *Context) NewEvent(options ...EventOption) (*Event, error) {
	if err := x.usable("Context.NewEvent"); err != nil {
		return nil, err
	}
	return x.scope.newEvent(options)
}

func (sc *scope) newEvent(options []EventOption) (*Event, error) {
	flags := uint32(abi.ACL_EVENT_SYNC)
	for _, o := range options {
		if o != nil {
			o(&flags)
		}
	}
	handle, err := sc.createEvent(flags)
	if err != nil {
		return nil, err
	}
	sc.retain()
	e := &Event{scope: sc, handle: handle}
	e.open(KindEvent, leak{remains: heir(lostEvent{sc, handle})})
	return e, nil
}

// Record makes a new event and records it; Event.Record does so without making one.
func (s *Stream) Record(options ...EventOption) (*Event, error) {
	if err := s.usable("Stream.Record"); err != nil {
		return nil, err
	}
	e, err := s.q.scope.newEvent(options)
	if err != nil {
		return nil, err
	}
	if err := e.Record(s); err != nil {
		_ = e.Close() // the caller needs the error of the record
		return nil, err
	}
	return e, nil
}

// Close destroys the event (aclrtDestroyEvent). Waits that are queued are not affected.
func (e *Event) Close() error {
	if e == nil || !e.close() {
		return nil
	}
	return lostEvent{e.scope, e.handle}.end()
}

// lostEvent holds the handle of an Event that was collected without Close.
type lostEvent struct {
	scope  *scope
	handle aclrtEvent
}

func (lostEvent) idle() bool { return true }

func (l lostEvent) end() error {
	return errors.Join(l.scope.destroyEvent(l.handle), l.scope.release())
}

// ready reports whether the event is open. It is small enough to be inlined.
func (e *Event) ready() bool { return e != nil && e.isOpen() }

// usable refuses calls on an event that is nil, was never made, or is closed.
func (e *Event) usable(op string) error {
	switch {
	case e == nil || e.scope == nil:
		return neverMade(op, KindEvent)
	case !e.isOpen():
		return e.scope.refuse(op, ErrClosed, "the event is closed")
	}
	return nil
}

// Handle is the aclrtEvent, for C libraries.
func (e *Event) Handle() uint64 {
	if e == nil {
		return 0
	}
	return uint64(e.handle)
}

// Record marks the end of the work queued on the stream so far (aclrtRecordEvent). The
// stream must be of the event's device.
func (e *Event) Record(s *Stream) error {
	if !e.ready() {
		return e.usable("Event.Record")
	}
	if !s.ready() {
		return s.usable("Event.Record")
	}
	q := s.q
	if q.scope.chip != e.scope.chip {
		return q.refuse("Event.Record", ErrWrongDevice, "the event is of device %d", e.scope.chip.id)
	}
	e.mu.Lock()
	err := aclrtRecordEvent(q.scope.handle, e.handle, q.handle)
	if err == nil {
		if e.last.Load() != q {
			e.last.Store(q)
		}
		if rec := q.recording(); e.rec.Load() != rec {
			e.rec.Store(rec)
		}
	}
	e.mu.Unlock()
	if err != nil {
		return q.fault(err)
	}
	q.feed()
	runtime.KeepAlive(s)
	return nil
}

// WaitStream makes the stream wait for everything that is queued on another one now; the call itself does not wait
// (aclrtRecordEvent, aclrtStreamWaitEvent). It is torch.npu.Stream.wait_stream.
func (s *Stream) WaitStream(other *Stream) error {
	if !s.ready() {
		return s.usable("Stream.WaitStream")
	}
	e, err := other.Record()
	if err != nil {
		return err
	}
	return errors.Join(s.Wait(e), e.Close())
}

// Wait makes the stream wait for the event's last record; the call itself does not wait
// (aclrtStreamWaitEvent). The event may be of another device, except on the chips before
// the 910B.
func (s *Stream) Wait(e *Event) error {
	if !s.ready() {
		return s.usable("Stream.Wait")
	}
	if !e.ready() {
		return e.usable("Stream.Wait")
	}
	q := s.q
	if e.scope.chip != q.scope.chip {
		if err := q.across("Stream.Wait"); err != nil {
			return err
		}
	}
	var err error
	if rec := e.rec.Load(); rec == nil {
		err = aclrtStreamWaitEvent(q.scope.handle, q.handle, e.handle)
	} else {
		err = rec.join(q, func() error { return aclrtStreamWaitEvent(q.scope.handle, q.handle, e.handle) })
	}
	if err != nil {
		return q.fault(err)
	}
	q.feed()
	runtime.KeepAlive(e)
	runtime.KeepAlive(s)
	return nil
}

// Query reports whether the last record has happened (aclrtQueryEventStatus), which is
// true for an event that was never recorded.
func (e *Event) Query() (done bool, err error) {
	if err := e.usable("Event.Query"); err != nil {
		return false, err
	}
	defer runtime.KeepAlive(e)
	return e.scope.eventDone(e.handle)
}

// Synchronize waits until the last record has happened (aclrtSynchronizeEvent). CANN does not
// report here what failed in the work before the record: if the stream has no later work, this call
// waits for the stream too and returns its failure, else a later Stream.Synchronize does. If ctx ends first
// the event stays usable, and the error matches ctx.Err(); if the event is recorded again
// meanwhile, the wait may be for that record.
func (e *Event) Synchronize(ctx context.Context) error {
	if observed() {
		return e.watch(func() error { return e.synchronize(ctx) })
	}
	return e.synchronize(ctx)
}

func (e *Event) synchronize(ctx context.Context) error {
	if err := e.usable("Event.Synchronize"); err != nil {
		return err
	}
	if ctx == nil {
		return noContext("Event.Synchronize")
	}
	defer runtime.KeepAlive(e)
	q := e.last.Load()
	cut, err := e.scope.waitEvent(ctx, e.handle)
	switch {
	case cut:
		return e.scope.interrupted("Event.Synchronize", ctx)
	case q == nil:
		return e.scope.faulty(err)
	case err != nil:
		return q.fault(err)
	}
	return q.verdict()
}

// verdict returns what failed on a stream that has no work left, and nil on one that has.
func (q *queue) verdict() error {
	q.ending.RLock()
	defer q.ending.RUnlock()
	if q.gone.Load() {
		return nil
	}
	if idle, err := q.queryLive(); err != nil || !idle {
		return err
	}
	launched := q.ring.launched.Load()
	err := q.faulty(q.joinLive())
	q.ring.passed(launched)
	return err
}

// waitEvent waits for the last record of an event until ctx ends.
func (sc *scope) waitEvent(ctx context.Context, handle aclrtEvent) (interrupted bool, err error) {
	if ctx.Done() == nil {
		return false, aclrtSynchronizeEventWithTimeout(sc.handle, handle, forever)
	}
	return poll(ctx, func() (bool, error) { return sc.eventDone(handle) })
}

// Elapsed is the device's time from start to e, negative if e came first
// (aclrtEventElapsedTime). Both must be made with EventTiming and have happened.
func (e *Event) Elapsed(start *Event) (time.Duration, error) {
	for _, x := range []*Event{e, start} {
		if err := x.usable("Event.Elapsed"); err != nil {
			return 0, err
		}
	}
	defer runtime.KeepAlive(start)
	defer runtime.KeepAlive(e)
	ms, err := aclrtEventElapsedTime(e.scope.handle, start.handle, e.handle)
	return time.Duration(float64(ms) * float64(time.Millisecond)), e.scope.wrap(err)
}

// Timestamp is when the last record happened, since the start of the device
// (aclrtEventGetTimestamp). The event must be made with EventTiming.
func (e *Event) Timestamp() (time.Duration, error) {
	if err := e.usable("Event.Timestamp"); err != nil {
		return 0, err
	}
	defer runtime.KeepAlive(e)
	us, err := aclrtEventGetTimestamp(e.scope.handle, e.handle)
	return time.Duration(us) * time.Microsecond, e.scope.wrap(err)
}
