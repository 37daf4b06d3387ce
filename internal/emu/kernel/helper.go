package kernel

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// helper is a goroutine that takes part in kernels. It waits for the next kernel before it ends, because waking a
// thread takes longer than a small kernel.
type helper struct {
	offer atomic.Pointer[crew] // the next kernel
}

// patience is how long a helper waits, actively, unless other programs want its core.
const patience = 200 * time.Microsecond

// turn is how long a helper waits for each of the others before it yields its processor of Go. That takes a lock of Go's
// scheduler: helpers of 16 threads that yielded all the time held each other up by 20 µs.
const turn = 2 * time.Microsecond

// idle has the helpers that wait.
var idle struct {
	sync.Mutex
	helpers []*helper
}

// recruit gives the crew n helpers: those that wait, and new ones.
func recruit(c *crew, n int) {
	idle.Lock()
	for ; n > 0 && len(idle.helpers) > 0; n-- {
		last := len(idle.helpers) - 1
		idle.helpers[last].offer.Store(c)
		idle.helpers = slices.Delete(idle.helpers, last, last+1)
	}
	idle.Unlock()
	for range n {
		go new(helper).run(c)
	}
}

// run takes part in c and in later kernels until none comes.
func (h *helper) run(c *crew) {
	for c != nil {
		c.help()
		c = h.wait()
	}
}

// wait returns the next kernel, or nil if none comes in time.
func (h *helper) wait() *crew {
	h.offer.Store(nil)
	idle.Lock()
	idle.helpers = append(idle.helpers, h)
	idle.Unlock()
	begin, share := time.Now(), turn*time.Duration(max(Threads()-2, 0))
	for next := share; !crowded.now(); {
		if c := h.offer.Load(); c != nil {
			return c
		}
		waited := time.Since(begin)
		if waited >= patience {
			break
		}
		if waited >= next {
			next = waited + share
			crowded.pass()
			runtime.Gosched()
		}
	}
	idle.Lock()
	defer idle.Unlock()
	if i := slices.Index(idle.helpers, h); i >= 0 {
		idle.helpers = slices.Delete(idle.helpers, i, i+1)
		return nil
	}
	return h.offer.Load() // recruit was faster
}
