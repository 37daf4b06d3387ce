package rt_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// TestManagedMemory checks that the host and devices access the same bytes, and that copies of
// every kind accept their addresses.
func TestManagedMemory(t *testing.T) {
	const n = 100
	p := newProcess(t)
	th0, th1 := p.Thread(0), p.Thread(1)
	m := p.Out(th0, "aclrtMemAllocManaged", 0, n, 1)
	require.Zero(t, m%pageUnit)
	p.Must(th0, "aclrtMemset", m, n, 7, n)
	b := unsafe.Slice((*byte)(rt.Pointer(m)), n)
	assert.EqualValues(t, 7, b[n-1])
	b[0] = 9
	d := p.Out(th1, "aclrtMalloc", 0, n, 0)
	s := p.Stream(th1)
	host := make([]byte, n)
	for _, kind := range []uint64{uint64(abi.ACL_MEMCPY_HOST_TO_DEVICE), uint64(abi.ACL_MEMCPY_DEVICE_TO_DEVICE)} {
		p.Must(th1, "aclrtMemset", d, n, 0, n)
		p.Must(th1, "aclrtMemcpy", d, n, m, n, kind)
		p.Must(th1, "aclrtMemcpy", rttest.Address(&host[0]), n, d, n, uint64(abi.ACL_MEMCPY_DEVICE_TO_HOST))
		assert.Equal(t, b, host, "kind %d", kind)
	}
	p.Must(th1, "aclrtMemset", d, n, 5, n)
	p.Must(th1, "aclrtMemcpyAsync", m, n, d, n, uint64(abi.ACL_MEMCPY_DEVICE_TO_HOST), s)
	p.Must(th1, "aclrtSynchronizeStream", s)
	assert.EqualValues(t, 5, b[0])
	p.Must(th1, "aclrtMemcpy", rttest.Address(&host[0]), n, m, n, uint64(abi.ACL_MEMCPY_DEVICE_TO_HOST))
	assert.EqualValues(t, 5, host[0])
	var attributes struct { // aclrtPtrAttributes
		device   uint32
		kind     int32
		pageSize uint32
		_        [4]uint32
	}
	p.Must(th0, "aclrtPointerGetAttributes", m, rttest.Address(&attributes))
	assert.EqualValues(t, abi.ACL_MEM_LOCATION_TYPE_MANAGED, attributes.kind)
	_, err := p.Runtime.MemoryOf(d).Resolve(m+1, pageUnit)
	assert.ErrorContains(t, err, "1 bytes beyond their allocation")
	p.Must(th0, "aclrtFree", m)
	assert.EqualValues(t, 107000, p.Call(th0, "aclrtFree", m))
	assert.Contains(t, rttest.Text(th0), "freed already")
	_, err = p.Runtime.MemoryOf(d).Resolve(m, 1)
	assert.Error(t, err)
	p.Must(th1, "aclrtFree", d)
	p.Must(th1, "aclrtDestroyStream", s)
	p.Out(th0, "aclrtMemAllocManaged", 0, n, 1) // freed at the end of the process

	var word uint64
	for _, x := range [][3]uint64{{rttest.Address(&word), 0, 1}, {rttest.Address(&word), n, 0}, {rttest.Address(&word), rt.MostManaged + 1, 1}, {0, n, 1}} {
		assert.EqualValues(t, 100000, p.Call(th0, "aclrtMemAllocManaged", x[0], x[1], x[2]), "%v", x)
	}
	assert.NotZero(t, p.Call(new(rt.Thread), "aclrtMemAllocManaged", rttest.Address(&word), n, 1), "no device")
}

// TestRegisteredHostMemory checks that memory of aclrtMallocHost can be registered once.
func TestRegisteredHostMemory(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	h := p.Out(th, "aclrtMallocHost", 0, 2*hostPage)
	p.Must(th, "aclrtHostRegisterV2", h, 2*hostPage, 2)
	assert.Equal(t, h, p.Out(th, "aclrtHostGetDevicePointer", 1, h, 0))
	assert.EqualValues(t, 107000, p.Call(th, "aclrtHostRegisterV2", h, 2*hostPage, 2))
	assert.EqualValues(t, 107000, p.Call(th, "aclrtHostRegisterV2", h+hostPage, 2*hostPage, 2), "beyond the allocation")
	p.Must(th, "aclrtHostUnregister", h)
	assert.EqualValues(t, 107000, p.Call(th, "aclrtHostUnregister", h))
	p.Must(th, "aclrtHostRegisterV2", h, hostPage, 2)
	p.Must(th, "aclrtFreeHost", h)
	assert.EqualValues(t, 107000, p.Call(th, "aclrtHostUnregister", h), "the memory is gone")
}

// TestStreamFlagWidth checks that the flags of a stream can have 32 or 64 bits.
func TestStreamFlagWidth(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	c := p.Functions["aclrtCreateStreamConfigHandle"](th, nil)
	flag := uint64(1)
	for size, code := range map[uint64]int32{4: 0, 8: 0, 2: 100000} {
		assert.Equal(t, code, p.Call(th, "aclrtSetStreamConfigOpt", c, uint64(abi.ACL_RT_STREAM_FLAG), rttest.Address(&flag), size), "%d bytes", size)
	}
	p.Must(th, "aclrtDestroyStreamConfigHandle", c)
}
