package ccl

import (
	"math"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// window is memory that a rank has registered for collectives without copies. The emulator's collectives read the
// memory of other ranks in place anyway, so that a window changes nothing in them. As it exchanges nothing at the
// registration, it does not notice a rank that registers no window, or one of another size.
type window struct {
	comm       *comm
	handle     rt.Handle
	start, end uint64
}

// Chips with windows: Atlas A3, whose ranks map one another's physical memory, and the 950.
func (l *Library) shares() bool { return strings.HasPrefix(l.rt.SoC(), "Ascend910_93") }
func (l *Library) is950() bool  { return strings.HasPrefix(l.rt.SoC(), "Ascend950") }

// HcclCommSymWinRegister registers memory as a window. On Atlas A3 the window is the whole physical memory that is
// mapped at addr, of which the windows of a rank together have at most hcclSymWinMaxMemSizePerRank; a memory counts once.
func (l *Library) HcclCommSymWinRegister(comm *comm, addr rt.Address, size uint64, winHandle rt.Out[rt.Handle], flag uint32) error {
	const call = "HcclCommSymWinRegister"
	start, end := uint64(addr), uint64(addr)+size
	switch {
	case size == 0:
		return refuse(badParameter, "EI0003: %s: size is 0", call)
	case flag != 1:
		return refuse(badParameter, "EI0003: %s: flag is %d; 1 is possible", call, flag)
	case !l.shares() && !l.is950():
		return refuse(notSupported, "EI0003: %s: %s has no windows of memory; Atlas A3 and the 950 have", call, l.rt.SoC())
	case l.shares() && comm.size > 1:
		var ok bool
		if start, end, ok = l.rt.Mapped(uint64(addr), size); !ok {
			return refuse(badParameter, "EI0003: %s: %d bytes at %#x are not in one physical memory that aclrtMapMem has mapped", call, size, addr)
		}
	case size > math.MaxInt64:
		return refuse(badParameter, "EI0003: %s: %d bytes are more than any device has", call, size)
	default:
		if _, err := l.rt.Memory(comm.device).Resolve(start, int64(size)); err != nil {
			return refuse(badParameter, "EI0003: %s: %v", call, err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if comm.left {
		return refuse(badParameter, "EI0003: %s: %v is being destroyed", call, comm)
	}
	taken := end - start
	counted := map[uint64]bool{start: true}
	for _, w := range comm.windows {
		if !counted[w.start] {
			taken += w.end - w.start
		}
		counted[w.start] = true
	}
	if l.shares() && comm.size > 1 && taken > comm.config.windows {
		return refuse(int32(abi.HCCL_E_MEMORY), "EI0007: %s: windows of %d bytes in %v; hcclSymWinMaxMemSizePerRank is %d GB", call, taken, comm, comm.config.windows>>30)
	}
	w := &window{comm: comm, start: start, end: end}
	w.handle = l.rt.Handles.New(rt.WindowKind, w)
	comm.windows = append(comm.windows, w)
	winHandle.Set(w.handle)
	return nil
}

// HcclCommSymWinDeregister ends a window; the memory stays.
func (l *Library) HcclCommSymWinDeregister(winHandle rt.Handle) error {
	const call = "HcclCommSymWinDeregister"
	if winHandle == 0 {
		return null(call, "winHandle")
	}
	w, ok := rt.Lookup[*window](&l.rt.Handles, winHandle)
	if !ok || l.rt.Handles.Delete(winHandle) == nil {
		return refuse(badParameter, "EI0003: %s: %#x is no window that is registered", call, winHandle)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w.comm.windows = slices.DeleteFunc(w.comm.windows, func(o *window) bool { return o == w })
	return nil
}

// HcclCommSymWinGet finds the window in which size bytes at ptr lie, of several the one that was registered first. Without one Atlas A3 reports HCCL_E_NOT_FOUND, as
// always in a communicator of one rank, and the 950 returns a null handle.
func (l *Library) HcclCommSymWinGet(comm *comm, ptr rt.Address, size uint64, winHandle rt.Out[rt.Handle], offset rt.Out[uint64]) error {
	const call = "HcclCommSymWinGet"
	switch {
	case size == 0:
		return refuse(badParameter, "EI0003: %s: size is 0", call)
	case !l.shares() && !l.is950():
		return refuse(notSupported, "EI0003: %s: %s has no windows of memory; Atlas A3 and the 950 have", call, l.rt.SoC())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := uint64(ptr)
	if l.is950() {
		winHandle.Set(0)
		offset.Set(0)
	}
	for _, w := range comm.windows {
		if comm.size > 1 && at >= w.start && at <= w.end && size <= w.end-at {
			winHandle.Set(w.handle)
			offset.Set(at - w.start)
			return nil
		}
	}
	if l.is950() {
		return nil
	}
	return refuse(int32(abi.HCCL_E_NOT_FOUND), "EI0003: %s: %d bytes at %#x are in no window of %v", call, size, at, comm)
}

// HcclCommGetStatus sets status to whether a communicator, by its name, takes collectives. Only the 950 has it.
func (l *Library) HcclCommGetStatus(t *rt.Thread, commID string, status rt.Out[int32]) error {
	const call = "HcclCommGetStatus"
	owner, err := l.ownerOf(t, call)
	if err != nil {
		return err
	}
	l.mu.Lock()
	c := l.names[place{owner, commID}]
	l.mu.Unlock()
	switch {
	case c == nil:
		return refuse(nullPointer, "EI0003: %s: device %d has no communicator named %q", call, owner, commID)
	case !l.is950():
		return refuse(notSupported, "EI0003: %s: %s does not have it; the 950 has", call, l.rt.SoC())
	case c.reason() != nil:
		status.Set(abi.HCCL_COMM_STATUS_INVALID)
	case c.asleep.Load():
		status.Set(abi.HCCL_COMM_STATUS_SUSPENDING)
	default:
		status.Set(abi.HCCL_COMM_STATUS_READY)
	}
	return nil
}

// stateCallback is a C function that learns when communicators resume and end.
type stateCallback struct {
	name               string
	function, argument uintptr
}

// HcclCommRegCommStateCallback registers a function of the process under a name, in place of the last one. HCCL calls
// it on the 950 alone; elsewhere it takes the function and never calls it.
func (l *Library) HcclCommRegCommStateCallback(regName string, cb, args uintptr) error {
	const call, most = "HcclCommRegCommStateCallback", 159
	switch {
	case cb == 0:
		return null(call, "cb")
	case regName == "" || len(regName) > most:
		return refuse(badParameter, "EI0003: %s: regName has %d bytes; 1 to %d are possible", call, len(regName), most)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	one := stateCallback{regName, cb, args}
	if i := slices.IndexFunc(l.states, func(o stateCallback) bool { return o.name == regName }); i >= 0 {
		l.states[i] = one
	} else {
		l.states = append(l.states, one)
	}
	return nil
}

// changed calls the registered functions in the order of their names' registration. The first one that fails ends it.
func (l *Library) changed(comm rt.Handle, phase int32) error {
	if !l.is950() {
		return nil
	}
	l.mu.Lock()
	all := slices.Clone(l.states)
	l.mu.Unlock()
	for _, one := range all {
		if code := rt.CallState(one.function, comm, phase, one.argument); code != 0 {
			return refuse(code, "a callback for the state of communicators returned %d", code)
		}
	}
	return nil
}
