package rt

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// signalFunctions are tasks that write a word of device memory, or wait for one: how streams
// of several devices and processes agree without events.
func (r *Runtime) signalFunctions() table {
	return table{
		"aclrtValueWrite": r.writeValue,
		"aclrtValueWait":  r.waitValue,
	}
}

// word finds the 64-bit word at a device address.
func (r *Runtime) word(t *Thread, function string, addr, stream uint64) (s *Stream, w *atomic.Uint64, code uint64) {
	s, streamCode := r.Stream(t, stream)
	if s == nil {
		return nil, nil, uint64(uint32(streamCode))
	}
	if addr == 0 {
		return nil, nil, t.null(function, "devAddr")
	}
	p, err := s.Memory().Resolve(addr, 8)
	if err != nil || addr%8 != 0 {
		return nil, nil, t.Fail(paramInvalid, "EE1003: %s: %#x is no device address aligned to 8 bytes: %v", function, addr, err)
	}
	return s, (*atomic.Uint64)(unsafe.Pointer(p)), 0
}

func (r *Runtime) writeValue(t *Thread, a []uint64) uint64 {
	const function = "aclrtValueWrite"
	s, w, code := r.word(t, function, a[0], a[3])
	if s == nil {
		return code
	}
	if uint32(a[2]) != 0 {
		return t.Fail(paramInvalid, "EE1003: %s: flag %d; it must be 0", function, uint32(a[2]))
	}
	addr, value := a[0], a[1]
	return r.Submit(t, s, Task{
		Name: function, Repeatable: true, Releases: &r.outside,
		Accesses: func() []Access { return []Access{Bytes("devAddr", WritesSome, addr, 8)} }, // a word for agreements races with nothing of its kind
		Run:      func() error { w.Store(value); return nil },
	})
}

// comparisons are the conditions of aclrtValueWait by flag.
var comparisons = []func(have, want uint64) bool{
	func(have, want uint64) bool { return int64(have-want) >= 0 },
	func(have, want uint64) bool { return have == want },
	func(have, want uint64) bool { return have&want != 0 },
	func(have, want uint64) bool { return ^(have | want) != 0 },
}

// signalPause is how often a wait looks: the word may be written by another process.
const signalPause = 50 * time.Microsecond

func (r *Runtime) waitValue(t *Thread, a []uint64) uint64 {
	const function = "aclrtValueWait"
	s, w, code := r.word(t, function, a[0], a[3])
	if s == nil {
		return code
	}
	flag := uint32(a[2])
	if int(flag) >= len(comparisons) {
		return t.Fail(paramInvalid, "EE1003: %s: flag %d; 0 (not less), 1 (equal), 2 (and) or 3 (nor) are possible", function, flag)
	}
	value, met := a[1], comparisons[flag]
	return r.Submit(t, s, Task{Name: function, Repeatable: true, Acquires: &r.outside, Wait: func(cancel <-chan struct{}) error {
		for !met(w.Load(), value) {
			select {
			case <-cancel:
				return nil
			case <-time.After(signalPause):
			}
		}
		return nil
	}})
}
