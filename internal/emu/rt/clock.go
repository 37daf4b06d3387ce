package rt

import "maps"

// hostID is the program's place in a clock; streams have their ids, from 1 on.
const hostID = 0

// vectorClock says of each stream which of its tasks is the last one that lies before. Clocks that were
// handed out are never changed.
type vectorClock map[int32]uint64

// covers reports whether everything of o lies before c.
func (c vectorClock) covers(o vectorClock) bool {
	for id, tick := range o {
		if c[id] < tick {
			return false
		}
	}
	return true
}

// join is what lies before either.
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

// next is the clock of the task after, of the stream with that id.
func (c vectorClock) next(id int32) vectorClock {
	n := maps.Clone(c)
	if n == nil {
		n = make(vectorClock, 1)
	}
	n[id]++
	return n
}

// Order is what makes tasks of one stream lie before tasks of another: the record of an
// event, a notify, a communicator. Only the race sanitizer looks at it.
type Order struct {
	clock vectorClock
	also  *Order // gets the same clock
}
