package acl

import "context"

// Allocator is the cache of a device's memory that Malloc takes from. Freed memory stays
// with the process, so that the next Malloc need not ask the device: sizes are rounded to
// 512 bytes, small blocks are carved out of segments of 2 MiB, medium ones of 20 MiB, and
// large ones get segments of their own, which are cut for blocks of less than a quarter of
// their size only when the device is full. All contexts of a device share it.
type Allocator struct{ x *Context }

// Allocator is the cache of the device's memory.
func (x *Context) Allocator() *Allocator { return &Allocator{x} }

// AllocatorStats counts bytes and calls since the device was opened.
type AllocatorStats struct {
	Allocated     int // bytes of open buffers and workspaces, as asked for
	InUse         int // bytes of these with their rounding
	Waiting       int // bytes of closed buffers that streams may still use
	Kept          int // bytes that captured graphs keep for their replays, besides buffers
	Reserved      int // bytes held from the device
	PeakInUse     int
	PeakReserved  int
	Segments      int
	Mallocs       int // calls that succeeded
	Frees         int
	DeviceMallocs int // calls passed on to the device
	DeviceFrees   int
	Retries       int // times the cache was given back because the device was full
}

// Cached is the number of reserved bytes that are free.
func (s AllocatorStats) Cached() int { return s.Reserved - s.InUse - s.Waiting - s.Kept }

// Stats is a snapshot of the counters.
func (a *Allocator) Stats() AllocatorStats {
	if !a.made() {
		return AllocatorStats{}
	}
	s := a.x.scope.chip.pool.Stats()
	return AllocatorStats{
		Allocated: int(s.Allocated), InUse: int(s.InUse), Waiting: int(s.Waiting), Kept: int(s.Kept), Reserved: int(s.Reserved),
		PeakInUse: int(s.PeakInUse), PeakReserved: int(s.PeakReserved), Segments: s.Segments, Mallocs: int(s.Mallocs),
		Frees: int(s.Frees), DeviceMallocs: int(s.DeviceMallocs), DeviceFrees: int(s.DeviceFrees), Retries: int(s.Retries),
	}
}

// ResetPeaks makes the present figures the peaks.
func (a *Allocator) ResetPeaks() {
	if a.made() {
		a.x.scope.chip.pool.ResetPeaks()
	}
}

// TakePeak returns the largest InUse since the last TakePeak, or since the device was opened: what a phase of a program needs that
// begins and ends with a call. Stats are not changed, and ResetPeaks has no part in it. One part of a program at a time may measure
// phases of a device.
func (a *Allocator) TakePeak() int {
	if !a.made() {
		return 0
	}
	return int(a.x.scope.chip.pool.TakePeak())
}

// made reports whether the allocator is that of a context of this package.
func (a *Allocator) made() bool { return a != nil && a.x != nil && a.x.scope != nil }

// EmptyCache waits for all work of the device, at most until ctx ends, and gives the
// segments without an open buffer back to the device. The error is that of the work, if
// some failed; then nothing is given back.
func (a *Allocator) EmptyCache(ctx context.Context) error {
	const op = "Allocator.EmptyCache"
	if !a.made() {
		return neverMade(op, KindContext)
	}
	if err := a.x.waits(op, ctx); err != nil {
		return err
	}
	return a.x.scope.chip.pool.Trim(func() error { return a.x.Synchronize(ctx) })
}
