package nn

import "sync"

// Limits of what spares keeps.
const (
	spareCalls  = 2048 // different calls; with more, spares forgets all
	sparesOfOne = 32   // executors of one call
)

// spares keeps executors whose computation has ended for calls of the same operator with the same
// arguments but for the addresses. CANN's cache keeps its executors for the same reason: such a call
// needs neither checks nor memory. All threads share the spares, unlike CANN's cache, whose ways
// package caches imitates beside them.
type spares struct {
	mu sync.Mutex
	of map[string]*spare // by key of the call
}

// spare are the executors of one call.
type spare struct {
	idle []*prepared
}

// take returns an executor of the call with the key, or nil.
func (s *spares) take(key []byte) *prepared {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of[string(key)]
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
	of := s.of[string(key)]
	if of == nil {
		if s.of == nil || len(s.of) == spareCalls {
			s.of = make(map[string]*spare)
		}
		of = new(spare)
		s.of[string(key)] = of
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
