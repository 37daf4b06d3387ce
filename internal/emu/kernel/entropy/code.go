package entropy

import (
	"fmt"
	"slices"
)

const (
	scale = 1 << 14 // the sum of the shares of all byte values
	floor = 1 << 23 // lower bound of the coder's state
)

// Code is an entropy code for bytes (asymmetric numeral systems). Frequent bytes get large
// shares and so take few bits. Shares are positive and sum to scale.
type Code struct {
	share, first [256]uint32
	byPlace      [scale]byte
}

// New returns the code for bytes that occur as often as counts gives; it has 256 entries. Bytes
// with a count of zero can be encoded, too.
func New(counts []int64) (*Code, error) {
	s, total, most := &Code{}, int64(0), 0
	for i, n := range counts {
		if n < 0 {
			return nil, fmt.Errorf("byte %d has a count of %d", i, n)
		}
		if total += n; n > counts[most] {
			most = i
		}
	}
	left := uint32(scale)
	for i, n := range counts {
		s.share[i] = 1
		if total > 0 {
			s.share[i] += uint32(n * (scale - 256) / total)
		}
		left -= s.share[i]
	}
	s.share[most] += left
	at := uint32(0)
	for i, n := range s.share {
		s.first[i] = at
		for range n {
			s.byPlace[at] = byte(i)
			at++
		}
	}
	return s, nil
}

// Encode returns the code of bytes, in the order in which Decode reads it, and the final state.
func (s *Code) Encode(bytes []byte) (code []byte, state uint32) {
	state = floor
	for i := len(bytes) - 1; i >= 0; i-- {
		share := s.share[bytes[i]]
		for state >= floor/scale*256*share {
			code = append(code, byte(state))
			state >>= 8
		}
		state = state/share*scale + state%share + s.first[bytes[i]]
	}
	slices.Reverse(code)
	return code, state
}

// Decode fills bytes from code, starting with the final state of Encode.
func (s *Code) Decode(bytes, code []byte, state uint32) error {
	for i := range bytes {
		place := state % scale
		b := s.byPlace[place]
		bytes[i] = b
		state = s.share[b]*(state/scale) + place - s.first[b]
		for state < floor {
			if len(code) == 0 {
				return fmt.Errorf("the code ends at byte %d of %d", i, len(bytes))
			}
			state = state<<8 | uint32(code[0])
			code = code[1:]
		}
	}
	return nil
}
