package acl

import (
	"errors"

	"github.com/goascend/cann/acl/internal/pool"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

// fence is an event that the memory pool waits for. A scope keeps its fences for reuse.
type fence struct {
	q      *queue
	scope  *scope
	handle uint64
}

// Fence marks the end of the stream's work; nil when the stream was closed, which waited
// for all of it.
func (q *queue) Fence() (pool.Fence, error) {
	if q.gone.Load() {
		return nil, nil
	}
	f, err := q.scope.fence()
	if err != nil {
		return nil, err
	}
	c := cshim.Call{Args: [cshim.Args]uint64{f.handle, q.handle}}
	if err := c.Do(recordEvent, q.scope.handle); err != nil {
		f.Release()
		return nil, q.fail(err)
	}
	f.q = q
	return f, nil
}

// Idle reports whether the stream has ended all its work.
func (q *queue) Idle() (bool, error) { return q.query() }

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

// Passed reports whether the stream has come to the fence.
func (f *fence) Passed() (bool, error) {
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
// that is gone, and is not asked again.
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

func (sc *scope) createEvent(flags uint64) (uint64, error) {
	c := cshim.Call{Args: [cshim.Args]uint64{0, flags}, Out: 1 << 0}
	if err := c.Do(createEvent, sc.handle); err != nil {
		return 0, sc.fail(err)
	}
	return c.Args[0], nil
}

func (sc *scope) destroyEvent(handle uint64) error {
	c := cshim.Call{Args: [cshim.Args]uint64{handle}}
	if err := c.Do(destroyEvent, sc.handle); err != nil {
		return sc.fail(err)
	}
	return nil
}

// eventDone reports whether the last record of an event has happened. The two queries of
// CANN have opposite enums; this is aclrtQueryEventStatus, where 1 is complete.
func (sc *scope) eventDone(handle uint64) (bool, error) {
	c := cshim.Call{Args: [cshim.Args]uint64{handle}, Out: 1 << 1}
	if err := c.Do(queryEvent, sc.handle); err != nil {
		return false, sc.fail(err)
	}
	return uint32(c.Args[1]) == abi.ACL_EVENT_RECORDED_STATUS_COMPLETE, nil
}
