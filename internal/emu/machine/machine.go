package machine

import (
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/ccl"
	"github.com/goascend/cann/internal/emu/nn"
	"github.com/goascend/cann/internal/emu/rt"
)

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

// Machine is what stands behind the symbols.
type Machine struct {
	rt      *rt.Runtime
	library *nn.Library
	watched bool                    // phases of operators may fail on demand or are traced, so their names matter
	calls   [len(functions)]rt.Func // nil where nobody implements the function
}

// Process is the machine of this process: CANN's interface has global state. It is made at
// the first call, so that a program can still set the emulator's environment in main.
func Process() *Machine { return process() }

var process = sync.OnceValue(func() *Machine {
	r := rt.New()
	m := &Machine{rt: r, library: nn.New(r), watched: r.Watched()}
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

// Absent is the word that function id returns when there is nowhere to put a text.
func Absent(id int) uint64 { return uint64(functions[id].absent) }

// Call runs function id, which is no phase of an operator. A mistake in the emulator must not
// take the caller's process down.
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
	if f.absent > 0 { // it returns a code, so it can fail when that is asked for
		if code, failed := m.rt.Inject(t, f.name); failed {
			return code
		}
	}
	return m.trace(f.name, func() uint64 { return m.calls[id](t, words) })
}

// Prepare is phase one of operator id.
func (m *Machine) Prepare(t *rt.Thread, id int, words []uint64) uint64 {
	if !m.watched {
		return m.library.Prepare(t, id, words)
	}
	return m.phase(t, nn.Name(id)+abi.PhaseOne, func() uint64 { return m.library.Prepare(t, id, words) })
}

// Execute is phase two of operator id.
func (m *Machine) Execute(t *rt.Thread, id int, workspace, size, executor, stream uint64) uint64 {
	if !m.watched {
		return m.library.Execute(t, id, workspace, size, executor, stream)
	}
	return m.phase(t, nn.Name(id), func() uint64 { return m.library.Execute(t, id, workspace, size, executor, stream) })
}

// phase is Call for a phase of an operator.
func (m *Machine) phase(t *rt.Thread, name string, call func() uint64) uint64 {
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
