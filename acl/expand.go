package acl

import (
	"errors"
	"fmt"
	"sync"

	"github.com/goascend/cann/acl/internal/pool"
	"github.com/goascend/cann/internal/abi"
)

// expander reserves addresses and maps memory into them for the pool: see Config.Expandable. The pool
// makes one call at a time.
type expander struct {
	sc      *scope
	mu      sync.Mutex
	handles map[uint64]aclrtDrvMemHandle // of the memory at each mapped address
}

// hugePages is the flag of a reservation whose pages are 2 MiB.
const hugePages = 1

// expand makes the pool grow in place. The range has addresses for all memory of the device and an
// eighth more, because pages in its middle may be taken.
func (c *chip) expand() error {
	if err := fnAclrtReserveMemAddress.Available(); err != nil {
		return c.primary.fail(err)
	}
	_, total, err := aclrtGetMemInfo(c.primary.handle, abi.ACL_HBM_MEM)
	if err != nil {
		return c.primary.fail(err)
	}
	c.pool.Expandable(&expander{sc: c.primary, handles: make(map[uint64]aclrtDrvMemHandle)}, total/8*9)
	return nil
}

// Reserve implements pool.Expander.
func (x *expander) Reserve(n uint64) (uint64, error) {
	addr, err := aclrtReserveMemAddress(x.sc.handle, n, 0, 0, hugePages)
	return uint64(addr), x.sc.wrap(err)
}

// Map implements pool.Expander.
func (x *expander) Map(addr, n uint64) error {
	handle, err := x.sc.physical(n)
	if err != nil {
		return err
	}
	if err := aclrtMapMem(x.sc.handle, uintptr(addr), n, 0, handle, 0); err != nil {
		return errors.Join(x.sc.fail(err), x.sc.wrap(aclrtFreePhysical(x.sc.handle, handle)))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.handles[addr] = handle
	return nil
}

// physical allocates memory without an address. The error matches pool.ErrExhausted when the device is
// full.
func (sc *scope) physical(n uint64) (aclrtDrvMemHandle, error) {
	handle, err := aclrtMallocPhysical(sc.handle, n, &aclrtPhysicalMemProp{
		handleType: abi.ACL_MEM_HANDLE_TYPE_NONE, allocationType: abi.ACL_MEM_ALLOCATION_TYPE_PINNED, memAttr: abi.ACL_HBM_MEM_HUGE,
		location: aclrtMemLocation{id: uint32(sc.chip.id), typeArg: abi.ACL_MEM_LOCATION_TYPE_DEVICE},
	}, 0)
	if err != nil {
		e := sc.fail(err)
		if errors.Is(e, ErrOutOfMemory) {
			return 0, fmt.Errorf("%w: %w", pool.ErrExhausted, e)
		}
		return 0, e
	}
	return handle, nil
}

// Unmap implements pool.Expander.
func (x *expander) Unmap(addr uint64) error {
	if err := aclrtUnmapMem(x.sc.handle, uintptr(addr)); err != nil {
		return x.sc.fail(err)
	}
	x.mu.Lock()
	handle := x.handles[addr]
	delete(x.handles, addr)
	x.mu.Unlock()
	return x.sc.wrap(aclrtFreePhysical(x.sc.handle, handle))
}

// Release implements pool.Expander.
func (x *expander) Release(addr uint64) error {
	return x.sc.wrap(aclrtReleaseMemAddress(x.sc.handle, uintptr(addr)))
}
