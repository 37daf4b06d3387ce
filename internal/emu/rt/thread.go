package rt

import (
	"fmt"
	"unsafe"
)

// Func emulates one C function. a holds the arguments in C order, one word each: integers
// extended to 64 bits, pointers as they are, floating-point values as their bits (a float
// in the low half). The result is the C return value, for most functions an error code.
type Func func(t *Thread, a []uint64) uint64

// Thread is what CANN keeps per OS thread. It lives in C memory that package export
// allocates zeroed, one block per thread, so it must hold no Go pointer.
type Thread struct {
	Context     uint64 // current context handle, 0 when none
	LastError   int32  // for aclrtPeekAtLastError
	captureMode int32  // how captures restrict the thread, aclmdlRICaptureThreadExchangeMode
	limiter     uint64 // stream whose core limits the thread uses, 0 for none
	pending     int32  // length of the unread text in text
	text        [textSize]byte
	shown       [textSize]byte // what the last aclGetRecentErrMsg of this thread returned
}

const textSize = 8192

// ThreadSize is the number of bytes export reserves for a Thread.
const ThreadSize = unsafe.Sizeof(Thread{})

// Fail records the error text of a failed call and its code, and returns the code as a
// result word. Texts of one thread accumulate, newest last, until they are read.
func (t *Thread) Fail(code int32, format string, args ...any) uint64 {
	t.LastError = code
	s := fmt.Sprintf(format, args...)
	if t.pending > 0 {
		s = "\n" + s
	}
	room := textSize - 1 - int(t.pending)
	t.pending += int32(copy(t.text[t.pending:int(t.pending)+min(room, len(s))], s))
	return uint64(uint32(code))
}

// TakeText moves the unread error text where aclGetRecentErrMsg can point to it and
// returns its address, or 0 when there is none. The text stays valid until the next call.
func (t *Thread) TakeText() uint64 {
	if t.pending == 0 {
		return 0
	}
	n := copy(t.shown[:textSize-1], t.text[:t.pending])
	t.shown[n] = 0
	t.pending = 0
	return uint64(uintptr(unsafe.Pointer(&t.shown)))
}
