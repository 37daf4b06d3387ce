package rt

import "maps"

// hostID is the key of the program itself in a clock; streams use their ids, which start at 1.
const hostID = 0

// vectorClock maps each stream to the number of its last task that happens before some point.
// Methods return new clocks and never change an existing one.
type vectorClock map[int32]uint64

// covers reports whether everything that happens before o also happens before c.
func (c vectorClock) covers(o vectorClock) bool {
	for id, tick := range o {
		if c[id] < tick {
			return false
		}
	}
	return true
}

// join returns the clock that covers both c and o.
func (c vectorClock) join(o vectorClock) vectorClock {
	if c.covers(o) {
		return c
	}
	n := maps.Clone(c)
	if n == nil {
		n = make(vectorClock, len(o))
	}
	for id, tick := range o {
		n[id] = max(n[id], tick)
	}
	return n
}

// next returns the clock after one more task of the stream with that id.
func (c vectorClock) next(id int32) vectorClock {
	n := maps.Clone(c)
	if n == nil {
		n = make(vectorClock, 1)
	}
	n[id]++
	return n
}

// Order is a happens-before edge between streams: the record of an event, a notify, a communicator.
// A task that releases the order comes before every task that acquires it later. Only the race
// sanitizer uses it.
type Order struct {
	clock vectorClock
	also  *Order // another order that is released together with this one
}
