package acl

import "context"

// The methods of Context are repeated here so that they refuse a nil *Device instead of panicking: Go
// cannot take the Context of a nil Device.

func (d *Device) primary() *Context {
	if d == nil {
		return nil
	}
	return &d.Context
}

// Malloc calls Context.Malloc.
func (d *Device) Malloc(n int) (*Buffer, error) { return d.primary().Malloc(n) }

// MallocDirect calls Context.MallocDirect.
func (d *Device) MallocDirect(n int, p Policy) (*Buffer, error) {
	return d.primary().MallocDirect(n, p)
}

// MallocManaged calls Context.MallocManaged.
func (d *Device) MallocManaged(n int) (*Buffer, error) { return d.primary().MallocManaged(n) }

// MallocPhysical calls Context.MallocPhysical.
func (d *Device) MallocPhysical(n int) (*Physical, error) { return d.primary().MallocPhysical(n) }

// Reserve calls Context.Reserve.
func (d *Device) Reserve(n int) (*AddressRange, error) { return d.primary().Reserve(n) }

// Copy calls Context.Copy.
func (d *Device) Copy(ctx context.Context, dst, src Memory, n int) error {
	return d.primary().Copy(ctx, dst, src, n)
}

// Copy2D calls Context.Copy2D.
func (d *Device) Copy2D(ctx context.Context, dst Memory, dpitch int, src Memory, spitch, width, height int) error {
	return d.primary().Copy2D(ctx, dst, dpitch, src, spitch, width, height)
}

// Memset calls Context.Memset.
func (d *Device) Memset(ctx context.Context, dst *Buffer, value byte, n int) error {
	return d.primary().Memset(ctx, dst, value, n)
}

// NewEvent calls Context.NewEvent.
func (d *Device) NewEvent(options ...EventOption) (*Event, error) {
	return d.primary().NewEvent(options...)
}

// MallocHost calls Context.MallocHost.
func (d *Device) MallocHost(n int) (*HostBuffer, error) { return d.primary().MallocHost(n) }

// NewStream calls Context.NewStream.
func (d *Device) NewStream(options ...StreamOption) (*Stream, error) {
	return d.primary().NewStream(options...)
}

// DefaultStream calls Context.DefaultStream.
func (d *Device) DefaultStream() (*Stream, error) { return d.primary().DefaultStream() }

// Allocator calls Context.Allocator.
func (d *Device) Allocator() *Allocator { return d.primary().Allocator() }

// Close calls Context.Close.
func (d *Device) Close() error { return d.primary().Close() }

// CloseContext calls Context.CloseContext.
func (d *Device) CloseContext(ctx context.Context) error { return d.primary().CloseContext(ctx) }

// Device calls Context.Device.
func (d *Device) Device() *Device { return d.primary().Device() }

// Handle calls Context.Handle.
func (d *Device) Handle() uint64 { return d.primary().Handle() }

// Synchronize calls Context.Synchronize.
func (d *Device) Synchronize(ctx context.Context) error { return d.primary().Synchronize(ctx) }

// Set calls Context.Set.
func (d *Device) Set(s Setting, value int64) error { return d.primary().Set(s, value) }

// Setting calls Context.Setting.
func (d *Device) Setting(s Setting) (int64, error) { return d.primary().Setting(s) }

// Import calls Context.Import.
func (d *Device) Import(key string, n int) (*Buffer, error) { return d.primary().Import(key, n) }
