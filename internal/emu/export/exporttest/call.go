package exporttest

// #cgo CFLAGS: -Wall -Wextra
// #include "call.h"
import "C"

import _ "github.com/goascend/cann/internal/emu/machine" // has the symbols

// Unsupported calls a function that the emulator does not implement, and returns its code and the
// error text of the thread.
func Unsupported() (code int, text string) {
	var buf [512]C.char
	code = int(C.exporttest_unsupported(&buf[0], C.int(len(buf))))
	return code, C.GoString(&buf[0])
}

// Threads makes n (at most 64) new C threads fail concurrently. It returns how many of them read
// exactly their own error text, or -1 if a thread could not be started.
func Threads(n int) int { return int(C.exporttest_threads(C.int(n))) }

// Half calls aclFloat16ToFloat.
func Half(bits uint16) float32 { return float32(C.exporttest_half(C.ushort(bits))) }
