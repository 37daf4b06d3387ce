package ccl

import (
	"fmt"
	"runtime"
	"time"
)

// limit is what ends the waits of one collective early.
type limit struct {
	c      *comm
	header header
	cancel <-chan struct{} // the stream is aborted
	timer  *time.Timer     // HCCL_EXEC_TIMEOUT, nil for none
	expiry <-chan time.Time
	after  time.Duration
}

func newLimit(c *comm, h header, cancel <-chan struct{}) *limit {
	l := &limit{c: c, header: h, cancel: cancel, after: c.library.timeouts.Execute}
	if l.after > 0 {
		l.timer = time.NewTimer(l.after)
		l.expiry = l.timer.C
	}
	return l
}

func (l *limit) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// wait waits for a value of ch.
func (l *limit) wait(ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	case <-l.cancel:
		return l.aborted()
	case <-l.c.broken:
		return l.c.reason()
	case <-l.expiry:
		return l.expired()
	}
}

// lingering is how long a wait looks before it sleeps: to be woken takes longer than most
// peers need that are on their way, above all on a machine with other work.
const lingering = 50 * time.Microsecond

// linger looks until ready, for a while, and lets other goroutines run meanwhile.
func linger(ready func() bool) bool {
	const looks = 16 // at a time
	for began := time.Now(); time.Since(began) < lingering; {
		for range looks {
			if ready() {
				return true
			}
			runtime.Gosched()
		}
	}
	return false
}

// passed says why a wait that sleeps by itself has to end, if it has to.
func (l *limit) passed() error {
	select {
	case <-l.cancel:
		return l.aborted()
	case <-l.c.broken:
		return l.c.reason()
	case <-l.expiry:
		return l.expired()
	default:
		return nil
	}
}

func (l *limit) aborted() error {
	return fault(faultAborted, "%v: the stream was aborted", l)
}

func (l *limit) expired() error {
	return fault(faultTimeout, "EI0002: %v: a peer did not take part in %v (HCCL_EXEC_TIMEOUT); a rank skipped the call, runs calls in another order, or hangs", l, l.after)
}

func (l *limit) String() string { return fmt.Sprintf("%v on %v", l.header, l.c) }

// String says which collective it is.
func (h header) String() string {
	s := h.Call
	if h.Count > 0 {
		s += fmt.Sprintf(" count %d", h.Count)
	}
	if e, ok := elements[h.Type]; ok {
		s += " of " + e.name
	}
	if int(h.Op) < len(opNames) && reduces[h.Call] {
		s += " " + opNames[h.Op]
	}
	return fmt.Sprintf("%s root %d phase %d", s, h.Root, h.Phase)
}
