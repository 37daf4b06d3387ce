package rt_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

func TestCoreLimits(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s := p.Stream(th)
	vector := uint64(abi.ACL_RT_DEV_RES_VECTOR_CORE)
	limits := func() (device, stream, thread uint64) {
		return p.Out(th, "aclrtGetDeviceResLimit", 2, 0, vector), p.Out(th, "aclrtGetStreamResLimit", 2, s, vector),
			p.Out(th, "aclrtGetResInCurrentThread", 1, vector)
	}
	check := func(device, stream, thread uint64) {
		t.Helper()
		d, st, own := limits()
		require.Equal(t, []uint64{device, stream, thread}, []uint64{d, st, own})
	}
	check(48, 48, 48)
	p.Must(th, "aclrtSetDeviceResLimit", 0, vector, 20)
	check(20, 20, 20)
	p.Must(th, "aclrtSetStreamResLimit", s, vector, 8)
	check(20, 8, 20)
	p.Must(th, "aclrtUseStreamResInCurrentThread", s)
	check(20, 8, 8)
	p.Must(th, "aclrtUnuseStreamResInCurrentThread", s)
	check(20, 8, 20)
	p.Must(th, "aclrtResetStreamResLimit", s)
	p.Must(th, "aclrtResetDeviceResLimit", 0)
	check(48, 48, 48)
	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtSetDeviceResLimit", 0, vector, 49))
	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtSetStreamResLimit", s, 2, 1))
	require.Equal(t, rt.InvalidDevice, p.Call(th, "aclrtSetDeviceResLimit", 9, vector, 1))
}

func TestGroups(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	require.Equal(t, uint64(1), p.Out(th, "aclrtGetGroupCount", 0))
	p.Must(th, "aclrtSetGroup", 0)
	require.Equal(t, int32(abi.ACL_ERROR_RT_GROUP_NOT_CREATE), p.Call(th, "aclrtSetGroup", 1))
	info := p.Functions["aclrtCreateGroupInfo"](th, nil)
	value, size := new(int32), new(uint64)
	detail := func(attr int) int32 {
		return p.Call(th, "aclrtGetGroupInfoDetail", info, 0, uint64(attr), rttest.Address(value), 4, rttest.Address(size))
	}
	require.Equal(t, rt.InvalidParam, detail(abi.ACL_GROUP_AIV_INT), "nothing read yet")
	p.Must(th, "aclrtGetAllGroupInfo", info)
	require.Zero(t, detail(abi.ACL_GROUP_AIV_INT))
	require.Equal(t, int32(48), *value)
	require.Equal(t, uint64(4), *size)
	require.Equal(t, rt.InvalidParam, detail(77))
	p.Must(th, "aclrtDestroyGroupInfo", info)
	require.Equal(t, rt.InvalidParam, p.Call(th, "aclrtDestroyGroupInfo", info))
}

func TestOverflowStatus(t *testing.T) {
	const overflowStatus = 64 // bytes
	p := newProcess(t)
	th := p.Thread(0)
	s := p.Stream(th)
	p.Must(th, "aclrtSetStreamOverflowSwitch", s, 1)
	require.Equal(t, uint64(1), p.Out(th, "aclrtGetStreamOverflowSwitch", 1, s))
	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtSetStreamOverflowSwitch", s, 2))
	status := p.Out(th, "aclrtMalloc", 0, overflowStatus, 0)
	require.Zero(t, p.write(th, status, []byte{1, 2, 3}))
	p.Must(th, "aclrtResetOverflowStatus", s)
	p.Must(th, "aclrtGetOverflowStatus", status, overflowStatus, s)
	p.Must(th, "aclrtSynchronizeStream", s)
	require.Equal(t, make([]byte, overflowStatus), p.read(th, status, overflowStatus))
	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtGetOverflowStatus", status, 8, s))
	p.Must(th, "aclrtFree", status)
}

// TestValueWait checks every comparison with which a stream can wait for a word that another stream
// writes.
func TestValueWait(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	writer, waiter := p.Stream(th), p.Stream(th)
	word := p.Out(th, "aclrtMalloc", 0, 64, 0)
	for flag, c := range map[uint64]struct{ want, not, holds uint64 }{
		0: {want: 10, not: 9, holds: 11},
		1: {want: 10, not: 11, holds: 10},
		2: {want: 4, not: 3, holds: 12},
		3: {want: 1, not: ^uint64(0), holds: 2},
	} {
		p.Must(th, "aclrtValueWrite", word, c.not, 0, writer)
		p.Must(th, "aclrtSynchronizeStream", writer)
		p.Must(th, "aclrtValueWait", word, c.want, flag, waiter)
		require.Equal(t, int32(abi.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT), p.Call(th, "aclrtSynchronizeStreamWithTimeout", waiter, 20), "flag %d", flag)
		p.Must(th, "aclrtValueWrite", word, c.holds, 0, writer)
		p.Must(th, "aclrtSynchronizeStream", waiter)
	}
	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtValueWait", word+4, 0, 0, waiter))
	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtValueWait", word, 0, 4, waiter))
	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtValueWrite", word, 0, 1, waiter))
	p.Must(th, "aclrtFree", word)
}
