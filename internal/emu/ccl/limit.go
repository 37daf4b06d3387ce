package ccl

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// limit is what ends the waits of one collective early.
type limit struct {
	c      *comm
	header header
	cancel <-chan struct{} // the stream is aborted
	timer  *time.Timer     // nil until a wait has looked in vain

	crowded []*lane // whose peers have to make room for more, which any wait sees to
}

// flush sends what there is room for by now.
func (l *limit) flush() {
	for _, n := range l.crowded {
		n.flush()
	}
}

func (l *limit) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// expiry has a value when HCCL_EXEC_TIMEOUT is over since the first wait that looked in vain;
// nil without one.
func (l *limit) expiry() <-chan time.Time {
	after := l.c.library.timeouts.Execute
	if after <= 0 {
		return nil
	}
	if l.timer == nil {
		l.timer = time.NewTimer(after)
	}
	return l.timer.C
}

// wait waits for a value of ch.
func (l *limit) wait(ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	default:
	}
	for len(l.crowded) > 0 {
		l.flush()
		select {
		case <-ch:
			return nil
		case <-time.After(slice):
		}
		if err := l.passed(); err != nil {
			return err
		}
		l.crowded = slices.DeleteFunc(l.crowded, func(n *lane) bool { return len(n.backlog) == 0 })
	}
	select {
	case <-ch:
		return nil
	case <-l.cancel:
		return l.aborted()
	case <-l.c.broken:
		return l.c.reason()
	case <-l.expiry():
		return l.expired()
	}
}

// A wait looks for a while before it sleeps: to be woken takes longer than most peers need
// that are on their way, above all on a machine with other work. At first it keeps the
// processor, which another goroutine would get for longer than these peers need.
const (
	staring   = 1000 // looks
	lingering = 50 * time.Microsecond
)

// linger looks until ready, for a while.
func linger(ready func() bool) bool {
	for range staring {
		if ready() {
			return true
		}
	}
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
	case <-l.expiry():
		return l.expired()
	default:
		return nil
	}
}

func (l *limit) aborted() error {
	return fault(faultAborted, "%v: the stream was aborted", l)
}

func (l *limit) expired() error {
	return fault(faultTimeout, "EI0002: %v: a peer did not take part in %v (HCCL_EXEC_TIMEOUT); a rank skipped the call, runs calls in another order, or hangs", l, l.c.library.timeouts.Execute)
}

func (l *limit) String() string { return fmt.Sprintf("%v on %v", l.header, l.c) }

// String says which collective it is.
func (h header) String() string {
	s := h.Call.String()
	if h.Count > 0 {
		s += fmt.Sprintf(" count %d", h.Count)
	}
	if e, ok := elementOf(h.Type); ok {
		s += " of " + e.name
	}
	if int(h.Op) < len(opNames) && reduces[h.Call.String()] {
		s += " " + opNames[h.Op]
	}
	return fmt.Sprintf("%s root %d phase %d", s, h.Root, h.Phase)
}
