package sanitize

import "fmt"

// Memory is the memory of one device.
type Memory interface {
	// Allocation returns the live allocation that holds the addresses from lo to hi. It returns false
	// when there is none or when other processes can write to it.
	Allocation(lo, hi uint64) (Allocation, bool)

	// Shadow returns nil when reads are not checked.
	Shadow() *Shadow
}

// Allocation is a live allocation of device memory.
type Allocation struct {
	Start, End uint64 // End is exclusive
	Serial     uint64 // number among the allocations of the process
}

func (x *Allocation) String() string {
	return fmt.Sprintf("allocation %d of %d bytes at %#x", x.Serial, x.End-x.Start, x.Start)
}
