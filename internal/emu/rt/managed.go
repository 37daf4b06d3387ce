package rt

import (
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goascend/cann/internal/abi"
)

// managed is memory that the host and all devices reach under one address
// (aclrtMemAllocManaged). Pages exist once and come with their first use, so that nothing moves
// between host and device; sizes do not count against a device's memory.
type managed struct {
	mu    sync.RWMutex
	areas spans
	maps  map[uint64][]byte // by the start of an area
}

// mostManaged is how much a process may have.
const mostManaged = 3 << 40

func (r *Runtime) allocManaged(t *Thread, a []uint64) uint64 {
	const function = "aclrtMemAllocManaged"
	if a[0] == 0 {
		return t.null(function, "ptr")
	}
	if a[1] == 0 || a[1] > mostManaged || uint32(a[2]) != uint32(abi.ACL_RT_MEM_ATTACH_GLOBAL) {
		return t.Fail(invalidParam, "EH0001: %s: size %d with flag %d; use 1 to %d bytes and ACL_RT_MEM_ATTACH_GLOBAL (1)", function, a[1], uint32(a[2]), uint64(mostManaged))
	}
	if c, code := r.current(t); c == nil {
		return code
	}
	addr, err := r.managed.alloc((a[1] + pageUnit - 1) / pageUnit * pageUnit)
	if err != nil {
		return t.Fail(memoryAllocation, "EL0004: Failed to allocate memory: %s of %d bytes: %v", function, a[1], err)
	}
	Write(a[0], addr)
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

// release ends the area that starts at addr, if there is one.
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

// holds reports whether an address is of an area.
func (m *managed) holds(addr uint64) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.areas.find(addr) >= 0
}

// resolve gives the memory behind n bytes; ok is false when the address is of no area.
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

// close ends every area, when the process gives its devices up.
func (m *managed) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.maps {
		_ = unix.Munmap(b) // the range is our own
	}
	m.areas, m.maps = nil, nil
}
