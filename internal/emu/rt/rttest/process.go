package rttest

import (
	"maps"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// Process is an emulated process whose C functions a test calls by name.
type Process struct {
	tb        testing.TB
	Runtime   *rt.Runtime
	Functions map[string]rt.Func
}

// New returns a process on a machine of four devices with 16 MiB each. At the end of the test it
// finalizes the process and fails if a context or stream is left.
func New(tb testing.TB) *Process {
	return NewMachine(tb, rt.Config{Devices: 4, Memory: 16 << 20, SoC: "Ascend910B1"})
}

// NewMachine is New for another machine.
func NewMachine(tb testing.TB, c rt.Config) *Process {
	r := rt.NewMachine(c)
	p := Of(tb, r)
	tb.Cleanup(func() {
		t := new(rt.Thread)
		require.Zero(tb, p.Call(t, "aclFinalize"))
		for _, k := range []rt.Kind{rt.ContextKind, rt.StreamKind} {
			require.Zero(tb, r.Handles.Count(k), "kind %d left after aclFinalize", k)
		}
	})
	return p
}

// Of returns the process of a runtime that the test finalizes itself.
func Of(tb testing.TB, r *rt.Runtime) *Process {
	return &Process{tb: tb, Runtime: r, Functions: r.Functions()}
}

// Add adds functions to those of the process.
func (p *Process) Add(functions map[string]rt.Func) { maps.Copy(p.Functions, functions) }

// Call calls a C function and returns its code.
func (p *Process) Call(t *rt.Thread, name string, args ...uint64) int32 {
	f, ok := p.Functions[name]
	require.True(p.tb, ok, "%s is not emulated", name)
	return int32(f(t, args))
}

// Must is Call, but fails the test when the function fails.
func (p *Process) Must(t *rt.Thread, name string, args ...uint64) {
	p.tb.Helper()
	code := p.Call(t, name, args...)
	require.Zero(p.tb, code, "%s: %s", name, Text(t))
}

// Out calls a function with a pointer to a new word inserted at argument at, and returns the word.
func (p *Process) Out(t *rt.Thread, name string, at int, args ...uint64) uint64 {
	p.tb.Helper()
	word := new(uint64)
	all := append(append(append([]uint64{}, args[:at]...), Address(word)), args[at:]...)
	p.Must(t, name, all...)
	return *word
}

// Thread returns a new OS thread's state with a device set.
func (p *Process) Thread(device int) *rt.Thread {
	t := new(rt.Thread)
	p.Must(t, "aclrtSetDevice", uint64(device))
	return t
}

// Stream creates a stream and returns its handle.
func (p *Process) Stream(t *rt.Thread) uint64 { return p.Out(t, "aclrtCreateStream", 0) }

// Event creates an event that can be recorded any number of times.
func (p *Process) Event(t *rt.Thread) uint64 {
	return p.Out(t, "aclrtCreateEventExWithFlag", 0, abi.ACL_EVENT_SYNC|abi.ACL_EVENT_TIME_LINE)
}

// Submit queues a Go function as a task of a stream.
func (p *Process) Submit(t *rt.Thread, stream uint64, f func() error) {
	s, code := p.Runtime.Stream(t, stream)
	require.Zero(p.tb, code)
	require.Zero(p.tb, p.Runtime.Submit(t, s, rt.Task{Name: "test", Run: f}))
}

// Text returns the unread error text of a thread, as aclGetRecentErrMsg does.
func Text(t *rt.Thread) string {
	if p := t.TakeText(); p != 0 {
		return rt.CString(p)
	}
	return ""
}

// Address returns the address of a Go variable as an argument. Storing the pointer moves the
// variable to the heap, where its address is stable.
func Address[T any](v *T) uint64 {
	atomic.StorePointer(&escaped, unsafe.Pointer(v))
	return uint64(uintptr(unsafe.Pointer(v)))
}

// String returns the address of a NUL-terminated copy of a text.
func String(s string) uint64 { return Address(&append([]byte(s), 0)[0]) }

var escaped unsafe.Pointer
