package acl

import (
	"errors"
	"fmt"

	"github.com/goascend/cann/acl/internal/pool"
	"github.com/goascend/cann/internal/abi"
)

// memoryPool is the source of a device's cache with Config.MemoryPool: a memory pool of CANN. The cache takes and gives
// back whole segments, on a stream that has no other work.
type memoryPool struct {
	*chip
	pool   aclrtMemPool
	stream aclrtStream
}

// newMemoryPool makes the memory pool of a device. It refuses one that is larger than the memory that the device has
// left, because a lack of memory would show only when the stream reaches the allocation, as a failure of its work.
func (c *chip) newMemoryPool(n int64) (*memoryPool, error) {
	const op = "acl.Open"
	sc := c.primary
	if err := fnAclrtMemPoolMallocAsync.Available(); err != nil {
		return nil, sc.fail(err)
	}
	free, _, err := aclrtGetMemInfo(sc.handle, abi.ACL_HBM_MEM)
	if err != nil {
		return nil, sc.fail(err)
	}
	if uint64(n) > free {
		return nil, sc.refuse(op, ErrOutOfMemory, "Config.MemoryPool is %d bytes, the device has %d free", n, free)
	}
	m := &memoryPool{chip: c}
	m.pool, err = aclrtMemPoolCreate(sc.handle, &aclrtMemPoolProps{
		allocType: abi.ACL_MEM_ALLOCATION_TYPE_PINNED, handleType: abi.ACL_MEM_HANDLE_TYPE_NONE,
		location: aclrtMemLocation{id: uint32(c.id), typeArg: abi.ACL_MEM_LOCATION_TYPE_DEVICE}, maxSize: uint64(n),
	})
	if err != nil {
		return nil, sc.fail(err)
	}
	if m.stream, err = aclrtCreateStream(sc.handle); err != nil {
		return nil, errors.Join(sc.fail(err), sc.wrap(aclrtMemPoolDestroy(sc.handle, m.pool)))
	}
	return m, nil
}

// Malloc implements pool.Source. CANN has no code of its own for a full pool: what it returns then is an internal
// error, in place of which the error matches pool.ErrExhausted. Another stream may use the segment at once, so Malloc
// waits until the memory is there.
func (m *memoryPool) Malloc(n uint64) (uint64, error) {
	sc := m.primary
	addr, err := aclrtMemPoolMallocAsync(sc.handle, n, m.pool, m.stream)
	if codeOf(err) == abi.ACL_ERROR_RT_INTERNAL_ERROR {
		return 0, fmt.Errorf("%w: %w", pool.ErrExhausted, sc.refuse("acl.Allocator", ErrOutOfMemory, "the memory pool of the device is full: %v", err))
	}
	if err != nil {
		return 0, sc.fail(err)
	}
	return uint64(addr), m.wait()
}

// Free implements pool.Source. CANN gives released memory out again only after a trim, and a trim takes what the
// stream has passed.
func (m *memoryPool) Free(addr uint64) error {
	sc := m.primary
	if err := aclrtMemPoolFreeAsync(sc.handle, uintptr(addr), m.stream); err != nil {
		return sc.fail(err)
	}
	if err := m.wait(); err != nil {
		return err
	}
	var used uint64
	if err := aclrtMemPoolGetAttr(sc.handle, m.pool, abi.ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT, &used); err != nil {
		return sc.fail(err)
	}
	return sc.wrap(aclrtMemPoolTrimTo(sc.handle, m.pool, used))
}

func (m *memoryPool) wait() error {
	if err := aclrtSynchronizeStreamWithTimeout(m.primary.handle, m.stream, forever); err != nil {
		return m.primary.fault(err)
	}
	return nil
}

// close ends the pool. Without Config.MemoryPool m is nil.
func (m *memoryPool) close() error {
	if m == nil {
		return nil
	}
	sc := m.primary
	return errors.Join(sc.wrap(aclrtDestroyStream(sc.handle, m.stream)), sc.wrap(aclrtMemPoolDestroy(sc.handle, m.pool)))
}
