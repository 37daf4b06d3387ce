package rt

import "fmt"

// touched is an access that was made, as later ones must know it.
type touched struct {
	interval // from the first to the last byte
	runs     []interval
	write    bool
	some     bool // not all of these bytes
	actor    int32
	tick     uint64
	what     string // task, stream and argument
}

func (t *touched) whole() bool { return len(t.runs) == 1 }

// history are the accesses to one allocation that a later access may conflict with.
type history []touched

// conflict is the first access that t does not come after although it must, and bytes that
// both touch.
func (h history) conflict(t *touched, now vectorClock) (*touched, interval) {
	for i := range h {
		o := &h[i]
		if !o.write && !t.write || o.some && t.some || now[o.actor] >= o.tick || !o.overlaps(t.interval) {
			continue
		}
		if both, ok := meet(o.runs, t.runs); ok {
			return o, both
		}
	}
	return nil, interval{}
}

// add appends t and drops what it makes superfluous: whoever comes after t also comes after
// an access that lies before t. A read stands in only for reads.
func (h history) add(t touched, now vectorClock) history {
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

// actorName is how messages call the maker of an access.
func actorName(id int32) string {
	if id == hostID {
		return "the host"
	}
	return fmt.Sprintf("stream %d", id)
}

// raceText says what raced where and what orders it.
func raceText(t, o *touched, both interval, x *span) string {
	remedy := fmt.Sprintf("record an event on %s after it and make %s wait for that event (aclrtRecordEvent, aclrtStreamWaitEvent)", actorName(o.actor), actorName(t.actor))
	switch {
	case t.actor == hostID:
		remedy = fmt.Sprintf("synchronise %s first (aclrtSynchronizeStream)", actorName(o.actor))
	case o.actor == hostID:
		remedy = fmt.Sprintf("let the host's call return before the work of %s is queued", actorName(t.actor))
	}
	return fmt.Sprintf("race: %s, %s; both touch bytes %d to %d of %v, and nothing orders them: %s (CANN_EMU_SANITIZE=race)",
		t.what, o.what, both.lo-x.start, both.hi-x.start-1, x, remedy)
}
