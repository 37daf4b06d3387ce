package rt

import (
	"maps"
	"slices"
	"sync"

	"github.com/goascend/cann/internal/abi"
)

// Device is one emulated die.
type Device struct {
	id       int // among those the process sees
	physical int // of the machine
	rt       *Runtime

	mu       sync.Mutex
	refs     int      // of aclrtSetDevice
	primary  *Context // while refs > 0
	contexts map[*Context]struct{}
	memory   *Memory
	peers    map[int]bool // devices whose memory this one may reach
	streams  int
	cores    coreLimits
	events   int
	satMode  int32
}

func (r *Runtime) deviceFunctions() table {
	return table{
		"aclrtSetDevice":                    r.setDevice,
		"aclrtResetDevice":                  r.resetDevice,
		"aclrtResetDeviceForce":             r.resetDeviceForce,
		"aclrtGetDevice":                    r.getDevice,
		"aclrtGetDeviceCount":               r.getDeviceCount,
		"aclrtSynchronizeDevice":            r.synchronizeDevice,
		"aclrtSynchronizeDeviceWithTimeout": r.synchronizeDeviceWithTimeout,
		"aclrtDeviceTaskAbort":              r.deviceTaskAbort,
		"aclrtQueryDeviceStatus":            r.queryDeviceStatus,
		"aclrtGetPrimaryCtxState":           r.primaryState,
		"aclrtDeviceCanAccessPeer":          r.canAccessPeer,
		"aclrtDeviceEnablePeerAccess":       r.enablePeer,
		"aclrtDeviceDisablePeerAccess":      r.disablePeer,
		"aclrtDevicePeerAccessStatus":       r.peerStatus,
		"aclrtGetDevicesTopo":               r.devicesTopo,
		"aclGetDeviceCapability":            r.deviceCapability,
		"aclrtGetDeviceInfo":                r.deviceInfo,
		"aclrtGetDeviceUtilizationRate":     r.utilization,
		"aclrtSetDeviceSatMode":             r.setSatMode,
		"aclrtGetDeviceSatMode":             r.getSatMode,
		"aclrtDeviceGetStreamPriorityRange": priorityRange,
	}
}

// retain takes a reference on the primary context, which the first one makes.
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

// opened is the device's memory, nil while nobody uses the device.
func (d *Device) opened() *Memory {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.memory
}

// openMemory reserves the device's memory on first use; d.mu is held.
func (d *Device) openMemory() *Fault {
	if d.memory != nil {
		return nil
	}
	m, err := newMemory(d, d.rt.config.Memory)
	if err != nil {
		return &Fault{Code: internalError, Text: err.Error()}
	}
	d.memory = m
	return nil
}

func (r *Runtime) setDevice(t *Thread, a []uint64) uint64 {
	d, code := r.device(t, int32(a[0]))
	if d == nil {
		return code
	}
	c, f := d.retain()
	if f != nil {
		return f.report(t)
	}
	t.Context = c.handle
	return 0
}

func (r *Runtime) resetDevice(t *Thread, a []uint64) uint64 { return r.drop(t, int32(a[0]), false) }

func (r *Runtime) resetDeviceForce(t *Thread, a []uint64) uint64 { return r.drop(t, int32(a[0]), true) }

// drop gives a reference back, or all of them; the last one ends the primary context after
// its work is done.
func (r *Runtime) drop(t *Thread, id int32, force bool) uint64 {
	d, code := r.device(t, id)
	if d == nil {
		return code
	}
	d.mu.Lock()
	if d.refs == 0 {
		d.mu.Unlock()
		return t.Fail(contextReleased, "EE1018: aclrtResetDevice: device %d is not set, or was reset already", id)
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
	d.primary = nil
	d.mu.Unlock()
	c.destroy(!force)
	if t.Context == c.handle {
		t.Context = 0
	}
	return 0
}

// reset ends every context of the device and gives its memory back.
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
	if d.memory != nil {
		d.memory.close()
		d.memory = nil
	}
}

func (r *Runtime) getDevice(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclrtGetDevice", "deviceId")
	}
	c, code := r.current(t)
	if c == nil {
		return code
	}
	Write(a[0], int32(c.device.id))
	return 0
}

func (r *Runtime) getDeviceCount(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclrtGetDeviceCount", "count")
	}
	if r.err != nil {
		return t.Fail(internalError, "EH9999: %v", r.err)
	}
	if len(r.devices) == 0 {
		return t.Fail(noDevice, "EL0001: aclrtGetDeviceCount: no device")
	}
	Write(a[0], uint32(len(r.devices)))
	return 0
}

func (r *Runtime) synchronizeDevice(t *Thread, _ []uint64) uint64 { return r.syncDevice(t, -1) }

func (r *Runtime) synchronizeDeviceWithTimeout(t *Thread, a []uint64) uint64 {
	return r.syncDevice(t, int32(a[0]))
}

// syncDevice waits for every stream of the device of the current context.
func (r *Runtime) syncDevice(t *Thread, milliseconds int32) uint64 {
	c, code := r.current(t)
	if c == nil {
		return code
	}
	w, ok := newWait(milliseconds)
	if !ok {
		return t.Fail(paramInvalid, "EE1003: aclrtSynchronizeDeviceWithTimeout: timeout %d ms; use -1 or a positive number", milliseconds)
	}
	if r.captures.onDevice(c.device) {
		return t.Fail(streamCaptured, "EE1016: aclrtSynchronizeDevice: a stream of the device is capturing")
	}
	var first *Fault
	for _, s := range c.device.allStreams() {
		f := s.synchronize(w)
		if f != nil && f.Code == streamSyncTimeout {
			return f.report(t)
		}
		if first == nil {
			first = f
		}
	}
	if first != nil {
		return first.report(t)
	}
	return 0
}

// allContexts is a copy, since contexts lock themselves before their device.
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

// deviceTaskAbort drops everything queued on the device; blocked calls get 107022.
func (r *Runtime) deviceTaskAbort(t *Thread, a []uint64) uint64 {
	d, code := r.device(t, int32(a[0]))
	if d == nil {
		return code
	}
	for _, s := range d.allStreams() {
		s.abort(deviceTaskAbort)
	}
	return 0
}

func (r *Runtime) queryDeviceStatus(t *Thread, a []uint64) uint64 {
	d, code := r.device(t, int32(a[0]))
	if d == nil {
		return code
	}
	if a[1] == 0 {
		return t.null("aclrtQueryDeviceStatus", "deviceStatus")
	}
	Write(a[1], int32(abi.ACL_RT_DEVICE_STATUS_NORMAL))
	return 0
}

func (r *Runtime) primaryState(t *Thread, a []uint64) uint64 {
	d, code := r.device(t, int32(a[0]))
	if d == nil {
		return code
	}
	if a[2] == 0 {
		return t.null("aclrtGetPrimaryCtxState", "active")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var active int32
	if d.refs > 0 {
		active = 1
	}
	if a[1] != 0 {
		Write[uint32](a[1], 0)
	}
	Write(a[2], active)
	return 0
}

func (r *Runtime) canAccessPeer(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclrtDeviceCanAccessPeer", "canAccessPeer")
	}
	for _, w := range a[1:3] {
		if d, code := r.device(t, int32(w)); d == nil {
			return code
		}
	}
	if int32(a[1]) == int32(a[2]) {
		return t.Fail(invalidParam, "EH0001: aclrtDeviceCanAccessPeer: both are device %d", int32(a[1]))
	}
	Write[int32](a[0], 1)
	return 0
}

// setPeer opens or closes the current device's way to another one's memory.
func (r *Runtime) setPeer(t *Thread, peer int32, open bool) uint64 {
	c, code := r.current(t)
	if c == nil {
		return code
	}
	if p, code := r.device(t, peer); p == nil {
		return code
	}
	if int(peer) == c.device.id {
		return t.Fail(invalidParam, "EH0001: device %d is no peer of itself", peer)
	}
	c.device.mu.Lock()
	defer c.device.mu.Unlock()
	c.device.peers[int(peer)] = open
	return 0
}

func (r *Runtime) enablePeer(t *Thread, a []uint64) uint64 {
	if a[1] != 0 {
		return t.Fail(invalidParam, "EH0001: aclrtDeviceEnablePeerAccess: flags %d; must be 0", a[1])
	}
	return r.setPeer(t, int32(a[0]), true)
}

func (r *Runtime) disablePeer(t *Thread, a []uint64) uint64 { return r.setPeer(t, int32(a[0]), false) }

func (r *Runtime) peerStatus(t *Thread, a []uint64) uint64 {
	d, code := r.device(t, int32(a[0]))
	if d == nil {
		return code
	}
	if a[2] == 0 {
		return t.null("aclrtDevicePeerAccessStatus", "status")
	}
	var status int32
	if d.reaches(int(int32(a[1]))) {
		status = 1
	}
	Write(a[2], status)
	return 0
}

// reaches reports whether peer access to another device is enabled.
func (d *Device) reaches(peer int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.peers[peer]
}

// devicesTopo: the emulated dies are all linked by HCCS.
func (r *Runtime) devicesTopo(t *Thread, a []uint64) uint64 {
	for _, w := range a[:2] {
		if d, code := r.device(t, int32(w)); d == nil {
			return code
		}
	}
	if a[2] == 0 {
		return t.null("aclrtGetDevicesTopo", "value")
	}
	Write[uint64](a[2], 1)
	return 0
}

func (r *Runtime) deviceCapability(t *Thread, a []uint64) uint64 {
	if d, code := r.device(t, int32(a[0])); d == nil {
		return code
	}
	if a[2] == 0 {
		return t.null("aclGetDeviceCapability", "value")
	}
	chip := socs[r.config.SoC]
	var v int64
	switch int64(int32(a[1])) {
	case abi.ACL_DEVICE_INFO_AI_CORE_NUM:
		v = chip.cube
	case abi.ACL_DEVICE_INFO_VECTOR_CORE_NUM:
		v = chip.vector
	case abi.ACL_DEVICE_INFO_L2_SIZE:
		v = chip.l2
	default:
		return t.Fail(invalidParam, "EH0001: aclGetDeviceCapability: information %d is unknown", int32(a[1]))
	}
	Write(a[2], v)
	return 0
}

func (r *Runtime) deviceInfo(t *Thread, a []uint64) uint64 {
	d, code := r.device(t, int32(a[0]))
	if d == nil {
		return code
	}
	if a[2] == 0 {
		return t.null("aclrtGetDeviceInfo", "value")
	}
	chip := socs[r.config.SoC]
	id := int64(d.id)
	values := map[int32]int64{
		1: 6, 101: chip.cube, 102: chip.cube, 201: chip.vector, 301: r.config.Memory, 302: chip.l2,
		401: id, 402: id, 403: 0, 404: 0, 405: 0, 406: 0, 407: 0, 408: 0, 409: 0, 501: 0, 601: 2201,
	}
	attr := int32(a[1])
	v, ok := values[attr]
	if !ok && (attr < 202 || attr > 212) { // these describe SIMT, which the chips lack
		return t.Fail(invalidParam, "EH0001: aclrtGetDeviceInfo: attribute %d is unknown", attr)
	}
	Write(a[2], v)
	return 0
}

// utilizationInfo is aclrtUtilizationInfo.
type utilizationInfo struct {
	_      [3]int32 // cube, vector and AI-CPU, which the emulator does not have
	memory int32
	_      uint64 // must be null
}

func (r *Runtime) utilization(t *Thread, a []uint64) uint64 {
	d, code := r.device(t, int32(a[0]))
	if d == nil {
		return code
	}
	if a[1] == 0 {
		return t.null("aclrtGetDeviceUtilizationRate", "utilizationInfo")
	}
	info := utilizationInfo{}
	d.mu.Lock()
	if d.memory != nil {
		free, total := d.memory.info()
		info.memory = int32((total - free) * 100 / total)
	}
	d.mu.Unlock()
	Write(a[1], info)
	return 0
}

func (r *Runtime) setSatMode(t *Thread, a []uint64) uint64 {
	c, code := r.current(t)
	if c == nil {
		return code
	}
	mode := int32(a[0])
	if mode != int32(abi.ACL_RT_OVERFLOW_MODE_SATURATION) && mode != int32(abi.ACL_RT_OVERFLOW_MODE_INFNAN) {
		return t.Fail(invalidParam, "EH0001: aclrtSetDeviceSatMode: mode %d is unknown", mode)
	}
	c.device.mu.Lock()
	defer c.device.mu.Unlock()
	c.device.satMode = mode
	return 0
}

func (r *Runtime) getSatMode(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclrtGetDeviceSatMode", "mode")
	}
	c, code := r.current(t)
	if c == nil {
		return code
	}
	c.device.mu.Lock()
	defer c.device.mu.Unlock()
	Write(a[0], c.device.satMode)
	return 0
}

func priorityRange(t *Thread, a []uint64) uint64 {
	if a[0] == 0 || a[1] == 0 {
		return t.null("aclrtDeviceGetStreamPriorityRange", "a priority pointer")
	}
	Write[int32](a[0], lowestPriority)
	Write[int32](a[1], 0)
	return 0
}
