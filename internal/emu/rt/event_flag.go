package rt

import (
	"time"

	"github.com/goascend/cann/internal/abi"
)

// With the external flag, a record or wait of a replay synchronises with streams and replays
// outside the graph.

// repeatedRecord returns a task that records the event anew at each replay.
func (e *Event) repeatedRecord() Task {
	return Task{Name: "aclrtRecordEvent", Repeatable: true, Releases: &e.order, Run: func() error {
		rec := &record{done: make(chan struct{}), at: time.Now(), order: e.device.rt.sanitizer.Snapshot(&e.order)}
		close(rec.done)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.set(rec)
		return nil
	}}
}

// promisedRecord returns a record task for which others can wait as soon as the replay is queued.
func (e *Event) promisedRecord() Task {
	promise := func() {
		rec := &record{done: make(chan struct{})}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.coming = append(e.coming, rec)
		e.set(rec)
	}
	pass := func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		rec := e.coming[0]
		e.coming = e.coming[1:]
		rec.at, rec.order = time.Now(), e.device.rt.sanitizer.Snapshot(&e.order)
		close(rec.done)
		return nil
	}
	return Task{Name: "aclrtRecordEventWithFlag", Repeatable: true, Releases: &e.order, Promise: promise, Run: pass}
}

// repeatedWait returns a task that waits at each replay for the latest record, or for the first one
// if the event has none yet.
func (e *Event) repeatedWait(limit time.Duration) Task {
	return Task{Name: "aclrtStreamWaitEvent", Repeatable: true, Acquires: &e.order, Wait: func(cancel <-chan struct{}) error {
		var expired <-chan time.Time
		if limit > 0 {
			timer := time.NewTimer(limit)
			defer timer.Stop()
			expired = timer.C
		}
		for {
			e.mu.Lock()
			rec := e.last
			if rec == nil && e.change == nil {
				e.change = make(chan struct{})
			}
			change := e.change
			e.mu.Unlock()
			if rec != nil {
				return rec.waitFor(cancel, limit)
			}
			select {
			case <-change:
			case <-cancel:
				return nil
			case <-expired:
				return &Fault{Code: WaitTimeout, Text: "EE1002: waiting for an event timed out on the device"}
			}
		}
	}}
}

// outward returns the capture of the stream for a call with the external flag, and refuses other
// streams and events.
func (s *Stream) outward(t *Thread, function string, e *Event) (*Capture, Code) {
	c := s.Capture.Load()
	switch {
	case c == nil:
		return nil, t.Fail(StreamNotCaptured, "EE1016: %s: with the external flag the stream must be capturing", function)
	case !e.ex || e.flags != eventSync:
		return nil, t.Fail(FeatureNotSupported, "EE1005: %s: with the external flag the event must be one of aclrtCreateEventExWithFlag(ACL_EVENT_SYNC)", function)
	}
	return c, 0
}

func (r *Runtime) aclrtRecordEventWithFlag(t *Thread, event *Event, stream *Stream, flag uint32) Code {
	const function = "aclrtRecordEventWithFlag"
	switch flag {
	case uint32(abi.ACL_EVENT_RECORD_DEFAULT):
		return r.aclrtRecordEvent(t, event, stream)
	case uint32(abi.ACL_EVENT_RECORD_EXTERNAL):
		c, code := stream.outward(t, function, event)
		if c == nil {
			return code
		}
		return c.Take(t, stream, event.promisedRecord())
	default:
		return t.Fail(ParamInvalid, "EE1003: %s: flag %d is unknown", function, flag)
	}
}

func (r *Runtime) aclrtStreamWaitEventWithFlag(t *Thread, stream *Stream, event *Event, timeout, flag uint32) Code {
	const function = "aclrtStreamWaitEventWithFlag"
	switch flag {
	case uint32(abi.ACL_EVENT_WAIT_DEFAULT):
		return r.streamWait(t, stream, event, time.Duration(timeout)*time.Second)
	case uint32(abi.ACL_EVENT_WAIT_EXTERNAL):
		if timeout != 0 {
			return t.Fail(ParamInvalid, "EE1003: %s: timeout is %d s; with the external flag only 0 is supported", function, timeout)
		}
		c, code := stream.outward(t, function, event)
		if c == nil {
			return code
		}
		return c.Take(t, stream, event.repeatedWait(0))
	default:
		return t.Fail(ParamInvalid, "EE1003: %s: flag %d is unknown", function, flag)
	}
}
