package acl

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl/internal/pool"
	"github.com/goascend/cann/internal/abi"
)

// staging is page-locked memory through which Go slices reach the device, so that C never
// keeps a Go pointer: many small slots for short copies and a few large ones.
type staging struct {
	chip         *chip
	small, large chan *slotBuffer
}

const (
	smallSlot, smallSlots = 64 << 10, 32
	largeSlot, largeSlots = 4 << 20, 4
)

// slotBuffer is one piece of staging memory. In its channel it may still be in use by a
// copy, until its fence has passed.
type slotBuffer struct {
	addr  uint64 // 0 until it is first used
	size  uint64
	fence *fence
}

func (s *staging) init(c *chip) {
	s.chip = c
	s.small, s.large = slots(smallSlot, smallSlots), slots(largeSlot, largeSlots)
}

func slots(size uint64, n int) chan *slotBuffer {
	c := make(chan *slotBuffer, n)
	for range n {
		c <- &slotBuffer{size: size}
	}
	return c
}

func (s *staging) class(size uint64) chan *slotBuffer {
	if size <= smallSlot {
		return s.small
	}
	return s.large
}

// acquire takes the slot that has been in use longest and waits until it is free; ok is
// false when all slots are taken and wait is false.
func (s *staging) acquire(ctx context.Context, size uint64, wait bool) (b *slotBuffer, ok bool, err error) {
	class := s.class(size)
	if wait {
		select {
		case b = <-class:
		case <-ctx.Done():
			return nil, false, interrupted("acl.staging", ctx)
		}
	} else {
		select {
		case b = <-class:
		default:
			return nil, false, nil
		}
	}
	if err := s.ready(ctx, b); err != nil {
		class <- b
		return nil, false, err
	}
	return b, true, nil
}

// ready waits for the slot's last copy, and allocates the slot at its first use. The waits of that
// stream report its failures.
func (s *staging) ready(ctx context.Context, b *slotBuffer) error {
	var e *Error
	if err := b.wait(ctx); errors.As(err, &e) && e.Damage() != DamageWork {
		return err
	}
	if b.addr != 0 {
		return nil
	}
	addr, err := aclrtMallocHost(s.chip.primary.handle, b.size)
	b.addr = uint64(addr)
	if err != nil {
		return s.chip.primary.hostMemory(err)
	}
	return nil
}

// wait waits for the copy that uses the slot. Whether the copy or work before it has failed is known
// only to a wait for the stream. A slot whose wait was interrupted is still in use.
func (b *slotBuffer) wait(ctx context.Context) error {
	f := b.fence
	if f == nil {
		return nil
	}
	cut, err := f.wait(ctx)
	if cut {
		return f.q.interrupted("acl.staging", ctx)
	}
	err = f.q.faulty(err)
	b.passed()
	return err
}

// passed notes that the copy that uses the slot has ended.
func (b *slotBuffer) passed() {
	if b.fence != nil {
		b.fence.Release()
		b.fence = nil
	}
}

// release puts a slot back; its fence, if it has one, reports when it is free.
func (s *staging) release(b *slotBuffer) { s.class(b.size) <- b }

// transfer queues a copy between a slot and the device.
func (q *queue) transfer(b *slotBuffer, r region, n uint64, kind aclrtMemcpyKind) error {
	to, size, from := r.addr, r.size, b.addr
	if kind == abi.ACL_MEMCPY_DEVICE_TO_HOST {
		to, size, from = b.addr, b.size, r.addr
	}
	if err := aclrtMemcpyAsync(q.scope.handle, uintptr(to), size, uintptr(from), n, kind, q.handle); err != nil {
		return q.fault(err)
	}
	q.feed()
	f, err := q.Fence()
	if err != nil {
		// Nothing else reports when the slot is free.
		return errors.Join(err, q.synchronize())
	}
	b.fence, _ = f.(*fence)
	return nil
}

// close frees the slots when no stream is left.
func (s *staging) close() error {
	var errs []error
	for _, class := range []chan *slotBuffer{s.small, s.large} {
		for range cap(class) {
			b := <-class
			if b.fence != nil {
				b.fence.Release()
			}
			if b.addr != 0 {
				errs = append(errs, s.chip.primary.wrap(aclrtFreeHost(s.chip.primary.handle, uintptr(b.addr))))
			}
		}
	}
	return errors.Join(errs...)
}

var _ pool.Stream = (*queue)(nil)
