package rt

import (
	"github.com/goascend/cann/internal/abi"
)

func (r *Runtime) memoryFunctions() table {
	return table{
		"aclrtMalloc":               r.malloc("aclrtMalloc", 63),
		"aclrtMallocCached":         r.malloc("aclrtMallocCached", 63),
		"aclrtMallocWithCfg":        r.malloc("aclrtMallocWithCfg", 63),
		"aclrtMallocAlign32":        r.malloc("aclrtMallocAlign32", 31),
		"aclrtMemAllocManaged":      r.allocManaged,
		"aclrtFree":                 r.free,
		"aclrtFreeWithDevSync":      r.freeAfterSync,
		"aclrtMallocHost":           r.mallocHost,
		"aclrtMallocHostWithCfg":    r.mallocHost,
		"aclrtFreeHost":             r.freeHost,
		"aclrtHostRegister":         r.hostRegister,
		"aclrtHostRegisterV2":       r.hostRegisterV2,
		"aclrtHostUnregister":       r.hostUnregister,
		"aclrtHostGetDevicePointer": r.hostDevicePointer,
		"aclrtGetMemInfo":           r.memInfo,
		"aclrtPointerGetAttributes": r.pointerAttributes,
		"aclrtMemGetAddressRange":   r.addressRange,
		"aclrtMemFlush":             success, // the emulator has no cache that host code must manage
		"aclrtMemInvalidate":        success,
	}
}

// success is a function that has nothing to do.
func success(*Thread, []uint64) uint64 { return 0 }

// malloc makes an allocation function: sizes are rounded up to 32 bytes after adding tail,
// since kernels move whole 32-byte blocks.
func (r *Runtime) malloc(function string, tail uint64) Func {
	return func(t *Thread, a []uint64) uint64 {
		if a[0] == 0 {
			return t.null(function, "devPtr")
		}
		n := a[1]
		if n == 0 {
			return t.Fail(invalidParam, "EH0001: %s: size is 0", function)
		}
		c, code := r.current(t)
		if c == nil {
			return code
		}
		m := c.device.memory
		effective := (n + tail) / 32 * 32
		if effective >= n {
			if addr, ok := m.alloc(effective); ok {
				Write(a[0], addr)
				return 0
			}
		}
		free, total := m.info()
		return t.Fail(memoryAllocation, "EL0004: Failed to allocate memory: %s of %d bytes on device %d, which has %d of %d bytes free", function, n, c.device.id, free, total)
	}
}

// free needs no context and waits for nothing.
func (r *Runtime) free(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclrtFree", "devPtr")
	}
	if m := r.memoryOf(a[0]); (m == nil || !m.release(a[0])) && !r.managed.release(a[0]) {
		return t.Fail(paramInvalid, "EE1003: aclrtFree: %#x is no live device allocation; was it freed already?", a[0])
	}
	return 0
}

func (r *Runtime) freeAfterSync(t *Thread, a []uint64) uint64 {
	if code := r.syncDevice(t, -1); code != 0 {
		return code
	}
	return r.free(t, a)
}

func (r *Runtime) mallocHost(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclrtMallocHost", "hostPtr")
	}
	if a[1] == 0 {
		return t.Fail(invalidParam, "EH0001: aclrtMallocHost: size is 0")
	}
	if c, code := r.current(t); c == nil {
		return code
	}
	p := uint64(uintptr(mallocAligned(a[1])))
	if p == 0 {
		return t.Fail(memoryAllocation, "EE1013: Failed to allocate memory: aclrtMallocHost of %d bytes", a[1])
	}
	r.host.add(p, a[1], true)
	Write(a[0], p)
	return 0
}

func (r *Runtime) freeHost(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclrtFreeHost", "hostPtr")
	}
	if !r.host.remove(a[0], true) {
		return t.Fail(paramInvalid, "EE1003: aclrtFreeHost: %#x is no live allocation of aclrtMallocHost; was it freed already?", a[0])
	}
	Free(Pointer(a[0]))
	return 0
}

const hostPage = 4096

func (r *Runtime) register(t *Thread, addr, n uint64) uint64 {
	if addr == 0 || n == 0 {
		return t.Fail(invalidParam, "EH0001: aclrtHostRegister: null pointer or size 0")
	}
	if addr%hostPage != 0 || n%hostPage != 0 {
		return t.Fail(paramInvalid, "EE1003: aclrtHostRegister: address %#x and size %d must be multiples of %d", addr, n, hostPage)
	}
	if c, code := r.current(t); c == nil {
		return code
	}
	if !r.host.add(addr, n, false) && !r.host.adopt(addr, n) {
		return t.Fail(paramInvalid, "EE1003: aclrtHostRegister: %d bytes at %#x overlap memory that is pinned already", n, addr)
	}
	return 0
}

// hostRegister maps host memory for the device. The emulator's copies reach it under its
// own address.
func (r *Runtime) hostRegister(t *Thread, a []uint64) uint64 {
	if a[3] == 0 {
		return t.null("aclrtHostRegister", "devPtr")
	}
	code := r.register(t, a[0], a[1])
	if code == 0 {
		Write(a[3], a[0])
	}
	return code
}

func (r *Runtime) hostRegisterV2(t *Thread, a []uint64) uint64 { return r.register(t, a[0], a[1]) }

func (r *Runtime) hostUnregister(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclrtHostUnregister", "ptr")
	}
	if !r.host.remove(a[0], false) {
		return t.Fail(paramInvalid, "EE1003: aclrtHostUnregister: %#x is not registered", a[0])
	}
	return 0
}

func (r *Runtime) hostDevicePointer(t *Thread, a []uint64) uint64 {
	if a[0] == 0 || a[1] == 0 {
		return t.null("aclrtHostGetDevicePointer", "an argument")
	}
	if !r.host.isPinned(a[0], 1) {
		return t.Fail(paramInvalid, "EE1003: aclrtHostGetDevicePointer: %#x is not registered", a[0])
	}
	Write(a[1], a[0])
	return 0
}

func (r *Runtime) memInfo(t *Thread, a []uint64) uint64 {
	if a[1] == 0 || a[2] == 0 {
		return t.null("aclrtGetMemInfo", "free or total")
	}
	c, code := r.current(t)
	if c == nil {
		return code
	}
	if attr := int32(a[0]); attr < 0 || attr > 17 {
		return t.Fail(invalidParam, "EH0001: aclrtGetMemInfo: attribute %d is unknown", attr)
	}
	free, total := c.device.memory.info()
	Write(a[1], free)
	Write(a[2], total)
	return 0
}

// pointerAttributes is aclrtPtrAttributes.
type pointerAttributes struct {
	device   uint32
	kind     int32
	pageSize uint32
	_        [4]uint32
}

func (r *Runtime) pointerAttributes(t *Thread, a []uint64) uint64 {
	if a[0] == 0 || a[1] == 0 {
		return t.null("aclrtPointerGetAttributes", "an argument")
	}
	v := pointerAttributes{kind: int32(abi.ACL_MEM_LOCATION_TYPE_UNREGISTERED), pageSize: hostPage}
	if d := r.deviceOf(a[0]); d != nil {
		v = pointerAttributes{device: uint32(d.id), kind: int32(abi.ACL_MEM_LOCATION_TYPE_DEVICE), pageSize: 1 << 21}
	} else if r.managed.holds(a[0]) {
		v.kind, v.pageSize = int32(abi.ACL_MEM_LOCATION_TYPE_MANAGED), 1<<21
	} else if r.host.isPinned(a[0], 1) {
		v.kind = int32(abi.ACL_MEM_LOCATION_TYPE_HOST)
	}
	Write(a[1], v)
	return 0
}

func (r *Runtime) addressRange(t *Thread, a []uint64) uint64 {
	m := r.memoryOf(a[0])
	if m == nil {
		return t.Fail(paramInvalid, "EE1003: aclrtMemGetAddressRange: %#x is no device address", a[0])
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	i := m.live.find(a[0])
	if i < 0 {
		return t.Fail(paramInvalid, "EE1003: aclrtMemGetAddressRange: %#x is not allocated", a[0])
	}
	if a[1] != 0 {
		Write(a[1], m.live[i].start)
	}
	if a[2] != 0 {
		Write(a[2], m.live[i].end-m.live[i].start)
	}
	return 0
}
