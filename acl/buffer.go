package acl

import (
	"context"
	"runtime/debug"

	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/bridge"
)

// Buffer is device memory, or a view of such. Its contents are undefined at first. Kernels
// may touch 32 bytes behind it, which belong to it.
type Buffer struct {
	owned
	bridgedBuffer
	region
	whole *Buffer // of a view: what it must keep from being collected
}

// Malloc gives n bytes from the device's cache, which no work is using. Every stream that
// uses it through this module is noted, and Close is safe while work is queued.
func (x *Context) Malloc(n int) (*Buffer, error) {
	if err := x.usable("Context.Malloc"); err != nil {
		return nil, err
	}
	return x.scope.pooled("Context.Malloc", nil, n)
}

// Malloc gives n bytes from the device's cache, in the order of the stream: work queued on
// it earlier may still be using the memory. Reach it through the stream only, or from other
// streams that wait for an event recorded after this call. It allocates no device memory if
// the cache has a block, and does not wait for the device unless it is full. During a capture
// the memory is the graph's: see Stream.Capture.
func (s *Stream) Malloc(n int) (*Buffer, error) {
	if err := s.usable("Stream.Malloc"); err != nil {
		return nil, err
	}
	return s.q.scope.pooled("Stream.Malloc", s.q, n)
}

func (sc *scope) pooled(op string, q *queue, n int) (*Buffer, error) {
	if n <= 0 {
		return nil, sc.refuse(op, ErrInvalidArgument, "a buffer of %d bytes is not possible", n)
	}
	var s *member
	if q != nil {
		s = q.member.Load()
	}
	if s != nil && s.updating {
		return nil, q.refuse(op, ErrCapture, "an update changes the arguments of tasks; allocate before it")
	}
	b, err := sc.chip.malloc(q, s, uint64(n))
	if err != nil {
		return nil, sc.outOfMemory(op, uint64(n), err)
	}
	m := &memory{home: pooled{}, owner: q, block: b}
	if s != nil {
		m.owner, m.member = nil, s
	}
	return sc.chip.newBuffer(m, b.Address(), uint64(n)), nil
}

// bufferAt makes a Buffer, which is not counted.
func bufferAt(r region, whole *Buffer) *Buffer {
	b := &Buffer{region: r, whole: whole}
	b.bridgedBuffer = bridge.NewBuffer((*reached)(&b.region))
	return b
}

// newBuffer is a counted buffer that keeps its device open.
func (c *chip) newBuffer(m *memory, addr, n uint64) *Buffer {
	c.primary.retain()
	m.scope, m.addr, m.size = c.primary, addr, n
	b := bufferAt(region{mem: m, addr: addr, size: n}, nil)
	l := leak{bytes: n}
	if _, ok := m.home.(pooled); ok { // freeing other memory waits for work, or the program may hold a slice of it
		l.remains = heir(b.region)
	}
	// use comes after heir: if Open turns the release of leaks on meanwhile, no buffer is both released and has a last user.
	if m.owner != nil {
		m.use(m.owner)
	}
	b.open(KindBuffer, l)
	if m.block != nil && process.stacks.Load() {
		c.pool.Label(m.block, "buffer\n"+string(debug.Stack()))
	}
	return b
}

// Policy is how memory is allocated outside the cache.
type Policy uint64

// Policies, with the values of aclrtMemMallocPolicy. Those with P2P are for memory that
// another device copies to or from.
const (
	HugeFirst     Policy = abi.ACL_MEM_MALLOC_HUGE_FIRST // 2 MiB pages, or else 4 KiB
	HugeOnly      Policy = abi.ACL_MEM_MALLOC_HUGE_ONLY
	NormalOnly    Policy = abi.ACL_MEM_MALLOC_NORMAL_ONLY
	HugeFirstP2P  Policy = abi.ACL_MEM_MALLOC_HUGE_FIRST_P2P
	HugeOnlyP2P   Policy = abi.ACL_MEM_MALLOC_HUGE_ONLY_P2P
	NormalOnlyP2P Policy = abi.ACL_MEM_MALLOC_NORMAL_ONLY_P2P
	Huge1G        Policy = abi.ACL_MEM_MALLOC_HUGE1G_ONLY
	Huge1GP2P     Policy = abi.ACL_MEM_MALLOC_HUGE1G_ONLY_P2P
)

// MallocDirect gives n bytes of the device itself, past the cache (aclrtMallocAlign32). It is
// slow, and its Close waits for the streams that used the memory. With huge pages n bytes take
// whole pages of 2 MiB.
func (x *Context) MallocDirect(n int, p Policy) (*Buffer, error) {
	const op = "Context.MallocDirect"
	if err := x.usable(op); err != nil {
		return nil, err
	}
	sc := x.scope
	if n <= 0 {
		return nil, sc.refuse(op, ErrInvalidArgument, "a buffer of %d bytes is not possible", n)
	}
	addr, err := sc.malloc(uint64(n), aclrtMemMallocPolicy(p))
	if err != nil {
		return nil, sc.outOfMemory(op, uint64(n), err)
	}
	return sc.chip.newBuffer(&memory{home: direct{aclrtFree}}, addr, uint64(n)), nil
}

// MallocManaged gives n bytes that host and device both reach at the same address; Bytes
// is the host's view (aclrtMemAllocManaged, from CANN 9.0). The host may not touch it while
// work that uses it is queued.
func (x *Context) MallocManaged(n int) (*Buffer, error) {
	const op = "Context.MallocManaged"
	if err := x.usable(op); err != nil {
		return nil, err
	}
	sc := x.scope
	if n <= 0 {
		return nil, sc.refuse(op, ErrInvalidArgument, "a buffer of %d bytes is not possible", n)
	}
	const global = 1
	addr, err := aclrtMemAllocManaged(sc.handle, uint64(n), global)
	if err != nil {
		return nil, sc.fail(err)
	}
	return sc.chip.newBuffer(&memory{home: managed{direct{aclrtFree}}}, uint64(addr), uint64(n)), nil
}

// managed is the home of memory that the host reaches too.
type managed struct{ direct }

// Bytes is the host's view of managed memory. Memory of the device alone has none.
func (b *Buffer) Bytes() ([]byte, error) {
	if b == nil || b.mem == nil {
		return nil, neverMade("Buffer.Bytes", KindBuffer)
	}
	if b.mem.closed.Load() {
		return nil, b.mem.scope.refuse("Buffer.Bytes", ErrClosed, "the buffer is closed")
	}
	b.mem.mu.Lock() // Share replaces the home
	_, ok := b.mem.home.(managed)
	b.mem.mu.Unlock()
	if !ok {
		return nil, b.mem.scope.refuse("Buffer.Bytes", ErrNotSupported, "the host does not reach memory of the device; copy it, or use MallocManaged")
	}
	return cshim.Bytes(b.addr, int(b.size)), nil
}

// Close gives the memory back. Work that is queued may still use it: the memory is not given
// out again before that has ended. Closing a view does nothing.
func (b *Buffer) Close() error { return b.CloseContext(context.Background()) }

// CloseContext is Close that waits at most until ctx ends. Close waits only for memory of
// MallocDirect and MallocManaged. When ctx ends first the buffer is still open, and
// CloseContext can be called again; the error matches ctx.Err().
func (b *Buffer) CloseContext(ctx context.Context) error {
	if b == nil { // a view was never open
		return nil
	}
	return b.closeRegion(ctx, "Buffer.CloseContext", b.region)
}

// View is the part of the buffer of size bytes from offset on. It shares the memory and is
// closed with it.
func (b *Buffer) View(offset, size int) (*Buffer, error) {
	if b == nil || b.mem == nil {
		return nil, neverMade("Buffer.View", KindBuffer)
	}
	r, err := b.part("Buffer.View", offset, size)
	if err != nil {
		return nil, err
	}
	whole := b.whole
	if whole == nil {
		whole = b
	}
	return bufferAt(r, whole), nil
}

func (r *region) part(op string, offset, size int) (region, error) {
	if offset < 0 || size < 0 || uint64(offset) > r.size || uint64(size) > r.size-uint64(offset) {
		return region{}, r.mem.scope.refuse(op, ErrInvalidArgument, "%d bytes from %d on are not in a buffer of %d", size, offset, r.size)
	}
	return region{r.mem, r.addr + uint64(offset), uint64(size)}, nil
}

// Address is the device address.
func (b *Buffer) Address() uint64 {
	if b == nil {
		return 0
	}
	return b.addr
}

// Size is the number of bytes asked for.
func (b *Buffer) Size() int {
	if b == nil {
		return 0
	}
	return int(b.size)
}

// Device is the number of the device that the memory is on; -1 of a Buffer that was not made by
// this package.
func (b *Buffer) Device() int {
	if b == nil || b.mem == nil {
		return -1
	}
	return b.mem.scope.chip.id
}

func (b *Buffer) where() *region {
	if b == nil || b.mem == nil {
		return nil
	}
	return &b.region
}

// RecordStream notes that work on the stream uses the buffer, for work that reaches it by
// its address only; what goes through this module notes it by itself. It fails if the buffer is
// closed, or on a device whose memory EnablePeerAccess has not opened to the stream's.
func (b *Buffer) RecordStream(s *Stream) error { return s.use("Buffer.RecordStream", b) }

// use notes that work on the stream uses the buffer, if it may.
func (s *Stream) use(op string, b *Buffer) error {
	if err := s.usable(op); err != nil {
		return err
	}
	return s.q.accept(op, b.where(), 0)
}
