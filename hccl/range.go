package hccl

import "github.com/goascend/cann/cshim"

var (
	setMemoryRange   = cshim.NewFunc(cshim.HCCL, "HcclCommSetMemoryRange")
	unsetMemoryRange = cshim.NewFunc(cshim.HCCL, "HcclCommUnsetMemoryRange")
	activateMemory   = cshim.NewFunc(cshim.HCCL, "HcclCommActivateCommMemory")
	deactivateMemory = cshim.NewFunc(cshim.HCCL, "HcclCommDeactivateCommMemory")
)

// SetMemoryRange tells the communicator that collectives on memory mapped into size bytes of
// reserved device addresses from base on need no copy into HCCL's buffers. The first call of
// a communicator is collective; ranges do not overlap. It is for Atlas A3 and the ranks of one
// server, and ErrUnsupported elsewhere, so too on the emulator. AllReduce and ReduceScatter on
// such memory overwrite their input (HcclCommSetMemoryRange).
func (c *Comm) SetMemoryRange(base, size uint64) error {
	return c.do(setMemoryRange, &cshim.Call{Args: [cshim.Args]uint64{c.handle, base, size}})
}

// UnsetMemoryRange ends SetMemoryRange; no memory of the range may be active
// (HcclCommUnsetMemoryRange).
func (c *Comm) UnsetMemoryRange(base uint64) error {
	return c.do(unsetMemoryRange, &cshim.Call{Args: [cshim.Args]uint64{c.handle, base}})
}

// ActivateMemory makes size bytes at an address of a memory range, to which the physical
// memory of a handle (aclrtDrvMemHandle) is mapped, known to the other ranks
// (HcclCommActivateCommMemory).
func (c *Comm) ActivateMemory(address, size, handle uint64) error {
	return c.do(activateMemory, &cshim.Call{Args: [cshim.Args]uint64{c.handle, address, size, 0, handle}})
}

// DeactivateMemory ends ActivateMemory, before the memory is unmapped
// (HcclCommDeactivateCommMemory).
func (c *Comm) DeactivateMemory(address uint64) error {
	return c.do(deactivateMemory, &cshim.Call{Args: [cshim.Args]uint64{c.handle, address}})
}
