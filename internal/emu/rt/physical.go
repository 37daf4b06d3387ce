package rt

import "github.com/goascend/cann/internal/abi"

// pageUnit is the granularity of physical memory and of its mappings: a huge page.
const pageUnit = 2 << 20

// physical is device memory without an address (aclrtDrvMemHandle). It can be mapped into reserved
// addresses of this process and opened by other processes.
type physical struct {
	handle Handle
	device *Device
	prop   physicalProp
	file   sharedFile
	home   *Memory // the device memory that the bytes count against; nil for imported memory
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

// check returns the device that the properties name, or refuses properties that are not supported.
func (p *physicalProp) check(r *Runtime, t *Thread, function string) (*Device, Code) {
	switch {
	case p.handleType != int32(abi.ACL_MEM_HANDLE_TYPE_NONE) && p.handleType != int32(abi.ACL_MEM_HANDLE_TYPE_POSIX),
		p.allocationType != int32(abi.ACL_MEM_ALLOCATION_TYPE_PINNED),
		p.attribute < int32(abi.ACL_DDR_MEM) || p.attribute > int32(abi.ACL_HBM_MEM_P2P_HUGE1G),
		p.reserve != 0:
		return nil, t.Fail(ParamInvalid, "EE1003: %s: handle type %d, allocation type %d, attribute %d, reserve %d are not possible together",
			function, p.handleType, p.allocationType, p.attribute, p.reserve)
	case p.locationType != int32(abi.ACL_MEM_LOCATION_TYPE_DEVICE):
		return nil, t.Fail(FeatureNotSupported, "EE1005: %s: the emulator has physical memory on devices only, not at location type %d", function, p.locationType)
	}
	return r.Device(t, int32(p.locationID))
}

func (r *Runtime) aclrtMemGetAllocationGranularity(t *Thread, prop In[physicalProp], option int32, granularity Out[uint64]) Code {
	const function = "aclrtMemGetAllocationGranularity"
	if option != int32(abi.ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM) && option != int32(abi.ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED) {
		return t.Fail(ParamInvalid, "EE1003: %s: option %d is unknown", function, option)
	}
	p := prop.Get()
	if _, code := p.check(r, t, function); code != 0 {
		return code
	}
	granularity.Set(pageUnit)
	return 0
}

func (r *Runtime) aclrtMallocPhysical(t *Thread, handle Out[Handle], size uint64, prop In[physicalProp], _ uint64) Code {
	const function = "aclrtMallocPhysical"
	properties := prop.Get()
	d, code := properties.check(r, t, function)
	if d == nil {
		return code
	}
	if size == 0 || size%pageUnit != 0 {
		return t.Fail(ParamInvalid, "EE1003: %s: size %d; a multiple of %d is possible", function, size, pageUnit)
	}
	d.mu.Lock()
	f, home := d.openMemory(), d.memory
	d.mu.Unlock()
	if f != nil {
		return f.Report(t)
	}
	if !home.take(size) {
		free, total := home.info()
		return t.Fail(MemoryAllocation, "EL0004: Failed to allocate memory: %s of %d bytes on device %d, which has %d of %d bytes free", function, size, d.id, free, total)
	}
	file, err := newSharedFile(size)
	if err != nil {
		home.untake(size)
		return t.Fail(MemoryAllocation, "EL0004: Failed to allocate memory: %s: %v", function, err)
	}
	r.addPhysical(handle, &physical{device: d, prop: properties, file: file, home: home})
	return 0
}

func (r *Runtime) addPhysical(handle Out[Handle], p *physical) {
	p.handle = r.Handles.New(PhysicalKind, p)
	handle.Set(p.handle)
}

//npugen:decode aclrtDrvMemHandle
func (r *Runtime) physical(t *Thread, function string, h Handle) (*physical, Code) {
	p, ok := Lookup[*physical](&r.Handles, h)
	if !ok {
		return nil, t.Fail(ParamInvalid, "EE1003: %s: %#x is no live physical memory; was it freed?", function, h)
	}
	return p, 0
}

// aclrtFreePhysical ends the handle. The memory is released when no mapping is left.
func (r *Runtime) aclrtFreePhysical(handle *physical) Code {
	r.Handles.Delete(handle.handle)
	r.virtual.free(handle)
	return 0
}

// free notes that the handle of the memory is gone.
func (v *virtual) free(p *physical) {
	v.mu.Lock()
	defer v.mu.Unlock()
	p.freed = true
	p.drop()
}

// drop releases memory that has neither a handle nor a mapping. The caller holds virtual.mu.
func (p *physical) drop() {
	if !p.freed || p.maps > 0 {
		return
	}
	_ = p.file.Close()
	if p.home != nil {
		p.home.untake(p.file.size)
	}
}

func (r *Runtime) aclrtMemGetAllocationPropertiesFromHandle(handle *physical, prop Out[physicalProp]) Code {
	prop.Set(handle.prop)
	return 0
}

// aclrtMemExportToShareableHandle: flag 1 turns the check of process ids off.
func (r *Runtime) aclrtMemExportToShareableHandle(t *Thread, handle *physical, handleType int32, flags uint64, shareableHandle Out[uint64]) Code {
	const function = "aclrtMemExportToShareableHandle"
	if handleType != int32(abi.ACL_MEM_HANDLE_TYPE_NONE) || flags > 1 {
		return t.Fail(ParamInvalid, "EE1003: %s: handle type %d, flags %d", function, handleType, flags)
	}
	if handle.home == nil {
		return t.Fail(FeatureNotSupported, "EE1005: %s: imported memory cannot be exported again", function)
	}
	if err := handle.file.admit(flags == 0, nil); err != nil {
		return t.Fail(RuntimeInternal, "EE9999: %s: %v", function, err)
	}
	shareableHandle.Set(handle.file.name())
	return 0
}

// exported returns the memory of this process behind a shareable handle.
func (r *Runtime) exported(h uint64) *physical {
	for _, o := range r.Handles.Of(PhysicalKind) {
		if p := o.(*physical); p.home != nil && p.file.name() == h {
			return p
		}
	}
	return nil
}

func (r *Runtime) aclrtMemSetPidToShareableHandle(t *Thread, shareableHandle uint64, pid In[int32], pidNum uint64) Code {
	const function = "aclrtMemSetPidToShareableHandle"
	p := r.exported(shareableHandle)
	switch {
	case p == nil:
		return t.Fail(ParamInvalid, "EE1003: %s: %#x was not exported by this process", function, shareableHandle)
	case pidNum == 0 || pidNum > maxPids:
		return t.Fail(ParamInvalid, "EE1003: %s: %d process ids; 1 to %d are possible", function, pidNum, maxPids)
	}
	if err := p.file.admit(true, pid.Slice(pidNum)); err != nil {
		return t.Fail(RuntimeInternal, "EE9999: %s: %v", function, err)
	}
	return 0
}

func (r *Runtime) aclrtMemImportFromShareableHandle(t *Thread, shareableHandle uint64, device *Device, handle Out[Handle]) Code {
	file, err := openShared(shareableHandle)
	if err != nil {
		return t.Fail(ParamInvalid, "EE1003: aclrtMemImportFromShareableHandle: %#x: %v", shareableHandle, err)
	}
	prop := physicalProp{locationID: uint32(device.id), locationType: int32(abi.ACL_MEM_LOCATION_TYPE_DEVICE)}
	r.addPhysical(handle, &physical{device: device, file: file, prop: prop})
	return 0
}
