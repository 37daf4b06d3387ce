package rt

import (
	"fmt"
	"slices"
	"sort"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goascend/cann/internal/abi"
)

// virtual holds the reserved address ranges of a process, into which physical memory of any device
// can be mapped.
type virtual struct {
	mu     sync.RWMutex
	spaces []*space
}

// space is a reserved range. As with other device memory, the program's addresses have no access
// rights, and the bytes lie at a fixed distance.
type space struct {
	span
	delta    uint64
	maps     [2][]byte
	segments []segment   // sorted, disjoint
	pool     *streamPool // whose addresses these are; nil for a range that the program reserved
}

// segment is a mapping in a space.
type segment struct {
	span
	memory *physical
	access []uint32 // devices that aclrtMemSetAccess allowed
}

const anonymous = unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_NORESERVE

// aclrtReserveMemAddress reserves addresses without memory, in whole huge pages. The alignment is always that of a huge
// page, and the requested address is ignored as a hint.
func (r *Runtime) aclrtReserveMemAddress(t *Thread, virPtr Out[Address], size, alignment uint64, _ uintptr, flags uint64) Code {
	const function = "aclrtReserveMemAddress"
	if size == 0 || flags > 1 {
		return t.Fail(InvalidParam, "EH0001: %s: size %d, flags %d; the size is above 0, flags are 0 or 1", function, size, flags)
	}
	if size > 1<<45 || alignment&(alignment-1) != 0 || alignment > pageUnit {
		return t.Fail(ParamInvalid, "EE1003: %s: size %d, alignment %d; the size is at most 2^45, the alignment a power of two up to %d or 0",
			function, size, alignment, pageUnit)
	}
	size = (size + pageUnit - 1) / pageUnit * pageUnit
	s, err := newSpace(size)
	if err != nil {
		return t.Fail(MemoryAllocation, "EL0003: %s of %d bytes: %v", function, size, err)
	}
	r.virtual.mu.Lock()
	defer r.virtual.mu.Unlock()
	r.virtual.spaces = append(r.virtual.spaces, s)
	virPtr.Set(Address(s.start))
	return 0
}

func (r *Runtime) aclrtReserveMemAddressNoUCMemory(t *Thread, virPtr Out[Address], size, alignment uint64, expectPtr uintptr, flags uint64) Code {
	return r.aclrtReserveMemAddress(t, virPtr, size, alignment, expectPtr, flags)
}

func newSpace(size uint64) (*space, error) {
	addresses, err := unix.Mmap(-1, 0, int(size+pageUnit), unix.PROT_NONE, anonymous)
	if err != nil {
		return nil, err
	}
	backing, err := unix.Mmap(-1, 0, int(size), unix.PROT_NONE, anonymous)
	if err != nil {
		_ = unix.Munmap(addresses)
		return nil, err
	}
	start := (uint64(uintptr(unsafe.Pointer(unsafe.SliceData(addresses)))) + pageUnit - 1) / pageUnit * pageUnit
	return &space{
		span:  span{start: start, end: start + size, reserved: size},
		delta: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(backing)))) - start,
		maps:  [2][]byte{addresses, backing},
	}, nil
}

// space returns the reserved range that holds an address, or nil. The caller holds mu.
func (v *virtual) space(addr uint64) *space {
	for _, s := range v.spaces {
		if addr >= s.start && addr < s.end {
			return s
		}
	}
	return nil
}

// own returns the program's range that holds an address, or nil: a pool's range is not the program's. The caller
// holds mu.
func (v *virtual) own(addr uint64) *space {
	if s := v.space(addr); s != nil && s.pool == nil {
		return s
	}
	return nil
}

// find returns the index of the segment that holds an address, or -1.
func (s *space) find(addr uint64) int {
	return slices.IndexFunc(s.segments, func(g segment) bool { return addr >= g.start && addr < g.end })
}

// owner returns the device whose memory is mapped at an address, or nil.
func (v *virtual) owner(addr uint64) *Device {
	v.mu.RLock()
	defer v.mu.RUnlock()
	s := v.space(addr)
	switch {
	case s == nil:
		return nil
	case s.pool != nil:
		return s.pool.device // whether or not a stream has reached the allocation
	}
	if i := s.find(addr); i >= 0 {
		return s.segments[i].memory.device
	}
	return nil
}

// resolve returns the host memory behind n bytes as a device sees it. The bytes may span several
// mappings. ok is false when the address lies in no reserved range.
func (v *virtual) resolve(d *Device, addr uint64, n int64) (p unsafe.Pointer, ok bool, err error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	s := v.space(addr)
	if s == nil {
		return nil, false, nil
	}
	end, i := addr+uint64(max(n, 1)), s.find(addr)
	for at := addr; at < end; i++ {
		if i < 0 || i == len(s.segments) || s.segments[i].start > at {
			return nil, true, fmt.Errorf("nothing is mapped at device address %#x of a reserved range; %d bytes are needed from %#x on", at, n, addr)
		}
		g := &s.segments[i]
		owner := g.memory.device
		if owner != d && !d.reaches(owner.id) && !slices.Contains(g.access, uint32(d.id)) {
			return nil, true, fmt.Errorf("%#x is memory of device %d, which device %d cannot reach; call aclrtMemSetAccess or aclrtDeviceEnablePeerAccess", at, owner.id, d.id)
		}
		at = g.end
	}
	return Pointer(addr + s.delta), true, nil
}

func (r *Runtime) aclrtReleaseMemAddress(t *Thread, virPtr uintptr) Code {
	const function = "aclrtReleaseMemAddress"
	v := &r.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	i := slices.IndexFunc(v.spaces, func(s *space) bool { return s.start == uint64(virPtr) && s.pool == nil })
	if i < 0 {
		return t.Fail(ParamInvalid, "EE1003: %s: %#x does not start a reserved range", function, virPtr)
	}
	s := v.spaces[i]
	if len(s.segments) > 0 {
		return t.Fail(ParamInvalid, "EE1003: %s: memory is still mapped at %#x; call aclrtUnmapMem", function, s.segments[0].start)
	}
	s.unmap()
	v.spaces = slices.Delete(v.spaces, i, i+1)
	return 0
}

// aclrtMapMem maps a whole physical memory.
func (r *Runtime) aclrtMapMem(t *Thread, virPtr Address, size, offset uint64, handle *physical, flags uint64) Code {
	const function = "aclrtMapMem"
	addr, p := uint64(virPtr), handle
	if size == 0 || flags != 0 {
		return t.Fail(InvalidParam, "EH0001: %s: size %d, flags %d; the size is above 0, flags must be 0", function, size, flags)
	}
	if size != p.file.size || offset != 0 {
		return t.Fail(ParamInvalid, "EE1003: %s: size %d, offset %d; the memory has %d bytes, the offset must be 0", function, size, offset, p.file.size)
	}
	v := &r.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.own(addr)
	end := addr + size
	if s == nil || end > s.end || addr%pageUnit != 0 {
		return t.Fail(ParamInvalid, "EE1003: %s: %d bytes at %#x are not in a reserved range, or not aligned to %d", function, size, addr, pageUnit)
	}
	if at := s.after(addr); at < len(s.segments) && s.segments[at].start < end {
		return t.Fail(ParamInvalid, "EE1003: %s: memory is mapped at %#x already", function, s.segments[at].start)
	}
	if err := s.mount(addr, p); err != nil {
		return t.Fail(MemoryAllocation, "EL0003: %s: %v", function, err)
	}
	return 0
}

// Mapped returns the addresses of the physical memory that is mapped where n bytes lie in a reserved range. ok is false
// if they do not lie in one mapping.
func (r *Runtime) Mapped(addr, n uint64) (start, end uint64, ok bool) {
	v := &r.virtual
	v.mu.RLock()
	defer v.mu.RUnlock()
	s := v.own(addr)
	if s == nil {
		return 0, 0, false
	}
	at := s.after(addr)
	if at == len(s.segments) || addr < s.segments[at].start || n > s.segments[at].end-addr {
		return 0, 0, false
	}
	return s.segments[at].start, s.segments[at].end, true
}

// after returns the index of the first segment that ends behind an address.
func (s *space) after(addr uint64) int {
	return sort.Search(len(s.segments), func(i int) bool { return s.segments[i].end > addr })
}

// mount maps a physical memory at an address where nothing is mapped. The caller holds virtual.mu.
func (s *space) mount(addr uint64, p *physical) error {
	n := p.file.size
	if err := remap(addr+s.delta, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED, int(p.file.Fd()), 0); err != nil {
		return err
	}
	p.maps++
	s.segments = slices.Insert(s.segments, s.after(addr), segment{span: span{start: addr, end: addr + n, reserved: n}, memory: p})
	return nil
}

// unmount ends the mapping of a segment. The caller holds virtual.mu.
func (s *space) unmount(i int) error {
	g := s.segments[i]
	if err := remap(g.start+s.delta, g.reserved, unix.PROT_NONE, anonymous, -1, 0); err != nil {
		return err
	}
	s.segments = slices.Delete(s.segments, i, i+1)
	g.memory.maps--
	g.memory.drop()
	return nil
}

// remap replaces the mapping at host addresses of a space.
func remap(addr, size uint64, protection, kind, fd int, offset uint64) error {
	_, err := unix.MmapPtr(fd, int64(offset), Pointer(addr), uintptr(size), protection, kind|unix.MAP_FIXED)
	return err
}

func (r *Runtime) aclrtUnmapMem(t *Thread, virPtr uintptr) Code {
	const function = "aclrtUnmapMem"
	addr, v := uint64(virPtr), &r.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.own(addr)
	i := -1
	if s != nil {
		i = slices.IndexFunc(s.segments, func(g segment) bool { return g.start == addr })
	}
	if i < 0 {
		return t.Fail(ParamInvalid, "EE1003: %s: no mapping starts at %#x", function, addr)
	}
	if err := s.unmount(i); err != nil {
		return t.Fail(RuntimeInternal, "EE9999: %s: %v", function, err)
	}
	return 0
}

// memAccess is aclrtMemAccessDesc.
type memAccess struct {
	flags        int32
	locationID   uint32
	locationType int32
	_            [12]byte
}

// aclrtMemSetAccess lets devices read and write the mappings in a range.
func (r *Runtime) aclrtMemSetAccess(t *Thread, virPtr Address, size uint64, desc In[memAccess], count uint64) Code {
	const function = "aclrtMemSetAccess"
	addr, v := uint64(virPtr), &r.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.own(addr)
	if s == nil || addr+size > s.end {
		return t.Fail(ParamInvalid, "EE1003: %s: %d bytes at %#x are not in a reserved range", function, size, addr)
	}
	var devices []uint32
	for _, x := range desc.Slice(count) {
		if x.flags != int32(abi.ACL_RT_MEM_ACCESS_FLAGS_READWRITE) || x.locationType != int32(abi.ACL_MEM_LOCATION_TYPE_DEVICE) || int(x.locationID) >= len(r.devices) {
			return t.Fail(ParamInvalid, "EE1003: %s: flags %d for location %d of type %d; reading and writing by a device is possible", function, x.flags, x.locationID, x.locationType)
		}
		devices = append(devices, x.locationID)
	}
	for i := range s.segments {
		if g := &s.segments[i]; g.start < addr+size && g.end > addr {
			g.access = append(g.access, devices...)
		}
	}
	return 0
}

// close ends every range when the process releases its devices.
func (v *virtual) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range v.spaces {
		s.drop()
	}
	v.spaces = nil
}

// drop ends the range and its mappings. The caller holds virtual.mu.
func (s *space) drop() {
	for _, g := range s.segments {
		g.memory.maps--
		g.memory.drop()
	}
	s.unmap()
}

func (s *space) unmap() {
	for _, b := range s.maps {
		_ = unix.Munmap(b) // the ranges are our own
	}
}
