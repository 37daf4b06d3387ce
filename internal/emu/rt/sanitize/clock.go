package sanitize

import "maps"

// hostID is the key of the program itself in a clock; streams use their ids, which start at 1.
const hostID = 0

// Clock maps each stream to the number of its last task that happens before some point. Methods
// return new clocks and never change an existing one.
type Clock map[int32]uint64

// covers reports whether everything that happens before o also happens before c.
func (c Clock) covers(o Clock) bool {
	for id, tick := range o {
		if c[id] < tick {
			return false
		}
	}
	return true
}

// join returns the clock that covers both c and o.
func (c Clock) join(o Clock) Clock {
	if c.covers(o) {
		return c
	}
	n := maps.Clone(c)
	if n == nil {
		n = make(Clock, len(o))
	}
	for id, tick := range o {
		n[id] = max(n[id], tick)
	}
	return n
}

// next returns the clock after one more task of the stream with that id.
func (c Clock) next(id int32) Clock {
	n := maps.Clone(c)
	if n == nil {
		n = make(Clock, 1)
	}
	n[id]++
	return n
}

// Order is a happens-before edge between streams: the record of an event, a notify, a communicator.
// A task that releases the order comes before every task that acquires it later.
type Order struct {
	Also  *Order // another order that is released together with this one
	clock Clock
}

// Actor is a stream: its id, and what happens before its next task.
type Actor struct {
	ID    int32
	clock Clock
}
