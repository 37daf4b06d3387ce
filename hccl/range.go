package hccl

// SetMemoryRange tells the communicator that device memory mapped into the reserved addresses
// [base, base+size) can be used by collectives without copies into HCCL's buffers
// (HcclCommSetMemoryRange). The first call of a communicator is collective; ranges must not
// overlap. It works on Atlas A3 for the ranks of one server; elsewhere, including the emulator, it
// fails with acl.ErrNotSupported. AllReduce and ReduceScatter on such memory overwrite their input.
func (c *Comm) SetMemoryRange(base, size uint64) error {
	return c.do(fnHcclCommSetMemoryRange, func() error {
		return hcclCommSetMemoryRange(c.context, c.handle, uintptr(base), size, 0, 0)
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
func (c *Comm) ActivateMemory(address, size, handle uint64) error {
	return c.do(fnHcclCommActivateCommMemory, func() error {
		return hcclCommActivateCommMemory(c.context, c.handle, uintptr(address), size, 0, aclrtDrvMemHandle(handle), 0)
	})
}

// DeactivateMemory undoes ActivateMemory; call it before unmapping the memory
// (HcclCommDeactivateCommMemory).
func (c *Comm) DeactivateMemory(address uint64) error {
	return c.do(fnHcclCommDeactivateCommMemory, func() error {
		return hcclCommDeactivateCommMemory(c.context, c.handle, uintptr(address))
	})
}
