package export

/*
#cgo CFLAGS: -g0 -O1 -Wall -Wextra
#include <stdlib.h>
#include "export.h"
*/
import "C"

import (
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/ccl"
	"github.com/goascend/cann/internal/emu/nn"
	"github.com/goascend/cann/internal/emu/rt"
)

// The block that export.h reserves per OS thread must hold an rt.Thread.
const _ = uint(C.EMU_THREAD_SIZE - rt.ThreadSize)

// function is a C function and the word it returns when the emulator lacks it or fails.
type function struct {
	name   string
	absent int64
}

// What a function returns that the emulator lacks, by its C return type. The rest return
// nothing: zero or a null pointer.
const (
	notSupported     = abi.ACL_ERROR_API_NOT_SUPPORT
	innerError       = abi.ACLNN_ERR_INNER
	hcclNotSupported = abi.HCCL_E_NOT_SUPPORT
	noDataType       = abi.ACL_DT_UNDEFINED
	noFormat         = abi.ACL_FORMAT_UNDEFINED
	nothing          = 0
)

// machine is what stands behind the symbols.
type machine struct {
	rt      *rt.Runtime
	library *nn.Library
	watched bool                    // phases of operators may fail on demand or are traced, so their names matter
	calls   [len(functions)]rt.Func // nil where nobody implements the function
}

// process is the machine of this process: CANN's interface has global state. It is made at
// the first call, so that a program can still set the emulator's environment in main.
var process = sync.OnceValue(func() *machine {
	r := rt.New()
	m := &machine{rt: r, library: nn.New(r), watched: r.Watched()}
	implemented := implementations(r, m.library)
	for id, f := range functions {
		m.calls[id] = implemented[f.name]
	}
	return m
})

// implementations are the functions of all packages by C name. It lets the operators use the
// collectives.
func implementations(r *rt.Runtime, l *nn.Library) map[string]rt.Func {
	groups := ccl.New(r)
	l.Collectives = nn.Collectives{
		Functions: groups.Functions(),
		Find: func(device int, name string) (nn.Communicator, bool) {
			handle, rank, size, ok := groups.Find(device, name)
			return nn.Communicator{Handle: handle, Rank: rank, Size: size}, ok
		},
	}
	all := r.Functions()
	maps.Copy(all, l.Functions())
	maps.Copy(all, l.Collectives.Functions)
	return all
}

// Implemented lists the C functions, operators aside, that the emulator implements; see
// nn.Implemented for the operators.
func Implemented() []string {
	r := rt.NewMachine(rt.Config{})
	return slices.Sorted(maps.Keys(implementations(r, nn.New(r))))
}

// Lookup returns the address of an exported CANN function, or 0. It stands in for dlsym.
// With CANN_EMU_API=8.1.RC1 it does not find what CANN got after that version.
func Lookup(name string) uintptr {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	s := C.emu_lookup(c)
	if s == nil || s.later != 0 && oldAPI() {
		return 0
	}
	return uintptr(s.address)
}

var oldAPI = sync.OnceValue(func() bool { return os.Getenv("CANN_EMU_API") == abi.V81RC1 })

// fail leaves a text for aclGetRecentErrMsg. Functions whose result is no code leave the
// thread's last error alone, as CANN's do.
func (f function) fail(t *rt.Thread, format string, args ...any) uint64 {
	last := t.LastError
	t.Fail(int32(f.absent), format, args...)
	if f.absent <= 0 {
		t.LastError = last
	}
	return uint64(f.absent)
}

// call runs a function that is no phase of an operator. A mistake in the emulator must not
// take the caller's process down.
func (m *machine) call(t *rt.Thread, id int, words []uint64) (result uint64) {
	f := functions[id]
	defer func() {
		if r := recover(); r != nil {
			result = f.fail(t, "EH9999: %s: internal error of the emulator: %v\n%s", f.name, r, debug.Stack())
		}
	}()
	if m.calls[id] == nil {
		return f.fail(t, "EE1005: %s: the emulator does not implement this function", f.name)
	}
	if f.absent > 0 { // it returns a code, so it can fail when that is asked for
		if code, failed := m.rt.Inject(t, f.name); failed {
			return code
		}
	}
	return m.trace(f.name, func() uint64 { return m.calls[id](t, words) })
}

// phase is call for a phase of an operator.
func (m *machine) phase(t *rt.Thread, name string, call func() uint64) uint64 {
	if code, failed := m.rt.Inject(t, name); failed {
		return code
	}
	return m.trace(name, call)
}

func (m *machine) trace(name string, call func() uint64) uint64 {
	if m.rt.Trace == nil {
		return call()
	}
	begin := time.Now()
	code := call()
	m.rt.Trace.Host(name, begin, code)
	return code
}

// The functions below are called by export.c. t is the calling OS thread's block, null when
// there was no memory for it: then there is nowhere to put a text.

//export emuCall
func emuCall(t unsafe.Pointer, id C.int, words *C.uint64_t, n C.int) C.uint64_t {
	if t == nil {
		return C.uint64_t(functions[id].absent)
	}
	return C.uint64_t(process().call((*rt.Thread)(t), int(id), unsafe.Slice((*uint64)(words), n)))
}

//export emuPrepare
func emuPrepare(t unsafe.Pointer, id C.int, words *C.uint64_t, n C.int) C.uint64_t {
	if t == nil {
		return innerError
	}
	m, thread, args := process(), (*rt.Thread)(t), unsafe.Slice((*uint64)(words), n)
	if !m.watched {
		return C.uint64_t(m.library.Prepare(thread, int(id), args))
	}
	return C.uint64_t(m.phase(thread, nn.Name(int(id))+abi.PhaseOne, func() uint64 { return m.library.Prepare(thread, int(id), args) }))
}

//export emuExecute
func emuExecute(t unsafe.Pointer, id C.int, workspace, size, executor, stream C.uint64_t) C.uint64_t {
	if t == nil {
		return innerError
	}
	m, thread := process(), (*rt.Thread)(t)
	execute := func() uint64 {
		return m.library.Execute(thread, int(id), uint64(workspace), uint64(size), uint64(executor), uint64(stream))
	}
	if !m.watched {
		return C.uint64_t(execute())
	}
	return C.uint64_t(m.phase(thread, nn.Name(int(id)), execute))
}
