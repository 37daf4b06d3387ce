package acl

import (
	"errors"
	"sync"
)

// Arena is a piece of device memory that buffers are carved from one after the other and
// that is emptied as a whole: for what lives as long as one step. It belongs to a stream.
type Arena struct {
	owned
	mu   sync.Mutex
	st   *Stream
	base *Buffer
	now  *memory // what the buffers since the last Reset share
	used uint64
	peak uint64
}

// arenaUnit is the alignment of buffers in an arena, arenaTail the space behind each that
// kernels may touch.
const arenaUnit, arenaTail = 512, 32

// NewArena makes an arena of n bytes on the stream's device.
func (s *Stream) NewArena(n int) (*Arena, error) {
	if s.Capturing() {
		return nil, s.q.refuse("Stream.NewArena", ErrCapture, "an arena does not belong to a graph; make it before the capture")
	}
	base, err := s.Malloc(n)
	if err != nil {
		return nil, err
	}
	s.q.scope.chip.pool.Label(base.mem.block, "arena")
	base.unwatch() // the arena's own leak is reported, and its memory never released
	a := &Arena{st: s, base: base}
	a.now = a.generation()
	a.open(KindArena, leak{bytes: uint64(n)})
	return a, nil
}

func (a *Arena) generation() *memory {
	m := &memory{scope: a.base.mem.scope, home: carved{}, owner: a.st.q, size: a.base.size, under: a.base.mem}
	m.use(m.owner)
	return m
}

// carved is the home of memory that goes back with its arena.
type carved struct{}

func (carved) takeBack(*memory, uint64) error { return nil }

// Malloc carves a buffer of n bytes, in the order of the stream. It is closed by Reset; a
// Close of its own does nothing. A full arena gives ErrOutOfMemory.
func (a *Arena) Malloc(n int) (*Buffer, error) {
	const op = "Arena.Malloc"
	if a == nil || a.base == nil {
		return nil, neverMade(op, KindArena)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	sc := a.base.mem.scope
	if !a.isOpen() {
		return nil, sc.refuse(op, ErrClosed, "the arena is closed")
	}
	if a.st.q.member.Load() != nil {
		return nil, sc.refuse(op, ErrCapture, "a graph keeps its memory, and an arena gives it to others at Reset; use Stream.Malloc")
	}
	if n <= 0 {
		return nil, sc.refuse(op, ErrInvalidArgument, "a buffer of %d bytes is not possible", n)
	}
	if uint64(n) > a.base.size-a.used {
		return nil, sc.refuse(op, ErrOutOfMemory, "%d bytes do not fit: the arena has %d, of which %d are used", n, a.base.size, a.used)
	}
	b := bufferAt(region{a.now, a.base.addr + a.used, uint64(n)}, nil)
	a.used = min(a.base.size, (a.used+uint64(n)+arenaTail+arenaUnit-1)/arenaUnit*arenaUnit)
	a.peak = max(a.peak, a.used)
	return b, nil
}

// Reset closes all buffers of the arena and makes their memory free again, in the order of
// the stream: it queues a wait for the other streams that used them. Graphs that were captured
// with the buffers cannot be replayed any more.
func (a *Arena) Reset() error {
	if a == nil || a.base == nil {
		return neverMade("Arena.Reset", KindArena)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.isOpen() {
		return a.base.mem.scope.refuse("Arena.Reset", ErrClosed, "the arena is closed")
	}
	return a.reset()
}

func (a *Arena) reset() error {
	old := a.now
	if old.recorded() {
		return a.st.q.refuse("Arena.Reset", ErrCapture, "a capture under way uses memory of the arena")
	}
	a.now, a.used = a.generation(), 0
	old.mu.Lock()
	defer old.mu.Unlock()
	old.shut()
	old.lose()
	var errs []error
	for _, q := range old.users {
		errs = append(errs, a.st.q.follow(q))
	}
	return errors.Join(errs...)
}

// follow makes the stream wait for what is queued on the other one.
func (q *queue) follow(other *queue) error {
	other.ending.RLock()
	defer other.ending.RUnlock()
	if other.gone.Load() {
		return nil
	}
	f, err := other.mark()
	if err != nil {
		return err
	}
	if _, late := f.(*lateFence); late {
		return q.refuse("acl.Stream", ErrCapture, "stream %d is capturing, and what it did before cannot be waited for now", other.id)
	}
	defer f.Release()
	if err := aclrtStreamWaitEvent(q.scope.handle, q.handle, f.(*fence).handle); err != nil {
		return q.fault(err)
	}
	return nil
}

// Peak is the largest number of bytes that were in use between two Resets.
func (a *Arena) Peak() int {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return int(a.peak)
}

// Close closes the arena's buffers and gives the memory back.
func (a *Arena) Close() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.close() {
		return nil
	}
	return errors.Join(a.reset(), a.base.Close())
}
