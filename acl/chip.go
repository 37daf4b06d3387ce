package acl

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goascend/cann/acl/internal/pool"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

// chip is the state that all users of one device share: the primary context, the memory and
// the staging buffers.
type chip struct {
	id       int
	primary  *scope
	pool     *pool.Pool
	ordered  *memoryPool // of Config.MemoryPool, nil for none
	staging  staging
	peers    atomic.Uint64 // bit per device whose memory this one may use
	aside    aside         // for waits for the whole device
	aborting aside         // for aborts of its work

	captures atomic.Int32 // captures under way on streams of the device

	mu     sync.Mutex
	scopes []*scope // that exist
}

func (c *chip) forget(sc *scope) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scopes = slices.DeleteFunc(c.scopes, func(x *scope) bool { return x == sc })
}

// queues are the streams of all contexts of the device.
func (c *chip) queues() (all []*queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, sc := range c.scopes {
		sc.mu.Lock()
		all = slices.AppendSeq(all, maps.Keys(sc.queues))
		sc.mu.Unlock()
	}
	return all
}

// slot is the place of a device in the process.
type slot struct {
	mu   sync.Mutex
	chip *chip
}

func slotOf(id int) *slot {
	process.mu.Lock()
	defer process.mu.Unlock()
	s := process.slots[id]
	if s == nil {
		s = new(slot)
		process.slots[id] = s
	}
	return s
}

// joinChip gives the device's state with one more reference to its primary context.
func joinChip(id int) (*chip, error) {
	s := slotOf(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.chip != nil && s.chip.primary.tryRetain() {
		return s.chip, nil
	}
	handle, err := setPrimary(id)
	if err != nil {
		e := wrap(err)
		e.Device = id
		return nil, e
	}
	share()
	c := &chip{id: id}
	c.primary = newScope(c, handle)
	if err := c.fill(); err != nil {
		return nil, errors.Join(err, unsetPrimary(id), release())
	}
	c.staging.init(c)
	s.chip = c
	return c, nil
}

// fill makes the cache of the device's memory.
func (c *chip) fill() (err error) {
	if n := process.pooling.Load(); n > 0 {
		if c.ordered, err = c.newMemoryPool(n); err == nil {
			c.pool = pool.New(c.ordered)
		}
		return err
	}
	c.pool = pool.New(c)
	if process.expanding.Load() {
		return c.expand()
	}
	return nil
}

// setPrimary retains the primary context of a device. The handle can only be asked of the
// thread that has set the device, so this one pair of calls must stay on one thread.
func setPrimary(id int) (aclrtContext, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := aclrtSetDevice(0, int32(id)); err != nil {
		return 0, err
	}
	handle, err := aclrtGetCurrentContext(0)
	if err != nil {
		return 0, errors.Join(err, unsetPrimary(id))
	}
	return handle, nil
}

func unsetPrimary(id int) error {
	err := aclrtResetDevice(0, int32(id))
	cshim.Forget()
	return err
}

// leave ends the use of the device; nothing refers to its primary context any more.
func (c *chip) leave() error {
	s := slotOf(c.id)
	s.mu.Lock()
	if s.chip == c {
		s.chip = nil
	}
	s.mu.Unlock()
	c.aside.finish()
	errs := []error{c.primary.drain(), c.staging.close(), c.pool.Trim(c.Synchronize), c.ordered.close(), c.primary.destroyFences()}
	if err := unsetPrimary(c.id); err != nil {
		errs = append(errs, c.primary.fail(err))
	}
	return errors.Join(append(errs, release())...)
}

// mayUse reports whether work on this device may use memory of the other one.
func (c *chip) mayUse(other *chip) bool {
	return c.id == other.id || other.id < 64 && c.peers.Load()>>other.id&1 != 0
}

// The pool's source of memory is the device.

// Malloc gives the pool a segment.
func (c *chip) Malloc(n uint64) (uint64, error) {
	return c.primary.malloc(n, abi.ACL_MEM_MALLOC_HUGE_FIRST)
}

// Free takes a segment back.
func (c *chip) Free(addr uint64) error {
	return c.primary.wrap(aclrtFree(c.primary.handle, uintptr(addr)))
}

// Synchronize waits for all work on the device, in all contexts. CANN refuses that during a
// capture: the pool then has no more memory.
func (c *chip) Synchronize() error {
	if c.captures.Load() > 0 {
		return fmt.Errorf("%w: %w", pool.ErrExhausted, c.primary.refuse("acl.Allocator", ErrOutOfMemory, "the device is full, and during a capture nothing can be waited for that would free memory"))
	}
	if err := aclrtSynchronizeDeviceWithTimeout(c.primary.handle, forever); err != nil {
		return c.primary.fault(err)
	}
	return nil
}

// malloc calls aclrtMallocAlign32, which a CANN before 8.0 may lack. aclrtMalloc would add 32
// bytes, with which a multiple of 2 MiB takes one huge page more. The error matches
// pool.ErrExhausted when the device is full.
func (sc *scope) malloc(n uint64, policy aclrtMemMallocPolicy) (uint64, error) {
	allocate := aclrtMallocAlign32
	if fnAclrtMallocAlign32.Available() != nil {
		allocate = aclrtMalloc
	}
	addr, err := allocate(sc.handle, n, policy)
	if err != nil {
		e := sc.fail(err)
		if errors.Is(e, ErrOutOfMemory) {
			return 0, fmt.Errorf("%w: %w", pool.ErrExhausted, e)
		}
		return 0, e
	}
	return uint64(addr), nil
}

// malloc gives a block of the pool to a stream, or to its membership of a capture; q may be nil.
func (c *chip) malloc(q *queue, s *member, n uint64) (*pool.Block, error) {
	switch {
	case q == nil: // not a Stream that is a nil pointer
		return c.pool.Malloc(nil, n)
	case s != nil:
		return c.pool.Malloc(s, n)
	}
	return c.pool.Malloc(q, n)
}
