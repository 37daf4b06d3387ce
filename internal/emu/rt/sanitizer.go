package rt

import (
	"errors"
	"fmt"
	"strings"
	"sync"
)

// Sanitize says which misuse of device memory the sanitizer reports.
type Sanitize struct {
	Memory bool // reads of bytes that were never written
	Race   bool // conflicting accesses without an order between them
}

// ParseSanitize parses CANN_EMU_SANITIZE: "memory", "race", or both separated by a comma.
func ParseSanitize(text string) (s Sanitize, err error) {
	for part := range strings.SplitSeq(text, ",") {
		switch strings.TrimSpace(part) {
		case "":
		case "memory":
			s.Memory = true
		case "race":
			s.Race = true
		default:
			return s, fmt.Errorf("CANN_EMU_SANITIZE=%q: memory, race or memory,race are possible", text)
		}
	}
	return s, nil
}

// sanitizer checks how tasks access device memory. A nil sanitizer checks nothing.
//
// All threads of the program count as one, because the sanitizer cannot see how they synchronise;
// so it may miss races, but it reports no false ones. It ignores memory of virtual address ranges
// and memory shared with other processes.
type sanitizer struct {
	rt *Runtime
	Sanitize

	mu        sync.Mutex // guards all clocks, also those of streams and orders
	host      vectorClock
	histories map[uint64]history // by serial number of the allocation
}

func newSanitizer(r *Runtime, s Sanitize) *sanitizer {
	if s == (Sanitize{}) {
		return nil
	}
	return &sanitizer{rt: r, Sanitize: s, histories: make(map[uint64]history)}
}

// Sanitizes reports whether tasks must list the memory that they access.
func (r *Runtime) Sanitizes() bool { return r.sanitizer != nil }

func (z *sanitizer) racing() bool { return z != nil && z.Race }

// now returns the clock of the program, for a task that is queued now.
func (z *sanitizer) now() vectorClock {
	if !z.racing() {
		return nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.host
}

// returned notes that the program has waited for everything that c covers.
func (z *sanitizer) returned(c vectorClock) {
	if !z.racing() {
		return
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.host = z.host.join(c)
}

// reached returns the clock of the work that a stream has done.
func (z *sanitizer) reached(s *Stream) vectorClock {
	if !z.racing() {
		return nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	return s.clock
}

// passed notes that the program has waited for the releases of an order.
func (z *sanitizer) passed(o *Order) {
	z.returned(z.of(o))
}

// of returns the clock of an order.
func (z *sanitizer) of(o *Order) vectorClock {
	if !z.racing() {
		return nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	return o.clock
}

// enter checks a task that starts on a stream. The task runs even after a finding, since other
// streams may wait for it.
func (z *sanitizer) enter(s *Stream, task *Task) error {
	if z == nil {
		return nil
	}
	var now vectorClock
	if z.Race {
		z.mu.Lock()
		s.clock = s.clock.join(task.after).next(s.id)
		now = s.clock
		if task.Host {
			z.host = z.host.join(now)
		}
		for o := task.Releases; o != nil; o = o.also {
			o.clock = o.clock.join(now)
		}
		z.mu.Unlock()
	}
	if task.Accesses == nil {
		return nil
	}
	return z.check(task.Name, s.id, now, task.Accesses())
}

// leave adds the clocks of what a task has waited for to the clock of its stream.
func (z *sanitizer) leave(s *Stream, task *Task) {
	if !z.racing() || task.Acquires == nil && !task.Host {
		return
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if task.Acquires != nil {
		s.clock = s.clock.join(task.Acquires.clock)
	}
	if task.Host {
		s.clock = s.clock.join(z.host)
	}
}

// call checks the accesses that a call of the program makes immediately.
func (z *sanitizer) call(name string, accesses []Access) error {
	z.mu.Lock()
	z.host = z.host.next(hostID)
	now := z.host
	z.mu.Unlock()
	return z.check(name, hostID, now, accesses)
}

// watch is call with the finding reported on the thread; it returns the error code or 0.
func (r *Runtime) watch(t *Thread, name string, accesses func() []Access) uint64 {
	if r.sanitizer == nil {
		return 0
	}
	var f *Fault
	if errors.As(r.sanitizer.call(name, accesses()), &f) {
		return f.Report(t)
	}
	return 0
}

// check checks the accesses in order and returns the first finding.
func (z *sanitizer) check(task string, actor int32, now vectorClock, accesses []Access) (first error) {
	for i := range accesses {
		a := &accesses[i]
		runs := a.runs()
		if len(runs) == 0 {
			continue
		}
		m := z.rt.memoryOf(a.Addr)
		if m == nil {
			continue
		}
		x, ok := m.private(runs[0].lo, runs[len(runs)-1].hi)
		if !ok {
			continue
		}
		text := ""
		if z.Memory {
			text = z.written(task, m, &x, a, runs)
		}
		if race := z.ordered(task, actor, now, &x, a, runs); text == "" {
			text = race
		}
		if text != "" && first == nil {
			first = &Fault{Code: VectorException, Text: text}
		}
	}
	return first
}

// written checks that all bytes of a read have been written, and marks the bytes of a write as
// written. It returns a text for a finding.
func (z *sanitizer) written(task string, m *Memory, x *span, a *Access, runs []interval) string {
	s := m.shadow
	switch {
	case a.Touch == Keeps:
		return ""
	case a.from != 0:
		z.copied(m, a)
		return ""
	case a.Touch.write():
		for _, r := range runs {
			s.set(r.lo-m.base, r.hi-r.lo, true)
		}
		return ""
	}
	for _, r := range runs {
		at, found := s.find(r.lo-m.base, r.hi-r.lo, a.Touch == ReadsSome)
		switch {
		case found && a.Touch == ReadsSome:
			return ""
		case found:
			return fmt.Sprintf("uninitialised read: %s reads %s at %#x, but byte %d of it was never written (offset %d in %v); write or clear it first (CANN_EMU_SANITIZE=memory)",
				task, a.Name, a.Addr, at+m.base-runs[0].lo, at+m.base-x.start, x)
		}
	}
	if a.Touch == ReadsSome {
		return fmt.Sprintf("uninitialised read: %s reads %s at %#x, of which no byte was ever written (offset %d in %v); write or clear it first (CANN_EMU_SANITIZE=memory)",
			task, a.Name, a.Addr, runs[0].lo-x.start, x)
	}
	return ""
}

// copied gives the destination of a copy the state of its source, row by row.
func (z *sanitizer) copied(m *Memory, a *Access) {
	source := z.rt.memoryOf(a.from)
	for row, width := uint64(0), uint64(a.Shape[1]); row < uint64(a.Shape[0]); row++ {
		src, r := a.from+row*a.fromPitch, interval{lo: a.Addr + row*uint64(a.Strides[0])}
		r.hi = r.lo + width
		if source == nil || !source.contains(src+(r.hi-r.lo)-1) {
			m.shadow.set(r.lo-m.base, r.hi-r.lo, true)
			continue
		}
		m.shadow.move(r.lo-m.base, source.shadow, src-source.base, r.hi-r.lo)
	}
}

// ordered checks an access against the earlier ones and adds it to the history. It returns a text
// for a race.
func (z *sanitizer) ordered(task string, actor int32, now vectorClock, x *span, a *Access, runs []interval) string {
	if !z.Race {
		return ""
	}
	t := touched{
		interval: interval{runs[0].lo, runs[len(runs)-1].hi}, runs: runs, write: a.Touch.write(), some: a.Touch.some(), actor: actor, tick: now[actor],
		what: fmt.Sprintf("%s on %s %s %s", task, actorName(actor), a.Touch, a.Name),
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	h := z.histories[x.serial]
	o, both := h.conflict(&t, now)
	z.histories[x.serial] = h.add(t, now)
	if o == nil {
		return ""
	}
	return raceText(&t, o, both, x)
}

// forget drops the history of a freed allocation.
func (z *sanitizer) forget(serial uint64) {
	if z.racing() {
		z.mu.Lock()
		defer z.mu.Unlock()
		delete(z.histories, serial)
	}
}
