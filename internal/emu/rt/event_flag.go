package rt

import (
	"time"

	"github.com/goascend/cann/internal/abi"
)

// eventFlagFunctions record and wait with a flag: by the external one a replay meets streams
// and replays outside of its graph.
func (r *Runtime) eventFlagFunctions() table {
	return table{
		"aclrtRecordEventWithFlag":     r.recordEventWithFlag,
		"aclrtStreamWaitEventWithFlag": r.streamWaitEventWithFlag,
	}
}

// repeatedRecord is a record that each replay makes as it passes.
func (e *Event) repeatedRecord() Task {
	return Task{Name: "aclrtRecordEvent", Repeatable: true, Releases: &e.order, Run: func() error {
		rec := &record{done: make(chan struct{}), at: time.Now(), order: Order{clock: e.device.rt.sanitizer.of(&e.order)}}
		close(rec.done)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.set(rec)
		return nil
	}}
}

// promisedRecord is a record that others can wait for from when the replay is queued on.
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
		rec.at, rec.order.clock = time.Now(), e.device.rt.sanitizer.of(&e.order)
		close(rec.done)
		return nil
	}
	return Task{Name: "aclrtRecordEventWithFlag", Repeatable: true, Releases: &e.order, Promise: promise, Run: pass}
}

// repeatedWait waits in each replay for the latest record, or for the first there will be.
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
				return &Fault{Code: waitTimeout, Text: "EE1002: waiting for an event timed out on the device"}
			}
		}
	}}
}

// outward is the capturing stream and the event of a call with the external flag.
func (r *Runtime) outward(t *Thread, function string, stream, event uint64) (*capture, *Stream, *Event, uint64) {
	e, code := r.event(t, function, event)
	if e == nil {
		return nil, nil, nil, code
	}
	s, streamCode := r.Stream(t, stream)
	if s == nil {
		return nil, nil, nil, uint64(uint32(streamCode))
	}
	c := s.capture.Load()
	switch {
	case c == nil:
		return nil, nil, nil, t.Fail(streamNotCaptured, "EE1016: %s: with the external flag the stream must be capturing", function)
	case !e.ex || e.flags != eventSync:
		return nil, nil, nil, t.Fail(featureNotSupported, "EE1005: %s: with the external flag the event must be one of aclrtCreateEventExWithFlag(ACL_EVENT_SYNC)", function)
	}
	return c, s, e, 0
}

func (r *Runtime) recordEventWithFlag(t *Thread, a []uint64) uint64 {
	const function = "aclrtRecordEventWithFlag"
	switch flag := uint32(a[2]); flag {
	case uint32(abi.ACL_EVENT_RECORD_DEFAULT):
		return r.recordEvent(t, a[:2])
	case uint32(abi.ACL_EVENT_RECORD_EXTERNAL):
		c, s, e, code := r.outward(t, function, a[1], a[0])
		if c == nil {
			return code
		}
		return c.add(t, s, e.promisedRecord())
	default:
		return t.Fail(paramInvalid, "EE1003: %s: flag %d is unknown", function, flag)
	}
}

func (r *Runtime) streamWaitEventWithFlag(t *Thread, a []uint64) uint64 {
	const function = "aclrtStreamWaitEventWithFlag"
	seconds := uint32(a[2])
	switch flag := uint32(a[3]); flag {
	case uint32(abi.ACL_EVENT_WAIT_DEFAULT):
		return r.streamWait(t, a[0], a[1], time.Duration(seconds)*time.Second)
	case uint32(abi.ACL_EVENT_WAIT_EXTERNAL):
		if seconds != 0 {
			return t.Fail(paramInvalid, "EE1003: %s: timeout is %d s; with the external flag only 0 is supported", function, seconds)
		}
		c, s, e, code := r.outward(t, function, a[0], a[1])
		if c == nil {
			return code
		}
		return c.add(t, s, e.repeatedWait(0))
	default:
		return t.Fail(paramInvalid, "EE1003: %s: flag %d is unknown", function, flag)
	}
}
