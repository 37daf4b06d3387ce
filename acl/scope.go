package acl

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/goascend/cann/cshim"
)

// scope is a context of CANN, and counts what lives in it: it is destroyed when the last
// stream, event and buffer made in it is closed, so that no handle outlives its context.
type scope struct {
	chip   *chip
	handle aclrtContext
	refs   atomic.Int64
	stops  atomic.Bool // a stream was set to stop at a failure, which stops the context

	mu       sync.Mutex
	queues   map[*queue]struct{} // streams that exist
	fallback *Stream             // the default stream, once it was asked for
	fences   []*fence            // all that were made
	idle     []*fence            // those not in use
}

func newScope(c *chip, handle aclrtContext) *scope {
	sc := &scope{chip: c, handle: handle, queues: make(map[*queue]struct{})}
	sc.refs.Store(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scopes = append(c.scopes, sc)
	return sc
}

func (sc *scope) retain() { sc.refs.Add(1) }

// tryRetain is retain for a caller that holds no reference; false when the scope is ending.
func (sc *scope) tryRetain() bool {
	for {
		n := sc.refs.Load()
		if n == 0 {
			return false
		}
		if sc.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// tryRelease gives one reference back unless it is the last.
func (sc *scope) tryRelease() bool {
	for {
		n := sc.refs.Load()
		if n <= 1 {
			return false
		}
		if sc.refs.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

// release gives one reference back; the last one ends the context.
func (sc *scope) release() error {
	if sc.refs.Add(-1) > 0 {
		return nil
	}
	if sc == sc.chip.primary {
		return sc.chip.leave()
	}
	err := errors.Join(sc.drain(), sc.destroyFences())
	sc.chip.forget(sc)
	if e := aclrtDestroyContext(0, sc.handle); e != nil {
		err = errors.Join(err, sc.fail(e))
	}
	cshim.Forget()
	return errors.Join(err, sc.chip.primary.release())
}

// drain ends the default stream.
func (sc *scope) drain() error {
	sc.mu.Lock()
	s := sc.fallback
	sc.mu.Unlock()
	if s == nil {
		return nil
	}
	s.state.Store(stateClosed)
	err := s.q.synchronize()
	s.q.release()
	return err
}

// fail makes the *Error of a call in this context.
func (sc *scope) fail(err error) *Error {
	e := wrap(err)
	e.Device, e.stopped = sc.chip.id, sc.stops.Load()
	return e
}

// wrap is fail for an error that may be nil.
func (sc *scope) wrap(err error) error {
	if err == nil {
		return nil
	}
	return sc.fail(err)
}

// faulty is fault for an error that may be nil.
func (sc *scope) faulty(err error) error {
	if err == nil {
		return nil
	}
	return sc.fault(err)
}

// fault is fail for a call that waits for work, and may bring out what failed in it.
func (sc *scope) fault(err error) *Error {
	e := sc.fail(err)
	if e.blamesOperator() {
		sc.mu.Lock()
		defer sc.mu.Unlock()
		for q := range sc.queues {
			e.Suspects = append(e.Suspects, q.ring.recent()...)
		}
		e.Suspects = rankSuspects(e.Suspects, e.Message)
		e.Exceptions = takeExceptions(sc.chip.id, -1)
	}
	return e
}

// interrupted makes the *Error of a wait that its context ended.
func (sc *scope) interrupted(op string, ctx context.Context) *Error {
	e := interrupted(op, ctx)
	e.Device = sc.chip.id
	return e
}

// refuse makes the *Error of a call that is not made.
func (sc *scope) refuse(op string, group error, format string, args ...any) *Error {
	e := refuse(op, group, format, args...)
	e.Device = sc.chip.id
	return e
}
