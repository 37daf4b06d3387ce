package cshim

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"sync"
	"unsafe"
)

// Args is the number of argument words of a Call.
const Args = C.CANN_ARGS

// Call is one runtime call; the zero value calls without arguments. It holds no pointer but
// Host, so that it can live on the stack. It begins as the C struct does, which C works on.
type Call struct {
	// Args are the arguments in C order, integers extended to 64 bits, handles and device
	// addresses as they are. Afterwards the words of out-parameters hold the results.
	Args [Args]uint64
	// Out marks out-parameters: bit i set passes the address of Args[i]. C writes as many
	// bytes as the parameter's type has, so Args[i] should start as zero.
	Out uint32
	// HostArg-1 is the argument that Host is passed as; 0 passes none.
	HostArg uint8
	// Rebinds says that the callee changes which context the thread has current.
	Rebinds bool

	value   bool
	bind    int32
	fn      uint64
	context uint64
	ret     uint64
	message uint64

	// Host is host memory that the callee uses during the call only.
	Host unsafe.Pointer
	// CallsBack says that the callee may run Go functions on this thread.
	CallsBack bool
}

// The two layouts must agree: each constant overflows if a field moved.
const (
	_ = uint(unsafe.Offsetof(Call{}.message) - unsafe.Offsetof(C.struct_cann_call{}.message))
	_ = uint(unsafe.Offsetof(C.struct_cann_call{}.message) - unsafe.Offsetof(Call{}.message))
	_ = uint(unsafe.Offsetof(Call{}.bind) - unsafe.Offsetof(C.struct_cann_call{}.bind))
	_ = uint(unsafe.Offsetof(C.struct_cann_call{}.bind) - unsafe.Offsetof(Call{}.bind))
)

// Do makes context current on the OS thread (0 leaves it), calls f and gives the code it
// returns as an error: *Error, or *SymbolError or *LibraryError when there is no f.
func (c *Call) Do(f *Func, context uint64) error {
	address, err := f.address()
	if err != nil {
		return err
	}
	c.fn, c.context = address, context
	c.run()
	if c.bind != 0 || int32(c.ret) != 0 {
		return c.failure(f.name)
	}
	return nil
}

// Value is Do for a function that returns a pointer or a number instead of a code.
func (c *Call) Value(f *Func, context uint64) (uint64, error) {
	address, err := f.address()
	if err != nil {
		return 0, err
	}
	c.fn, c.context, c.value = address, context, true
	c.run()
	if c.bind != 0 {
		return 0, c.failure(f.name)
	}
	return c.ret, nil
}

func (c *Call) run() {
	if Emulated || c.CallsBack {
		c.runBack()
		return
	}
	if c.HostArg != 0 {
		C.cann_call_host((*C.struct_cann_call)(unsafe.Pointer(c)), c.Host)
		return
	}
	C.cann_call((*C.struct_cann_call)(unsafe.Pointer(c)))
}

// backs are the copies of calls that call back.
var backs = sync.Pool{New: func() any { return new(Call) }}

// runBack calls through a copy on the heap: Go code that runs meanwhile, as the emulator's
// does, may move the stack, and C must not see the call move.
func (c *Call) runBack() {
	h := backs.Get().(*Call)
	*h = *c
	C.cann_call_back((*C.struct_cann_call)(unsafe.Pointer(h)), h.Host)
	*c = *h
	h.Host = nil
	backs.Put(h)
}

// failure makes the error of a failed call and frees its text.
func (c *Call) failure(name string) error {
	e := &Error{Func: name, Code: int32(c.ret), Message: takeText(c.message)}
	if c.bind != 0 {
		e.Code, e.Message = c.bind, "binding the context: "+e.Message
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
