package sanitize

import (
	"fmt"
	"slices"
)

// use is a task that is queued or runs, for one allocation that it accesses.
type use struct{ what string }

// Queued notes which allocations a task uses from the time it is queued, and returns a function that
// must be called when the task has ended or was dropped; nil when there is nothing to note.
func (z *Checker) Queued(stream int32, step *Step) (ended func()) {
	if z == nil || step.Accesses == nil {
		return nil
	}
	uses := make(map[uint64]*use)
	for _, a := range step.Accesses() {
		lo, hi, ok := a.extent()
		if !ok {
			continue
		}
		m := z.memory(lo)
		if m == nil {
			continue
		}
		if x, ok := m.Allocation(lo, hi); ok && uses[x.Serial] == nil {
			uses[x.Serial] = &use{fmt.Sprintf("%s on %s %s %s", step.Name, actorName(stream), a.Touch, a.Name)}
		}
	}
	if len(uses) == 0 {
		return nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	for serial, u := range uses {
		z.uses[serial] = append(z.uses[serial], u)
	}
	return func() {
		z.mu.Lock()
		defer z.mu.Unlock()
		for serial, u := range uses {
			rest := slices.DeleteFunc(z.uses[serial], func(o *use) bool { return o == u })
			if z.uses[serial] = rest; len(rest) == 0 {
				delete(z.uses, serial)
			}
		}
	}
}

// Freed notes that an allocation is freed, and returns a text if a task that has not ended uses it.
func (z *Checker) Freed(x Allocation) (finding string) {
	if z == nil {
		return ""
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	delete(z.histories, x.Serial)
	if used := z.uses[x.Serial]; len(used) > 0 {
		delete(z.uses, x.Serial)
		return fmt.Sprintf("use after free: %v is freed while %s, which has not ended; synchronise the stream, or wait for an event recorded after it, first (CANN_EMU_SANITIZE)", &x, used[0].what)
	}
	return ""
}

// extent returns the range of addresses of the access. ok is false if it touches nothing.
func (a *Access) extent() (lo, hi uint64, ok bool) {
	lo, hi = a.Addr, a.Addr+a.Item
	for i, n := range a.Shape {
		switch span := a.Strides[i] * int64(a.Item) * (n - 1); {
		case n == 0:
			return 0, 0, false
		case span < 0:
			lo -= uint64(-span)
		default:
			hi += uint64(span)
		}
	}
	return lo, hi, true
}
