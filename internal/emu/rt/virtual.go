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

// virtual are the reserved address ranges of a process, into which physical memory of any
// device is mapped.
type virtual struct {
	mu     sync.RWMutex
	spaces []*space
}

// space is a reserved range. As with other device memory the program gets addresses without
// access rights, and the bytes lie at a fixed distance.
type space struct {
	span
	delta    uint64
	maps     [2][]byte
	segments []segment // sorted, disjoint
}

// segment is a mapping in a space.
type segment struct {
	span
	memory *physical
	access []uint32 // devices that aclrtMemSetAccess let in
}

func (r *Runtime) virtualFunctions() table {
	return table{
		"aclrtReserveMemAddress":           r.reserve,
		"aclrtReserveMemAddressNoUCMemory": r.reserve,
		"aclrtReleaseMemAddress":           r.releaseSpace,
		"aclrtMapMem":                      r.mapMemory,
		"aclrtUnmapMem":                    r.unmapMemory,
		"aclrtMemSetAccess":                r.setAccess,
	}
}

const anonymous = unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_NORESERVE

// reserve takes addresses only. The alignment is that of a huge page whatever is asked, and
// the wished address is a hint that the emulator does not follow.
func (r *Runtime) reserve(t *Thread, a []uint64) uint64 {
	const function = "aclrtReserveMemAddress"
	if a[0] == 0 {
		return t.null(function, "virPtr")
	}
	size, alignment, flags := a[1], a[2], a[4]
	if size == 0 || size%pageUnit != 0 || size > 1<<45 || alignment&(alignment-1) != 0 || alignment > pageUnit || flags > 1 {
		return t.Fail(paramInvalid, "EE1003: %s: size %d, alignment %d, flags %d; the size is a multiple of %d, the alignment a power of two up to that or 0, flags 0 or 1",
			function, size, alignment, flags, pageUnit)
	}
	s, err := newSpace(size)
	if err != nil {
		return t.Fail(memoryAllocation, "EL0003: %s of %d bytes: %v", function, size, err)
	}
	r.virtual.mu.Lock()
	defer r.virtual.mu.Unlock()
	r.virtual.spaces = append(r.virtual.spaces, s)
	Write(a[0], s.start)
	return 0
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

// space finds the reserved range that holds an address, or nil. mu is held.
func (v *virtual) space(addr uint64) *space {
	for _, s := range v.spaces {
		if addr >= s.start && addr < s.end {
			return s
		}
	}
	return nil
}

// find returns the index of the segment that holds an address, or -1.
func (s *space) find(addr uint64) int {
	return slices.IndexFunc(s.segments, func(g segment) bool { return addr >= g.start && addr < g.end })
}

// owner is the device whose memory is mapped at an address, nil when none is.
func (v *virtual) owner(addr uint64) *Device {
	v.mu.RLock()
	defer v.mu.RUnlock()
	s := v.space(addr)
	if s == nil {
		return nil
	}
	if i := s.find(addr); i >= 0 {
		return s.segments[i].memory.device
	}
	return nil
}

// resolve gives the host memory behind n bytes, as a device sees it. They may cross from one
// mapping to the next. ok is false when the address is in no reserved range.
func (v *virtual) resolve(d *Device, addr uint64, n int64) (p unsafe.Pointer, ok bool, err error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	s := v.space(addr)
	if s == nil {
		return nil, false, nil
	}
	end := addr + uint64(max(n, 1))
	for at := addr; at < end; {
		i := s.find(at)
		if i < 0 {
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

func (r *Runtime) releaseSpace(t *Thread, a []uint64) uint64 {
	const function = "aclrtReleaseMemAddress"
	v := &r.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	i := slices.IndexFunc(v.spaces, func(s *space) bool { return s.start == a[0] })
	if i < 0 {
		return t.Fail(paramInvalid, "EE1003: %s: %#x does not start a reserved range", function, a[0])
	}
	s := v.spaces[i]
	if len(s.segments) > 0 {
		return t.Fail(paramInvalid, "EE1003: %s: memory is still mapped at %#x; call aclrtUnmapMem", function, s.segments[0].start)
	}
	s.unmap()
	v.spaces = slices.Delete(v.spaces, i, i+1)
	return 0
}

// mapMemory maps the whole of a physical memory.
func (r *Runtime) mapMemory(t *Thread, a []uint64) uint64 {
	const function = "aclrtMapMem"
	addr, size, offset := a[0], a[1], a[2]
	if addr == 0 {
		return t.null(function, "virPtr")
	}
	p, code := r.physical(t, function, a[3])
	if p == nil {
		return code
	}
	if size != p.file.size || offset != 0 || a[4] != 0 {
		return t.Fail(paramInvalid, "EE1003: %s: size %d, offset %d, flags %d; the memory has %d bytes, offset and flags must be 0", function, size, offset, a[4], p.file.size)
	}
	v := &r.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.space(addr)
	end := addr + size
	if s == nil || end > s.end || addr%pageUnit != 0 {
		return t.Fail(paramInvalid, "EE1003: %s: %d bytes at %#x are not in a reserved range, or not aligned to %d", function, size, addr, pageUnit)
	}
	at := sort.Search(len(s.segments), func(i int) bool { return s.segments[i].end > addr })
	if at < len(s.segments) && s.segments[at].start < end {
		return t.Fail(paramInvalid, "EE1003: %s: memory is mapped at %#x already", function, s.segments[at].start)
	}
	if err := remap(addr+s.delta, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED, int(p.file.Fd()), 0); err != nil {
		return t.Fail(memoryAllocation, "EL0003: %s: %v", function, err)
	}
	p.maps++
	s.segments = slices.Insert(s.segments, at, segment{span: span{start: addr, end: end, reserved: size}, memory: p})
	return 0
}

// remap replaces what is mapped at host addresses of a space.
func remap(addr, size uint64, protection, kind, fd int, offset uint64) error {
	_, err := unix.MmapPtr(fd, int64(offset), Pointer(addr), uintptr(size), protection, kind|unix.MAP_FIXED)
	return err
}

func (r *Runtime) unmapMemory(t *Thread, a []uint64) uint64 {
	const function = "aclrtUnmapMem"
	v := &r.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.space(a[0])
	i := -1
	if s != nil {
		i = slices.IndexFunc(s.segments, func(g segment) bool { return g.start == a[0] })
	}
	if i < 0 {
		return t.Fail(paramInvalid, "EE1003: %s: no mapping starts at %#x", function, a[0])
	}
	g := s.segments[i]
	if err := remap(g.start+s.delta, g.reserved, unix.PROT_NONE, anonymous, -1, 0); err != nil {
		return t.Fail(runtimeInternal, "EE9999: %s: %v", function, err)
	}
	s.segments = slices.Delete(s.segments, i, i+1)
	g.memory.maps--
	g.memory.drop()
	return 0
}

// memAccess is aclrtMemAccessDesc.
type memAccess struct {
	flags        int32
	locationID   uint32
	locationType int32
	_            [12]byte
}

// setAccess lets devices use what is mapped in a range, for reading and writing.
func (r *Runtime) setAccess(t *Thread, a []uint64) uint64 {
	const function = "aclrtMemSetAccess"
	if a[0] == 0 || a[2] == 0 {
		return t.null(function, "virPtr or desc")
	}
	v := &r.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.space(a[0])
	if s == nil || a[0]+a[1] > s.end {
		return t.Fail(paramInvalid, "EE1003: %s: %d bytes at %#x are not in a reserved range", function, a[1], a[0])
	}
	var devices []uint32
	for _, x := range Read[memAccess](a[2], a[3]) {
		if x.flags != int32(abi.ACL_RT_MEM_ACCESS_FLAGS_READWRITE) || x.locationType != int32(abi.ACL_MEM_LOCATION_TYPE_DEVICE) || int(x.locationID) >= len(r.devices) {
			return t.Fail(paramInvalid, "EE1003: %s: flags %d for location %d of type %d; reading and writing by a device is possible", function, x.flags, x.locationID, x.locationType)
		}
		devices = append(devices, x.locationID)
	}
	for i := range s.segments {
		if g := &s.segments[i]; g.start < a[0]+a[1] && g.end > a[0] {
			g.access = append(g.access, devices...)
		}
	}
	return 0
}

// close ends every range, when the process gives its devices up.
func (v *virtual) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range v.spaces {
		s.drop()
	}
	v.spaces = nil
}

// drop ends the range and what is mapped in it. virtual.mu is held.
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
