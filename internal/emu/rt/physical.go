package rt

import "github.com/goascend/cann/internal/abi"

// pageUnit is the granularity of physical memory and of its mappings: a huge page.
const pageUnit = 2 << 20

// physical is device memory without an address (aclrtDrvMemHandle), which can be mapped into
// reserved addresses of this process, and opened by another one.
type physical struct {
	device *Device
	prop   physicalProp
	file   sharedFile
	home   *Memory // counts the bytes as used; nil for imported memory
	maps   int     // guarded by virtual.mu, as is freed
	freed  bool
}

// physicalProp is aclrtPhysicalMemProp.
type physicalProp struct {
	handleType, allocationType, attribute int32
	locationID                            uint32
	locationType                          int32
	_                                     uint32
	reserve                               uint64
}

func (r *Runtime) physicalFunctions() table {
	return table{
		"aclrtMallocPhysical":                       r.mallocPhysical,
		"aclrtFreePhysical":                         r.freePhysical,
		"aclrtMemGetAllocationGranularity":          r.granularity,
		"aclrtMemGetAllocationPropertiesFromHandle": r.physicalProperties,
		"aclrtMemExportToShareableHandle":           r.exportPhysical,
		"aclrtMemSetPidToShareableHandle":           r.allowPids,
		"aclrtMemImportFromShareableHandle":         r.importPhysical,
	}
}

// readProp reads properties and the device they name.
func (r *Runtime) readProp(t *Thread, function string, at uint64) (p *physicalProp, d *Device, code uint64) {
	if at == 0 {
		return p, nil, t.null(function, "prop")
	}
	p = &Read[physicalProp](at, 1)[0]
	switch {
	case p.handleType != int32(abi.ACL_MEM_HANDLE_TYPE_NONE) && p.handleType != int32(abi.ACL_MEM_HANDLE_TYPE_POSIX),
		p.allocationType != int32(abi.ACL_MEM_ALLOCATION_TYPE_PINNED),
		p.attribute < int32(abi.ACL_DDR_MEM) || p.attribute > int32(abi.ACL_HBM_MEM_P2P_HUGE1G),
		p.reserve != 0:
		return p, nil, t.Fail(paramInvalid, "EE1003: %s: handle type %d, allocation type %d, attribute %d, reserve %d are not possible together",
			function, p.handleType, p.allocationType, p.attribute, p.reserve)
	case p.locationType != int32(abi.ACL_MEM_LOCATION_TYPE_DEVICE):
		return p, nil, t.Fail(featureNotSupported, "EE1005: %s: the emulator has physical memory on devices only, not at location type %d", function, p.locationType)
	}
	d, code = r.device(t, int32(p.locationID))
	return p, d, code
}

func (r *Runtime) granularity(t *Thread, a []uint64) uint64 {
	const function = "aclrtMemGetAllocationGranularity"
	if a[2] == 0 {
		return t.null(function, "granularity")
	}
	if option := int32(a[1]); option != int32(abi.ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM) && option != int32(abi.ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED) {
		return t.Fail(paramInvalid, "EE1003: %s: option %d is unknown", function, option)
	}
	if _, d, code := r.readProp(t, function, a[0]); d == nil {
		return code
	}
	Write[uint64](a[2], pageUnit)
	return 0
}

func (r *Runtime) mallocPhysical(t *Thread, a []uint64) uint64 {
	const function = "aclrtMallocPhysical"
	if a[0] == 0 {
		return t.null(function, "handle")
	}
	prop, d, code := r.readProp(t, function, a[2])
	if d == nil {
		return code
	}
	n := a[1]
	if n == 0 || n%pageUnit != 0 {
		return t.Fail(paramInvalid, "EE1003: %s: size %d; a multiple of %d is possible", function, n, pageUnit)
	}
	d.mu.Lock()
	f, home := d.openMemory(), d.memory
	d.mu.Unlock()
	if f != nil {
		return f.report(t)
	}
	if !home.take(n) {
		free, total := home.info()
		return t.Fail(memoryAllocation, "EL0004: Failed to allocate memory: %s of %d bytes on device %d, which has %d of %d bytes free", function, n, d.id, free, total)
	}
	file, err := newSharedFile(n)
	if err != nil {
		home.untake(n)
		return t.Fail(memoryAllocation, "EL0004: Failed to allocate memory: %s: %v", function, err)
	}
	p := &physical{device: d, prop: *prop, file: file, home: home}
	Write(a[0], r.Handles.New(PhysicalKind, p))
	return 0
}

func (r *Runtime) physical(t *Thread, function string, h uint64) (*physical, uint64) {
	p, ok := Lookup[*physical](&r.Handles, h)
	if !ok {
		return nil, t.Fail(paramInvalid, "EE1003: %s: %#x is no live physical memory; was it freed?", function, h)
	}
	return p, 0
}

// freePhysical ends the handle; the memory goes when nothing maps it any more.
func (r *Runtime) freePhysical(t *Thread, a []uint64) uint64 {
	p, code := r.physical(t, "aclrtFreePhysical", a[0])
	if p == nil {
		return code
	}
	r.Handles.Delete(a[0])
	r.virtual.free(p)
	return 0
}

// free notes that memory has no handle any more.
func (v *virtual) free(p *physical) {
	v.mu.Lock()
	defer v.mu.Unlock()
	p.freed = true
	p.drop()
}

// drop ends memory that has neither handle nor mapping. virtual.mu is held.
func (p *physical) drop() {
	if !p.freed || p.maps > 0 {
		return
	}
	_ = p.file.Close()
	if p.home != nil {
		p.home.untake(p.file.size)
	}
}

func (r *Runtime) physicalProperties(t *Thread, a []uint64) uint64 {
	const function = "aclrtMemGetAllocationPropertiesFromHandle"
	if a[1] == 0 {
		return t.null(function, "prop")
	}
	p, code := r.physical(t, function, a[0])
	if p == nil {
		return code
	}
	Write(a[1], p.prop)
	return 0
}

// exportPhysical: flag 1 turns the check of process ids off.
func (r *Runtime) exportPhysical(t *Thread, a []uint64) uint64 {
	const function = "aclrtMemExportToShareableHandle"
	if a[3] == 0 {
		return t.null(function, "shareableHandle")
	}
	p, code := r.physical(t, function, a[0])
	if p == nil {
		return code
	}
	if int32(a[1]) != int32(abi.ACL_MEM_HANDLE_TYPE_NONE) || a[2] > 1 {
		return t.Fail(paramInvalid, "EE1003: %s: handle type %d, flags %d", function, int32(a[1]), a[2])
	}
	if p.home == nil {
		return t.Fail(featureNotSupported, "EE1005: %s: imported memory cannot be exported again", function)
	}
	if err := p.file.admit(a[2] == 0, nil); err != nil {
		return t.Fail(runtimeInternal, "EE9999: %s: %v", function, err)
	}
	Write(a[3], p.file.name())
	return 0
}

// exported finds memory of this process by its shareable handle.
func (r *Runtime) exported(h uint64) *physical {
	for _, o := range r.Handles.Of(PhysicalKind) {
		if p := o.(*physical); p.home != nil && p.file.name() == h {
			return p
		}
	}
	return nil
}

func (r *Runtime) allowPids(t *Thread, a []uint64) uint64 {
	const function = "aclrtMemSetPidToShareableHandle"
	if a[1] == 0 {
		return t.null(function, "pid")
	}
	p := r.exported(a[0])
	switch {
	case p == nil:
		return t.Fail(paramInvalid, "EE1003: %s: %#x was not exported by this process", function, a[0])
	case a[2] == 0 || a[2] > maxPids:
		return t.Fail(paramInvalid, "EE1003: %s: %d process ids; 1 to %d are possible", function, a[2], maxPids)
	}
	if err := p.file.admit(true, Read[int32](a[1], a[2])); err != nil {
		return t.Fail(runtimeInternal, "EE9999: %s: %v", function, err)
	}
	return 0
}

func (r *Runtime) importPhysical(t *Thread, a []uint64) uint64 {
	const function = "aclrtMemImportFromShareableHandle"
	if a[2] == 0 {
		return t.null(function, "handle")
	}
	d, code := r.device(t, int32(a[1]))
	if d == nil {
		return code
	}
	file, err := openShared(a[0])
	if err != nil {
		return t.Fail(paramInvalid, "EE1003: %s: %#x: %v", function, a[0], err)
	}
	p := &physical{device: d, file: file, prop: physicalProp{locationID: uint32(d.id), locationType: int32(abi.ACL_MEM_LOCATION_TYPE_DEVICE)}}
	Write(a[2], r.Handles.New(PhysicalKind, p))
	return 0
}
