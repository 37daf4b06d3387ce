package kernel

// #include <stdlib.h>
import "C"

import (
	"sync"
	"unsafe"
)

// scratch is a pool of blocks of C memory, aligned to 64 bytes, for running kernels. It keeps
// at most one unused block per thread, and one for the caller that packs for them. (sync.Pool would drop C memory without freeing it.)
type scratch struct {
	size int64
	mu   sync.Mutex
	free []unsafe.Pointer
}

func (s *scratch) get() unsafe.Pointer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		p := s.free[n-1]
		s.free = s.free[:n-1]
		return p
	}
	return C.aligned_alloc(64, C.size_t(s.size))
}

func (s *scratch) put(p unsafe.Pointer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) <= Threads() {
		s.free = append(s.free, p)
		return
	}
	C.free(p)
}
