package rt

import (
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// allocationUnit is the granularity of device memory; addresses are multiples of it.
const allocationUnit = 512

// Memory is the memory of one device. Its device addresses lie in a range without access rights, so
// that host code that dereferences them faults as it does on hardware. The bytes lie at a fixed
// distance, in an anonymous file that peers can map.
type Memory struct {
	device *Device
	base   uint64 // first address
	size   uint64
	delta  uint64 // host address = device address + delta, modulo 2^64
	maps   [2][]byte
	file   *os.File // nil where the machine does not support memory files

	mu   sync.RWMutex
	live spans
	free spans // sorted, never adjacent
	used uint64
	warm uint64 // bytes of free ranges whose pages may still be there
	top  uint64 // no allocation reached beyond

	shadow *sanitize.Shadow // which bytes were written; nil without the memory sanitizer

	shared map[uint64]sharedFile // allocations that other processes can open, by address
}

// newMemory reserves the addresses and maps the bytes; the kernel allocates pages on first access.
func newMemory(d *Device, size int64) (*Memory, error) {
	size = size / allocationUnit * allocationUnit
	addresses, err := unix.Mmap(-1, 0, int(size), unix.PROT_NONE, anonymous)
	if err != nil {
		return nil, fmt.Errorf("EL0003: reserving %d bytes of addresses for device %d: %w", size, d.id, err)
	}
	file, backing, err := mapFile(size)
	if err != nil {
		backing, err = unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, anonymous)
	}
	if err != nil {
		_ = unix.Munmap(addresses)
		return nil, fmt.Errorf("EL0003: reserving %d bytes of memory for device %d (CANN_EMU_MEMORY sets the size): %w", size, d.id, err)
	}
	m := &Memory{device: d, size: uint64(size), maps: [2][]byte{addresses, backing}, file: file}
	m.base = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(addresses))))
	m.delta = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(backing)))) - m.base
	m.top = m.base
	m.free = spans{{start: m.base, end: m.base + m.size}}
	if z := d.rt.sanitizer; z != nil && z.Memory {
		if m.shadow, err = sanitize.NewShadow(m.base, m.size); err != nil {
			m.close()
			return nil, err
		}
	}
	return m, nil
}

// mapFile maps a new zeroed file.
func mapFile(size int64) (*os.File, []byte, error) {
	file, err := newMemoryFile(size)
	if err != nil {
		return nil, nil, err
	}
	b, err := unix.Mmap(int(file.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return file, b, nil
}

// close releases the memory; addresses of it are invalid afterwards.
func (m *Memory) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.shared {
		_ = f.Close()
	}
	m.shared = nil
	sanitize.Unfence(m.bytes(m.base, m.top)) // later mappings at these addresses must not be poisoned
	for _, b := range m.maps {
		_ = unix.Munmap(b) // the ranges are our own
	}
	if m.file != nil {
		_ = m.file.Close() // a peer's mapping stays valid
	}
	for _, x := range m.live {
		m.device.rt.sanitizer.Freed(x.allocation())
	}
	if m.shadow != nil {
		m.shadow.Close()
	}
	m.live, m.free, m.size = nil, nil, 0
}

// Alloc allocates n bytes, first fit. It returns false when no free range is large enough.
func (m *Memory) Alloc(n uint64) (uint64, bool) { return m.allocPages(n, 1) }

// allocPages is like Alloc for memory that consists of whole pages of a size.
func (m *Memory) allocPages(n, page uint64) (uint64, bool) {
	unit := uint64(allocationUnit)
	if n >= hostPage {
		unit = hostPage // so that the allocation can be shared with other processes
	}
	counted := roundUp(roundUp(n, page), unit) // the sanitizer's fence is no memory of the device
	need := max(counted, roundUp(n+sanitize.FenceSize, unit))
	m.mu.Lock()
	defer m.mu.Unlock()
	if n > m.size || counted > m.size-m.used {
		return 0, false
	}
	for i := range m.free {
		f := m.free[i]
		start := roundUp(f.start, unit)
		if start > f.end || f.end-start < need {
			continue
		}
		m.free.remove(i)
		for _, rest := range []span{{start: f.start, end: start}, {start: start + need, end: f.end}} {
			if rest.start < rest.end {
				m.free.insert(rest)
			}
		}
		m.live.insert(span{start: start, end: start + n, reserved: need, counted: counted, serial: m.device.rt.allocations.Add(1)})
		m.used += counted
		m.warm -= min(m.warm, need) // freed ranges are mostly reused first
		m.top = max(m.top, start+need)
		sanitize.Unfence(m.bytes(start, start+n))
		sanitize.Fence(m.bytes(start+n, start+need))
		m.taint(start, n)
		return start, true
	}
	return 0, false
}

// taint poisons fresh memory when the sanitizer follows writes.
func (m *Memory) taint(start, n uint64) {
	if m.shadow == nil {
		return
	}
	m.shadow.Clear(start, n)
	b := m.bytes(start, start+n)
	for i := range b {
		b[i] = sanitize.Poison
	}
}

// Allocation is for the sanitizer, which cannot see what other processes write.
func (m *Memory) Allocation(lo, hi uint64) (sanitize.Allocation, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	i := m.live.find(lo)
	if i < 0 || hi > m.live[i].end {
		return sanitize.Allocation{}, false
	}
	x := m.live[i]
	_, shared := m.shared[x.start]
	return x.allocation(), !shared
}

// Shadow is for the sanitizer.
func (m *Memory) Shadow() *sanitize.Shadow { return m.shadow }

// Allocation returns the serial number of the live allocation of device memory that holds an
// address, 0 when there is none. Each allocation of the process has another one.
func (r *Runtime) Allocation(addr uint64) (serial uint64) {
	m := r.memoryOf(addr)
	if m == nil {
		return 0
	}
	x, _ := m.Allocation(addr, addr)
	return x.Serial
}

func roundUp(n, unit uint64) uint64 { return (n + unit - 1) / unit * unit }

// take counts n bytes as used for memory that lies elsewhere. It returns false when the device has
// fewer bytes left.
func (m *Memory) take(n uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n > m.size-m.used {
		return false
	}
	m.used += n
	return true
}

func (m *Memory) untake(n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= n
}

// Release frees the allocation that starts at addr. It returns false when there is no such
// allocation.
func (m *Memory) Release(addr uint64) bool {
	_, ok := m.discard(addr)
	return ok
}

// discard is Release with what the sanitizer finds.
func (m *Memory) discard(addr uint64) (finding string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.live.at(addr)
	if i < 0 {
		return "", false
	}
	x := m.live.remove(i)
	m.used -= x.counted
	finding = m.device.rt.sanitizer.Freed(x.allocation())
	m.unshare(x)
	sanitize.Fence(m.bytes(x.start, x.start+x.reserved))
	m.free.insert(span{start: x.start, end: x.start + x.reserved})
	m.merge(addr)
	if m.device.rt.Schedule != nil { // hardly a page is touched
		return finding, true
	}
	if m.warm += x.reserved; m.warm > maxWarm {
		for _, f := range m.free {
			m.giveBack(f.start, f.end)
		}
		m.warm = 0
	}
	return finding, true
}

// bytes returns the host memory behind device addresses.
func (m *Memory) bytes(start, end uint64) []byte { return m.maps[1][start-m.base : end-m.base] }

// merge joins the free range at addr with its neighbours.
func (m *Memory) merge(addr uint64) {
	i := m.free.at(addr)
	if i+1 < len(m.free) && m.free[i].end == m.free[i+1].start {
		m.free[i].end = m.free.remove(i + 1).end
	}
	if i > 0 && m.free[i-1].end == m.free[i].start {
		m.free[i-1].end = m.free.remove(i).end
	}
}

// maxWarm is the number of freed bytes that may keep their pages: getting new pages costs more than
// writing them.
const maxWarm = 128 << 20

// giveBack returns the whole pages of a large freed range to the machine.
func (m *Memory) giveBack(start, end uint64) {
	lo, hi := roundUp(start-m.base, pageUnit), (end-m.base)/pageUnit*pageUnit
	if hi <= lo {
		return
	}
	if m.file == nil {
		_ = unix.Madvise(m.maps[1][lo:hi], unix.MADV_DONTNEED)
		return
	}
	// Use fallocate instead of madvise, which an emulated CPU need not pass on. If it fails, the
	// range keeps its pages.
	_ = unix.Fallocate(int(m.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(lo), int64(hi-lo))
}

// File returns the file behind the memory and its size, for another process of this host to map.
// The file is nil when there is none.
func (m *Memory) File() (*os.File, int64) { return m.file, int64(m.size) }

// Offset returns the offset in File of bytes that Resolve returned. It returns false for bytes that
// are not in the file: those of another device, exported by key, or mapped from physical memory.
func (m *Memory) Offset(b []byte) (uint64, bool) {
	addr := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) - m.delta
	if m.file == nil || !m.contains(addr) {
		return 0, false
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if len(m.shared) > 0 {
		i := m.live.find(addr)
		if i < 0 {
			return 0, false
		}
		if _, inFile := m.shared[m.live[i].start]; inFile {
			return 0, false
		}
	}
	return addr - m.base, true
}

// info returns the numbers of free and total bytes.
func (m *Memory) info() (free, total uint64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.size - m.used, m.size
}

// contains reports whether an address belongs to the device, allocated or not.
func (m *Memory) contains(addr uint64) bool { return addr-m.base < m.size }

// Resolve returns the host memory behind n bytes at a device address. The range must lie in one
// live allocation of this device, or of a device to which it has peer access.
func (m *Memory) Resolve(addr uint64, n int64) (unsafe.Pointer, error) {
	if !m.contains(addr) {
		return m.foreign(addr, n)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	i := m.live.find(addr)
	if i < 0 {
		return nil, fmt.Errorf("device address %#x is not allocated; was it freed?", addr)
	}
	if x := m.live[i]; uint64(n) > x.end-addr {
		return nil, fmt.Errorf("%d bytes at device address %#x reach %d bytes beyond their allocation of %d bytes",
			n, addr, addr+uint64(n)-x.end, x.end-x.start)
	}
	return Pointer(addr + m.delta), nil
}

// foreign resolves an address that does not belong to this device.
func (m *Memory) foreign(addr uint64, n int64) (unsafe.Pointer, error) {
	if p, ok, err := m.device.rt.virtual.resolve(m.device, addr, n); ok {
		return p, err
	}
	if p, ok, err := m.device.rt.managed.resolve(addr, n); ok {
		return p, err
	}
	other := m.device.rt.memoryOf(addr)
	switch {
	case other == nil:
		return nil, fmt.Errorf("%#x is no address of device %d; is it host memory?", addr, m.device.id)
	case !m.device.reaches(other.device.id):
		return nil, fmt.Errorf("%#x is memory of device %d, which device %d cannot reach; call aclrtDeviceEnablePeerAccess",
			addr, other.device.id, m.device.id)
	}
	return other.Resolve(addr, n)
}

// deviceOf returns the device to whose memory an address belongs, or nil.
func (r *Runtime) deviceOf(addr uint64) *Device {
	if m := r.memoryOf(addr); m != nil {
		return m.device
	}
	return r.virtual.owner(addr)
}

// memoryOf returns the device memory whose own address range holds addr, or nil.
func (r *Runtime) memoryOf(addr uint64) *Memory {
	for _, d := range r.devices {
		d.mu.Lock()
		m := d.memory
		d.mu.Unlock()
		if m != nil && m.contains(addr) {
			return m
		}
	}
	return nil
}
