package rt

import (
	"sync"
	"time"

	"github.com/goascend/cann/internal/abi"
)

const (
	eventSync     = uint32(abi.ACL_EVENT_SYNC)
	eventTimeLine = uint32(abi.ACL_EVENT_TIME_LINE)
	eventExternal = uint32(abi.ACL_EVENT_EXTERNAL)
	eventIPC      = uint32(abi.ACL_EVENT_IPC)

	maxEvents = 65536 // hardware event ids per device, for events that take theirs at creation
)

// Event marks a point of a stream. An Ex event may be recorded again at will, and a wait
// binds to the latest record at the time of the call.
type Event struct {
	handle uint64
	device *Device
	flags  uint32
	ex     bool
	early  bool         // took a hardware id at creation
	shared *sharedEvent // of ACL_EVENT_IPC, instead of what follows

	mu     sync.Mutex
	last   *record
	mark   *mark         // where a capture recorded it last
	waited int           // device waits queued and not passed yet
	order  Order         // of an external event, whose waits in a graph find their record late
	coming []*record     // which replays under way will make, in order
	change chan struct{} // closed by the next record; nil when nobody waits for one
}

// set makes a record the latest one. The caller holds the lock.
func (e *Event) set(rec *record) {
	e.last, e.mark = rec, nil
	if e.change != nil {
		close(e.change)
		e.change = nil
	}
}

// record is one recording: done is closed when the stream has passed it.
type record struct {
	done  chan struct{}
	at    time.Time
	fault *Fault // of the stream, as it passed
	order Order
}

func (r *Runtime) eventFunctions() table {
	return table{
		"aclrtCreateEvent":                 r.createEvent,
		"aclrtCreateEventWithFlag":         r.createEventWithFlag,
		"aclrtCreateEventExWithFlag":       r.createEventEx,
		"aclrtDestroyEvent":                r.destroyEvent,
		"aclrtRecordEvent":                 r.recordEvent,
		"aclrtResetEvent":                  r.resetEvent,
		"aclrtStreamWaitEvent":             r.streamWaitEvent,
		"aclrtStreamWaitEventWithTimeout":  r.streamWaitEventWithTimeout,
		"aclrtQueryEvent":                  r.queryEvent,
		"aclrtQueryEventStatus":            r.queryEventStatus,
		"aclrtQueryEventWaitStatus":        r.queryEventWaitStatus,
		"aclrtSynchronizeEvent":            r.synchronizeEvent,
		"aclrtSynchronizeEventWithTimeout": r.synchronizeEventWithTimeout,
		"aclrtEventElapsedTime":            r.elapsedTime,
		"aclrtEventGetTimestamp":           r.eventTimestamp,
		"aclrtGetEventAvailNum":            r.availableEvents,
	}
}

func (r *Runtime) makeEvent(t *Thread, out uint64, e *Event) uint64 {
	if out == 0 {
		return t.null("aclrtCreateEvent", "event")
	}
	c, code := r.current(t)
	if c == nil {
		return code
	}
	e.device = c.device
	if e.early {
		e.device.mu.Lock()
		full := e.device.events >= maxEvents
		if !full {
			e.device.events++
		}
		e.device.mu.Unlock()
		if full {
			return t.Fail(noEventResource, "EE1023: the device has no event left; destroy some, %d can exist", maxEvents)
		}
	}
	e.handle = r.Handles.New(EventKind, e)
	Write(out, e.handle)
	return 0
}

func (r *Runtime) createEvent(t *Thread, a []uint64) uint64 {
	return r.makeEvent(t, a[0], &Event{flags: eventSync | eventTimeLine})
}

func (r *Runtime) createEventWithFlag(t *Thread, a []uint64) uint64 {
	flags := uint32(a[1])
	if !validEventFlags(flags, false) {
		return t.Fail(paramInvalid, "EE1003: aclrtCreateEventWithFlag: flag %#x is unknown or combines what cannot be combined", flags)
	}
	return r.makeEvent(t, a[0], &Event{flags: flags, early: true})
}

func (r *Runtime) createEventEx(t *Thread, a []uint64) uint64 {
	flags := uint32(a[1])
	if !validEventFlags(flags, true) {
		return t.Fail(paramInvalid, "EE1003: aclrtCreateEventExWithFlag: flag %#x is unknown or combines what cannot be combined", flags)
	}
	if flags == eventIPC {
		return r.createSharedEvent(t, a[0])
	}
	return r.makeEvent(t, a[0], &Event{flags: flags, ex: true})
}

// validEventFlags: the sharing flags stand alone, EXTERNAL not on an Ex event and IPC on
// nothing else.
func validEventFlags(flags uint32, ex bool) bool {
	plain := eventSync | eventTimeLine | uint32(abi.ACL_EVENT_CAPTURE_STREAM_PROGRESS) | uint32(abi.ACL_EVENT_DEVICE_USE_ONLY)
	switch {
	case flags == 0:
		return false
	case flags == eventExternal:
		return !ex
	case flags == eventIPC:
		return ex
	}
	return flags&^plain == 0
}

func (r *Runtime) event(t *Thread, function string, h uint64) (*Event, uint64) {
	if h == 0 {
		return nil, t.null(function, "event")
	}
	e, ok := Lookup[*Event](&r.Handles, h)
	if !ok {
		return nil, t.Fail(paramInvalid, "EE1003: %s: %#x is no live event; was it destroyed?", function, h)
	}
	return e, 0
}

func (r *Runtime) destroyEvent(t *Thread, a []uint64) uint64 {
	e, code := r.event(t, "aclrtDestroyEvent", a[0])
	if e == nil {
		return code
	}
	r.Handles.Delete(a[0])
	if e.shared != nil {
		e.shared.page.close()
	}
	if e.early {
		e.device.mu.Lock()
		e.device.events--
		e.device.mu.Unlock()
	}
	return 0
}

func (r *Runtime) recordEvent(t *Thread, a []uint64) uint64 {
	e, code := r.event(t, "aclrtRecordEvent", a[0])
	if e == nil {
		return code
	}
	s, streamCode := r.Stream(t, a[1])
	if s == nil {
		return uint64(uint32(streamCode))
	}
	if e.shared != nil {
		return e.shared.record(r, t, s)
	}
	if c := s.capture.Load(); c != nil {
		return c.record(t, s, e)
	}
	if s.bound.Load() != nil {
		return r.Submit(t, s, e.repeatedRecord())
	}
	rec := &record{done: make(chan struct{})}
	if e.flags&eventExternal != 0 {
		rec.order.also = &e.order
	}
	pass := func() {
		rec.at = time.Now()
		s.mu.Lock()
		rec.fault = s.fault
		s.mu.Unlock()
		close(rec.done)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	code = r.Submit(t, s, Task{Name: "aclrtRecordEvent", Releases: &rec.order, Run: func() error { pass(); return nil }, Drop: pass})
	if code == 0 {
		e.set(rec)
	}
	return code
}

// record records an event on a capturing stream: one of aclrtCreateEventExWithFlag orders
// the streams of the capture, an external one is recorded by each replay.
func (c *capture) record(t *Thread, s *Stream, e *Event) uint64 {
	if !e.ex && e.flags&eventExternal == 0 {
		return t.Fail(featureNotSupported, "EE1005: aclrtRecordEvent: a capture takes events of aclrtCreateEventExWithFlag, or external ones")
	}
	if e.ex {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.mark = c.mark(s)
		return 0
	}
	return c.add(t, s, e.repeatedRecord())
}

// captured refuses a call that asks for the state of an event of a capture.
func (e *Event) captured(t *Thread, function string) uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mark == nil {
		return 0
	}
	return t.Fail(eventCaptured, "EE1016: %s: the event was recorded in a capture", function)
}

func (r *Runtime) resetEvent(t *Thread, a []uint64) uint64 {
	e, code := r.event(t, "aclrtResetEvent", a[0])
	if e == nil {
		return code
	}
	if e.ex || e.flags&(eventSync|eventExternal) == 0 {
		return t.Fail(featureNotSupported, "EE1005: aclrtResetEvent: only an event made with ACL_EVENT_SYNC or ACL_EVENT_EXTERNAL by aclrtCreateEventWithFlag can be reset")
	}
	s, streamCode := r.Stream(t, a[1])
	if s == nil {
		return uint64(uint32(streamCode))
	}
	if s.capture.Load() != nil && e.flags&eventExternal == 0 {
		return t.Fail(captureForbids, "EE1016: aclrtResetEvent cannot be captured, but for an event made with ACL_EVENT_EXTERNAL")
	}
	e.mu.Lock()
	rec := e.last
	e.mu.Unlock()
	repeated := s.Capturing() || s.bound.Load() != nil
	return r.Submit(t, s, Task{Name: "aclrtResetEvent", Repeatable: repeated, Run: func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		if repeated || e.last == rec {
			e.last = nil
		}
		return nil
	}})
}

func (r *Runtime) streamWaitEvent(t *Thread, a []uint64) uint64 {
	return r.streamWait(t, a[0], a[1], 0)
}

func (r *Runtime) streamWaitEventWithTimeout(t *Thread, a []uint64) uint64 {
	seconds := int32(a[2])
	if seconds < 0 {
		return t.Fail(paramInvalid, "EE1003: aclrtStreamWaitEventWithTimeout: timeout %d s", seconds)
	}
	return r.streamWait(t, a[0], a[1], time.Duration(seconds)*time.Second)
}

// streamWait makes a stream wait for the latest record of an event at the time of the call.
// A limit of 0 waits for ever.
func (r *Runtime) streamWait(t *Thread, stream, event uint64, limit time.Duration) uint64 {
	e, code := r.event(t, "aclrtStreamWaitEvent", event)
	if e == nil {
		return code
	}
	s, streamCode := r.Stream(t, stream)
	if s == nil {
		return uint64(uint32(streamCode))
	}
	if e.shared != nil {
		return e.shared.streamWait(r, t, s, limit)
	}
	if e.flags&(eventSync|eventExternal) == 0 {
		return t.Fail(featureNotSupported, "EE1005: aclrtStreamWaitEvent: the event was made without ACL_EVENT_SYNC")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mark != nil {
		return e.mark.join(t, s)
	}
	if c := s.capture.Load(); c != nil {
		return c.wait(t, s, e, limit)
	}
	if s.bound.Load() != nil {
		return r.Submit(t, s, e.repeatedWait(limit))
	}
	rec := e.last
	if rec == nil {
		return 0 // nothing was recorded, so there is nothing to wait for
	}
	e.waited++
	passed := func() {
		e.mu.Lock()
		e.waited--
		e.mu.Unlock()
	}
	code = r.Submit(t, s, Task{Name: "aclrtStreamWaitEvent", Acquires: &rec.order, Drop: passed, Wait: func(cancel <-chan struct{}) error {
		defer passed()
		return rec.waitFor(cancel, limit)
	}})
	if code != 0 {
		e.waited--
	}
	return code
}

// wait makes each replay wait for an external event; another event would reach out of the
// capture.
func (c *capture) wait(t *Thread, s *Stream, e *Event, limit time.Duration) uint64 {
	if e.flags&eventExternal == 0 {
		return t.Fail(captureDependency, "EE1016: aclrtStreamWaitEvent: the event was recorded outside the capture")
	}
	return c.add(t, s, e.repeatedWait(limit))
}

func (rec *record) waitFor(cancel <-chan struct{}, limit time.Duration) error {
	var expired <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-rec.done:
	case <-cancel:
	case <-expired:
		return &Fault{Code: waitTimeout, Text: "EE1002: waiting for an event timed out on the device"}
	}
	return nil
}

// state is the latest record and whether the stream has passed it.
func (e *Event) state() (rec *record, done bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.last == nil {
		return nil, false
	}
	select {
	case <-e.last.done:
		e.device.rt.sanitizer.passed(&e.last.order)
		return e.last, true
	default:
		return e.last, false
	}
}

func (r *Runtime) queryEvent(t *Thread, a []uint64) uint64 {
	e, code := r.event(t, "aclrtQueryEvent", a[0])
	if e == nil {
		return code
	}
	if a[1] == 0 {
		return t.null("aclrtQueryEvent", "status")
	}
	if e.ex {
		return t.Fail(featureNotSupported, "EE1005: aclrtQueryEvent: use aclrtQueryEventStatus for an event of aclrtCreateEventExWithFlag")
	}
	if code := e.captured(t, "aclrtQueryEvent"); code != 0 {
		return code
	}
	status := int32(abi.ACL_EVENT_STATUS_NOT_READY)
	if _, done := e.state(); done {
		status = int32(abi.ACL_EVENT_STATUS_COMPLETE)
	}
	Write(a[1], status)
	return 0
}

// queryEventStatus: the values are inverted to those of aclrtQueryEvent, and an Ex event
// that was never recorded counts as complete.
func (r *Runtime) queryEventStatus(t *Thread, a []uint64) uint64 {
	e, code := r.event(t, "aclrtQueryEventStatus", a[0])
	if e == nil {
		return code
	}
	if a[1] == 0 {
		return t.null("aclrtQueryEventStatus", "status")
	}
	if code := e.captured(t, "aclrtQueryEventStatus"); code != 0 {
		return code
	}
	var done bool
	if e.shared != nil {
		done = e.shared.complete()
	} else {
		rec, passed := e.state()
		done = passed || rec == nil && e.ex
	}
	status := int32(abi.ACL_EVENT_RECORDED_STATUS_NOT_READY)
	if done {
		status = int32(abi.ACL_EVENT_RECORDED_STATUS_COMPLETE)
	}
	Write(a[1], status)
	return 0
}

func (r *Runtime) queryEventWaitStatus(t *Thread, a []uint64) uint64 {
	e, code := r.event(t, "aclrtQueryEventWaitStatus", a[0])
	if e == nil {
		return code
	}
	if a[1] == 0 {
		return t.null("aclrtQueryEventWaitStatus", "status")
	}
	if e.ex {
		return t.Fail(featureNotSupported, "EE1005: aclrtQueryEventWaitStatus: not for an event of aclrtCreateEventExWithFlag")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	status := int32(abi.ACL_EVENT_WAIT_STATUS_COMPLETE)
	if e.waited > 0 {
		status = int32(abi.ACL_EVENT_WAIT_STATUS_NOT_READY)
	}
	Write(a[1], status)
	return 0
}

func (r *Runtime) synchronizeEvent(t *Thread, a []uint64) uint64 { return r.syncEvent(t, a[0], -1) }

func (r *Runtime) synchronizeEventWithTimeout(t *Thread, a []uint64) uint64 {
	return r.syncEvent(t, a[0], int32(a[1]))
}

func (r *Runtime) syncEvent(t *Thread, h uint64, milliseconds int32) uint64 {
	w, ok := newWait(milliseconds)
	if !ok {
		return t.Fail(paramInvalid, "EE1003: aclrtSynchronizeEventWithTimeout: timeout %d ms; use -1 or a positive number", milliseconds)
	}
	e, code := r.event(t, "aclrtSynchronizeEvent", h)
	if e == nil {
		return code
	}
	if code := e.captured(t, "aclrtSynchronizeEvent"); code != 0 {
		return code
	}
	if e.shared != nil {
		return e.shared.synchronize(t, w)
	}
	rec, _ := e.state()
	if rec == nil {
		return 0
	}
	if !w.on(rec.done) {
		return t.Fail(eventSyncTimeout, "EE1002: event synchronize timeout after %d ms", milliseconds)
	}
	r.sanitizer.passed(&rec.order)
	if rec.fault != nil {
		return rec.fault.report(t)
	}
	return 0
}

func (r *Runtime) elapsedTime(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclrtEventElapsedTime", "ms")
	}
	var at [2]time.Time
	for i, h := range a[1:3] {
		e, code := r.event(t, "aclrtEventElapsedTime", h)
		if e == nil {
			return code
		}
		if code := e.timestamp(t, "aclrtEventElapsedTime", &at[i]); code != 0 {
			return code
		}
	}
	Write(a[0], float32(at[1].Sub(at[0]).Seconds()*1e3))
	return 0
}

// timestamp gives the time the stream passed the event.
func (e *Event) timestamp(t *Thread, function string, at *time.Time) uint64 {
	if e.shared != nil {
		return t.Fail(featureNotSupported, "EE1005: %s: an event made with ACL_EVENT_IPC has no time", function)
	}
	rec, done := e.state()
	if !done {
		return t.Fail(runtimeInternal, "EE1018: %s: the event is not recorded, or its stream has not passed it; synchronise first", function)
	}
	if e.flags&eventTimeLine == 0 {
		return t.Fail(timestampInvalid, "EE1003: %s: the event was made without ACL_EVENT_TIME_LINE", function)
	}
	*at = rec.at
	return 0
}

func (r *Runtime) eventTimestamp(t *Thread, a []uint64) uint64 {
	e, code := r.event(t, "aclrtEventGetTimestamp", a[0])
	if e == nil {
		return code
	}
	if a[1] == 0 {
		return t.null("aclrtEventGetTimestamp", "timestamp")
	}
	var at time.Time
	if code := e.timestamp(t, "aclrtEventGetTimestamp", &at); code != 0 {
		return code
	}
	Write(a[1], uint64(at.Sub(r.start).Microseconds()))
	return 0
}

func (r *Runtime) availableEvents(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclrtGetEventAvailNum", "eventCount")
	}
	c, code := r.current(t)
	if c == nil {
		return code
	}
	c.device.mu.Lock()
	defer c.device.mu.Unlock()
	Write(a[0], uint32(maxEvents-c.device.events))
	return 0
}
