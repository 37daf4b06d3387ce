package acl

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

// Event is a point in a stream that others can wait for. It can be recorded again and again;
// the last record counts, and a wait is for the last record at the time of the call.
type Event struct {
	owned
	scope  *scope
	handle uint64
	last   atomic.Pointer[queue] // stream of the last record
}

// EventOption is an option of NewEvent.
type EventOption func(*uint64)

// EventTiming lets the event take the time, for Elapsed and Timestamp (ACL_EVENT_TIME_LINE).
func EventTiming() EventOption { return EventFlags(abi.ACL_EVENT_TIME_LINE) }

// EventFlags adds flags as aclrtCreateEventExWithFlag takes them.
func EventFlags(flags uint32) EventOption { return func(f *uint64) { *f |= uint64(flags) } }

// NewEvent makes an event that is not recorded yet, which counts as having happened
// (aclrtCreateEventExWithFlag).
func (x *Context) NewEvent(options ...EventOption) (*Event, error) {
	if err := x.usable("Context.NewEvent"); err != nil {
		return nil, err
	}
	return x.scope.newEvent(options)
}

func (sc *scope) newEvent(options []EventOption) (*Event, error) {
	flags := uint64(abi.ACL_EVENT_SYNC)
	for _, o := range options {
		o(&flags)
	}
	handle, err := sc.createEvent(flags)
	if err != nil {
		return nil, err
	}
	sc.retain()
	e := &Event{scope: sc, handle: handle}
	e.open(KindEvent)
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
		_ = e.Close() // the failed record is what matters
		return nil, err
	}
	return e, nil
}

// Close destroys the event (aclrtDestroyEvent). Waits that are queued are not affected.
func (e *Event) Close() error {
	if !e.close() {
		return nil
	}
	err := e.scope.destroyEvent(e.handle)
	if r := e.scope.release(); err == nil {
		err = r
	}
	return err
}

func (e *Event) usable(op string) error {
	if e.closed.Load() {
		return e.scope.refuse(op, ErrClosed, "the event is closed")
	}
	return nil
}

// Handle is the aclrtEvent, for C libraries.
func (e *Event) Handle() uint64 { return e.handle }

// Record marks the end of the work queued on the stream so far (aclrtRecordEvent). The
// stream must be of the event's device.
func (e *Event) Record(s *Stream) error {
	if e.closed.Load() {
		return e.usable("Event.Record")
	}
	if s.closed.Load() {
		return s.usable("Event.Record")
	}
	q := s.q
	if q.scope.chip != e.scope.chip {
		return q.refuse("Event.Record", ErrWrongDevice, "the event is of device %d", e.scope.chip.id)
	}
	c := cshim.Call{Args: [cshim.Args]uint64{e.handle, q.handle}}
	if err := c.Do(recordEvent, q.scope.handle); err != nil {
		return q.fault(err)
	}
	if e.last.Load() != q {
		e.last.Store(q)
	}
	return nil
}

// Wait makes the stream wait for the event's last record; the call itself does not wait
// (aclrtStreamWaitEvent). The event may be of another device.
func (s *Stream) Wait(e *Event) error {
	if e.closed.Load() {
		return e.usable("Stream.Wait")
	}
	if s.closed.Load() {
		return s.usable("Stream.Wait")
	}
	q := s.q
	c := cshim.Call{Args: [cshim.Args]uint64{q.handle, e.handle}}
	if err := c.Do(waitEvent, q.scope.handle); err != nil {
		return q.fault(err)
	}
	return nil
}

// Query reports whether the last record has happened (aclrtQueryEventStatus); of an event
// that was never recorded it has.
func (e *Event) Query() (done bool, err error) {
	if err := e.usable("Event.Query"); err != nil {
		return false, err
	}
	return e.scope.eventDone(e.handle)
}

// Synchronize waits until the last record has happened (aclrtSynchronizeEventWithTimeout).
// If ctx ends first the event stays usable, and the error matches ctx.Err(); see
// Stream.Synchronize.
func (e *Event) Synchronize(ctx context.Context) error {
	if err := e.usable("Event.Synchronize"); err != nil {
		return err
	}
	cut, err := e.scope.wait(ctx, synchronizeEvent, e.handle, false)
	switch {
	case cut:
		failed := interrupted("Event.Synchronize", ctx)
		failed.Device = e.scope.chip.id
		return failed
	case err == nil:
		return nil
	}
	if q := e.last.Load(); q != nil {
		return q.fault(err)
	}
	return e.scope.fault(err)
}

// Elapsed is the device's time from start to e, negative if e came first
// (aclrtEventElapsedTime). Both must be made with EventTiming and have happened.
func (e *Event) Elapsed(start *Event) (time.Duration, error) {
	for _, x := range []*Event{start, e} {
		if err := x.usable("Event.Elapsed"); err != nil {
			return 0, err
		}
	}
	v, err := e.scope.ask(elapsedTime, 0, 0, start.handle, e.handle)
	if err != nil {
		return 0, err
	}
	ms := math.Float32frombits(uint32(v))
	return time.Duration(float64(ms) * float64(time.Millisecond)), nil
}

// Timestamp is when the last record happened, since the start of the device
// (aclrtEventGetTimestamp). The event must be made with EventTiming.
func (e *Event) Timestamp() (time.Duration, error) {
	if err := e.usable("Event.Timestamp"); err != nil {
		return 0, err
	}
	us, err := e.scope.ask(eventTimestamp, 1, e.handle)
	return time.Duration(us) * time.Microsecond, err
}
