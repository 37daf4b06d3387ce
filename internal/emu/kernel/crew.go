package kernel

import (
	"sync/atomic"
	"time"
)

// crew is one kernel at work, and the threads that compute it: its caller's and those of helpers.
type crew struct {
	f        func(lo, hi int64)
	n, chunk int64
	parts    int64 // number of threads

	left chan struct{} // receives a value when no helper is at work any more after dismiss

	// Many threads change these at the same time. In different lines of the cache they do not wait for each other.
	_       line
	next    atomic.Int64 // first item that no thread has taken
	_       line
	started atomic.Int64  // number of threads that have called join
	cores   atomic.Uint64 // bit n is set if a thread called join on core n; cores from 64 on have no bit
	_       line
	helpers atomic.Int64 // number of helpers at work; dismiss adds dismissed
}

type line [64]byte

const dismissed = 1 << 32

func newCrew(n, chunk, parts int64, f func(lo, hi int64)) *crew {
	return &crew{f: f, n: n, chunk: chunk, parts: parts, left: make(chan struct{}, 1)}
}

// work computes chunks until none is left.
func (c *crew) work() {
	c.join()
	for {
		if c.started.Load() < c.parts && !crowded.now() {
			crowded.pass() // one of the others may wait for this core
		}
		lo := c.next.Add(c.chunk) - c.chunk
		if lo >= c.n {
			return
		}
		c.f(lo, min(lo+c.chunk, c.n))
	}
}

// help works as a helper. It does nothing after dismiss.
func (c *crew) help() {
	if c.helpers.Add(1) < dismissed && c.next.Load() < c.n {
		c.work()
	}
	if c.helpers.Add(-1) == dismissed {
		select {
		case c.left <- struct{}{}:
		default: // another helper has said so
		}
	}
}

// soon is how long a caller waits actively for its helpers, which seldom work much longer than itself. It does not
// yield: on a busy machine another process would keep the core for milliseconds.
const soon = 50 * time.Microsecond

// dismiss waits for the helpers at work. It does not wait for helpers whose threads have not woken yet:
// they come to the end of a kernel that no longer needs them.
func (c *crew) dismiss() {
	if c.helpers.Add(dismissed) == dismissed {
		return
	}
	for end := time.Now().Add(soon); time.Now().Before(end); {
		if c.helpers.Load() == dismissed {
			return
		}
	}
	<-c.left
}
