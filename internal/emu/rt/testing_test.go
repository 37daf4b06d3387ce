package rt

import (
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// process is an emulated process whose C functions a test calls by name.
type process struct {
	tb testing.TB
	r  *Runtime
	f  map[string]Func
}

// newProcess is a machine of four devices with 16 MiB each; it is finalized when the test
// ends, and no object may be left then.
func newProcess(tb testing.TB) *process {
	return newMachine(tb, Config{Devices: 4, Memory: 16 << 20, SoC: "Ascend910B1"})
}

// newMachine is newProcess for another machine.
func newMachine(tb testing.TB, c Config) *process {
	r := NewMachine(c)
	p := &process{tb: tb, r: r, f: r.Functions()}
	tb.Cleanup(func() {
		t := new(Thread)
		require.Zero(tb, p.call(t, "aclFinalize"))
		for _, k := range []Kind{ContextKind, StreamKind} {
			require.Zero(tb, r.Handles.Count(k), "kind %d left after aclFinalize", k)
		}
	})
	return p
}

// call calls a C function and returns its code.
func (p *process) call(t *Thread, name string, args ...uint64) int32 {
	f, ok := p.f[name]
	require.True(p.tb, ok, "%s is not emulated", name)
	return int32(f(t, args))
}

// must is call for a function that has to succeed.
func (p *process) must(t *Thread, name string, args ...uint64) {
	p.tb.Helper()
	code := p.call(t, name, args...)
	require.Zero(p.tb, code, "%s: %s", name, takeText(t))
}

// out calls with a pointer to a new word as one argument and returns the word.
func (p *process) out(t *Thread, name string, at int, args ...uint64) uint64 {
	p.tb.Helper()
	word := new(uint64)
	all := append(append(append([]uint64{}, args[:at]...), address(word)), args[at:]...)
	p.must(t, name, all...)
	return *word
}

// address is a Go variable's address as an argument. The store moves the variable to the
// heap, where it keeps its address.
func address[T any](v *T) uint64 {
	atomic.StorePointer(&escaped, unsafe.Pointer(v))
	return uint64(uintptr(unsafe.Pointer(v)))
}

var escaped unsafe.Pointer

func takeText(t *Thread) string {
	if p := t.TakeText(); p != 0 {
		return CString(p)
	}
	return ""
}

// thread is an OS thread with a device set.
func (p *process) thread(device int) *Thread {
	t := new(Thread)
	p.must(t, "aclrtSetDevice", uint64(device))
	return t
}

func (p *process) stream(t *Thread) uint64 { return p.out(t, "aclrtCreateStream", 0) }

func (p *process) event(t *Thread) uint64 {
	return p.out(t, "aclrtCreateEventExWithFlag", 0, uint64(eventSync|eventTimeLine))
}

// submit queues Go code on a stream.
func (p *process) submit(t *Thread, stream uint64, f func() error) {
	s, code := p.r.Stream(t, stream)
	require.Zero(p.tb, code)
	require.Zero(p.tb, p.r.Submit(t, s, Task{Name: "test", Run: f}))
}
