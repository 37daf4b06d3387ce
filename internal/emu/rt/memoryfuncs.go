package rt

import (
	"github.com/goascend/cann/internal/abi"
)

// allocate allocates device memory of the current context. It adds tail bytes to the size and
// rounds up to 32 bytes, since kernels move whole 32-byte blocks. The driver counts whole pages.
func (r *Runtime) allocate(t *Thread, function string, devPtr Out[Address], size, tail uint64, policy int32) Code {
	if size == 0 || size+tail+1 < size {
		return t.Fail(InvalidParam, "EH0001: %s: size %d; 1 to 2^64-%d are possible", function, size, tail+2)
	}
	c, code := r.Current(t)
	if c == nil {
		return code
	}
	m := c.device.memory
	effective := (size + tail) / 32 * 32
	for _, page := range pagesOf(policy, effective) {
		if addr, ok := m.allocPages(effective, page); ok {
			devPtr.Set(Address(addr))
			return 0
		}
	}
	free, total := m.info()
	return t.Fail(MemoryAllocation, "EL0004: Failed to allocate memory: %s of %d bytes on device %d, which has %d of %d bytes free", function, size, c.device.id, free, total)
}

// Sizes of pages of device memory. An allocation of at most hugeAbove bytes gets small pages unless
// its policy insists.
const (
	hugePage  = 2 << 20
	giantPage = 1 << 30
	hugeAbove = 1 << 20
)

// pagesOf returns the page sizes that a policy tries in turn for n bytes. 1 stands for small pages,
// which the driver shares among allocations.
func pagesOf(policy int32, n uint64) []uint64 {
	switch int64(policy) {
	case abi.ACL_MEM_MALLOC_NORMAL_ONLY, abi.ACL_MEM_MALLOC_NORMAL_ONLY_P2P:
		return []uint64{1}
	case abi.ACL_MEM_MALLOC_HUGE_ONLY, abi.ACL_MEM_MALLOC_HUGE_ONLY_P2P:
		return []uint64{hugePage}
	case abi.ACL_MEM_MALLOC_HUGE1G_ONLY, abi.ACL_MEM_MALLOC_HUGE1G_ONLY_P2P:
		return []uint64{giantPage}
	}
	if n > hugeAbove {
		return []uint64{hugePage, 1}
	}
	return []uint64{1}
}

func (r *Runtime) aclrtMalloc(t *Thread, devPtr Out[Address], size uint64, policy int32) Code {
	return r.allocate(t, "aclrtMalloc", devPtr, size, 63, policy)
}

func (r *Runtime) aclrtMallocCached(t *Thread, devPtr Out[Address], size uint64, policy int32) Code {
	return r.allocate(t, "aclrtMallocCached", devPtr, size, 63, policy)
}

func (r *Runtime) aclrtMallocWithCfg(t *Thread, devPtr Out[Address], size uint64, policy int32, _ uintptr) Code {
	return r.allocate(t, "aclrtMallocWithCfg", devPtr, size, 63, policy)
}

func (r *Runtime) aclrtMallocAlign32(t *Thread, devPtr Out[Address], size uint64, policy int32) Code {
	return r.allocate(t, "aclrtMallocAlign32", devPtr, size, 31, policy)
}

// aclrtFree needs no context and waits for nothing.
func (r *Runtime) aclrtFree(t *Thread, devPtr Address) Code {
	addr := uint64(devPtr)
	if m := r.memoryOf(addr); m != nil {
		if finding, ok := m.discard(addr); finding != "" {
			return (&Fault{Code: VectorException, Text: finding}).Report(t)
		} else if ok {
			return 0
		}
	}
	if !r.managed.release(addr) {
		return t.Fail(ParamInvalid, "EE1003: aclrtFree: %#x is no live device allocation; was it freed already?", addr)
	}
	return 0
}

func (r *Runtime) aclrtFreeWithDevSync(t *Thread, devPtr Address) Code {
	if code := r.aclrtSynchronizeDevice(t); code != 0 {
		return code
	}
	return r.aclrtFree(t, devPtr)
}

// The emulator has no cache that host code must manage.

func (r *Runtime) aclrtMemFlush(uintptr, uint64) Code      { return 0 }
func (r *Runtime) aclrtMemInvalidate(uintptr, uint64) Code { return 0 }

func (r *Runtime) aclrtMallocHost(t *Thread, hostPtr Out[Address], size uint64) Code {
	if size == 0 {
		return t.Fail(InvalidParam, "EH0001: aclrtMallocHost: size is 0")
	}
	if c, code := r.Current(t); c == nil {
		return code
	}
	p := uint64(uintptr(mallocAligned(size)))
	if p == 0 {
		return t.Fail(MemoryAllocation, "EE1013: Failed to allocate memory: aclrtMallocHost of %d bytes", size)
	}
	r.host.add(p, size, true)
	hostPtr.Set(Address(p))
	return 0
}

func (r *Runtime) aclrtMallocHostWithCfg(t *Thread, ptr Out[Address], size uint64, _ uintptr) Code {
	return r.aclrtMallocHost(t, ptr, size)
}

func (r *Runtime) aclrtFreeHost(t *Thread, hostPtr Address) Code {
	if !r.host.remove(uint64(hostPtr), true) {
		return t.Fail(ParamInvalid, "EE1003: aclrtFreeHost: %#x is no live allocation of aclrtMallocHost; was it freed already?", hostPtr)
	}
	Free(Pointer(uint64(hostPtr)))
	return 0
}

const hostPage = 4096

// aclrtHostRegisterV2 pins host memory of the program.
func (r *Runtime) aclrtHostRegisterV2(t *Thread, ptr uintptr, size uint64, _ uint32) Code {
	addr := uint64(ptr)
	if addr == 0 || size == 0 {
		return t.Fail(InvalidParam, "EH0001: aclrtHostRegister: null pointer or size 0")
	}
	if addr%hostPage != 0 || size%hostPage != 0 {
		return t.Fail(ParamInvalid, "EE1003: aclrtHostRegister: address %#x and size %d must be multiples of %d", addr, size, hostPage)
	}
	if c, code := r.Current(t); c == nil {
		return code
	}
	if !r.host.add(addr, size, false) && !r.host.adopt(addr, size) {
		return t.Fail(ParamInvalid, "EE1003: aclrtHostRegister: %d bytes at %#x overlap memory that is pinned already", size, addr)
	}
	return 0
}

// aclrtHostRegister maps host memory for the device. The device address equals the host address,
// since the emulator's copies can access both.
func (r *Runtime) aclrtHostRegister(t *Thread, ptr uintptr, size uint64, _ int32, devPtr Out[Address]) Code {
	code := r.aclrtHostRegisterV2(t, ptr, size, 0)
	if code == 0 {
		devPtr.Set(Address(ptr))
	}
	return code
}

func (r *Runtime) aclrtHostUnregister(t *Thread, ptr Address) Code {
	if !r.host.remove(uint64(ptr), false) {
		return t.Fail(ParamInvalid, "EE1003: aclrtHostUnregister: %#x is not registered", ptr)
	}
	return 0
}

func (r *Runtime) aclrtHostGetDevicePointer(t *Thread, pHost Address, pDevice Out[Address], _ uint32) Code {
	if !r.host.isPinned(uint64(pHost), 1) {
		return t.Fail(ParamInvalid, "EE1003: aclrtHostGetDevicePointer: %#x is not registered", pHost)
	}
	pDevice.Set(pHost)
	return 0
}

func (r *Runtime) aclrtGetMemInfo(t *Thread, attr int32, free, total Out[uint64]) Code {
	c, code := r.Current(t)
	if c == nil {
		return code
	}
	if attr < 0 || attr > 17 {
		return t.Fail(MemoryType, "EE1003: aclrtGetMemInfo: attribute %d is unknown", attr)
	}
	unused, all := c.device.memory.info()
	free.Set(unused)
	total.Set(all)
	return 0
}

// pointerAttributes is aclrtPtrAttributes.
type pointerAttributes struct {
	device   uint32
	kind     int32
	pageSize uint32
	_        [4]uint32
}

func (r *Runtime) aclrtPointerGetAttributes(ptr Address, attributes Out[pointerAttributes]) Code {
	addr := uint64(ptr)
	v := pointerAttributes{kind: int32(abi.ACL_MEM_LOCATION_TYPE_UNREGISTERED), pageSize: hostPage}
	if d := r.deviceOf(addr); d != nil {
		v = pointerAttributes{device: uint32(d.id), kind: int32(abi.ACL_MEM_LOCATION_TYPE_DEVICE), pageSize: 1 << 21}
	} else if r.managed.holds(addr) {
		v.kind, v.pageSize = int32(abi.ACL_MEM_LOCATION_TYPE_MANAGED), 1<<21
	} else if r.host.isPinned(addr, 1) {
		v.kind = int32(abi.ACL_MEM_LOCATION_TYPE_HOST)
	}
	attributes.Set(v)
	return 0
}

func (r *Runtime) aclrtMemGetAddressRange(t *Thread, ptr uintptr, pbase *Address, psize *uint64) Code {
	m := r.memoryOf(uint64(ptr))
	if m == nil {
		return t.Fail(ParamInvalid, "EE1003: aclrtMemGetAddressRange: %#x is no device address", ptr)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	i := m.live.find(uint64(ptr))
	if i < 0 {
		return t.Fail(ParamInvalid, "EE1003: aclrtMemGetAddressRange: %#x is not allocated", ptr)
	}
	if pbase != nil {
		*pbase = Address(m.live[i].start)
	}
	if psize != nil {
		*psize = m.live[i].end - m.live[i].start
	}
	return 0
}
