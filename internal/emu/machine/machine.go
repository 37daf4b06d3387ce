package machine

import (
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/blas"
	"github.com/goascend/cann/internal/emu/ccl"
	"github.com/goascend/cann/internal/emu/dcmi"
	"github.com/goascend/cann/internal/emu/fft"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/knob"
	"github.com/goascend/cann/internal/emu/nn"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/describe"
	"github.com/goascend/cann/internal/emu/rt/dump"
	"github.com/goascend/cann/internal/emu/rt/graph"
	"github.com/goascend/cann/internal/emu/rt/profile"
	"github.com/goascend/cann/internal/emu/rt/queue"
)

// function is a C function with the word that it returns when the emulator does not implement it or
// fails.
type function struct {
	name   string
	absent int64
}

// coded reports whether the function returns a code.
func (f function) coded() bool { return f.absent > 0 || f.absent == abi.DCMI_ERR_CODE_NOT_SUPPORT }

// Machine implements the C symbols of one process.
type Machine struct {
	rt      *rt.Runtime
	library *nn.Library
	watched bool                    // faults, a trace or foreign forms need the names of calls
	calls   [len(functions)]rt.Func // nil where the function is not implemented
}

// Process returns the machine of this process; there is one because CANN's interface has global
// state. It is created at the first call, so that a program can still set the emulator's
// environment in main.
func Process() *Machine { return process() }

var process = sync.OnceValue(func() *Machine {
	r := rt.New()
	m := &Machine{rt: r, library: nn.New(r), watched: r.Watched()}
	for name := range foreign {
		m.watched = m.watched || isForeign(name)
	}
	m.library.Older = release() == 0
	r.CheckFaults(canFail)
	r.Refuse(kernel.Misconfigured())
	implemented := implementations(r, m.library)
	for id, f := range functions {
		m.calls[id] = implemented[f.name]
	}
	return m
})

// Caches returns the executor caches of the threads that have launched operators.
func (m *Machine) Caches() []nn.CacheStats { return m.library.Caches() }

// release returns the place in abi.Releases of the release that CANN_EMU_API names; the last one if it names none, or
// one that does not exist, which the runtime refuses.
var release = sync.OnceValue(func() int {
	if at := slices.Index(abi.Releases(), knob.Get("CANN_EMU_API")); at >= 0 {
		return at
	}
	return len(abi.Releases()) - 1
})

// implementations returns the functions of all packages by C name. It also connects the operators
// to the collectives and the dumps.
func implementations(r *rt.Runtime, l *nn.Library) map[string]rt.Func {
	groups := ccl.New(r)
	l.Collectives = nn.Collectives{
		HCCL: groups,
		Find: func(device int, name string) (op.Communicator, bool) {
			handle, rank, size, ok := groups.Find(device, name)
			return op.Communicator{Handle: handle, Rank: rank, Size: size}, ok
		},
	}
	l.Dumps = dump.New(r)
	all := r.Functions()
	for _, functions := range []map[string]rt.Func{
		describe.New(r).Functions(), graph.New(r).Functions(), profile.New(r).Functions(), queue.New(r).Functions(), dcmi.New(r).Interfaces(), blas.New(r).Functions(), fft.New(r).Functions(), l.Dumps.Functions(), l.Functions(), groups.Functions(),
	} {
		maps.Copy(all, functions)
	}
	return all
}

// Backlog returns what waits of the program have left behind, for tests.
func (m *Machine) Backlog() rt.Backlog { return m.rt.Backlog() }

// Implemented lists the C functions, operators aside, that the emulator implements; see
// nn.Implemented for the operators.
func Implemented() []string {
	r := rt.NewMachine(rt.Config{})
	return slices.Sorted(maps.Keys(implementations(r, nn.New(r))))
}

// fail sets the text for aclGetRecentErrMsg and returns the function's result for a failure.
func (f function) fail(t *rt.Thread, format string, args ...any) uint64 {
	t.Fail(int32(f.absent), format, args...)
	return uint64(f.absent)
}

// Absent returns the result of function id when the thread has no memory for an error text.
func Absent(id int) uint64 { return uint64(functions[id].absent) }

// Call runs function id, which is not a phase of an operator. It recovers panics, since a bug in
// the emulator must not end the caller's process.
func (m *Machine) Call(t *rt.Thread, id int, words []uint64) (result uint64) {
	f := functions[id]
	defer func() {
		if r := recover(); r != nil {
			result = f.fail(t, "EH9999: %s: internal error of the emulator: %v\n%s", f.name, r, debug.Stack())
		}
	}()
	if m.calls[id] == nil {
		return f.fail(t, "EE1005: %s: the emulator does not implement this function", f.name)
	}
	if f.coded() { // faults can only be injected into functions that return a code
		if code, failed := m.rt.Inject(t, f.name); failed {
			return code
		}
	}
	return m.trace(f.name, func() uint64 { return m.calls[id](t, words) })
}

// Prepare runs phase one of operator id.
func (m *Machine) Prepare(t *rt.Thread, id int, words []uint64) uint64 {
	if !m.watched {
		return m.library.Prepare(t, id, words)
	}
	return m.phase(t, nn.Name(id)+abi.PhaseOne, func() uint64 { return m.library.Prepare(t, id, words) })
}

// Execute runs phase two of operator id.
func (m *Machine) Execute(t *rt.Thread, id int, workspace, size, executor, stream uint64) uint64 {
	if !m.watched {
		return m.library.Execute(t, id, workspace, size, executor, stream)
	}
	return m.phase(t, nn.Name(id), func() uint64 { return m.library.Execute(t, id, workspace, size, executor, stream) })
}

// phase refuses an operator that the release has in another form, and applies fault rules and the trace to the others.
func (m *Machine) phase(t *rt.Thread, name string, call func() uint64) uint64 {
	if symbol := strings.TrimSuffix(name, abi.PhaseOne); isForeign(symbol) {
		return t.Fail(abi.ACLNN_ERR_INNER, "EZ9999: %s has other parameters in CANN %s than the emulator reads, which has the form of later releases", symbol, abi.Releases()[release()])
	}
	if code, failed := m.rt.Inject(t, name); failed {
		return code
	}
	return m.trace(name, call)
}

func (m *Machine) trace(name string, call func() uint64) uint64 {
	if m.rt.Trace == nil {
		return call()
	}
	begin := time.Now()
	code := call()
	m.rt.Trace.Host(name, begin, code)
	return code
}
