package rt

import (
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goascend/cann/internal/abi"
)

// managed is memory that the host and all devices access under one address (aclrtMemAllocManaged).
// There is one copy of each page, allocated on first use, so nothing migrates between host and
// device. The size does not count against a device's memory.
type managed struct {
	mu    sync.RWMutex
	areas spans
	maps  map[uint64][]byte // by start address
}

// mostManaged is the number of bytes of managed memory that a process may allocate.
const mostManaged = 3 << 40

func (r *Runtime) aclrtMemAllocManaged(t *Thread, ptr Out[Address], size uint64, flag uint32) Code {
	const function = "aclrtMemAllocManaged"
	if size == 0 || size > mostManaged || flag != uint32(abi.ACL_RT_MEM_ATTACH_GLOBAL) {
		return t.Fail(InvalidParam, "EH0001: %s: size %d with flag %d; use 1 to %d bytes and ACL_RT_MEM_ATTACH_GLOBAL (1)", function, size, flag, uint64(mostManaged))
	}
	if c, code := r.Current(t); c == nil {
		return code
	}
	addr, err := r.managed.alloc((size + pageUnit - 1) / pageUnit * pageUnit)
	if err != nil {
		return t.Fail(MemoryAllocation, "EL0004: Failed to allocate memory: %s of %d bytes: %v", function, size, err)
	}
	ptr.Set(Address(addr))
	return 0
}

func (m *managed) alloc(n uint64) (uint64, error) {
	b, err := unix.Mmap(-1, 0, int(n+pageUnit), unix.PROT_READ|unix.PROT_WRITE, anonymous)
	if err != nil {
		return 0, err
	}
	start := (uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) + pageUnit - 1) / pageUnit * pageUnit
	m.mu.Lock()
	defer m.mu.Unlock()
	m.areas.insert(span{start: start, end: start + n, reserved: n})
	if m.maps == nil {
		m.maps = make(map[uint64][]byte)
	}
	m.maps[start] = b
	return start, nil
}

// release frees the area that starts at addr. It returns false when there is no such area.
func (m *managed) release(addr uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.areas.at(addr)
	if i < 0 {
		return false
	}
	m.areas.remove(i)
	_ = unix.Munmap(m.maps[addr]) // the range is our own
	delete(m.maps, addr)
	return true
}

// holds reports whether an address lies in an area.
func (m *managed) holds(addr uint64) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.areas.find(addr) >= 0
}

// resolve returns the host memory behind n bytes; ok is false when the address lies in no area.
func (m *managed) resolve(addr uint64, n int64) (p unsafe.Pointer, ok bool, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	i := m.areas.find(addr)
	if i < 0 {
		return nil, false, nil
	}
	if x := m.areas[i]; uint64(n) > x.end-addr {
		return nil, true, fmt.Errorf("%d bytes at managed address %#x reach %d bytes beyond their allocation of %d bytes", n, addr, addr+uint64(n)-x.end, x.end-x.start)
	}
	return Pointer(addr), true, nil
}

// close frees every area when the process releases its devices.
func (m *managed) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.maps {
		_ = unix.Munmap(b) // the range is our own
	}
	m.areas, m.maps = nil, nil
}
