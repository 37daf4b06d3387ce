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
