package ccl

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// limit holds the conditions that end the waits of one collective early.
type limit struct {
	c      *comm
	header header
	within time.Duration   // how long a barrier waits; 0 for the communicator's time
	cancel <-chan struct{} // closed when the stream is aborted
	timer  *time.Timer     // closes late; nil until the first wait that had to sleep
	late   chan struct{}

	backlogged []*sharedLink // links with a backlog, which every wait flushes
}

// flush sends as much of the backlogs as there is room for.
func (l *limit) flush() {
	for _, n := range l.backlogged {
		n.flush()
	}
}

func (l *limit) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// expiry returns a channel that is closed the communicator's time for a collective, or that of a barrier, after the first wait that had to
// sleep. It is nil without a timeout.
func (l *limit) expiry() <-chan struct{} {
	after := cmp.Or(l.within, l.c.patience())
	if after <= 0 {
		return nil
	}
	if l.timer == nil {
		late := make(chan struct{})
		l.late, l.timer = late, time.AfterFunc(after, func() { close(late) })
	}
	return l.late
}

// wait waits for a value of ch.
func (l *limit) wait(ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	default:
	}
	for len(l.backlogged) > 0 {
		l.flush()
		select {
		case <-ch:
			return nil
		case <-time.After(slice):
		}
		if err := l.passed(); err != nil {
			return err
		}
		l.backlogged = slices.DeleteFunc(l.backlogged, func(n *sharedLink) bool { return len(n.backlog) == 0 })
	}
	select {
	case <-ch:
		return nil
	case <-l.cancel:
	case <-l.c.broken:
	case <-l.expiry():
		select {
		case <-ch:
			return nil
		default:
		}
	}
	return l.passed()
}

// A wait polls for a while before it sleeps, because waking up usually takes longer than the
// peer needs, above all on a busy machine. At first it polls without yielding the processor:
// another goroutine would keep it for longer than the peer needs.
const (
	spins    = 1000 // polls before the first yield
	spinTime = 50 * time.Microsecond
)

// spin polls ready for a while and reports whether it returned true.
func spin(ready func() bool) bool {
	for range spins {
		if ready() {
			return true
		}
	}
	const looks = 16 // polls per look at the clock
	for began := time.Now(); time.Since(began) < spinTime; {
		for range looks {
			if ready() {
				return true
			}
			runtime.Gosched()
		}
	}
	return false
}

// passed returns the reason why the collective must stop waiting, or nil. When several hold, it is the
// cause and not its consequence: on a busy machine the timeout passes before a loss is noticed.
func (l *limit) passed() error {
	if err := l.c.reason(); err != nil {
		return err
	}
	select {
	case <-l.cancel:
		return l.aborted()
	default:
	}
	select {
	case <-l.expiry():
		return l.expired()
	default:
		return nil
	}
}

// left returns why a peer sends nothing any more: the failure of the communicator, if there is one.
func (l *limit) left(peer int) error {
	if err := l.c.reason(); err != nil {
		return err
	}
	return gone(peer)
}

func (l *limit) aborted() error {
	return fault(faultAborted, "%v: the stream was aborted", l)
}

// expired returns the fault of a timeout, or that of a loss of which the connections of the peers have
// brought the news already.
func (l *limit) expired() error {
	if l.within > 0 {
		return fault(faultKernel, "%v: a peer did not take part within %v, the barrier's timeOut; a rank skipped the call, runs calls in another order, or hangs", l, l.within)
	}
	most := l.c.patience()
	quiet := 0 // looks in a row without unread bytes: a frame may be on its way from the connection to its channel
	for end := time.Now().Add(most); quiet < 2 && time.Now().Before(end); time.Sleep(slice) {
		if err := l.c.reason(); err != nil {
			return err
		}
		quiet++
		if slices.ContainsFunc(l.c.links, func(n link) bool { w := wireOf(n); return w != nil && w.unread() }) {
			quiet = 0
		}
	}
	if err := l.c.reason(); err != nil {
		return err
	}
	return fault(faultTimeout, "EI0002: %v: a peer did not take part in %v (HCCL_EXEC_TIMEOUT, or hcclExecTimeOut of the communicator); a rank skipped the call, runs calls in another order, or hangs", l, most)
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
