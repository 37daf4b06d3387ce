package acl

import (
	"context"
	"math"
	"time"

	"github.com/goascend/cann/internal/abi"
)

// Device is an open device: its primary context, and what can be asked of the device. Every
// Device of one number shares the context, the memory cache and the default stream.
type Device struct {
	Context
	rt *Runtime
}

// Device opens a device by its number, 0 to DeviceCount-1 (aclrtSetDevice). The first time
// in a process takes seconds on hardware. Each needs a Close.
func (rt *Runtime) Device(id int) (*Device, error) {
	if err := rt.usable("Runtime.Device"); err != nil {
		return nil, err
	}
	if int(int32(id)) != id {
		return nil, refuse("Runtime.Device", ErrInvalidArgument, "there is no device %d", id)
	}
	c, err := joinChip(id)
	if err != nil {
		return nil, err
	}
	d := &Device{rt: rt}
	d.scope, d.dev = c.primary, d
	d.open(KindDevice, leak{})
	return d, nil
}

// usable refuses calls on a device that is nil, was never opened, or is closed.
func (d *Device) usable(op string) error {
	if d == nil {
		return neverMade(op, KindDevice)
	}
	return d.Context.usable(op)
}

// ID is the device's number; -1 of a Device that Runtime.Device did not open.
func (d *Device) ID() int {
	if d == nil || d.scope == nil {
		return -1
	}
	return d.scope.chip.id
}

// Runtime is the runtime that opened the device.
func (d *Device) Runtime() *Runtime {
	if d == nil {
		return nil
	}
	return d.rt
}

// MemInfo returns the free and the total memory of the device in bytes. The total excludes the
// memory that the system reserves (aclrtGetMemInfo of ACL_HBM_MEM).
func (d *Device) MemInfo() (free, total int, err error) {
	if err := d.usable("Device.MemInfo"); err != nil {
		return 0, 0, err
	}
	f, t, err := aclrtGetMemInfo(d.scope.handle, abi.ACL_HBM_MEM)
	return int(f), int(t), d.scope.wrap(err)
}

// CanAccessPeer reports whether work on this device could use memory of the other one
// (aclrtDeviceCanAccessPeer).
func (d *Device) CanAccessPeer(other *Device) (bool, error) {
	if err := d.usable("Device.CanAccessPeer"); err != nil {
		return false, err
	}
	if err := other.usable("Device.CanAccessPeer"); err != nil {
		return false, err
	}
	can, err := aclrtDeviceCanAccessPeer(d.scope.handle, int32(d.ID()), int32(other.ID()))
	return can != 0, d.scope.wrap(err)
}

// EnablePeerAccess lets work on this device use memory of the other one, not the other way
// round (aclrtDeviceEnablePeerAccess). Once more does no harm.
func (d *Device) EnablePeerAccess(other *Device) error {
	return d.peerAccess("Device.EnablePeerAccess", other, true)
}

// DisablePeerAccess ends EnablePeerAccess (aclrtDeviceDisablePeerAccess).
func (d *Device) DisablePeerAccess(other *Device) error {
	return d.peerAccess("Device.DisablePeerAccess", other, false)
}

func (d *Device) peerAccess(op string, other *Device, on bool) error {
	if err := d.usable(op); err != nil {
		return err
	}
	if err := other.usable(op); err != nil {
		return err
	}
	peer := other.ID()
	if peer >= 64 {
		return d.scope.refuse(op, ErrNotSupported, "device %d: peers are possible among devices 0 to 63", peer)
	}
	peers := &d.scope.chip.peers
	if on {
		if err := aclrtDeviceEnablePeerAccess(d.scope.handle, int32(peer), 0); err != nil {
			return d.scope.fail(err)
		}
		peers.Or(1 << peer)
		return nil
	}
	if err := aclrtDeviceDisablePeerAccess(d.scope.handle, int32(peer)); err != nil {
		return d.scope.fail(err)
	}
	peers.And(^(uint64(1) << peer))
	return nil
}

// Abort stops the work of all streams of the device and drops what is queued, and waits for
// that, at most until ctx ends (aclrtDeviceTaskAbort). Calls under way give ErrAborted. If ctx ends
// first, the device goes on with the abort.
func (d *Device) Abort(ctx context.Context) error {
	const op = "Device.Abort"
	if err := d.usable(op); err != nil {
		return err
	}
	if ctx == nil {
		return noContext(op)
	}
	limit := uint32(0) // none
	if deadline, ok := ctx.Deadline(); ok {
		limit = uint32(min(max(time.Until(deadline).Milliseconds(), 1), math.MaxUint32))
	}
	abort := func() error { return aclrtDeviceTaskAbort(d.scope.handle, int32(d.ID()), limit) }
	early, err := d.scope.chip.aborting.wait(ctx, abort)
	if early {
		return d.scope.interrupted(op, ctx)
	}
	return d.scope.wrap(err)
}

// SaturationMode selects the value that a kernel gives for a result that overflows its dtype.
type SaturationMode int

// Saturation modes, with the values of aclrtFloatOverflowMode.
const (
	Saturate SaturationMode = abi.ACL_RT_OVERFLOW_MODE_SATURATION // the largest finite value
	InfNaN   SaturationMode = abi.ACL_RT_OVERFLOW_MODE_INFNAN     // as IEEE 754 has it; the default
)

// SetSaturation sets the device's mode (aclrtSetDeviceSatMode).
func (d *Device) SetSaturation(m SaturationMode) error {
	if err := d.usable("Device.SetSaturation"); err != nil {
		return err
	}
	return d.scope.wrap(aclrtSetDeviceSatMode(d.scope.handle, aclrtFloatOverflowMode(m)))
}

// Saturation is the device's mode (aclrtGetDeviceSatMode).
func (d *Device) Saturation() (SaturationMode, error) {
	if err := d.usable("Device.Saturation"); err != nil {
		return 0, err
	}
	m, err := aclrtGetDeviceSatMode(d.scope.handle)
	return SaturationMode(m), d.scope.wrap(err)
}

// Core is a kind of AI core.
type Core int

// Kinds of cores, with the values of aclrtDevResLimitType.
const (
	CubeCore   Core = abi.ACL_RT_DEV_RES_CUBE_CORE
	VectorCore Core = abi.ACL_RT_DEV_RES_VECTOR_CORE
)

// SetCoreLimit lets this process use at most n cores of a kind (aclrtSetDeviceResLimit, from
// CANN 8.5).
func (d *Device) SetCoreLimit(c Core, n int) error {
	if err := d.usable("Device.SetCoreLimit"); err != nil {
		return err
	}
	return d.scope.wrap(aclrtSetDeviceResLimit(d.scope.handle, int32(d.ID()), aclrtDevResLimitType(c), uint32(n)))
}

// CoreLimit is how many cores of a kind this process may use (aclrtGetDeviceResLimit, from
// CANN 8.5).
func (d *Device) CoreLimit(c Core) (int, error) {
	if err := d.usable("Device.CoreLimit"); err != nil {
		return 0, err
	}
	n, err := aclrtGetDeviceResLimit(d.scope.handle, int32(d.ID()), aclrtDevResLimitType(c))
	return int(n), d.scope.wrap(err)
}

// ResetCoreLimits undoes SetCoreLimit for all kinds (aclrtResetDeviceResLimit, from CANN
// 8.5).
func (d *Device) ResetCoreLimits() error {
	if err := d.usable("Device.ResetCoreLimits"); err != nil {
		return err
	}
	return d.scope.wrap(aclrtResetDeviceResLimit(d.scope.handle, int32(d.ID())))
}

// SetKernelTimeout limits how long a kernel may run, in whole seconds, rounded up
// (aclrtSetOpExecuteTimeOut); by default about 18 minutes.
func (d *Device) SetKernelTimeout(limit time.Duration) error {
	return d.timeout("Device.SetKernelTimeout", aclrtSetOpExecuteTimeOut, limit)
}

// SetWaitTimeout limits how long a stream waits for an event, in whole seconds, rounded up
// (aclrtSetOpWaitTimeout); 0, the default, is without limit.
func (d *Device) SetWaitTimeout(limit time.Duration) error {
	return d.timeout("Device.SetWaitTimeout", aclrtSetOpWaitTimeout, limit)
}

func (d *Device) timeout(op string, set func(current aclrtContext, seconds uint32) error, limit time.Duration) error {
	if err := d.usable(op); err != nil {
		return err
	}
	if limit < 0 {
		return d.scope.refuse(op, ErrInvalidArgument, "a limit of %v is not possible", limit)
	}
	return d.scope.wrap(set(d.scope.handle, uint32((limit+time.Second-1)/time.Second)))
}
