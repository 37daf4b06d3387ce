package pool

import (
	"errors"
	"fmt"
)

// device is a Source without memory: it checks that segments are freed once and that no
// stream uses them then, and counts what is out.
type device struct {
	capacity uint64
	out      uint64
	next     uint64
	segments map[uint64]uint64 // address -> size
	streams  []*stream
	syncErr  error
	syncs    int
	during   func() // runs while Synchronize waits
}

func newDevice(capacity uint64) *device {
	return &device{capacity: capacity, next: 1 << 40, segments: make(map[uint64]uint64)}
}

func (d *device) Malloc(n uint64) (uint64, error) {
	if d.out+n > d.capacity {
		return 0, fmt.Errorf("fake: %w", ErrExhausted)
	}
	addr := d.next
	d.next += n + 4096
	d.segments[addr] = n
	d.out += n
	return addr, nil
}

func (d *device) Free(addr uint64) error {
	n, ok := d.segments[addr]
	if !ok {
		return fmt.Errorf("fake: %#x was not allocated", addr)
	}
	for _, s := range d.streams {
		for _, u := range s.uses[s.done:] {
			if u.addr < addr+n && addr < u.addr+u.size {
				return fmt.Errorf("fake: %#x is freed while %v uses it", addr, s)
			}
		}
	}
	delete(d.segments, addr)
	d.out -= n
	return nil
}

func (d *device) Synchronize() error {
	d.syncs++
	if d.syncErr != nil {
		return d.syncErr
	}
	for _, s := range d.streams {
		s.done = len(s.uses)
	}
	if d.during != nil {
		d.during()
	}
	return nil
}

// stream is a queue of uses of memory, of which the first `done` have ended.
type stream struct {
	name  int
	uses  []span
	done  int
	gone  bool
	fails error
	out   *int // fences not released
}

type span struct{ addr, size uint64 }

func (d *device) newStream(out *int) *stream {
	s := &stream{name: len(d.streams), out: out}
	d.streams = append(d.streams, s)
	return s
}

func (s *stream) String() string { return fmt.Sprintf("stream %d", s.name) }

func (s *stream) Fence() (Fence, error) {
	if s.gone {
		return nil, nil
	}
	if s.fails != nil {
		return nil, s.fails
	}
	*s.out++
	return &mark{s: s, at: len(s.uses)}, nil
}

func (s *stream) Idle() (bool, error) { return s.done == len(s.uses), s.fails }

type mark struct {
	s        *stream
	at       int
	released bool
}

func (m *mark) Passed() (bool, error) {
	if m.released {
		return false, errors.New("fake: a released fence was asked")
	}
	return m.s.done >= m.at, nil
}

func (m *mark) Release() {
	m.released = true
	*m.s.out--
}
