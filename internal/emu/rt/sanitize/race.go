package sanitize

import "fmt"

// Turn is something that tasks use one after another, such as the communicator of a rank: tasks of different streams must be ordered by
// events, also where they touch different memory.
type Turn struct {
	Name  string // for messages
	actor int32
	tick  uint64
	what  string
}

// take notes that a task takes its turn, and returns a text if nothing orders it after the last one.
func (t *Turn) take(task string, actor int32, now Clock) (finding string) {
	if t == nil {
		return ""
	}
	if now[t.actor] < t.tick {
		finding = fmt.Sprintf("race: %s on %s, %s on %s; both use %s, and nothing orders them: record an event on %s after it and make %s wait for that event (CANN_EMU_SANITIZE=race)",
			task, actorName(actor), t.what, actorName(t.actor), t.Name, actorName(t.actor), actorName(actor))
	}
	t.actor, t.tick, t.what = actor, now[actor], task
	return finding
}

// touched is a past access, with the data needed to check later accesses against it.
type touched struct {
	interval // from the first to the last byte
	runs     []interval
	write    bool
	some     bool // not all of these bytes
	actor    int32
	tick     uint64
	what     string // task, stream and argument, for messages
}

func (t *touched) whole() bool { return len(t.runs) == 1 }

// history holds the accesses to one allocation with which a later access may conflict.
type history []touched

// conflict returns the first access that conflicts with t and is not ordered before it, and bytes
// that both touch.
func (h history) conflict(t *touched, now Clock) (*touched, interval) {
	for i := range h {
		o := &h[i]
		if !o.write && !t.write || o.some && t.some || now[o.actor] >= o.tick || !o.overlaps(t.interval) {
			continue
		}
		if both, ok := overlap(o.runs, t.runs); ok {
			return o, both
		}
	}
	return nil, interval{}
}

// add appends t and drops the accesses that it replaces: what comes after t also comes after every
// access ordered before t. A read replaces only reads.
func (h history) add(t touched, now Clock) history {
	kept := make(history, 0, len(h)+1)
	for _, o := range h {
		if !t.whole() || now[o.actor] < o.tick || o.write && !t.write || t.some && !o.some || !o.overlaps(t.interval) {
			kept = append(kept, o)
			continue
		}
		if !o.whole() {
			if o.lo < t.lo || o.hi > t.hi {
				kept = append(kept, o)
			}
			continue
		}
		for _, rest := range []interval{{o.lo, t.lo}, {t.hi, o.hi}} {
			if rest.lo < rest.hi {
				part := o
				part.interval, part.runs = rest, []interval{rest}
				kept = append(kept, part)
			}
		}
	}
	return append(kept, t)
}

// actorName returns the name that messages use for a stream or the program.
func actorName(id int32) string {
	if id == hostID {
		return "the host"
	}
	return fmt.Sprintf("stream %d", id)
}

// raceText describes a race: the two accesses, the bytes, and the calls that would order them.
func raceText(t, o *touched, both interval, x *Allocation) string {
	remedy := fmt.Sprintf("record an event on %s after it and make %s wait for that event (aclrtRecordEvent, aclrtStreamWaitEvent)", actorName(o.actor), actorName(t.actor))
	switch {
	case t.actor == hostID:
		remedy = fmt.Sprintf("synchronise %s first (aclrtSynchronizeStream)", actorName(o.actor))
	case o.actor == hostID:
		remedy = fmt.Sprintf("let the host's call return before the work of %s is queued", actorName(t.actor))
	}
	return fmt.Sprintf("race: %s, %s; both touch bytes %d to %d of %v, and nothing orders them: %s (CANN_EMU_SANITIZE=race)",
		t.what, o.what, both.lo-x.Start, both.hi-x.Start-1, x, remedy)
}
