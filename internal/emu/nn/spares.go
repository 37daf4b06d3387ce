package nn

import "sync"

// Limits of what spares keeps.
const (
	spareCalls  = 512 // different calls of each age
	sparesOfOne = 32  // executors of one call
)

// spares keeps executors whose computation has ended for calls of the same operator with the same
// arguments but for the addresses. CANN's cache keeps its executors for the same reason: such a call
// needs neither checks nor memory. All threads share the spares. The type caches
// imitates CANN's own cache, which each thread has for itself.
type spares struct {
	mu sync.Mutex
	// young has the calls that came last, by key, and old those before them. When young is full, it becomes
	// old, whose calls are forgotten: a service whose shapes change would otherwise fill the memory.
	young, old map[string]*spare
}

// spare are the executors of one call.
type spare struct {
	idle []*prepared
}

// of returns the executors of the call with the key, or nil, and makes them young.
func (s *spares) of(key []byte) *spare {
	of := s.young[string(key)]
	if of == nil {
		if of = s.old[string(key)]; of != nil {
			delete(s.old, string(key))
			s.keep(string(key), of)
		}
	}
	return of
}

func (s *spares) keep(key string, of *spare) {
	if s.young == nil || len(s.young) == spareCalls {
		s.young, s.old = make(map[string]*spare), s.young
	}
	s.young[key] = of
}

// take returns an executor of the call with the key, or nil.
func (s *spares) take(key []byte) *prepared {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of(key)
	if of == nil || len(of.idle) == 0 {
		return nil
	}
	last := len(of.idle) - 1
	x := of.idle[last]
	of.idle = of.idle[:last]
	return x
}

// place returns where executors of the call with the key are kept.
func (s *spares) place(key []byte) *spare {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of(key)
	if of == nil {
		of = new(spare)
		s.keep(string(key), of)
	}
	return of
}

// put keeps an executor that nothing uses any more, unless its computation failed.
func (s *spares) put(x *prepared) {
	if !x.succeeded || x.Call.Once() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := x.spare; len(of.idle) < sparesOfOne {
		of.idle = append(of.idle, x)
	}
}
