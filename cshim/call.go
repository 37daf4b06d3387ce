package cshim

import "unsafe"

// Args is the number of argument words of a Call.
const Args = 12

// Call is one runtime call; the zero value calls without arguments. Host is its only pointer,
// so that it can live on the stack. It begins with the fields of C's struct cann_call.
type Call struct {
	// Args are the arguments in C order, integers extended to 64 bits, handles and device
	// addresses as they are. Afterwards the words of out-parameters hold the results.
	Args [Args]uint64
	// Out marks out-parameters: bit i set passes the address of Args[i]. C writes as many
	// bytes as the parameter's type has, so Args[i] should start as zero.
	Out uint32
	// HostArg-1 is the argument that Host is passed as; 0 passes none.
	HostArg uint8
	// Rebinds is set if the callee changes which context the thread has current.
	Rebinds bool

	value   bool
	bind    int32
	fn      uint64
	context uint64
	ret     uint64
	message uint64

	// Host is host memory that the callee uses during the call only.
	Host unsafe.Pointer
	// CallsBack is set if the callee may run Go functions on this thread.
	CallsBack bool
	// Fresh runs the call on an OS thread that is made for it, for callees that remember for as
	// long as a thread lives what they saw on it first.
	Fresh bool
}

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

// failure makes the error of a failed call and frees its text.
func (c *Call) failure(name string) error {
	e := &Error{Func: name, Code: int32(c.ret)}
	text := takeText(c.message)
	if c.bind != 0 {
		e.Code, e.Message = c.bind, "binding the context: "+readable(c.bind, text)
	} else {
		e.Message = readable(e.Code, text)
	}
	return e
}

// takeText copies a malloc'ed C text and frees it.
func takeText(p uint64) string {
	if p == 0 {
		return ""
	}
	s := CString(p)
	freeText(p)
	return s
}
