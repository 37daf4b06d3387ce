package thread

// #include <stdlib.h>
import "C"

import (
	"sync"
	"unsafe"
)

// ScratchSize is the number of bytes of a block of scratch memory.
const ScratchSize = 16 << 20

// scratch keeps at most one unused block per thread. (sync.Pool would drop C memory without freeing it.)
var scratch struct {
	sync.Mutex
	free []unsafe.Pointer
}

// WithScratch calls f with a block of C memory, aligned to 64 bytes, that no other call has.
func WithScratch(f func(block unsafe.Pointer)) {
	block := takeScratch()
	defer giveScratch(block)
	f(block)
}

func takeScratch() unsafe.Pointer {
	s := &scratch
	s.Lock()
	defer s.Unlock()
	if n := len(s.free); n > 0 {
		p := s.free[n-1]
		s.free = s.free[:n-1]
		return p
	}
	return C.aligned_alloc(64, ScratchSize)
}

func giveScratch(p unsafe.Pointer) {
	s := &scratch
	s.Lock()
	defer s.Unlock()
	if len(s.free) < Threads() {
		s.free = append(s.free, p)
		return
	}
	C.free(p)
}
