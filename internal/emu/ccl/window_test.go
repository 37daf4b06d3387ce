package ccl_test

import (
	"bytes"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// pair makes two ranks of one process on a chip.
func pair(tb testing.TB, soc string) []*rank {
	n := machineOf(tb, soc, "")
	all := []*rank{newRank(tb, n, 0), newRank(tb, n, 1)}
	comms := make([]uint64, 2)
	all[0].must("HcclCommInitAll", 2, address(&[]int32{0, 1}[0]), address(&comms[0]))
	for i, r := range all {
		r.comm = comms[i]
		tb.Cleanup(r.close)
	}
	return all
}

// TestWindows: which memory may be a window depends on the chip, and a window is found again by its memory.
func TestWindows(t *testing.T) {
	const page = 2 << 20
	const badParameter, null, notSupported, memory, notFound = abi.HCCL_E_PARA, abi.HCCL_E_PTR, abi.HCCL_E_NOT_SUPPORT, abi.HCCL_E_MEMORY, abi.HCCL_E_NOT_FOUND
	window, offset := new(uint64), new(uint64)

	a2 := pair(t, "Ascend910B1")[0]
	p := a2.upload(make([]byte, 64))
	assert.EqualValues(t, notSupported, a2.call("HcclCommSymWinRegister", a2.comm, p, 64, address(window), 1))
	assert.EqualValues(t, notSupported, a2.call("HcclCommSymWinGet", a2.comm, p, 64, address(window), address(offset)))
	a2.free(p)

	a3 := pair(t, "Ascend910_9391")[0]
	register := func(addr, size uint64, flag uint64) int32 {
		return a3.call("HcclCommSymWinRegister", a3.comm, addr, size, address(window), flag)
	}
	get := func(addr, size uint64) int32 {
		return a3.call("HcclCommSymWinGet", a3.comm, addr, size, address(window), address(offset))
	}
	plain := a3.upload(make([]byte, 64))
	assert.EqualValues(t, badParameter, register(plain, 64, 1), "no reserved addresses")
	a3.free(plain)
	base, physical := new(uint64), new(uint64)
	a3.must("aclrtReserveMemAddress", address(base), 4*page, 0, 0, 1)
	assert.EqualValues(t, badParameter, register(*base, page, 1), "nothing is mapped")
	property := struct {
		handle, kind, attribute, id, place uint32
		_                                  [12]byte
	}{attribute: abi.ACL_HBM_MEM_HUGE, place: abi.ACL_MEM_LOCATION_TYPE_DEVICE}
	a3.must("aclrtMallocPhysical", address(physical), 2*page, address(&property), 0)
	a3.must("aclrtMapMem", *base, 2*page, 0, *physical, 0)
	assert.EqualValues(t, badParameter, register(*base, 0, 1))
	assert.EqualValues(t, badParameter, register(*base, page, 0), "flag 0 is reserved")
	assert.EqualValues(t, badParameter, register(*base, 3*page, 1), "more than is mapped")
	assert.EqualValues(t, null, register(0, page, 1))
	assert.EqualValues(t, null, a3.call("HcclCommSymWinRegister", a3.comm, *base, page, 0, 1))
	assert.EqualValues(t, notFound, get(*base, 1))
	require.Zero(t, register(*base+64, page, 1), a3.text())
	first := *window
	for _, at := range []uint64{0, 64, 2*page - 8} { // the window is the whole memory
		require.Zero(t, get(*base+at, 8), a3.text())
		assert.Equal(t, []uint64{first, at}, []uint64{*window, *offset})
	}
	assert.EqualValues(t, notFound, get(*base+2*page-8, 9))
	assert.EqualValues(t, null, a3.call("HcclCommSymWinDeregister", 0))
	a3.must("HcclCommSymWinDeregister", first)
	assert.EqualValues(t, badParameter, a3.call("HcclCommSymWinDeregister", first), "twice")
	assert.EqualValues(t, notFound, get(*base, 8))
	require.Zero(t, register(*base, page, 1))
	first = *window
	require.Zero(t, register(*base, page, 1), "memory that has a window counts once")
	last := *window
	require.Zero(t, get(*base, 8))
	assert.Equal(t, first, *window, "the first of two")
	a3.close()
	assert.EqualValues(t, badParameter, a3.call("HcclCommSymWinDeregister", last), "the end of the communicator ends its windows")
	a3.must("aclrtUnmapMem", *base)
	a3.must("aclrtFreePhysical", *physical)
	a3.must("aclrtReleaseMemAddress", *base)

	next := pair(t, "Ascend950")[0]
	p = next.upload(make([]byte, 64))
	require.Zero(t, next.call("HcclCommSymWinRegister", next.comm, p, 32, address(window), 1), next.text())
	first = *window
	require.Zero(t, next.call("HcclCommSymWinGet", next.comm, p+8, 24, address(window), address(offset)))
	assert.Equal(t, []uint64{first, 8}, []uint64{*window, *offset})
	require.Zero(t, next.call("HcclCommSymWinGet", next.comm, p+8, 25, address(window), address(offset)), "the 950 answers with no window")
	assert.Equal(t, []uint64{0, 0}, []uint64{*window, *offset})
	next.must("HcclCommSymWinDeregister", first)
	for name, memory := range map[string][2]uint64{
		"more than is allocated": {p, 1 << 20}, "more than there is": {p, 1<<63 + 64}, "host memory": {address(window), 8},
	} {
		assert.EqualValues(t, badParameter, next.call("HcclCommSymWinRegister", next.comm, memory[0], memory[1], address(window), 1), name)
	}
	next.free(p)
	assert.EqualValues(t, badParameter, next.call("HcclCommSymWinRegister", next.comm, p, 32, address(window), 1), "memory that was freed")
}

// TestWindowsEnd: a communicator may be destroyed while other threads end its windows and register new ones.
func TestWindowsEnd(t *testing.T) {
	r := pair(t, "Ascend950")[0]
	p := r.upload(make([]byte, 64))
	comm := r.comm
	var wg sync.WaitGroup
	for range 4 {
		thread, window := *r, new(uint64) // before close changes r
		wg.Go(func() {
			thread.t = new(rt.Thread)
			thread.must("aclrtSetDevice", uint64(r.id))
			for thread.call("HcclCommSymWinRegister", comm, p, 32, address(window), 1) == 0 {
				thread.call("HcclCommSymWinDeregister", *window)
			}
		})
	}
	r.close()
	wg.Wait()
	r.free(p)
}

// TestStates: the 950 has the state of a communicator and calls back when it changes; other chips take the callback
// and never call it.
func TestStates(t *testing.T) {
	for soc, has := range map[string]bool{"Ascend910B1": false, "Ascend910_9391": false, "Ascend950": true} {
		all := pair(t, soc)
		r := all[0]
		name, status, state := [128]byte{}, new(int32), new(rttest.State)
		r.must("HcclGetCommName", r.comm, address(&name))
		get := func() int32 { return r.call("HcclCommGetStatus", address(&name), address(status)) }
		unknown := append([]byte("unknown"), 0)
		assert.EqualValues(t, abi.HCCL_E_PTR, r.call("HcclCommGetStatus", address(&unknown[0]), address(status)), soc)
		assert.EqualValues(t, abi.HCCL_E_PTR, r.call("HcclCommGetStatus", 0, address(status)), soc)
		service := append([]byte("service"), 0)
		register := func(name *byte, function uint64) int32 {
			return r.call("HcclCommRegCommStateCallback", address(name), function, address(state))
		}
		long := append(bytes.Repeat([]byte("n"), 160), 0)
		assert.EqualValues(t, abi.HCCL_E_PTR, register(&service[0], 0))
		assert.EqualValues(t, abi.HCCL_E_PARA, register(&service[7], rttest.NoteState()), "no name")
		assert.EqualValues(t, abi.HCCL_E_PARA, register(&long[0], rttest.NoteState()))
		require.Zero(t, register(&long[1], rttest.NoteState()))
		require.Zero(t, register(&long[1], rttest.NoteState()), "in place of the last one")
		if !has {
			assert.EqualValues(t, abi.HCCL_E_NOT_SUPPORT, get(), soc)
			r.must("HcclCommSuspend", r.comm)
			r.must("HcclCommResume", r.comm)
			r.close()
			assert.Zero(t, state.Calls, soc)
			continue
		}
		require.Zero(t, get())
		assert.EqualValues(t, abi.HCCL_COMM_STATUS_READY, *status)
		r.must("HcclCommSuspend", r.comm)
		require.Zero(t, get())
		assert.EqualValues(t, abi.HCCL_COMM_STATUS_SUSPENDING, *status)
		assert.Zero(t, state.Calls)
		r.must("HcclCommResume", r.comm)
		comm := r.comm
		assert.Equal(t, rttest.State{Object: comm, State: abi.HCCL_COMM_STATE_PHASE_RESUME_POST, Calls: 1}, *state)
		state.Answer = 7
		assert.EqualValues(t, 7, r.call("HcclCommDestroy", comm), "the callback's code")
		r.comm = 0
		assert.Equal(t, rttest.State{Object: comm, State: abi.HCCL_COMM_STATE_PHASE_DESTROY_POST, Calls: 2, Answer: 7}, *state)
		state.Answer = 0
		all[1].close()
	}
}
