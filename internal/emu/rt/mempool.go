package rt

import (
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/goascend/cann/internal/abi"
)

// streamPool is a pool from which streams allocate memory, and into which they free it, in their order
// (aclrtMemPoolCreate). A call reserves addresses at once; the memory behind them comes when the stream reaches the
// allocation, and goes when a stream reaches the release, so that work which is not ordered after the one or before
// the other finds no memory. As in CANN 9.2, a released block is not given out again before aclrtMemPoolTrimTo has
// taken it back, whatever the attributes of reuse are.
type streamPool struct {
	handle Handle
	device *Device
	space  *space

	mu        sync.Mutex
	blocks    []poolBlock // by address, disjoint
	used      high        // bytes of blocks that were not released
	reserved  high        // bytes of all blocks
	reuse     [3]uint32   // attributes 1 to 3
	threshold uint64
}

// high is a number of bytes and the highest that it was.
type high struct{ now, most uint64 }

func (h *high) add(n uint64) {
	h.now += n
	h.most = max(h.most, h.now)
}

type poolBlock struct {
	start, end uint64
	released   bool // by a call
	passed     bool // by the stream of that call: the memory is gone
}

// poolProps is aclrtMemPoolProps.
type poolProps struct {
	allocationType, handleType int32
	locationID                 uint32
	locationType               int32
	maxSize                    uint64
	reserved                   [32]byte
}

// aclrtMemPoolCreate supports Atlas A2 alone, as CANN's documentation has it.
func (r *Runtime) aclrtMemPoolCreate(t *Thread, memPool Out[Handle], poolProps In[poolProps]) Code {
	const function = "aclrtMemPoolCreate"
	p := poolProps.Get()
	switch {
	case p.allocationType != int32(abi.ACL_MEM_ALLOCATION_TYPE_PINNED), p.locationType != int32(abi.ACL_MEM_LOCATION_TYPE_DEVICE):
		return t.Fail(InvalidParam, "EH0001: %s: allocation type %d, location type %d; pinned memory (0) of a device (1) is possible", function, p.allocationType, p.locationType)
	case p.handleType != int32(abi.ACL_MEM_HANDLE_TYPE_NONE) && p.handleType != int32(abi.ACL_MEM_HANDLE_TYPE_POSIX): // CANN reads the type and does nothing with it
		return t.Fail(InvalidParam, "EH0001: %s: handle type %d is unknown; there are none (0) and POSIX (2)", function, p.handleType)
	case p.reserved != [32]byte{}:
		return t.Fail(InvalidParam, "EH0001: %s: the reserved bytes must be 0", function)
	case !strings.HasPrefix(r.config.SoC, "Ascend910B"):
		return t.Fail(FeatureNotSupported, "EE1005: %s: Atlas A2 has memory pools, %s has not", function, r.config.SoC)
	}
	if c, code := r.Current(t); c == nil {
		return code
	}
	d, code := r.Device(t, int32(p.locationID))
	if d == nil {
		return code
	}
	d.mu.Lock()
	f := d.openMemory()
	d.mu.Unlock()
	if f != nil {
		return f.Report(t)
	}
	_, total := d.Memory().info()
	size := total / pageUnit * pageUnit
	if p.maxSize > size {
		return t.Fail(ParamInvalid, "EE1011: %s: maxSize is %d, device %d has %d bytes", function, p.maxSize, d.id, total)
	} else if p.maxSize > 0 {
		size = roundUp(p.maxSize, pageUnit)
	}
	s, err := newSpace(size)
	if err != nil {
		return t.Fail(MemoryAllocation, "EL0003: %s of %d bytes: %v", function, size, err)
	}
	pool := &streamPool{device: d, space: s}
	pool.handle, s.pool = r.Handles.New(MemPoolKind, pool), pool
	r.virtual.mu.Lock()
	r.virtual.spaces = append(r.virtual.spaces, s)
	r.virtual.mu.Unlock()
	memPool.Set(pool.handle)
	return 0
}

//npugen:decode aclrtMemPool
func (r *Runtime) streamPool(t *Thread, function string, h Handle) (*streamPool, Code) {
	p, ok := Lookup[*streamPool](&r.Handles, h)
	if ok {
		return p, 0
	}
	code := RuntimeInternal
	if strings.HasSuffix(function, "Attr") {
		code = ParamInvalid
	}
	return nil, t.Fail(code, "EE1017: %s: %#x is no live memory pool; was it destroyed?", function, h)
}

// aclrtMemPoolDestroy ends the pool with all of its memory, whether or not a stream still uses it.
func (r *Runtime) aclrtMemPoolDestroy(memPool *streamPool) Code {
	r.Handles.Delete(memPool.handle)
	v := &r.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	if i := slices.Index(v.spaces, memPool.space); i >= 0 {
		memPool.space.drop()
		v.spaces = slices.Delete(v.spaces, i, i+1)
	}
	return 0
}

func (r *Runtime) aclrtMemPoolSetAttr(t *Thread, memPool *streamPool, attr int32, value In[uint64]) Code {
	const function = "aclrtMemPoolSetAttr"
	memPool.mu.Lock()
	defer memPool.mu.Unlock()
	switch n := int64(attr); n {
	case abi.ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, abi.ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC, abi.ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		memPool.reuse[n-1] = min(In[uint32](value).Get(), 1)
	case abi.ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD:
		if value.Get() > memPool.space.reserved {
			return t.Fail(RuntimeInternal, "EE9999: %s: a threshold of %d bytes; the pool has %d", function, value.Get(), memPool.space.reserved)
		}
		memPool.threshold = value.Get()
	case abi.ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH, abi.ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH:
		if value.Get() != 0 {
			return t.Fail(RuntimeInternal, "EE9999: %s: attribute %d can be set to 0, not to %d", function, attr, value.Get())
		}
		if n == abi.ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH {
			memPool.used.most = 0
		} else {
			memPool.reserved.most = 0
		}
	case abi.ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT, abi.ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT:
		return t.Fail(ParamInvalid, "EE1011: %s: attribute %d can only be read", function, attr)
	default:
		return t.Fail(RuntimeInternal, "EE9999: %s: attribute %d is unknown", function, attr)
	}
	return 0
}

func (r *Runtime) aclrtMemPoolGetAttr(t *Thread, memPool *streamPool, attr int32, value Out[uint64]) Code {
	memPool.mu.Lock()
	defer memPool.mu.Unlock()
	switch n := int64(attr); n {
	case abi.ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, abi.ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC, abi.ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		Out[uint32](value).Set(memPool.reuse[n-1])
	case abi.ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD:
		value.Set(memPool.threshold)
	case abi.ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT:
		value.Set(memPool.reserved.now)
	case abi.ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH:
		value.Set(memPool.reserved.most)
	case abi.ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT:
		value.Set(memPool.used.now)
	case abi.ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH:
		value.Set(memPool.used.most)
	default:
		return t.Fail(RuntimeInternal, "EE9999: aclrtMemPoolGetAttr: attribute %d is unknown", attr)
	}
	return 0
}

// aclrtMemPoolMallocAsync writes nothing for 0 bytes, and succeeds.
func (r *Runtime) aclrtMemPoolMallocAsync(t *Thread, ptr Out[Address], size uint64, memPool *streamPool, stream *Stream) Code {
	const function = "aclrtMemPoolMallocAsync"
	if size == 0 {
		return 0
	}
	if size > math.MaxUint64-pageUnit {
		return t.Fail(ParamInvalid, "EE1011: %s: size %d", function, size)
	}
	size = roundUp(size, pageUnit)
	addr, ok := memPool.reserve(size)
	if !ok {
		return t.Fail(RuntimeInternal, "EE9999: %s: the pool has no %d bytes in a row: of %d bytes %d are in use, %d were released and wait for aclrtMemPoolTrimTo",
			function, size, memPool.space.reserved, memPool.used.now, memPool.reserved.now-memPool.used.now)
	}
	code := r.Submit(t, stream, Task{Name: function, Run: func() error { return memPool.provide(addr, size) }})
	if code != 0 {
		memPool.mu.Lock()
		defer memPool.mu.Unlock()
		memPool.blocks = slices.DeleteFunc(memPool.blocks, func(b poolBlock) bool { return b.start == addr })
		memPool.used.now -= size
		memPool.reserved.now -= size
		return code
	}
	ptr.Set(Address(addr))
	return 0
}

// reserve takes the smallest gap that has n bytes. The addresses are those of a block from now on.
func (p *streamPool) reserve(n uint64) (addr uint64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, least, from := 0, uint64(math.MaxUint64), p.space.start
	for i := range len(p.blocks) + 1 {
		to := p.space.end
		if i < len(p.blocks) {
			to = p.blocks[i].start
		}
		if gap := to - from; gap >= n && gap < least {
			at, least, addr = i, gap, from
		}
		if i < len(p.blocks) {
			from = p.blocks[i].end
		}
	}
	if least == math.MaxUint64 {
		return 0, false
	}
	p.blocks = slices.Insert(p.blocks, at, poolBlock{start: addr, end: addr + n})
	p.used.add(n)
	p.reserved.add(n)
	return addr, true
}

// provide puts memory behind the addresses of a block.
func (p *streamPool) provide(addr, n uint64) error {
	home := p.device.Memory()
	if home == nil || !home.take(n) {
		return &Fault{Code: AICPUException, Text: "EL0004: aclrtMemPoolMallocAsync: the device has no memory left for the pool"}
	}
	file, err := newSharedFile(n)
	if err != nil {
		home.untake(n)
		return err
	}
	v := &p.device.rt.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	memory := &physical{device: p.device, file: file, home: home, freed: true}
	if !slices.Contains(v.spaces, p.space) {
		memory.drop()
		return &Fault{Code: AICPUException, Text: "EE1017: aclrtMemPoolMallocAsync: the pool was destroyed before the stream reached the allocation"}
	}
	if err := p.space.mount(addr, memory); err != nil {
		memory.drop()
		return err
	}
	return nil
}

// aclrtMemPoolFreeAsync also frees memory of aclrtMalloc, when the stream reaches the call.
func (r *Runtime) aclrtMemPoolFreeAsync(t *Thread, ptr Address, stream Handle) Code {
	const function = "aclrtMemPoolFreeAsync"
	if stream == 0 {
		return t.Fail(RuntimeInternal, "EE1004: %s: the stream is null, and the default stream is not possible", function)
	}
	s, code := r.Stream(t, stream)
	if s == nil {
		return code
	}
	addr := uint64(ptr)
	r.virtual.mu.RLock()
	in := r.virtual.space(addr)
	r.virtual.mu.RUnlock()
	if in == nil || in.pool == nil {
		return r.Submit(t, s, Task{Name: function, Run: func() error {
			m := r.memoryOf(addr)
			if m == nil || !m.Release(addr) {
				return &Fault{Code: ParamInvalid, Text: "EE1003: aclrtMemPoolFreeAsync: the address is no live allocation of aclrtMalloc or a pool"}
			}
			return nil
		}})
	}
	p := in.pool
	if !p.release(addr, true) {
		return t.Fail(ParamInvalid, "EE1011: %s: %#x is no live allocation of the pool; was it released already?", function, ptr)
	}
	code = r.Submit(t, s, Task{Name: function, Run: func() error { return p.withdraw(addr) }})
	if code != 0 {
		p.release(addr, false)
	}
	return code
}

// release notes that a call has released a block, or takes that back. It returns false when no block starts at the
// address or the block is so already.
func (p *streamPool) release(addr uint64, released bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.at(addr)
	if i < 0 || p.blocks[i].released == released {
		return false
	}
	p.blocks[i].released = released
	if n := p.blocks[i].end - p.blocks[i].start; released {
		p.used.now -= n
	} else {
		p.used.now += n
	}
	return true
}

// at returns the index of the block that starts at an address, or -1. The caller holds mu.
func (p *streamPool) at(addr uint64) int {
	return slices.IndexFunc(p.blocks, func(b poolBlock) bool { return b.start == addr })
}

// withdraw takes the memory of a released block away.
func (p *streamPool) withdraw(addr uint64) error {
	if err := p.unmount(addr); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := p.at(addr); i >= 0 {
		p.blocks[i].passed = true
	}
	return nil
}

func (p *streamPool) unmount(addr uint64) error {
	v := &p.device.rt.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	i := slices.IndexFunc(p.space.segments, func(g segment) bool { return g.start == addr })
	if i < 0 || !slices.Contains(v.spaces, p.space) {
		return &Fault{Code: AICPUException, Text: "EE1017: aclrtMemPoolFreeAsync: the stream reached the release before the allocation was made, or after the pool was destroyed; order the streams by an event"}
	}
	return p.space.unmount(i)
}

// aclrtMemPoolTrimTo takes back blocks, the smallest first, that a stream has released; those that no stream has
// reached yet stay.
func (r *Runtime) aclrtMemPoolTrimTo(t *Thread, memPool *streamPool, minBytesToKeep uint64) Code {
	p, keep := memPool, minBytesToKeep
	p.mu.Lock()
	defer p.mu.Unlock()
	if keep > p.space.reserved || keep < p.used.now {
		return t.Fail(RuntimeInternal, "EE9999: aclrtMemPoolTrimTo: %d bytes; the pool has %d, of which %d are in use", keep, p.space.reserved, p.used.now)
	}
	for p.reserved.now > keep {
		least := -1
		for i, b := range p.blocks {
			if b.passed && (least < 0 || b.end-b.start < p.blocks[least].end-p.blocks[least].start) {
				least = i
			}
		}
		if least < 0 {
			break
		}
		b := &p.blocks[least]
		n := min(b.end-b.start, p.reserved.now-keep)
		b.start += n
		p.reserved.now -= n
		if b.start == b.end {
			p.blocks = slices.Delete(p.blocks, least, least+1)
		}
	}
	return 0
}
