package rt

import (
	"errors"
	"fmt"
	"strings"
	"sync"
)

// Sanitize says which misuse of device memory is looked for.
type Sanitize struct {
	Memory bool // reads of bytes that nobody wrote
	Race   bool // accesses of streams that nothing orders
}

// ParseSanitize reads CANN_EMU_SANITIZE: "memory", "race" or both with a comma between.
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

// sanitizer watches what tasks do with device memory. A nil one watches nothing.
//
// The threads of the program count as one: how they wait for each other is not seen, so it
// reports too little rather than what is right. Memory of a virtual address range and memory
// shared with other processes is left out.
type sanitizer struct {
	rt *Runtime
	Sanitize

	mu        sync.Mutex // guards all clocks, also those of streams and orders
	host      vectorClock
	histories map[uint64]history // by number of the allocation
}

func newSanitizer(r *Runtime, s Sanitize) *sanitizer {
	if s == (Sanitize{}) {
		return nil
	}
	return &sanitizer{rt: r, Sanitize: s, histories: make(map[uint64]history)}
}

// Sanitizes reports whether tasks have to say what memory they touch.
func (r *Runtime) Sanitizes() bool { return r.sanitizer != nil }

func (z *sanitizer) racing() bool { return z != nil && z.Race }

// now is what lies before a task that is queued now.
func (z *sanitizer) now() vectorClock {
	if !z.racing() {
		return nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.host
}

// returned tells that the program knows what c covers to be done.
func (z *sanitizer) returned(c vectorClock) {
	if !z.racing() {
		return
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.host = z.host.join(c)
}

// reached is the clock of what a stream has done.
func (z *sanitizer) reached(s *Stream) vectorClock {
	if !z.racing() {
		return nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	return s.clock
}

// passed tells that the program knows an order's releases to be done.
func (z *sanitizer) passed(o *Order) {
	z.returned(z.of(o))
}

// of is the clock of an order.
func (z *sanitizer) of(o *Order) vectorClock {
	if !z.racing() {
		return nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	return o.clock
}

// enter checks a task that begins on a stream. The task runs in any case, since others may
// wait for it.
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

// leave takes over what a task has waited for.
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

// call checks what a call of the program does at once.
func (z *sanitizer) call(name string, accesses []Access) error {
	z.mu.Lock()
	z.host = z.host.next(hostID)
	now := z.host
	z.mu.Unlock()
	return z.check(name, hostID, now, accesses)
}

// watch is call as the code of a function.
func (r *Runtime) watch(t *Thread, name string, accesses func() []Access) uint64 {
	if r.sanitizer == nil {
		return 0
	}
	var f *Fault
	if errors.As(r.sanitizer.call(name, accesses()), &f) {
		return f.report(t)
	}
	return 0
}

// check goes through the accesses in their order and returns the first mistake.
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
			first = &Fault{Code: vectorException, Text: text}
		}
	}
	return first
}

// written checks that the bytes of a read were written, and marks those of a write.
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

// copied gives the target of a copy the state of its source, row by row.
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

// ordered checks an access against those made before, and remembers it.
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

// forget drops what is known about a freed allocation.
func (z *sanitizer) forget(serial uint64) {
	if z.racing() {
		z.mu.Lock()
		defer z.mu.Unlock()
		delete(z.histories, serial)
	}
}
