package hccl

import (
	"context"
	"fmt"
)

// SetMemoryRange lets collectives use device memory that is mapped into the reserved addresses
// [base, base+size) without copies into HCCL's buffers (HcclCommSetMemoryRange). Ranges must not
// overlap. The first call of a communicator waits for the other ranks, at most until ctx ends; HCCL
// cannot cancel it, so that the communicator is of no use then. It works on Atlas A3 for the ranks of
// one server; elsewhere, including the emulator, it fails with acl.ErrNotSupported. AllReduce and
// ReduceScatter on such memory overwrite their input.
func (c *Comm) SetMemoryRange(ctx context.Context, base uint64, size int) error {
	return c.do(fnHcclCommSetMemoryRange, func() error {
		switch {
		case ctx == nil:
			return errNoContext
		case size < 0:
			return invalid("a range of %d bytes", size)
		}
		_, ended, err := await(ctx, func() (struct{}, error) {
			return struct{}{}, hcclCommSetMemoryRange(c.context, c.handle, uintptr(base), uint64(size), 0, 0)
		}, func(struct{}) {})
		if ended {
			return fmt.Errorf("%w: %w", ErrRemote, context.Cause(ctx))
		}
		return err
	})
}

// UnsetMemoryRange undoes SetMemoryRange (HcclCommUnsetMemoryRange). No memory of the range may be
// active.
func (c *Comm) UnsetMemoryRange(base uint64) error {
	return c.do(fnHcclCommUnsetMemoryRange, func() error {
		return hcclCommUnsetMemoryRange(c.context, c.handle, uintptr(base))
	})
}

// ActivateMemory announces size bytes at an address within a memory range to the other ranks
// (HcclCommActivateCommMemory). The physical memory of a handle (aclrtDrvMemHandle) must be mapped
// there.
func (c *Comm) ActivateMemory(address uint64, size int, handle uint64) error {
	return c.do(fnHcclCommActivateCommMemory, func() error {
		if size < 0 {
			return invalid("memory of %d bytes", size)
		}
		return hcclCommActivateCommMemory(c.context, c.handle, uintptr(address), uint64(size), 0, aclrtDrvMemHandle(handle), 0)
	})
}

// DeactivateMemory undoes ActivateMemory; call it before unmapping the memory
// (HcclCommDeactivateCommMemory).
func (c *Comm) DeactivateMemory(address uint64) error {
	return c.do(fnHcclCommDeactivateCommMemory, func() error {
		return hcclCommDeactivateCommMemory(c.context, c.handle, uintptr(address))
	})
}
