package rt

import (
	"sync"
	"time"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

const (
	eventSync     = uint32(abi.ACL_EVENT_SYNC)
	eventTimeLine = uint32(abi.ACL_EVENT_TIME_LINE)
	eventExternal = uint32(abi.ACL_EVENT_EXTERNAL)
	eventIPC      = uint32(abi.ACL_EVENT_IPC)

	maxEvents = 65536 // hardware event ids per device, for events that take an id at creation
)

// Event marks a point of a stream. An event made by aclrtCreateEventExWithFlag may be recorded any
// number of times, and a wait binds to the record that is the latest at the time of the call.
type Event struct {
	handle uint64
	device *Device
	ctx    *Context // in which it was created
	flags  uint32
	ex     bool
	early  bool         // took a hardware id at creation
	shared *sharedEvent // of an ACL_EVENT_IPC event; then the fields below are unused

	mu     sync.Mutex
	last   *record
	mark   Mark           // point of the last record in a capture
	waited int            // device waits that are queued and not done
	order  sanitize.Order // of an external event, whose waits bind at replay
	coming []*record      // records that replays under way will make, in order
	change chan struct{}  // closed by the next record; nil while there is no waiter
}

// set makes a record the latest one. The caller holds the lock.
func (e *Event) set(rec *record) {
	e.last, e.mark = rec, nil
	if e.change != nil {
		close(e.change)
		e.change = nil
	}
}

// record is one recording of an event; done is closed when the stream has passed it.
type record struct {
	done   chan struct{}
	at     time.Time
	order  sanitize.Order
	number uint64 // in the schedule
}

func (r *Runtime) makeEvent(t *Thread, event Out[Handle], e *Event) Code {
	c, code := r.Current(t)
	if c == nil {
		return code
	}
	e.device, e.ctx = c.device, c
	if e.early {
		e.device.mu.Lock()
		full := e.device.events >= maxEvents
		if !full {
			e.device.events++
		}
		e.device.mu.Unlock()
		if full {
			return t.Fail(NoEventResource, "EE1023: the device has no event left; destroy some, %d can exist", maxEvents)
		}
	}
	e.handle = r.Handles.New(EventKind, e)
	event.Set(e.handle)
	return 0
}

func (r *Runtime) aclrtCreateEvent(t *Thread, event Out[Handle]) Code {
	return r.makeEvent(t, event, &Event{flags: eventSync | eventTimeLine})
}

func (r *Runtime) aclrtCreateEventWithFlag(t *Thread, event Out[Handle], flag uint32) Code {
	if !validEventFlags(flag, false) {
		return t.Fail(ParamInvalid, "EE1003: aclrtCreateEventWithFlag: flag %#x is unknown or combines what cannot be combined", flag)
	}
	return r.makeEvent(t, event, &Event{flags: flag, early: true})
}

func (r *Runtime) aclrtCreateEventExWithFlag(t *Thread, event Out[Handle], flag uint32) Code {
	if !validEventFlags(flag, true) {
		return t.Fail(ParamInvalid, "EE1003: aclrtCreateEventExWithFlag: flag %#x is unknown or combines what cannot be combined", flag)
	}
	if flag == eventIPC {
		return r.createSharedEvent(t, event)
	}
	return r.makeEvent(t, event, &Event{flags: flag, ex: true})
}

// validEventFlags reports whether the flags may be combined: a sharing flag must be the only flag,
// an Ex event cannot be EXTERNAL, and nothing but an Ex event can be IPC.
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

//npugen:decode aclrtEvent
func (r *Runtime) event(t *Thread, function string, h Handle) (*Event, Code) {
	e, ok := Lookup[*Event](&r.Handles, h)
	if !ok {
		return nil, t.Fail(ParamInvalid, "EE1003: %s: %#x is no live event; was it destroyed?", function, h)
	}
	return e, 0
}

func (r *Runtime) aclrtDestroyEvent(event *Event) Code {
	r.Handles.Delete(event.handle)
	if event.shared != nil {
		event.shared.page.close()
	}
	if event.early {
		event.device.mu.Lock()
		event.device.events--
		event.device.mu.Unlock()
	}
	return 0
}

func (r *Runtime) aclrtRecordEvent(t *Thread, event *Event, stream *Stream) Code {
	e, s := event, stream
	if e.shared != nil {
		return e.shared.record(r, t, s)
	}
	if c := s.Capture.Load(); c != nil {
		return e.recordIn(t, c, s)
	}
	if s.Build.Load() != nil {
		return r.Submit(t, s, e.repeatedRecord())
	}
	rec := &record{done: make(chan struct{}), number: r.Schedule.event()}
	if e.flags&eventExternal != 0 {
		rec.order.Also = &e.order
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	code := r.Submit(t, s, Task{
		Name: "aclrtRecordEvent", Releases: &rec.order, Planned: &Planned{Record: rec.number},
		Run:  func() error { rec.at = time.Now(); return nil },
		Drop: func() { rec.at = time.Now() },
		Then: func() { close(rec.done) },
	})
	if code == 0 {
		e.set(rec)
	}
	return code
}

// recordIn records the event on a capturing stream. An event of aclrtCreateEventExWithFlag orders
// the streams of the capture; an external event is recorded at each replay.
func (e *Event) recordIn(t *Thread, c *Capture, s *Stream) Code {
	if !e.ex && e.flags&eventExternal == 0 {
		return t.Fail(FeatureNotSupported, "EE1005: aclrtRecordEvent: a capture takes events of aclrtCreateEventExWithFlag, or external ones")
	}
	if e.ex {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.mark = c.Mark(s)
		return 0
	}
	return c.Take(t, s, e.repeatedRecord())
}

// captured refuses a call that asks for the state of an event that was recorded in a capture.
func (e *Event) captured(t *Thread, function string) Code {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mark == nil {
		return 0
	}
	return t.Fail(EventCaptured, "EE1016: %s: the event was recorded in a capture", function)
}

func (r *Runtime) aclrtResetEvent(t *Thread, event *Event, stream *Stream) Code {
	e, s := event, stream
	if e.ex || e.flags&(eventSync|eventExternal) == 0 {
		return t.Fail(FeatureNotSupported, "EE1005: aclrtResetEvent: only an event made with ACL_EVENT_SYNC or ACL_EVENT_EXTERNAL by aclrtCreateEventWithFlag can be reset")
	}
	if s.Capture.Load() != nil && e.flags&eventExternal == 0 {
		return t.Fail(CaptureForbids, "EE1016: aclrtResetEvent cannot be captured, but for an event made with ACL_EVENT_EXTERNAL")
	}
	e.mu.Lock()
	rec := e.last
	e.mu.Unlock()
	repeated := s.Capturing() || s.Build.Load() != nil
	return r.Submit(t, s, Task{Name: "aclrtResetEvent", Repeatable: repeated, Run: func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		if repeated || e.last == rec {
			e.last = nil
		}
		return nil
	}})
}

func (r *Runtime) aclrtStreamWaitEvent(t *Thread, stream *Stream, event *Event) Code {
	return r.streamWait(t, stream, event, 0)
}

func (r *Runtime) aclrtStreamWaitEventWithTimeout(t *Thread, stream *Stream, event *Event, timeout int32) Code {
	if timeout < 0 {
		return t.Fail(ParamInvalid, "EE1003: aclrtStreamWaitEventWithTimeout: timeout %d s", timeout)
	}
	return r.streamWait(t, stream, event, time.Duration(timeout)*time.Second)
}

// streamWait makes a stream wait for the latest record of an event at the time of the call. A limit
// of 0 means no limit.
func (r *Runtime) streamWait(t *Thread, s *Stream, e *Event, limit time.Duration) Code {
	if e.shared != nil {
		return e.shared.streamWait(r, t, s, limit)
	}
	if e.flags&(eventSync|eventExternal) == 0 {
		return t.Fail(FeatureNotSupported, "EE1005: aclrtStreamWaitEvent: the event was made without ACL_EVENT_SYNC")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mark != nil {
		return e.mark.Join(t, s)
	}
	if c := s.Capture.Load(); c != nil {
		return e.waitIn(t, c, s, limit)
	}
	if s.Build.Load() != nil {
		return r.Submit(t, s, e.repeatedWait(limit))
	}
	rec := e.last
	if rec == nil {
		return 0 // nothing was recorded, so there is nothing to wait for
	}
	if e.device != s.ctx.device && !r.chip().WaitsAcross {
		return 0 // as CANN answers, which logs a warning and lets the stream run on
	}
	e.waited++
	passed := func() {
		e.mu.Lock()
		e.waited--
		e.mu.Unlock()
	}
	code := r.Submit(t, s, Task{Name: "aclrtStreamWaitEvent", Acquires: &rec.order, Planned: &Planned{Wait: rec.number}, Drop: passed, Wait: func(cancel <-chan struct{}) error {
		defer passed()
		return rec.waitFor(cancel, limit)
	}})
	if code != 0 {
		e.waited--
	}
	return code
}

// waitIn makes each replay wait for an external event. A wait for another event that was not
// recorded in the capture is refused.
func (e *Event) waitIn(t *Thread, c *Capture, s *Stream, limit time.Duration) Code {
	if e.flags&eventExternal == 0 {
		return t.Fail(CaptureDependency, "EE1016: aclrtStreamWaitEvent: the event was recorded outside the capture")
	}
	return c.Take(t, s, e.repeatedWait(limit))
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
		return &Fault{Code: WaitTimeout, Text: "EE1002: waiting for an event timed out on the device"}
	}
	return nil
}

// state returns the latest record and whether the stream has passed it. While a schedule is written it waits for the stream, which computes
// nothing: what a program does with memory whose last use is over would else depend on how busy the machine is.
func (e *Event) state() (rec *record, done bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.last == nil {
		return nil, false
	}
	if e.device.rt.Schedule != nil {
		rec := e.last
		e.mu.Unlock()
		<-rec.done
		e.mu.Lock()
	}
	select {
	case <-e.last.done:
		e.device.rt.sanitizer.Passed(&e.last.order)
		return e.last, true
	default:
		return e.last, false
	}
}

func (r *Runtime) aclrtQueryEvent(t *Thread, event *Event, status Out[int32]) Code {
	if event.ex {
		return t.Fail(FeatureNotSupported, "EE1005: aclrtQueryEvent: use aclrtQueryEventStatus for an event of aclrtCreateEventExWithFlag")
	}
	if code := event.captured(t, "aclrtQueryEvent"); code != 0 {
		return code
	}
	if code := event.stopped(t); code != 0 {
		return code
	}
	if _, done := event.state(); done {
		status.Set(int32(abi.ACL_EVENT_STATUS_COMPLETE))
	} else {
		status.Set(int32(abi.ACL_EVENT_STATUS_NOT_READY))
	}
	return 0
}

// aclrtQueryEventStatus writes the inverse values of aclrtQueryEvent; an Ex event that was never
// recorded counts as complete.
func (r *Runtime) aclrtQueryEventStatus(t *Thread, event *Event, status Out[int32]) Code {
	if code := event.captured(t, "aclrtQueryEventStatus"); code != 0 {
		return code
	}
	if code := event.stopped(t); code != 0 {
		return code
	}
	var done bool
	if event.shared != nil {
		done = event.shared.complete()
	} else {
		rec, passed := event.state()
		done = passed || rec == nil && event.ex
	}
	if done {
		status.Set(int32(abi.ACL_EVENT_RECORDED_STATUS_COMPLETE))
	} else {
		status.Set(int32(abi.ACL_EVENT_RECORDED_STATUS_NOT_READY))
	}
	return 0
}

func (r *Runtime) aclrtQueryEventWaitStatus(t *Thread, event *Event, status Out[int32]) Code {
	if event.ex {
		return t.Fail(FeatureNotSupported, "EE1005: aclrtQueryEventWaitStatus: not for an event of aclrtCreateEventExWithFlag")
	}
	event.mu.Lock()
	defer event.mu.Unlock()
	if event.waited > 0 {
		status.Set(int32(abi.ACL_EVENT_WAIT_STATUS_NOT_READY))
	} else {
		status.Set(int32(abi.ACL_EVENT_WAIT_STATUS_COMPLETE))
	}
	return 0
}

func (r *Runtime) aclrtSynchronizeEvent(t *Thread, event *Event) Code {
	return r.aclrtSynchronizeEventWithTimeout(t, event, -1)
}

func (r *Runtime) aclrtSynchronizeEventWithTimeout(t *Thread, event *Event, timeout int32) Code {
	w, ok := NewWait(timeout)
	if !ok {
		return t.Fail(ParamInvalid, "EE1003: aclrtSynchronizeEventWithTimeout: timeout %d ms; use -1 or a positive number", timeout)
	}
	if code := event.captured(t, "aclrtSynchronizeEvent"); code != 0 {
		return code
	}
	if event.shared != nil {
		return event.shared.synchronize(t, w)
	}
	rec, _ := event.state()
	if rec == nil {
		return 0
	}
	if code := event.stopped(t); code != 0 {
		return code
	}
	if !w.On(rec.done) {
		r.expired.Add(1)
		return t.Fail(EventSyncTimeout, "EE1002: event synchronize timeout after %d ms", timeout)
	}
	r.sanitizer.Passed(&rec.order)
	return event.stopped(t)
}

// stopped returns the failure that has stopped the context of the event. Other faults are not reported
// by an event: only a wait for their stream reads them.
func (e *Event) stopped(t *Thread) Code {
	if e.ctx == nil {
		return 0
	}
	if f := e.ctx.failure.Load(); f != nil {
		return f.Report(t)
	}
	return 0
}

func (r *Runtime) aclrtEventElapsedTime(t *Thread, ms Out[float32], startEvent, endEvent *Event) Code {
	var at [2]time.Time
	for i, e := range []*Event{startEvent, endEvent} {
		if code := e.timestamp(t, "aclrtEventElapsedTime", &at[i]); code != 0 {
			return code
		}
	}
	ms.Set(float32(at[1].Sub(at[0]).Seconds() * 1e3))
	return 0
}

// timestamp writes the time at which the stream passed the event.
func (e *Event) timestamp(t *Thread, function string, at *time.Time) Code {
	if e.shared != nil {
		return t.Fail(FeatureNotSupported, "EE1005: %s: an event made with ACL_EVENT_IPC has no time", function)
	}
	rec, done := e.state()
	if !done {
		return t.Fail(RuntimeInternal, "EE1018: %s: the event is not recorded, or its stream has not passed it; synchronise first", function)
	}
	if e.flags&eventTimeLine == 0 {
		return t.Fail(TimestampInvalid, "EE1003: %s: the event was made without ACL_EVENT_TIME_LINE", function)
	}
	*at = rec.at
	return 0
}

func (r *Runtime) aclrtEventGetTimestamp(t *Thread, event *Event, timestamp Out[uint64]) Code {
	var at time.Time
	code := event.timestamp(t, "aclrtEventGetTimestamp", &at)
	if code == 0 {
		timestamp.Set(uint64(at.Sub(r.start).Microseconds()))
	}
	return code
}

func (r *Runtime) aclrtGetEventAvailNum(t *Thread, eventCount Out[uint32]) Code {
	c, code := r.Current(t)
	if c == nil {
		return code
	}
	c.device.mu.Lock()
	defer c.device.mu.Unlock()
	eventCount.Set(uint32(maxEvents - c.device.events))
	return 0
}
