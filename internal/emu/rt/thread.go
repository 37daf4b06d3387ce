package rt

import (
	"fmt"
	"unsafe"
)

// Func emulates one C function. a holds the arguments in C order, one word each: integers extended
// to 64 bits, pointers unchanged, floating-point values as bits (a float in the low half). The
// result is the C return value, for most functions an error code.
type Func func(t *Thread, a []uint64) uint64

// Thread is the state that CANN keeps per OS thread. Package export allocates one zeroed block of C
// memory for each thread, so a Thread must not hold Go pointers.
type Thread struct {
	Context     uint64 // current context handle, 0 when none
	LastError   int32  // result of aclrtPeekAtLastError: the runtime layer's last error
	captureMode int32  // how captures restrict the thread, aclmdlRICaptureThreadExchangeMode
	Collectives int32  // 1 + the device that HCCL remembers, 0 when none; package ccl uses it
	limiter     uint64 // stream whose core limits the thread uses, 0 for none
	Number      uint64 // of the thread's cache of executors in package nn, 0 when it has none
	PassesCache bool   // phase one passes the cache by
	pending     int32  // length of the unread text in text
	text        [textSize]byte
	shown       [textSize]byte // what the last aclGetRecentErrMsg of this thread returned
}

const textSize = 8192

// ThreadSize is the size of a Thread in bytes.
const ThreadSize = unsafe.Sizeof(Thread{})

// Fail records the error text of a failed call on the thread, and its code if it is one of the runtime layer, and
// returns the code as a result word. Texts have the form of CANN's, and accumulate until they are read, the newest last.
func (t *Thread) Fail(code int32, format string, args ...any) uint64 {
	if runtimeCode(code) {
		t.LastError = code
	}
	s := entry(fmt.Sprintf(format, args...), 1)
	if t.pending > 0 {
		s = "\n" + s
	}
	room := textSize - 1 - int(t.pending)
	t.pending += int32(copy(t.text[t.pending:int(t.pending)+min(room, len(s))], s))
	return uint64(uint32(code))
}

// runtimeCode reports whether a code is of the runtime layer: its thousands end with 07, as in 107000, 207001 and 507015. Errors that the acl layer above
// it finds, and those of other libraries, are no last errors.
func runtimeCode(code int32) bool { return code/1000%100 == 7 }

// TakeText returns the address of the unread error text as a C string and marks it as read, or
// returns 0 when there is none. The text stays valid until the next call of TakeText.
func (t *Thread) TakeText() uint64 {
	if t.pending == 0 {
		return 0
	}
	n := copy(t.shown[:textSize-1], t.text[:t.pending])
	t.shown[n] = 0
	t.pending = 0
	return uint64(uintptr(unsafe.Pointer(&t.shown)))
}
