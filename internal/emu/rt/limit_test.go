package rt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

func TestCoreLimits(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	s := p.stream(th)
	vector := uint64(abi.ACL_RT_DEV_RES_VECTOR_CORE)
	limits := func() (device, stream, thread uint64) {
		return p.out(th, "aclrtGetDeviceResLimit", 2, 0, vector), p.out(th, "aclrtGetStreamResLimit", 2, s, vector),
			p.out(th, "aclrtGetResInCurrentThread", 1, vector)
	}
	check := func(device, stream, thread uint64) {
		t.Helper()
		d, st, own := limits()
		require.Equal(t, []uint64{device, stream, thread}, []uint64{d, st, own})
	}
	check(48, 48, 48)
	p.must(th, "aclrtSetDeviceResLimit", 0, vector, 20)
	check(20, 20, 20)
	p.must(th, "aclrtSetStreamResLimit", s, vector, 8)
	check(20, 8, 20)
	p.must(th, "aclrtUseStreamResInCurrentThread", s)
	check(20, 8, 8)
	p.must(th, "aclrtUnuseStreamResInCurrentThread", s)
	check(20, 8, 20)
	p.must(th, "aclrtResetStreamResLimit", s)
	p.must(th, "aclrtResetDeviceResLimit", 0)
	check(48, 48, 48)
	require.Equal(t, paramInvalid, p.call(th, "aclrtSetDeviceResLimit", 0, vector, 49))
	require.Equal(t, paramInvalid, p.call(th, "aclrtSetStreamResLimit", s, 2, 1))
	require.Equal(t, invalidDevice, p.call(th, "aclrtSetDeviceResLimit", 9, vector, 1))
}

func TestGroups(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	require.Equal(t, uint64(1), p.out(th, "aclrtGetGroupCount", 0))
	p.must(th, "aclrtSetGroup", 0)
	require.Equal(t, int32(abi.ACL_ERROR_RT_GROUP_NOT_CREATE), p.call(th, "aclrtSetGroup", 1))
	info := p.f["aclrtCreateGroupInfo"](th, nil)
	value, size := new(int32), new(uint64)
	detail := func(attr int) int32 {
		return p.call(th, "aclrtGetGroupInfoDetail", info, 0, uint64(attr), address(value), 4, address(size))
	}
	require.Equal(t, invalidParam, detail(abi.ACL_GROUP_AIV_INT), "nothing read yet")
	p.must(th, "aclrtGetAllGroupInfo", info)
	require.Zero(t, detail(abi.ACL_GROUP_AIV_INT))
	require.Equal(t, int32(48), *value)
	require.Equal(t, uint64(4), *size)
	require.Equal(t, invalidParam, detail(77))
	p.must(th, "aclrtDestroyGroupInfo", info)
	require.Equal(t, invalidParam, p.call(th, "aclrtDestroyGroupInfo", info))
}

func TestOverflowStatus(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	s := p.stream(th)
	p.must(th, "aclrtSetStreamOverflowSwitch", s, 1)
	require.Equal(t, uint64(1), p.out(th, "aclrtGetStreamOverflowSwitch", 1, s))
	require.Equal(t, paramInvalid, p.call(th, "aclrtSetStreamOverflowSwitch", s, 2))
	status := p.out(th, "aclrtMalloc", 0, overflowStatus, 0)
	require.Zero(t, p.write(th, status, []byte{1, 2, 3}))
	p.must(th, "aclrtResetOverflowStatus", s)
	p.must(th, "aclrtGetOverflowStatus", status, overflowStatus, s)
	p.must(th, "aclrtSynchronizeStream", s)
	require.Equal(t, make([]byte, overflowStatus), p.read(th, status, overflowStatus))
	require.Equal(t, paramInvalid, p.call(th, "aclrtGetOverflowStatus", status, 8, s))
	p.must(th, "aclrtFree", status)
}

// TestValueWait: a stream waits for a word that another one writes, by each comparison.
func TestValueWait(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	writer, waiter := p.stream(th), p.stream(th)
	word := p.out(th, "aclrtMalloc", 0, 64, 0)
	for flag, c := range map[uint64]struct{ want, not, met uint64 }{
		0: {want: 10, not: 9, met: 11},
		1: {want: 10, not: 11, met: 10},
		2: {want: 4, not: 3, met: 12},
		3: {want: 1, not: ^uint64(0), met: 2},
	} {
		p.must(th, "aclrtValueWrite", word, c.not, 0, writer)
		p.must(th, "aclrtSynchronizeStream", writer)
		p.must(th, "aclrtValueWait", word, c.want, flag, waiter)
		require.Equal(t, int32(abi.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT), p.call(th, "aclrtSynchronizeStreamWithTimeout", waiter, 20), "flag %d", flag)
		p.must(th, "aclrtValueWrite", word, c.met, 0, writer)
		p.must(th, "aclrtSynchronizeStream", waiter)
	}
	require.Equal(t, paramInvalid, p.call(th, "aclrtValueWait", word+4, 0, 0, waiter))
	require.Equal(t, paramInvalid, p.call(th, "aclrtValueWait", word, 0, 4, waiter))
	require.Equal(t, paramInvalid, p.call(th, "aclrtValueWrite", word, 0, 1, waiter))
	p.must(th, "aclrtFree", word)
}
