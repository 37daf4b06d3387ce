package cshim

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"unsafe"
)

// Args is the number of argument words of a Call.
const Args = C.CANN_ARGS

// Call is one runtime call; the zero value calls without arguments. It holds no pointer but
// Host, so that it can live on the stack.
type Call struct {
	// Args are the arguments in C order, integers extended to 64 bits, handles and device
	// addresses as they are. Afterwards the words of out-parameters hold the results.
	Args [Args]uint64
	// Out marks out-parameters: bit i set passes the address of Args[i]. C writes as many
	// bytes as the parameter's type has, so Args[i] should start as zero.
	Out uint32
	// Host is host memory that the callee uses during the call only, passed as argument
	// HostArg-1; HostArg 0 passes none.
	Host    unsafe.Pointer
	HostArg uint8
	// Rebinds says that the callee changes which context the thread has current.
	Rebinds bool
	// CallsBack says that the callee may run Go functions on this thread.
	CallsBack bool
}

// Do makes context current on the OS thread (0 leaves it), calls f and gives the code it
// returns as an error: *Error, or *SymbolError or *LibraryError when there is no f.
func (c *Call) Do(f *Func, context uint64) error {
	address, err := f.address()
	if err != nil {
		return err
	}
	b := C.struct_cann_call{fn: C.uint64_t(address), context: C.uint64_t(context)}
	c.run(&b)
	if b.bind != 0 || int32(b.ret) != 0 {
		return failure(f.name, &b)
	}
	return nil
}

// Value is Do for a function that returns a pointer or a number instead of a code.
func (c *Call) Value(f *Func, context uint64) (uint64, error) {
	address, err := f.address()
	if err != nil {
		return 0, err
	}
	b := C.struct_cann_call{fn: C.uint64_t(address), context: C.uint64_t(context), value: 1}
	c.run(&b)
	if b.bind != 0 {
		return 0, failure(f.name, &b)
	}
	return uint64(b.ret), nil
}

func (c *Call) run(b *C.struct_cann_call) {
	b.args = *(*[Args]C.uint64_t)(unsafe.Pointer(&c.Args))
	b.out, b.host = C.uint32_t(c.Out), C.uint16_t(c.HostArg)
	if c.Rebinds {
		b.rebinds = 1
	}
	if c.CallsBack {
		callBack(b, c.Host)
	} else {
		C.cann_call(b, c.Host)
	}
	if c.Out != 0 {
		c.Args = *(*[Args]uint64)(unsafe.Pointer(&b.args))
	}
}

// callBack calls through a copy on the heap: Go code that runs meanwhile may move the stack,
// and C must not see b move.
func callBack(b *C.struct_cann_call, host unsafe.Pointer) {
	h := new(C.struct_cann_call)
	*h = *b
	C.cann_call_back(h, host)
	*b = *h
}

// failure makes the error of a failed call and frees its text. It is its own function so
// that the call's block need not escape.
func failure(name string, b *C.struct_cann_call) error {
	e := &Error{Func: name, Code: int32(b.ret), Message: takeText(uint64(b.message))}
	if b.bind != 0 {
		e.Code, e.Message = int32(b.bind), "binding the context: "+e.Message
	}
	return e
}

// takeText copies a malloc'ed C text and frees it.
func takeText(p uint64) string {
	if p == 0 {
		return ""
	}
	s := CString(p)
	C.free(pointer(p))
	return s
}

// Forget drops the memory of which context each OS thread has current. Call it after a
// context was destroyed: its handle may come again for another one.
func Forget() { C.cann_forget() }
