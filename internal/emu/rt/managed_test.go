package rt

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// Host and devices reach the same bytes, and copies of every kind may name them.
func TestManagedMemory(t *testing.T) {
	const n = 100
	p := newProcess(t)
	th0, th1 := p.thread(0), p.thread(1)
	m := p.out(th0, "aclrtMemAllocManaged", 0, n, 1)
	require.Zero(t, m%pageUnit)
	p.must(th0, "aclrtMemset", m, n, 7, n)
	b := unsafe.Slice((*byte)(Pointer(m)), n)
	assert.EqualValues(t, 7, b[n-1])
	b[0] = 9
	d := p.out(th1, "aclrtMalloc", 0, n, 0)
	s := p.stream(th1)
	host := make([]byte, n)
	for _, kind := range []uint64{uint64(abi.ACL_MEMCPY_HOST_TO_DEVICE), uint64(abi.ACL_MEMCPY_DEVICE_TO_DEVICE)} {
		p.must(th1, "aclrtMemset", d, n, 0, n)
		p.must(th1, "aclrtMemcpy", d, n, m, n, kind)
		p.must(th1, "aclrtMemcpy", address(&host[0]), n, d, n, uint64(abi.ACL_MEMCPY_DEVICE_TO_HOST))
		assert.Equal(t, b, host, "kind %d", kind)
	}
	p.must(th1, "aclrtMemset", d, n, 5, n)
	p.must(th1, "aclrtMemcpyAsync", m, n, d, n, uint64(abi.ACL_MEMCPY_DEVICE_TO_HOST), s)
	p.must(th1, "aclrtSynchronizeStream", s)
	assert.EqualValues(t, 5, b[0])
	p.must(th1, "aclrtMemcpy", address(&host[0]), n, m, n, uint64(abi.ACL_MEMCPY_DEVICE_TO_HOST))
	assert.EqualValues(t, 5, host[0])
	var attributes pointerAttributes
	p.must(th0, "aclrtPointerGetAttributes", m, address(&attributes))
	assert.EqualValues(t, abi.ACL_MEM_LOCATION_TYPE_MANAGED, attributes.kind)
	_, err := p.r.memoryOf(d).Resolve(m+1, pageUnit)
	assert.ErrorContains(t, err, "1 bytes beyond their allocation")
	p.must(th0, "aclrtFree", m)
	assert.EqualValues(t, 107000, p.call(th0, "aclrtFree", m))
	assert.Contains(t, takeText(th0), "freed already")
	_, err = p.r.memoryOf(d).Resolve(m, 1)
	assert.Error(t, err)
	p.must(th1, "aclrtFree", d)
	p.must(th1, "aclrtDestroyStream", s)
	p.out(th0, "aclrtMemAllocManaged", 0, n, 1) // ends with the process

	var word uint64
	for _, x := range [][3]uint64{{address(&word), 0, 1}, {address(&word), n, 0}, {address(&word), mostManaged + 1, 1}, {0, n, 1}} {
		assert.EqualValues(t, 100000, p.call(th0, "aclrtMemAllocManaged", x[0], x[1], x[2]), "%v", x)
	}
	assert.NotZero(t, p.call(new(Thread), "aclrtMemAllocManaged", address(&word), n, 1), "no device")
}

// Memory of aclrtMallocHost may be registered too, once.
func TestRegisteredHostMemory(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	h := p.out(th, "aclrtMallocHost", 0, 2*hostPage)
	p.must(th, "aclrtHostRegisterV2", h, 2*hostPage, 2)
	assert.Equal(t, h, p.out(th, "aclrtHostGetDevicePointer", 1, h, 0))
	assert.EqualValues(t, 107000, p.call(th, "aclrtHostRegisterV2", h, 2*hostPage, 2))
	assert.EqualValues(t, 107000, p.call(th, "aclrtHostRegisterV2", h+hostPage, 2*hostPage, 2), "beyond the allocation")
	p.must(th, "aclrtHostUnregister", h)
	assert.EqualValues(t, 107000, p.call(th, "aclrtHostUnregister", h))
	p.must(th, "aclrtHostRegisterV2", h, hostPage, 2)
	p.must(th, "aclrtFreeHost", h)
	assert.EqualValues(t, 107000, p.call(th, "aclrtHostUnregister", h), "the memory is gone")
}

// Flags of a stream are 32 bits or 64.
func TestStreamFlagWidth(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	c := p.f["aclrtCreateStreamConfigHandle"](th, nil)
	flag := uint64(1)
	for size, code := range map[uint64]int32{4: 0, 8: 0, 2: 100000} {
		assert.Equal(t, code, p.call(th, "aclrtSetStreamConfigOpt", c, uint64(abi.ACL_RT_STREAM_FLAG), address(&flag), size), "%d bytes", size)
	}
	p.must(th, "aclrtDestroyStreamConfigHandle", c)
}
