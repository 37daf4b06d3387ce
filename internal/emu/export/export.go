package export

// #cgo CFLAGS: -g0 -O0 -Wall -Wextra
// #include <stdlib.h>
// #include "export.h"
import "C"

import "unsafe"

// Limits of the C code.
const (
	ThreadSize  = C.EMU_THREAD_SIZE  // bytes of a thread's block
	Custom      = C.EMU_CUSTOM       // operators that a program may register
	CustomWords = C.EMU_CUSTOM_WORDS // words of the parameters of one

	OperatorFailure = C.EMU_OPERATOR_FAILURE // the code of an operator that cannot run
)

// Lookup returns the address of a CANN function and the place of its first release in abi.Releases; or 0.
func Lookup(name string) (address uintptr, since int) {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	s := C.emu_lookup(c)
	if s == nil {
		return 0, 0
	}
	return uintptr(s.address), int(s.since)
}

// Prepare returns the address of phase one of the registered operator with a number, whose parameters
// include so many integers and pointers.
func Prepare(number, words int) uintptr {
	return uintptr(C.emu_custom_prepare(C.int(number), C.int(words)))
}

// Execute returns the address of phase two.
func Execute(number int) uintptr { return uintptr(C.emu_custom_execute(C.int(number))) }
