package ccl

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// limit holds the conditions that end the waits of one collective early.
type limit struct {
	c      *comm
	header header
	cancel <-chan struct{} // closed when the stream is aborted
	timer  *time.Timer     // nil until the first wait that had to sleep

	crowded []*lane // lanes with a backlog, which every wait flushes
}

// flush sends as much of the lanes' backlogs as there is room for.
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

// expiry returns a channel that receives a value HCCL_EXEC_TIMEOUT after the first wait that
// had to sleep. It is nil without a timeout.
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

// A wait polls for a while before it sleeps, because waking up usually takes longer than the
// peer needs, above all on a busy machine. At first it polls without yielding the processor:
// another goroutine would keep it for longer than the peer needs.
const (
	staring   = 1000 // polls before the first yield
	lingering = 50 * time.Microsecond
)

// linger polls ready for a while and reports whether it returned true.
func linger(ready func() bool) bool {
	for range staring {
		if ready() {
			return true
		}
	}
	const looks = 16 // polls per look at the clock
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

// passed returns the reason why the collective must stop waiting, or nil. It is for waits
// that do not select on the channels of the limit.
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

// String names the collective, with its count and element type.
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
