package kernel

import (
	"sync/atomic"
	"time"
)

// crowd remembers that other programs want the cores. While they do, a thread that yields its core to wait for
// another thread gets it back after milliseconds, which is longer than most kernels take.
type crowd struct {
	start time.Time
	until atomic.Int64 // in nanoseconds after start
}

var crowded = crowd{start: time.Now()}

const (
	late   = 500 * time.Microsecond // a yield that takes so long was the turn of another program
	memory = 200 * time.Millisecond
)

// now reports whether other programs wanted the cores a short time ago.
func (c *crowd) now() bool { return time.Since(c.start) < time.Duration(c.until.Load()) }

// pass lets a thread run that waits for this core.
func (c *crowd) pass() {
	begin := time.Now()
	yield()
	c.notice(time.Since(begin))
}

// notice is told how long a yield took.
func (c *crowd) notice(d time.Duration) {
	if d > late {
		c.until.Store(int64(time.Since(c.start) + memory))
	}
}
