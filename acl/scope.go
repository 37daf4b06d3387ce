package acl

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/goascend/cann/cshim"
)

// scope is a context of CANN, and counts what lives in it: it is destroyed when the last
// stream, event and buffer made in it is closed, so that no handle outlives its context.
type scope struct {
	chip   *chip
	handle uint64
	refs   atomic.Int64

	mu       sync.Mutex
	queues   map[*queue]struct{} // streams that exist
	fallback *Stream             // the default stream, when somebody asked for it
	fences   []*fence            // all that were made
	idle     []*fence            // those not in use
}

func newScope(c *chip, handle uint64) *scope {
	sc := &scope{chip: c, handle: handle, queues: make(map[*queue]struct{})}
	sc.refs.Store(1)
	return sc
}

func (sc *scope) retain() { sc.refs.Add(1) }

// tryRetain is retain for someone who holds no reference; false when the scope is ending.
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

// release gives one reference back; the last one ends the context.
func (sc *scope) release() error {
	if sc.refs.Add(-1) > 0 {
		return nil
	}
	if sc == sc.chip.primary {
		return sc.chip.leave()
	}
	err := errors.Join(sc.drain(), sc.destroyFences())
	call := cshim.Call{Args: [cshim.Args]uint64{sc.handle}, Rebinds: true}
	if e := call.Do(destroyContext, 0); e != nil {
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
	s.closed.Store(true)
	return s.q.end()
}

// fail makes the *Error of a call in this context.
func (sc *scope) fail(err error) *Error {
	e := wrap(err)
	e.Device = sc.chip.id
	return e
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
	}
	return e
}

// refuse makes the *Error of a call that is not made.
func (sc *scope) refuse(op string, group error, format string, args ...any) *Error {
	e := refuse(op, group, format, args...)
	e.Device = sc.chip.id
	return e
}
