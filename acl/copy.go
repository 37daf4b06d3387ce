package acl

import (
	"context"
	"fmt"
	"runtime"

	"github.com/goascend/cann/internal/abi"
)

// copyKind is the aclrtMemcpyKind of a direction.
func copyKind(dst, src *region) aclrtMemcpyKind {
	switch {
	case dst.mem.host && src.mem.host:
		return abi.ACL_MEMCPY_HOST_TO_HOST
	case dst.mem.host:
		return abi.ACL_MEMCPY_DEVICE_TO_HOST
	case src.mem.host:
		return abi.ACL_MEMCPY_HOST_TO_DEVICE
	}
	return abi.ACL_MEMCPY_DEVICE_TO_DEVICE
}

// Copy queues a copy of n bytes between device memory, or device memory and page-locked host
// memory (aclrtMemcpyAsync). Both must stay unchanged until the stream has passed it. Memory
// of another device needs EnablePeerAccess. Go slices go through CopyToDevice and
// CopyFromDevice.
func (s *Stream) Copy(dst, src Memory, n int) error {
	if observed() {
		return s.watch(CallCopy, "Stream.Copy", n, func() error { return s.copy(dst, src, n) })
	}
	return s.copy(dst, src, n)
}

func (s *Stream) copy(dst, src Memory, n int) error {
	const op = "Stream.Copy"
	if !s.ready() {
		return s.usable(op)
	}
	q := s.q
	if dst == nil || src == nil || n < 0 {
		return q.refuse(op, ErrInvalidArgument, "a copy of %d bytes, or of a nil buffer, is not possible", n)
	}
	to, from := dst.where(), src.where()
	for _, r := range [...]*region{to, from} {
		if r != nil && r.known(q, uint64(n)) {
			continue
		}
		if err := q.accept(op, r, uint64(n)); err != nil {
			return err
		}
	}
	if to.mem.host && from.mem.host {
		return q.refuse(op, ErrNotSupported, "a stream does not copy from host to host; use copy on the bytes")
	}
	if n == 0 {
		return nil
	}
	if err := aclrtMemcpyAsync(q.scope.handle, uintptr(to.addr), to.size, uintptr(from.addr), uint64(n), copyKind(to, from), q.handle); err != nil {
		return q.fault(err)
	}
	q.feed()
	runtime.KeepAlive(to)
	runtime.KeepAlive(from)
	runtime.KeepAlive(s)
	return nil
}

// Copy2D queues a copy of rows (aclrtMemcpy2dAsync): height rows of width bytes, which are
// dpitch bytes apart in dst and spitch in src. Width is at most 5 000 000, height 5 242 880.
func (s *Stream) Copy2D(dst Memory, dpitch int, src Memory, spitch, width, height int) error {
	if observed() {
		return s.watch(CallCopy, "Stream.Copy2D", width*height, func() error { return s.copyRows(dst, dpitch, src, spitch, width, height) })
	}
	return s.copyRows(dst, dpitch, src, spitch, width, height)
}

func (s *Stream) copyRows(dst Memory, dpitch int, src Memory, spitch, width, height int) error {
	const op = "Stream.Copy2D"
	if err := s.usable(op); err != nil {
		return err
	}
	q := s.q
	to, from, err := q.scope.rows(op, dst, dpitch, src, spitch, width, height)
	if err != nil || width == 0 || height == 0 {
		return err
	}
	to.mem.use(q)
	from.mem.use(q)
	if err := aclrtMemcpy2dAsync(q.scope.handle, uintptr(to.addr), uint64(dpitch), uintptr(from.addr), uint64(spitch),
		uint64(width), uint64(height), copyKind(to, from), q.handle); err != nil {
		return q.fault(err)
	}
	q.feed()
	runtime.KeepAlive(to)
	runtime.KeepAlive(from)
	runtime.KeepAlive(s)
	return nil
}

// rows checks the arguments of a two-dimensional copy.
func (sc *scope) rows(op string, dst Memory, dpitch int, src Memory, spitch, width, height int) (to, from *region, err error) {
	const widest = 1 << 40
	switch {
	case dst == nil || src == nil:
		return nil, nil, sc.refuse(op, ErrInvalidArgument, "a buffer is nil")
	case width < 0 || height < 0 || dpitch < width || spitch < width || int64(max(dpitch, spitch)) > widest || int64(height) > widest/int64(max(1, dpitch, spitch)):
		return nil, nil, sc.refuse(op, ErrInvalidArgument, "%d rows of %d bytes, %d and %d bytes apart, are not possible", height, width, dpitch, spitch)
	}
	to, from = dst.where(), src.where()
	if to != nil && from != nil && to.mem.host && from.mem.host {
		return nil, nil, sc.refuse(op, ErrNotSupported, "rows are not copied from host to host")
	}
	for _, e := range []struct {
		r     *region
		pitch int
	}{{to, dpitch}, {from, spitch}} {
		var need uint64
		if width > 0 && height > 0 {
			need = uint64(height-1)*uint64(e.pitch) + uint64(width)
		}
		if err := sc.check(op, e.r, need); err != nil {
			return nil, nil, err
		}
	}
	return to, from, nil
}

// Memset queues setting the first n bytes of the buffer to a value (aclrtMemsetAsync).
func (s *Stream) Memset(dst *Buffer, value byte, n int) error {
	const op = "Stream.Memset"
	if err := s.usable(op); err != nil {
		return err
	}
	q := s.q
	if n < 0 {
		return q.refuse(op, ErrInvalidArgument, "%d bytes are not possible", n)
	}
	r := dst.where()
	if err := q.accept(op, r, uint64(n)); err != nil || n == 0 {
		return err
	}
	if err := aclrtMemsetAsync(q.scope.handle, uintptr(r.addr), r.size, int32(value), uint64(n), q.handle); err != nil {
		return q.fault(err)
	}
	runtime.KeepAlive(r)
	runtime.KeepAlive(s)
	return nil
}

// pieceBytes is how much a copy that waits copies between two looks at its context: CANN cannot be
// interrupted within a call.
const pieceBytes = 64 << 20

// pieces makes a call for each piece of n units until ctx ends. width is the size of a unit.
func (sc *scope) pieces(ctx context.Context, op string, n, width int, call func(from, n int) error) error {
	step := max(1, pieceBytes/max(1, width))
	for done := 0; done < n; done += step {
		if ctx.Err() != nil {
			e := sc.interrupted(op, ctx)
			e.Message = fmt.Sprintf("%d of %d bytes are written", done*width, n*width)
			return e
		}
		if err := call(done, min(step, n-done)); err != nil {
			return sc.fail(err)
		}
	}
	return nil
}

// Copy copies n bytes and returns when it is done (aclrtMemcpy). It does not wait for work on
// streams: synchronise those that use the memory first. If ctx ends first a part of dst may be
// written; ctx is asked after each 64 MiB.
func (x *Context) Copy(ctx context.Context, dst, src Memory, n int) error {
	if observed() {
		return x.watch(CallCopy, "Context.Copy", n, func() error { return x.copy(ctx, dst, src, n) })
	}
	return x.copy(ctx, dst, src, n)
}

func (x *Context) copy(ctx context.Context, dst, src Memory, n int) error {
	const op = "Context.Copy"
	if err := x.waits(op, ctx); err != nil {
		return err
	}
	sc := x.scope
	if dst == nil || src == nil || n < 0 {
		return sc.refuse(op, ErrInvalidArgument, "a copy of %d bytes, or of a nil buffer, is not possible", n)
	}
	to, from := dst.where(), src.where()
	for _, r := range []*region{to, from} {
		if err := sc.check(op, r, uint64(n)); err != nil {
			return err
		}
	}
	defer runtime.KeepAlive(to)
	defer runtime.KeepAlive(from)
	return sc.pieces(ctx, op, n, 1, func(at, n int) error {
		return aclrtMemcpy(sc.handle, uintptr(to.addr)+uintptr(at), to.size-uint64(at), uintptr(from.addr)+uintptr(at), uint64(n), copyKind(to, from))
	})
}

// Copy2D copies rows and returns when it is done (aclrtMemcpy2d): see Stream.Copy2D for the rows and
// Copy for ctx.
func (x *Context) Copy2D(ctx context.Context, dst Memory, dpitch int, src Memory, spitch, width, height int) error {
	if observed() {
		return x.watch(CallCopy, "Context.Copy2D", width*height, func() error { return x.copyRows(ctx, dst, dpitch, src, spitch, width, height) })
	}
	return x.copyRows(ctx, dst, dpitch, src, spitch, width, height)
}

func (x *Context) copyRows(ctx context.Context, dst Memory, dpitch int, src Memory, spitch, width, height int) error {
	const op = "Context.Copy2D"
	if err := x.waits(op, ctx); err != nil {
		return err
	}
	sc := x.scope
	to, from, err := sc.rows(op, dst, dpitch, src, spitch, width, height)
	if err != nil || width == 0 {
		return err
	}
	defer runtime.KeepAlive(to)
	defer runtime.KeepAlive(from)
	return sc.pieces(ctx, op, height, width, func(row, rows int) error {
		return aclrtMemcpy2d(sc.handle, uintptr(to.addr)+uintptr(row*dpitch), uint64(dpitch), uintptr(from.addr)+uintptr(row*spitch), uint64(spitch),
			uint64(width), uint64(rows), copyKind(to, from))
	})
}

// Memset sets the first n bytes of the buffer and returns when it is done (aclrtMemset): see Copy.
func (x *Context) Memset(ctx context.Context, dst *Buffer, value byte, n int) error {
	const op = "Context.Memset"
	if err := x.waits(op, ctx); err != nil {
		return err
	}
	sc := x.scope
	if n < 0 {
		return sc.refuse(op, ErrInvalidArgument, "%d bytes are not possible", n)
	}
	r := dst.where()
	if err := sc.check(op, r, uint64(n)); err != nil {
		return err
	}
	defer runtime.KeepAlive(r)
	return sc.pieces(ctx, op, n, 1, func(at, n int) error {
		return aclrtMemset(sc.handle, uintptr(r.addr)+uintptr(at), r.size-uint64(at), int32(value), uint64(n))
	})
}
