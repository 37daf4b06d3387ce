package acl

import (
	"context"
	"runtime"
	"unsafe"

	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

// Element is a Go type with the memory layout of an element type of CANN. The 16-bit float
// types are defined on uint16.
type Element interface {
	~bool | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// bytesOf is the memory of a slice.
func bytesOf[T Element](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), len(v)*int(unsafe.Sizeof(v[0])))
}

// CopyToDevice queues a copy of a Go slice to the start of dst. It goes through page-locked
// memory: when the call returns, src may be changed, and dst has the data once the stream
// has passed the copy. The call waits, at most until ctx ends, while earlier copies fill
// that memory; then a part of dst may be written already. Stream.Copy copies a HostBuffer
// without this detour.
func CopyToDevice[T Element](ctx context.Context, st *Stream, dst *Buffer, src []T) error {
	data := bytesOf(src)
	if observed() {
		return st.watch(CallCopy, "acl.CopyToDevice", len(data), func() error { return st.upload(ctx, dst, data) })
	}
	return st.upload(ctx, dst, data)
}

// CopyFromDevice copies from the start of src to a Go slice, after the work queued on the
// stream before, and returns when dst has the data. If ctx ends first a part of dst may be
// written.
func CopyFromDevice[T Element](ctx context.Context, st *Stream, dst []T, src *Buffer) error {
	data := bytesOf(dst)
	if observed() {
		return st.watch(CallCopy, "acl.CopyFromDevice", len(data), func() error { return st.download(ctx, data, src) })
	}
	return st.download(ctx, data, src)
}

func (s *Stream) upload(ctx context.Context, dst *Buffer, data []byte) error {
	const op = "acl.CopyToDevice"
	if err := s.usable(op); err != nil {
		return err
	}
	if ctx == nil {
		return noContext(op)
	}
	defer runtime.KeepAlive(dst)
	defer runtime.KeepAlive(s)
	q := s.q
	if q.member.Load() != nil {
		return q.refuse(op, ErrCapture, "replays would copy what the page-locked memory on the way holds then; copy before the capture, or let Stream.Copy take the values from a HostBuffer, which the program fills before each replay")
	}
	if err := q.accept(op, dst.where(), uint64(len(data))); err != nil {
		return err
	}
	stage := &q.scope.chip.staging
	to := dst.region
	for len(data) > 0 {
		b, _, err := stage.acquire(ctx, uint64(len(data)), true)
		if err != nil {
			return err
		}
		n := copy(cshim.Bytes(b.addr, int(b.size)), data)
		err = q.transfer(b, to, uint64(n), abi.ACL_MEMCPY_HOST_TO_DEVICE)
		stage.release(b)
		if err != nil {
			return err
		}
		data, to = data[n:], region{to.mem, to.addr + uint64(n), to.size - uint64(n)}
	}
	return nil
}

// part is a piece of a download that is under way.
type part struct {
	slot *slotBuffer
	to   []byte
}

func (s *Stream) download(ctx context.Context, data []byte, src *Buffer) (err error) {
	const op = "acl.CopyFromDevice"
	if err := s.usable(op); err != nil {
		return err
	}
	if ctx == nil {
		return noContext(op)
	}
	defer runtime.KeepAlive(src)
	defer runtime.KeepAlive(s)
	q := s.q
	if q.member.Load() != nil {
		return q.refuse(op, ErrCapture, "the host cannot read during a capture, in which nothing runs; read after a replay, or let Stream.Copy write to a HostBuffer")
	}
	if err := q.accept(op, src.where(), uint64(len(data))); err != nil {
		return err
	}
	stage := &q.scope.chip.staging
	from := src.region
	// Two parts at a time: one is copied by the device, the other by this goroutine. The
	// second one takes no slot that it would have to wait for: downloads that hold one slot
	// each would wait for each other.
	var under []part
	defer func() {
		for _, p := range under {
			stage.release(p.slot)
		}
	}()
	for len(data) > 0 || len(under) > 0 {
		if len(data) > 0 && len(under) < 2 {
			b, ok, err := stage.acquire(ctx, uint64(len(data)), len(under) == 0)
			if err != nil {
				return err
			}
			if ok {
				n := min(uint64(len(data)), b.size)
				if err := q.transfer(b, from, n, abi.ACL_MEMCPY_DEVICE_TO_HOST); err != nil {
					stage.release(b)
					return err
				}
				under = append(under, part{b, data[:n]})
				data, from = data[n:], region{from.mem, from.addr + n, from.size - n}
				continue
			}
		}
		p := under[0]
		if len(data) > 0 || len(under) > 1 {
			if err := p.slot.wait(ctx); err != nil {
				return err
			}
		} else { // only a wait for the stream reports whether the data is good
			interrupted, err := q.settle(ctx, op)
			if !interrupted {
				p.slot.passed()
			}
			if err != nil {
				return err
			}
		}
		copy(p.to, cshim.Bytes(p.slot.addr, len(p.to)))
		stage.release(p.slot)
		under = under[1:]
	}
	return nil
}
