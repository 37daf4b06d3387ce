package rt

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/knob"
)

// Device is one emulated die.
type Device struct {
	id       int // index among the devices that the process sees
	physical int // index on the machine
	rt       *Runtime

	mu       sync.Mutex
	refs     int      // of aclrtSetDevice
	primary  *Context // while refs > 0
	contexts map[*Context]struct{}
	memory   *Memory
	peers    map[int]bool // devices whose memory this one may access
	streams  int
	cores    coreLimits
	events   int
	satMode  int32
	alarmed  bool // tasks had errors of memory since the device was reset

	meter  meter
	broken atomic.Uint32 // errors of memory that tasks had
}

// ID returns the device's index among the devices that the process sees.
func (d *Device) ID() int { return d.id }

// retain takes a reference on the primary context and creates the context for the first reference.
func (d *Device) retain() (*Context, *Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.openMemory(); f != nil {
		return nil, f
	}
	if d.refs == 0 {
		d.primary = d.newContext(true)
	}
	d.refs++
	return d.primary, nil
}

// Memory returns the device's memory, or nil while the device is not in use.
func (d *Device) Memory() *Memory {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.memory
}

// openMemory reserves the device's memory on first use. The caller holds d.mu.
func (d *Device) openMemory() *Fault {
	if d.memory != nil {
		return nil
	}
	m, err := newMemory(d, d.rt.config.Memory)
	if err != nil {
		return &Fault{Code: InternalError, Text: err.Error()}
	}
	d.memory = m
	return nil
}

func (r *Runtime) aclrtSetDevice(t *Thread, device *Device) Code {
	knob.Reread()
	c, f := device.retain()
	if f != nil {
		return f.Report(t)
	}
	t.Context = c.handle
	return 0
}

func (r *Runtime) aclrtResetDevice(t *Thread, device *Device) Code { return device.drop(t, false) }

func (r *Runtime) aclrtResetDeviceForce(t *Thread, device *Device) Code {
	return device.drop(t, true)
}

// drop gives up one reference, or all of them with force. When no reference is left, the primary
// context ends: after its queued work, or with force at once.
func (d *Device) drop(t *Thread, force bool) Code {
	d.mu.Lock()
	if d.refs == 0 {
		d.mu.Unlock()
		return t.Fail(ContextReleased, "EE1018: aclrtResetDevice: device %d is not set, or was reset already", d.id)
	}
	d.refs--
	if force {
		d.refs = 0
	}
	if d.refs > 0 {
		d.mu.Unlock()
		return 0
	}
	c := d.primary
	d.primary, d.alarmed = nil, false
	d.mu.Unlock()
	c.destroy(!force)
	if t.Context == c.handle {
		t.Context = 0
	}
	return 0
}

// reset ends every context of the device and releases its memory.
func (d *Device) reset(force bool) {
	d.mu.Lock()
	d.refs, d.primary = 0, nil
	clear(d.peers)
	d.mu.Unlock()
	for _, c := range d.allContexts() {
		c.destroy(!force)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.alarmed = false
	if d.memory != nil {
		d.memory.close()
		d.memory = nil
	}
}

func (r *Runtime) aclrtGetDevice(t *Thread, deviceID Out[int32]) Code {
	c, code := r.Current(t)
	if c != nil {
		deviceID.Set(int32(c.device.id))
	}
	return code
}

func (r *Runtime) aclrtGetDeviceCount(t *Thread, count Out[uint32]) Code {
	if r.err != nil {
		return t.Fail(InternalError, "EH9999: %v", r.err)
	}
	if len(r.devices) == 0 {
		return t.Fail(NoDevice, "EL0001: aclrtGetDeviceCount: no device")
	}
	count.Set(uint32(len(r.devices)))
	return 0
}

func (r *Runtime) aclrtSynchronizeDevice(t *Thread) Code {
	return r.aclrtSynchronizeDeviceWithTimeout(t, -1)
}

// aclrtSynchronizeDeviceWithTimeout waits for every stream of the device of the current context.
func (r *Runtime) aclrtSynchronizeDeviceWithTimeout(t *Thread, timeout int32) Code {
	c, code := r.Current(t)
	if c == nil {
		return code
	}
	w, ok := NewWait(timeout)
	if !ok {
		return t.Fail(ParamInvalid, "EE1003: aclrtSynchronizeDeviceWithTimeout: timeout %d ms; use -1 or a positive number", timeout)
	}
	if r.Captures.onDevice(c.device) {
		return t.Fail(StreamCaptured, "EE1016: aclrtSynchronizeDevice: a stream of the device is capturing")
	}
	var first *Fault
	for _, s := range c.device.allStreams() {
		f := s.Synchronize(w)
		if f != nil && f.Code == StreamSyncTimeout {
			return f.Report(t)
		}
		if first == nil {
			first = f
		}
	}
	if first != nil {
		return first.Report(t)
	}
	return 0
}

// allContexts returns a copy of the list, since contexts lock themselves before their device.
func (d *Device) allContexts() []*Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.contexts))
}

func (d *Device) allStreams() []*Stream {
	var out []*Stream
	for _, c := range d.allContexts() {
		out = append(out, c.allStreams()...)
	}
	return out
}

// aclrtDeviceTaskAbort drops everything queued on the device; blocked calls return 107022.
func (r *Runtime) aclrtDeviceTaskAbort(device *Device, _ uint32) Code {
	for _, s := range device.allStreams() {
		s.abort(DeviceTaskAbort)
	}
	return 0
}

func (r *Runtime) aclrtQueryDeviceStatus(_ *Device, deviceStatus Out[int32]) Code {
	deviceStatus.Set(int32(abi.ACL_RT_DEVICE_STATUS_NORMAL))
	return 0
}

func (r *Runtime) aclrtGetPrimaryCtxState(device *Device, flags *uint32, active Out[int32]) Code {
	device.mu.Lock()
	defer device.mu.Unlock()
	if flags != nil {
		*flags = 0
	}
	active.Set(truth(device.refs > 0))
	return 0
}

// truth converts a condition to C's 1 or 0.
func truth(holds bool) int32 {
	if holds {
		return 1
	}
	return 0
}

func (r *Runtime) aclrtDeviceCanAccessPeer(t *Thread, canAccessPeer Out[int32], device, peerDevice *Device) Code {
	if device == peerDevice {
		return t.Fail(InvalidParam, "EH0001: aclrtDeviceCanAccessPeer: both are device %d", device.id)
	}
	canAccessPeer.Set(1)
	return 0
}

// setPeer enables or disables the current device's access to the memory of another one.
func (r *Runtime) setPeer(t *Thread, peer *Device, open bool) Code {
	c, code := r.Current(t)
	if c == nil {
		return code
	}
	if peer == c.device {
		return t.Fail(InvalidParam, "EH0001: device %d is no peer of itself", peer.id)
	}
	c.device.mu.Lock()
	defer c.device.mu.Unlock()
	c.device.peers[peer.id] = open
	return 0
}

func (r *Runtime) aclrtDeviceEnablePeerAccess(t *Thread, peerDevice *Device, flags uint32) Code {
	if flags != 0 {
		return t.Fail(FeatureUnsupported, "EH0006: aclrtDeviceEnablePeerAccess: flags %d; must be 0", flags)
	}
	return r.setPeer(t, peerDevice, true)
}

func (r *Runtime) aclrtDeviceDisablePeerAccess(t *Thread, peerDevice *Device) Code {
	return r.setPeer(t, peerDevice, false)
}

func (r *Runtime) aclrtDevicePeerAccessStatus(device *Device, peerDeviceID int32, status Out[int32]) Code {
	status.Set(truth(device.reaches(int(peerDeviceID))))
	return 0
}

// reaches reports whether peer access to another device is enabled.
func (d *Device) reaches(peer int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.peers[peer]
}

// aclrtGetDevicesTopo reports that all emulated dies are linked by HCCS.
func (r *Runtime) aclrtGetDevicesTopo(_, _ *Device, value Out[uint64]) Code {
	value.Set(1)
	return 0
}

func (r *Runtime) aclGetDeviceCapability(t *Thread, _ *Device, deviceInfo int32, value Out[int64]) Code {
	chip := r.chip()
	switch int64(deviceInfo) {
	case abi.ACL_DEVICE_INFO_AI_CORE_NUM:
		value.Set(chip.Cube)
	case abi.ACL_DEVICE_INFO_VECTOR_CORE_NUM:
		value.Set(chip.Vector)
	case abi.ACL_DEVICE_INFO_L2_SIZE:
		value.Set(chip.L2)
	default:
		return t.Fail(InvalidParam, "EH0001: aclGetDeviceCapability: information %d is unknown", deviceInfo)
	}
	return 0
}

func (r *Runtime) aclrtGetDeviceInfo(t *Thread, device *Device, attr int32, value Out[int64]) Code {
	chip := r.chip()
	id := int64(device.id)
	values := map[int32]int64{
		1: 6, 101: chip.Cube, 102: chip.Cube, 201: chip.Vector, 301: r.config.Memory, 302: chip.L2,
		401: id, 402: id, 403: 0, 404: 0, 405: 0, 406: 0, 407: 0, 408: 0, 409: 0, 501: 0, 601: chip.Arch,
	}
	v, ok := values[attr]
	if !ok && (attr < 202 || attr > 212) { // these describe SIMT, which the chips do not have
		return t.Fail(ParamInvalid, "EE1003: aclrtGetDeviceInfo: attribute %d is unknown", attr)
	}
	value.Set(v)
	return 0
}

// utilizationRates is aclrtUtilizationInfo.
type utilizationRates struct {
	_      [3]int32 // cube, vector and AI CPU; not emulated
	memory int32
	_      uint64 // must be null
}

func (r *Runtime) aclrtGetDeviceUtilizationRate(device *Device, utilizationInfo Out[utilizationRates]) Code {
	var info utilizationRates
	device.mu.Lock()
	if device.memory != nil {
		free, total := device.memory.info()
		info.memory = int32((total - free) * 100 / total)
	}
	device.mu.Unlock()
	utilizationInfo.Set(info)
	return 0
}

func (r *Runtime) aclrtSetDeviceSatMode(t *Thread, mode int32) Code {
	c, code := r.Current(t)
	if c == nil {
		return code
	}
	if mode != int32(abi.ACL_RT_OVERFLOW_MODE_SATURATION) && mode != int32(abi.ACL_RT_OVERFLOW_MODE_INFNAN) {
		return t.Fail(ParamInvalid, "EE1003: aclrtSetDeviceSatMode: mode %d is unknown", mode)
	}
	c.device.mu.Lock()
	defer c.device.mu.Unlock()
	c.device.satMode = mode
	return 0
}

func (r *Runtime) aclrtGetDeviceSatMode(t *Thread, mode Out[int32]) Code {
	c, code := r.Current(t)
	if c == nil {
		return code
	}
	c.device.mu.Lock()
	defer c.device.mu.Unlock()
	mode.Set(c.device.satMode)
	return 0
}

func (r *Runtime) aclrtDeviceGetStreamPriorityRange(leastPriority, greatestPriority *int32) Code {
	if leastPriority != nil {
		*leastPriority = lowestPriority
	}
	if greatestPriority != nil {
		*greatestPriority = 0
	}
	return 0
}
