package acl

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl/internal/pool"
	"github.com/goascend/cann/internal/abi"
)

// fence is an event that the memory pool waits for. A scope keeps its fences for reuse, and destroys them with its
// context, after the end of its streams: a query holds the lock that the end of its stream takes.
type fence struct {
	q      *queue
	scope  *scope
	handle aclrtEvent
}

// Fence marks the end of the stream's work; nil when the stream was closed, which waited
// for all of it. During a capture, which would record it, the mark is set later.
func (q *queue) Fence() (pool.Fence, error) {
	q.ending.RLock()
	defer q.ending.RUnlock()
	if q.gone.Load() {
		return nil, nil
	}
	return q.mark()
}

// mark makes the fence. The caller holds ending, and the stream is not gone.
func (q *queue) mark() (pool.Fence, error) {
	q.joining.RLock()
	defer q.joining.RUnlock()
	if q.member.Load() != nil {
		return &lateFence{q: q}, nil
	}
	f, err := q.scope.fence()
	if err != nil {
		return nil, err
	}
	if err := aclrtRecordEvent(q.scope.handle, f.handle, q.handle); err != nil {
		f.Release()
		return nil, q.fail(err)
	}
	q.feed()
	f.q = q
	return f, nil
}

// lateFence is the fence of a stream that was capturing: it is set at the first query after the
// capture.
type lateFence struct {
	q   *queue
	set pool.Fence
}

// Passed implements pool.Fence.
func (f *lateFence) Passed() (bool, error) {
	if f.set == nil {
		if f.q.member.Load() != nil {
			return false, nil
		}
		set, err := f.q.Fence()
		if err != nil || set == nil {
			return err == nil, err
		}
		f.set = set
	}
	return f.set.Passed()
}

// Release implements pool.Fence.
func (f *lateFence) Release() {
	if f.set != nil {
		f.set.Release()
	}
}

// Idle reports whether the stream has ended all its work. A capture cannot be queried.
func (q *queue) Idle() (bool, error) {
	q.ending.RLock()
	defer q.ending.RUnlock()
	if q.gone.Load() {
		return true, nil
	}
	q.joining.RLock()
	defer q.joining.RUnlock()
	if q.member.Load() != nil {
		return false, nil
	}
	return q.queryLive()
}

// fence takes a free fence or makes one.
func (sc *scope) fence() (*fence, error) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if n := len(sc.idle); n > 0 {
		f := sc.idle[n-1]
		sc.idle = sc.idle[:n-1]
		return f, nil
	}
	handle, err := sc.createEvent(abi.ACL_EVENT_SYNC)
	if err != nil {
		return nil, err
	}
	f := &fence{scope: sc, handle: handle}
	sc.fences = append(sc.fences, f)
	return f, nil
}

// wait waits until the stream has come to the fence, or ctx ends.
func (f *fence) wait(ctx context.Context) (interrupted bool, err error) {
	f.q.ending.RLock()
	defer f.q.ending.RUnlock()
	if f.q.gone.Load() {
		return false, nil
	}
	return f.scope.waitEvent(ctx, f.handle)
}

// Passed reports whether the stream has come to the fence.
func (f *fence) Passed() (bool, error) {
	f.q.ending.RLock()
	defer f.q.ending.RUnlock()
	if f.q.gone.Load() {
		return true, nil
	}
	return f.scope.eventDone(f.handle)
}

// Release makes the fence free for another use.
func (f *fence) Release() {
	f.scope.mu.Lock()
	defer f.scope.mu.Unlock()
	f.q = nil
	f.scope.idle = append(f.scope.idle, f)
}

// destroyFences ends the fences with their scope. One that is still out belongs to a stream
// that is gone, and is not queried again.
func (sc *scope) destroyFences() error {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	var errs []error
	for _, f := range sc.fences {
		errs = append(errs, sc.destroyEvent(f.handle))
	}
	sc.fences, sc.idle = nil, nil
	return errors.Join(errs...)
}

func (sc *scope) createEvent(flags uint32) (aclrtEvent, error) {
	handle, err := aclrtCreateEventExWithFlag(sc.handle, flags)
	return handle, sc.wrap(err)
}

func (sc *scope) destroyEvent(handle aclrtEvent) error {
	return sc.wrap(aclrtDestroyEvent(sc.handle, handle))
}

// eventDone reports whether the last record of an event has happened. The two queries of
// CANN have opposite enums; this is aclrtQueryEventStatus, where 1 is complete.
func (sc *scope) eventDone(handle aclrtEvent) (bool, error) {
	status, err := aclrtQueryEventStatus(sc.handle, handle)
	return err == nil && status == abi.ACL_EVENT_RECORDED_STATUS_COMPLETE, sc.wrap(err)
}
