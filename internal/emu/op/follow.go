package op

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"
	"unsafe"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// Some operators follow device addresses that are in their tensors, and some wait for a word that another stream or process writes there.

// Memory returns the memory at n bytes of a device address that a tensor holds.
func (x *Exec) Memory(addr uint64, n int64) (unsafe.Pointer, error) {
	if addr == 0 {
		return nil, errors.New("the address is null")
	}
	return x.memory.Resolve(addr, n)
}

// Follow declares the memory that a call accesses at addresses within its tensors. accesses is called on the stream, when these are
// written.
func (c *Call) Follow(accesses func(x *Exec) []sanitize.Access) { c.follow = accesses }

// Follows reports whether the call accesses memory at addresses within its tensors.
func (c *Call) Follows() bool { return c.follow != nil }

// Followed returns the device memory that a call which follows addresses accesses at these. It is for the stream, since it reads the
// tensors of the call.
func (e *Executor) Followed(memory Memory, workspace uint64) []sanitize.Access {
	if e.Resolve(memory, workspace) != nil {
		return nil // without its tensors the computation fails by itself
	}
	return e.Call.follow(&e.exec)
}

// Await appends a stage that lasts until ready returns true or an error.
func (c *Call) Await(ready func(x *Exec) (bool, error)) {
	c.stages = append(c.stages, Stage{Ready: ready})
}

// awaitPause is the time between two looks at memory that another process may write.
const awaitPause = 50 * time.Microsecond

// Await runs a stage that waits. It returns early, without an error, when cancel is closed.
func (e *Executor) Await(memory Memory, workspace uint64, ready func(x *Exec) (bool, error), cancel <-chan struct{}) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = Fault("%v: internal error: %v\n%s", e.Call, r, debug.Stack())
		}
	}()
	if err := e.Resolve(memory, workspace); err != nil {
		return err
	}
	for {
		switch done, err := ready(&e.exec); {
		case err != nil:
			return e.faultOf(err)
		case done:
			return nil
		}
		select {
		case <-cancel:
			return nil
		case <-time.After(awaitPause):
		}
	}
}

// faultOf makes the error of a computation the error of the stream.
func (e *Executor) faultOf(err error) error {
	var f *rt.Fault
	if errors.As(err, &f) {
		return f
	}
	return Fault("%v: %v", e.Call, err)
}

// AICPUFault returns the asynchronous error of a kernel on the AI CPU.
func AICPUFault(c *Call, format string, args ...any) error {
	return &rt.Fault{Code: rt.AICPUException, Text: fmt.Sprintf("%v: ", c) + fmt.Sprintf(format, args...)}
}
