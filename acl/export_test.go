package acl

// ForgiveLeak ends what is left of an object on the device that a test has leaked on
// purpose, without an error.
func ForgiveLeak(d *Device, k Kind) {
	live[k].Add(-1)
	if k != KindArena { // its buffer keeps the device open
		_ = d.scope.release()
	}
}

// LeakPrinted reports whether a leak was printed to standard error.
func LeakPrinted() bool { return process.printed.Load() }

// LastStream is the stream that Event.Synchronize asks, by its number; -1 without one.
func LastStream(e *Event) int {
	if q := e.last.Load(); q != nil {
		return q.id
	}
	return -1
}
