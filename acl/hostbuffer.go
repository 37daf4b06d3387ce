package acl

import (
	"context"
	"unsafe"

	"github.com/goascend/cann/cshim"
)

// HostBuffer is page-locked host memory. Copies between it and a device are asynchronous and
// fast; it belongs to C, so the garbage collector does not move or free it.
type HostBuffer struct {
	owned
	region
}

// MallocHost gives n bytes of page-locked host memory (aclrtMallocHost). It is slow and
// scarce: keep buffers and use them again.
func (x *Context) MallocHost(n int) (*HostBuffer, error) {
	if err := x.usable("Context.MallocHost"); err != nil {
		return nil, err
	}
	sc := x.scope.chip.primary
	if n <= 0 {
		return nil, sc.refuse("Context.MallocHost", ErrInvalidArgument, "a buffer of %d bytes is not possible", n)
	}
	addr, err := aclrtMallocHost(sc.handle, uint64(n))
	if err != nil {
		return nil, sc.hostMemory(err)
	}
	sc.retain()
	h := &HostBuffer{region: region{
		mem:  &memory{scope: sc, home: direct{aclrtFreeHost}, host: true, addr: uint64(addr), size: uint64(n)},
		addr: uint64(addr), size: uint64(n),
	}}
	h.open(KindHostBuffer, leak{bytes: uint64(n)}) // a slice of it may still be in use: it is not released
	return h, nil
}

// hostMemory is fail for a call that allocates page-locked memory. CANN has one code for the memory of
// the device and of the host.
func (sc *scope) hostMemory(err error) *Error {
	e := sc.fail(err)
	if e.group == ErrOutOfMemory {
		e.meaning = "the host has not that much page-locked memory left"
		e.Hint = "close host buffers, use smaller ones, or raise the limit on locked memory (ulimit -l)"
	}
	return e
}

// Close waits for the streams that copy from or to the buffer and frees it (aclrtFreeHost).
// Slices of it must not be touched afterwards. Closing a view does nothing.
func (h *HostBuffer) Close() error { return h.CloseContext(context.Background()) }

// CloseContext is Close that waits at most until ctx ends. Then the buffer is still open, and
// CloseContext can be called again; the error matches ctx.Err().
func (h *HostBuffer) CloseContext(ctx context.Context) error {
	if h == nil { // a view was never open
		return nil
	}
	return h.closeRegion(ctx, "HostBuffer.CloseContext", h.region)
}

// Address is the host address.
func (h *HostBuffer) Address() uint64 {
	if h == nil {
		return 0
	}
	return h.addr
}

// Size is the number of bytes.
func (h *HostBuffer) Size() int {
	if h == nil {
		return 0
	}
	return int(h.size)
}

func (h *HostBuffer) where() *region {
	if h == nil || h.mem == nil {
		return nil
	}
	return &h.region
}

// View is the part of the buffer of size bytes from offset on. It shares the memory and is
// closed with it.
func (h *HostBuffer) View(offset, size int) (*HostBuffer, error) {
	if h == nil || h.mem == nil {
		return nil, neverMade("HostBuffer.View", KindHostBuffer)
	}
	r, err := h.part("HostBuffer.View", offset, size)
	if err != nil {
		return nil, err
	}
	return &HostBuffer{region: r}, nil
}

// Bytes is the buffer's memory; nil after Close.
func (h *HostBuffer) Bytes() []byte {
	if h == nil || h.mem == nil || h.mem.closed.Load() {
		return nil
	}
	return cshim.Bytes(h.addr, int(h.size))
}

// Slice is the buffer's memory as elements of type T, as many as fit; nil after Close.
func Slice[T Element](h *HostBuffer) []T {
	b := h.Bytes()
	var zero T
	n := len(b) / int(unsafe.Sizeof(zero))
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}
