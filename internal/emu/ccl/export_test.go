package ccl

import "github.com/goascend/cann/internal/emu/rt"

// ParseTable returns the number of ranks of a table.
func ParseTable(text []byte) (int, error) {
	t, err := parseTable(text)
	if err != nil {
		return 0, err
	}
	return len(t.ranks), nil
}

// MoveToOwnHost makes a library appear to be on a host of its own.
func MoveToOwnHost(l *Library) { l.host = random(16) }

// Remember makes a library remember the device of a thread, as HCCL did in 2024.
func Remember(l *Library) { l.remembers = true }

// Hold makes a stream wait until a channel is closed.
func Hold(l *Library, t *rt.Thread, stream uint64, until <-chan struct{}) {
	s, _ := l.rt.Stream(t, rt.Handle(stream))
	l.rt.Submit(t, s, rt.Task{Name: "hold", Run: func() error { <-until; return nil }})
}

// Lost makes a communicator lose a peer after a call has checked its handle, and returns what the call's next check
// says.
func Lost(l *Library, t *rt.Thread, comm, stream uint64) error {
	c, err := l.usable("HcclBarrier", rt.Handle(comm))
	if err != nil {
		return err
	}
	c.fail(gone(2).(*rt.Fault))
	_, err = c.stream(t, "HcclBarrier", rt.Handle(stream))
	return err
}

// PartIDs returns what gives the ids of a communicator's sub-communicators.
func PartIDs() func(id string) string { return (&comm{fabric: new(fabric)}).partID }
