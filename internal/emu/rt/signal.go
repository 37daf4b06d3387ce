package rt

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// Tasks can write a word of device memory or wait for its value. Streams of several devices and
// processes use this to synchronise without events.

// Awaits marks a task that waits until another stream or process has written memory. The race checker then orders the task after the
// signals of other streams.
func (r *Runtime) Awaits(task Task) Task {
	task.Acquires = &r.outside
	return task
}

// word returns the 64-bit word at a device address.
func (s *Stream) word(t *Thread, function string, addr Address) (*atomic.Uint64, Code) {
	p, err := s.Memory().Resolve(uint64(addr), 8)
	if err != nil || addr%8 != 0 {
		return nil, t.Fail(ParamInvalid, "EE1003: %s: %#x is no device address aligned to 8 bytes: %v", function, addr, err)
	}
	return (*atomic.Uint64)(unsafe.Pointer(p)), 0
}

func (r *Runtime) aclrtValueWrite(t *Thread, devAddr Address, value uint64, flag uint32, stream *Stream) Code {
	const function = "aclrtValueWrite"
	w, code := stream.word(t, function, devAddr)
	if w == nil {
		return code
	}
	if flag != 0 {
		return t.Fail(ParamInvalid, "EE1003: %s: flag %d; it must be 0", function, flag)
	}
	return r.Submit(t, stream, Task{
		Name: function, Repeatable: true, Releases: &r.outside,
		Accesses: func() []sanitize.Access {
			return []sanitize.Access{sanitize.Bytes("devAddr", sanitize.WritesSome, uint64(devAddr), 8)}
		}, // no race between signals
		Run: func() error { w.Store(value); return nil },
	})
}

// comparisons holds the conditions of aclrtValueWait by flag.
var comparisons = []func(have, want uint64) bool{
	func(have, want uint64) bool { return int64(have-want) >= 0 },
	func(have, want uint64) bool { return have == want },
	func(have, want uint64) bool { return have&want != 0 },
	func(have, want uint64) bool { return ^(have | want) != 0 },
}

// signalPause is the polling interval of a wait; it polls because another process may write the
// word.
const signalPause = 50 * time.Microsecond

func (r *Runtime) aclrtValueWait(t *Thread, devAddr Address, value uint64, flag uint32, stream *Stream) Code {
	const function = "aclrtValueWait"
	w, code := stream.word(t, function, devAddr)
	if w == nil {
		return code
	}
	if int(flag) >= len(comparisons) {
		return t.Fail(ParamInvalid, "EE1003: %s: flag %d; 0 (not less), 1 (equal), 2 (and) or 3 (nor) are possible", function, flag)
	}
	holds := comparisons[flag]
	return r.Submit(t, stream, Task{Name: function, Repeatable: true, Acquires: &r.outside, Wait: func(cancel <-chan struct{}) error {
		for !holds(w.Load(), value) {
			select {
			case <-cancel:
				return nil
			case <-time.After(signalPause):
			}
		}
		return nil
	}})
}
