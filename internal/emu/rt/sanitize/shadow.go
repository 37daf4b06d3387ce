package sanitize

import (
	"fmt"
	"math/bits"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Poison is the byte that fills fresh memory when reads are checked. It gives a NaN in every
// floating-point type and -1 as a signed integer.
const Poison = 0xff

// Shadow has one bit per byte of a device's memory: whether the byte was written since it was
// allocated.
type Shadow struct {
	base, size uint64 // the addresses of the device

	mu      sync.Mutex
	written []uint64
	mapped  []byte
}

// NewShadow returns the shadow of size bytes at base, of which none was written.
func NewShadow(base, size uint64) (*Shadow, error) {
	n := (size/8 + 15) / 8 * 8
	b, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("EL0003: reserving %d bytes for CANN_EMU_SANITIZE=memory: %w", n, err)
	}
	return &Shadow{base: base, size: size, written: unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), n/8), mapped: b}, nil
}

// Close releases the shadow.
func (s *Shadow) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = unix.Munmap(s.mapped) // the range is our own
	s.written, s.mapped = nil, nil
}

// holds reports whether the address belongs to the device.
func (s *Shadow) holds(addr uint64) bool { return addr-s.base < s.size }

// Clear notes that n bytes have been allocated and not yet been written.
func (s *Shadow) Clear(addr, n uint64) { s.set(addr, n, false) }

// words calls f with the index of each word that holds bits of the n bytes at addr, and the mask of
// those bits; f returns false to stop. The caller holds s.mu.
func (s *Shadow) words(addr, n uint64, f func(i, mask uint64) bool) {
	lo := addr - s.base
	for hi := lo + n; lo < hi; {
		i, first := lo/64, lo%64
		count := min(64-first, hi-lo)
		if i >= uint64(len(s.written)) || !f(i, ^uint64(0)>>(64-count)<<first) {
			return
		}
		lo += count
	}
}

func (s *Shadow) set(addr, n uint64, written bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.words(addr, n, func(i, mask uint64) bool {
		if written {
			s.written[i] |= mask
		} else {
			s.written[i] &^= mask
		}
		return true
	})
}

// find returns the address of the first byte of the range that was written (or, if written is false,
// that was not).
func (s *Shadow) find(addr, n uint64, written bool) (at uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.words(addr, n, func(i, mask uint64) bool {
		w := s.written[i]
		if !written {
			w = ^w
		}
		if w &= mask; w != 0 {
			at, ok = s.base+i*64+uint64(bits.TrailingZeros64(w)), true
		}
		return !ok
	})
	return at, ok
}

// move copies the state of n bytes, possibly from another device's memory.
func (s *Shadow) move(dst uint64, from *Shadow, src, n uint64) {
	for i := uint64(0); i < n; {
		// Copy a run of bytes in the same state at once.
		_, written := from.find(src+i, 1, true)
		end := n
		if at, ok := from.find(src+i, n-i, !written); ok {
			end = at - src
		}
		s.set(dst+i, end-i, written)
		i = end
	}
}
