package acl

import (
	"errors"
	"slices"
	"sync"
)

// granularity is the size of which physical memory and its place in a range are multiples: a huge page.
const granularity = 2 << 20

// AddressRange is a range of device addresses without memory (aclrtReserveMemAddress). Map puts memory
// into it, so that memory that is added or taken later keeps the addresses of the rest.
type AddressRange struct {
	owned
	scope *scope
	addr  uint64
	size  uint64

	mu   sync.Mutex
	maps []mapping
}

// mapping is a mapped part of a range, for a buffer.
type mapping struct{ start, end uint64 }

// Reserve reserves n bytes of addresses, rounded up to pages of 2 MiB.
func (x *Context) Reserve(n int) (*AddressRange, error) {
	const op = "Context.Reserve"
	if err := x.usable(op); err != nil {
		return nil, err
	}
	sc := x.scope.chip.primary
	if n <= 0 {
		return nil, sc.refuse(op, ErrInvalidArgument, "a range of %d bytes is not possible", n)
	}
	size := (uint64(n) + granularity - 1) / granularity * granularity
	addr, err := aclrtReserveMemAddress(sc.handle, size, 0, 0, hugePages)
	if err != nil {
		return nil, sc.fail(err)
	}
	sc.retain()
	r := &AddressRange{scope: sc, addr: uint64(addr), size: size}
	r.open(KindAddressRange, leak{})
	return r, nil
}

// Physical is memory of a device without an address (aclrtMallocPhysical). It can be mapped into several
// ranges at a time.
type Physical struct {
	owned
	scope  *scope
	handle aclrtDrvMemHandle
	size   uint64
}

// MallocPhysical gives n bytes of memory without an address, rounded up to pages of 2 MiB.
func (x *Context) MallocPhysical(n int) (*Physical, error) {
	const op = "Context.MallocPhysical"
	if err := x.usable(op); err != nil {
		return nil, err
	}
	sc := x.scope.chip.primary
	if n <= 0 {
		return nil, sc.refuse(op, ErrInvalidArgument, "memory of %d bytes is not possible", n)
	}
	size := (uint64(n) + granularity - 1) / granularity * granularity
	handle, err := sc.physical(size)
	if err != nil {
		return nil, sc.outOfMemory(op, size, err)
	}
	sc.retain()
	p := &Physical{scope: sc, handle: handle, size: size}
	p.open(KindPhysical, leak{bytes: size})
	return p, nil
}

// Size is the number of bytes.
func (p *Physical) Size() int {
	if p == nil {
		return 0
	}
	return int(p.size)
}

// Close gives the memory back when it is mapped nowhere any more (aclrtFreePhysical).
func (p *Physical) Close() error {
	if p == nil || !p.close() {
		return nil
	}
	return errors.Join(p.scope.wrap(aclrtFreePhysical(p.scope.handle, p.handle)), p.scope.release())
}

// Address is the first address of the range.
func (r *AddressRange) Address() uint64 {
	if r == nil {
		return 0
	}
	return r.addr
}

// Size is the number of bytes.
func (r *AddressRange) Size() int {
	if r == nil {
		return 0
	}
	return int(r.size)
}

// Map puts memory at an offset of the range, one piece behind the other (aclrtMapMem), and gives a buffer
// of all of it. The offset is a multiple of 2 MiB, and nothing is mapped there yet. Closing the buffer
// waits for the streams that use it and unmaps the memory (aclrtUnmapMem), which stays the Physical's.
func (r *AddressRange) Map(offset int, pieces ...*Physical) (*Buffer, error) {
	const op = "AddressRange.Map"
	switch {
	case r == nil || r.scope == nil:
		return nil, neverMade(op, KindAddressRange)
	case !r.isOpen():
		return nil, r.scope.refuse(op, ErrClosed, "the range is closed")
	}
	size := uint64(0)
	for _, p := range pieces {
		switch {
		case p == nil || p.scope == nil:
			return nil, neverMade(op, KindPhysical)
		case !p.isOpen():
			return nil, r.scope.refuse(op, ErrClosed, "the memory is closed")
		case p.scope != r.scope:
			return nil, r.scope.refuse(op, ErrWrongDevice, "the memory is of device %d", p.scope.chip.id)
		}
		size += p.size
	}
	if offset < 0 || offset%granularity != 0 || size == 0 || uint64(offset)+size > r.size {
		return nil, r.scope.refuse(op, ErrInvalidArgument, "%d bytes at offset %d of a range of %d bytes; the offset is a multiple of %d", size, offset, r.size, granularity)
	}
	m := mapping{uint64(offset), uint64(offset) + size}
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.maps, func(other mapping) bool { return m.start < other.end && other.start < m.end }) {
		return nil, r.scope.refuse(op, ErrBusy, "memory is mapped at offset %d already; close its buffer first", offset)
	}
	home := mapped{r, m, nil}
	for at, i := r.addr+m.start, 0; i < len(pieces); i++ {
		if err := aclrtMapMem(r.scope.handle, uintptr(at), pieces[i].size, 0, pieces[i].handle, 0); err != nil {
			return nil, errors.Join(r.scope.fail(err), home.unmap())
		}
		home.starts = append(home.starts, at)
		at += pieces[i].size
	}
	r.maps = append(r.maps, m)
	return r.scope.chip.newBuffer(&memory{home: home}, r.addr+m.start, size), nil
}

// mapped is the home of memory in a range.
type mapped struct {
	r      *AddressRange
	m      mapping
	starts []uint64
}

// unmap takes the memory out of the range.
func (h mapped) unmap() error {
	var errs []error
	for _, at := range h.starts {
		errs = append(errs, h.r.scope.wrap(aclrtUnmapMem(h.r.scope.handle, uintptr(at))))
	}
	return errors.Join(errs...)
}

// takeBack implements home: CANN does not wait when it unmaps.
func (h mapped) takeBack(m *memory, _ uint64) error {
	errs := []error{waitUsers(m), h.unmap()}
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	h.r.maps = slices.DeleteFunc(h.r.maps, func(x mapping) bool { return x == h.m })
	return errors.Join(errs...)
}

// Close gives the addresses back (aclrtReleaseMemAddress). While buffers of Map are open it is refused
// with ErrBusy.
func (r *AddressRange) Close() error {
	const op = "AddressRange.Close"
	if r == nil || !r.isOpen() {
		return nil
	}
	r.mu.Lock()
	n := len(r.maps)
	r.mu.Unlock()
	if n > 0 {
		return r.scope.refuse(op, ErrBusy, "%d buffers are mapped in the range; close them first", n)
	}
	if !r.close() {
		return nil
	}
	return errors.Join(r.scope.wrap(aclrtReleaseMemAddress(r.scope.handle, uintptr(r.addr))), r.scope.release())
}
