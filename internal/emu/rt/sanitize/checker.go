package sanitize

import (
	"fmt"
	"sync"
)

// Checker checks how tasks access device memory. A nil Checker checks nothing.
//
// All threads of the program count as one, because the sanitizer cannot see how they synchronise;
// so it may miss races, but it reports no false ones. It ignores memory of virtual address ranges
// and memory shared with other processes.
type Checker struct {
	Config
	memory func(addr uint64) Memory // of the device that has the address, or nil

	mu        sync.Mutex // guards all clocks, also those of actors and orders
	host      Clock
	histories map[uint64]history // by serial number of the allocation
	uses      map[uint64][]*use  // by tasks that have not ended
}

// Step is a task as the Checker sees it.
type Step struct {
	Name     string
	Accesses func() []Access // the device memory that the task touches, in order; may be nil
	Follows  func() []Access // what it touches at addresses in that memory, once they are there; may be nil
	Releases *Order          // tasks that acquire it afterwards come after this task; may be nil
	Acquires *Order          // the task comes after those that released it; may be nil
	Turn     *Turn           // what the task uses alone; may be nil
	Host     bool            // the task runs code of the program
	After    Clock           // of the program when it queued the task
}

// New returns a Checker, or nil when nothing is to be reported. memory returns the memory of the
// device that has an address, or nil.
func New(c Config, memory func(addr uint64) Memory) *Checker {
	if c == (Config{}) {
		return nil
	}
	return &Checker{Config: c, memory: memory, histories: make(map[uint64]history), uses: make(map[uint64][]*use)}
}

func (z *Checker) racing() bool { return z != nil && z.Race }

// Now returns the clock of the program, for a task that is queued now.
func (z *Checker) Now() Clock {
	if !z.racing() {
		return nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.host
}

// Returned notes that the program has waited for everything that c covers.
func (z *Checker) Returned(c Clock) {
	if !z.racing() {
		return
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.host = z.host.join(c)
}

// Reached returns the clock of the work that a stream has done.
func (z *Checker) Reached(a *Actor) Clock {
	if !z.racing() {
		return nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	return a.clock
}

// Passed notes that the program has waited for the releases of an order.
func (z *Checker) Passed(o *Order) {
	z.Returned(z.of(o))
}

// of returns the clock of an order.
func (z *Checker) of(o *Order) Clock {
	if !z.racing() {
		return nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	return o.clock
}

// Snapshot returns an order that covers what o covers now.
func (z *Checker) Snapshot(o *Order) Order { return Order{clock: z.of(o)} }

// Enter checks a task that starts on a stream, and returns a text for a finding. The task must run
// even after a finding, since other streams may wait for it.
func (z *Checker) Enter(a *Actor, step *Step) (finding string) {
	var now Clock
	if z.Race {
		z.mu.Lock()
		a.clock = a.clock.join(step.After).next(a.ID)
		now = a.clock
		if step.Host {
			z.host = z.host.join(now)
		}
		for o := step.Releases; o != nil; o = o.Also {
			o.clock = o.clock.join(now)
		}
		finding = step.Turn.take(step.Name, a.ID, now)
		z.mu.Unlock()
	}
	if step.Accesses == nil || finding != "" {
		return finding
	}
	all := step.Accesses()
	if step.Follows != nil {
		all = append(all, step.Follows()...)
	}
	return z.check(step.Name, a.ID, now, all)
}

// Leave adds the clocks of what a task has waited for to the clock of its stream.
func (z *Checker) Leave(a *Actor, step *Step) {
	if !z.racing() || step.Acquires == nil && !step.Host {
		return
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if step.Acquires != nil {
		a.clock = a.clock.join(step.Acquires.clock)
	}
	if step.Host {
		a.clock = a.clock.join(z.host)
	}
}

// Call checks the accesses that a call of the program makes immediately, and returns a text for a
// finding.
func (z *Checker) Call(name string, accesses []Access) (finding string) {
	z.mu.Lock()
	z.host = z.host.next(hostID)
	now := z.host
	z.mu.Unlock()
	return z.check(name, hostID, now, accesses)
}

// check checks the accesses in order and returns the first finding.
func (z *Checker) check(task string, actor int32, now Clock, accesses []Access) (first string) {
	for i := range accesses {
		a := &accesses[i]
		runs := a.runs()
		if len(runs) == 0 {
			continue
		}
		m := z.memory(a.Addr)
		if m == nil {
			continue
		}
		x, ok := m.Allocation(runs[0].lo, runs[len(runs)-1].hi)
		if !ok {
			continue
		}
		text := ""
		if z.Memory {
			text = z.written(task, m.Shadow(), &x, a, runs)
		}
		if race := z.ordered(task, actor, now, &x, a, runs); text == "" {
			text = race
		}
		if first == "" {
			first = text
		}
	}
	return first
}

// written checks that all bytes of a read have been written, and marks the bytes of a write as
// written. It returns a text for a finding.
func (z *Checker) written(task string, s *Shadow, x *Allocation, a *Access, runs []interval) string {
	switch {
	case a.Touch == Keeps:
		return ""
	case a.From != 0:
		z.copied(s, a)
		return ""
	case a.Touch.write():
		for _, r := range runs {
			s.set(r.lo, r.hi-r.lo, true)
		}
		return ""
	}
	for _, r := range runs {
		at, found := s.find(r.lo, r.hi-r.lo, a.Touch == ReadsSome)
		switch {
		case found && a.Touch == ReadsSome:
			return ""
		case found:
			return fmt.Sprintf("uninitialised read: %s reads %s at %#x, but byte %d of it was never written (offset %d in %v); write or clear it first (CANN_EMU_SANITIZE=memory)",
				task, a.Name, a.Addr, at-runs[0].lo, at-x.Start, x)
		}
	}
	if a.Touch == ReadsSome {
		return fmt.Sprintf("uninitialised read: %s reads %s at %#x, of which no byte was ever written (offset %d in %v); write or clear it first (CANN_EMU_SANITIZE=memory)",
			task, a.Name, a.Addr, runs[0].lo-x.Start, x)
	}
	return ""
}

// copied gives the destination of a copy the state of its source, row by row.
func (z *Checker) copied(s *Shadow, a *Access) {
	var source *Shadow
	if m := z.memory(a.From); m != nil {
		source = m.Shadow()
	}
	for row, width := uint64(0), uint64(a.Shape[1]); row < uint64(a.Shape[0]); row++ {
		dst, src := a.Addr+row*uint64(a.Strides[0]), a.From+row*a.FromPitch
		if source == nil || !source.holds(src+width-1) {
			s.set(dst, width, true)
			continue
		}
		s.move(dst, source, src, width)
	}
}

// ordered checks an access against the earlier ones and adds it to the history. It returns a text
// for a race.
func (z *Checker) ordered(task string, actor int32, now Clock, x *Allocation, a *Access, runs []interval) string {
	if !z.Race {
		return ""
	}
	t := touched{
		interval: interval{runs[0].lo, runs[len(runs)-1].hi}, runs: runs, write: a.Touch.write(), some: a.Touch.some(), actor: actor, tick: now[actor],
		what: fmt.Sprintf("%s on %s %s %s", task, actorName(actor), a.Touch, a.Name),
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	h := z.histories[x.Serial]
	o, both := h.conflict(&t, now)
	z.histories[x.Serial] = h.add(t, now)
	if o == nil {
		return ""
	}
	return raceText(&t, o, both, x)
}
