package acl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goascend/cann/acl/internal/pool"
	"github.com/goascend/cann/internal/bridge"
)

// Memory is memory that the device can copy from and to: a *Buffer or a *HostBuffer.
type Memory interface {
	Address() uint64
	Size() int
	where() *region
}

// region is a range of an allocation.
type region struct {
	mem        *memory
	addr, size uint64
}

// memory is an allocation, shared by its buffer and the views of it.
type memory struct {
	scope  *scope // primary context of the device
	home   home
	host   bool
	addr   uint64
	size   uint64
	closed atomic.Bool
	owner  *queue      // stream that it belongs to, nil for none
	member *member     // of a capture, for which it was allocated; nil otherwise
	block  *pool.Block // of the pool's memory
	under  *memory     // of which it is a part, of an arena; nil otherwise

	last   bridge.LastUser // the last user, which is the next one most of the time; none once closed
	mu     sync.Mutex
	users  []*queue     // streams except the owner that have used it
	graphs []*recording // graphs whose tasks use it
	shared bool         // streams of the capture other than that of member use it
	kept   bool         // it was closed, and goes back when the last graph lets go of it
}

// home is where memory goes when it is closed.
type home interface {
	takeBack(m *memory, addr uint64) error
}

// use notes that work on a stream uses the memory. A process that releases leaks notes no last
// user: each use then takes the long way, on which its caller keeps the buffer reachable.
func (m *memory) use(q *queue) {
	user := q.asUser()
	if m.last.Load() == user {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed.Load() && !process.releasing.Load() {
		m.last.Store(user)
	}
	if s := q.member.Load(); s != nil {
		m.hold(s)
		return
	}
	if q != m.owner && !slices.Contains(m.users, q) {
		m.users = append(m.users, q)
	}
}

// known is the short way of accept: the stream that used the memory last was checked then.
func (r *region) known(q *queue, n uint64) bool {
	return r.mem.last.Load() == q.asUser() && n <= r.size
}

// shut makes every later use an error. The caller holds m.mu.
func (m *memory) shut() {
	m.closed.Store(true)
	m.last.Store(nil)
}

// accept checks that a stream may use n bytes of memory, and notes that it does.
func (q *queue) accept(op string, r *region, n uint64) error {
	if err := q.scope.check(op, r, n); err != nil {
		return err
	}
	r.mem.use(q)
	q.feed() // by this package, or by the C code that the use is noted for
	return nil
}

// check refuses memory that is closed, too small or of another device.
func (sc *scope) check(op string, r *region, n uint64) error {
	switch {
	case r == nil:
		return sc.refuse(op, ErrInvalidArgument, "the buffer is nil, or was not made by this package")
	case r.mem.closed.Load():
		return sc.refuse(op, ErrClosed, "the buffer of %d bytes is closed", r.size)
	case n > r.size:
		return sc.refuse(op, ErrInvalidArgument, "%d bytes are needed, the buffer has %d", n, r.size)
	case !r.mem.host && !sc.chip.mayUse(r.mem.scope.chip):
		return sc.refuse(op, ErrWrongDevice, "the buffer is on device %d and peer access to it is not enabled", r.mem.scope.chip.id)
	}
	return nil
}

// pooled is the home of memory of the cache.
type pooled struct{}

func (pooled) takeBack(m *memory, _ uint64) error {
	users := make([]pool.Stream, len(m.users))
	for i, q := range m.users {
		users[i] = q
	}
	return m.scope.chip.pool.Free(m.block, users)
}

// direct is the home of memory that did not come from the cache. It is freed at once, so
// that the streams that used it must have ended.
type direct struct {
	free func(current aclrtContext, address uintptr) error
}

func (d direct) takeBack(m *memory, addr uint64) error {
	errs := []error{waitUsers(m)}
	if err := d.free(m.scope.handle, uintptr(addr)); err != nil {
		errs = append(errs, m.scope.fail(err))
	}
	return errors.Join(errs...)
}

// waitUsers waits for the streams that have used memory.
func waitUsers(m *memory) error {
	var errs []error
	for _, q := range m.users {
		errs = append(errs, q.synchronize())
	}
	return errors.Join(errs...)
}

// idle makes the region of pooled memory what remains of a Buffer that was collected: ending it
// never waits.
func (region) idle() bool { return true }

// settle waits, at most until ctx ends, for the work that end would wait for. It returns failures also if ctx ended,
// because CANN reports each once.
func (r region) settle(ctx context.Context) (failed error, interrupted bool) {
	if _, ok := r.mem.home.(pooled); ok {
		return nil, false
	}
	var errs []error
	for _, q := range r.mem.others() {
		cut, err := q.wait(ctx)
		if cut {
			return errors.Join(errs...), true
		}
		errs = append(errs, q.faulty(err))
	}
	return errors.Join(errs...), false
}

// others are the streams except the owner that have used the memory.
func (m *memory) others() []*queue {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.users)
}

// end ends the memory; views of it find it closed. Memory that graphs use goes back when the last
// of them is closed.
func (r region) end() error {
	m := r.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shut()
	if m.temporary() {
		m.member.rec.forget(m)
		m.graphs = nil
	}
	if len(m.graphs) > 0 {
		m.kept = true
		m.lose()
		return nil
	}
	return errors.Join(m.home.takeBack(m, m.addr), m.scope.release())
}

// closeRegion is CloseContext of the owner of memory.
func (o *owned) closeRegion(ctx context.Context, op string, r region) error {
	if !o.isOpen() {
		return nil
	}
	if ctx == nil {
		return noContext(op)
	}
	var failed error
	if ctx.Done() != nil {
		var cut bool
		if failed, cut = r.settle(ctx); cut {
			return errors.Join(failed, r.mem.scope.interrupted(op, ctx))
		}
	}
	if !o.close() {
		return failed
	}
	return errors.Join(failed, r.end())
}

// outOfMemory completes the error of a failed allocation with what would have been needed.
func (sc *scope) outOfMemory(op string, n uint64, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		e = sc.refuse(op, ErrInvalidArgument, "%v", err)
		e.Hint = "no device has that much memory; Device.MemInfo reports how much this one has"
		return e
	}
	if !errors.Is(err, pool.ErrExhausted) {
		return err
	}
	s := sc.chip.pool.Stats()
	full := *e
	full.Message = fmt.Sprintf("%s: %d bytes do not fit; this process holds %d bytes of the device, %d of them in use; %s",
		op, n, s.Reserved, s.InUse+s.Waiting, e.Message)
	return &full
}
