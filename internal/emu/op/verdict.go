package op

import (
	"encoding/binary"
	"math"
	"sync/atomic"

	"github.com/goascend/cann/internal/abi/acceptance"
)

// checklist holds CANN's rules of an operator on a chip, and calls that they accept. Programs
// repeat calls with other memory and equal shapes, for which comparing is cheaper than checking.
type checklist struct {
	rules    []acceptance.Rule
	lacking  bool // the chip has no kernel of the operator
	accepted [slots]atomic.Pointer[signature]
	misses   atomic.Uint32
}

// refusal returns the rules' answer to a call, nil if they accept it.
func (l *checklist) refusal(c *Call) *Error {
	if len(l.rules) == 0 {
		return nil
	}
	var s signature
	if !s.of(c) {
		return c.check(l.rules)
	}
	at := &l.accepted[s.slot()]
	old := at.Load()
	if old != nil && old.equal(&s) {
		return nil
	}
	err := c.check(l.rules)
	// Calls that share a slot must not allocate memory each time.
	if err == nil && (old == nil || l.misses.Add(1)%32 == 0) {
		kept := s
		at.Store(&kept)
	}
	return err
}

// slots is the number of accepted calls that a checklist remembers. A power of two.
const slots = 16

// signature is everything that rules read of a call, in words. Calls with more words have none.
type signature struct {
	words [96]uint64
	n     int
}

func (s *signature) add(w uint64) bool {
	if s.n == len(s.words) {
		return false
	}
	s.words[s.n] = w
	s.n++
	return true
}

func (s *signature) equal(o *signature) bool {
	if s.n != o.n {
		return false
	}
	for i, w := range s.words[:s.n] {
		if w != o.words[i] {
			return false
		}
	}
	return true
}

// slot returns the place of the signature in a checklist.
func (s *signature) slot() uint64 {
	h := uint64(s.n)
	for _, w := range s.words[:s.n] {
		h = (h ^ w) * 0x9E3779B97F4A7C15
		h ^= h >> 32
	}
	return h % slots
}

// Marks of the kinds of arguments, so that signatures of different arguments differ.
const (
	markNull = iota + 1
	markTensor
	markScalar
	markList
	markNumber
)

// of fills the signature of a call. It reports false for a call that has none.
func (s *signature) of(c *Call) bool {
	s.n = 0
	for _, a := range c.args {
		if !s.argument(a) {
			return false
		}
	}
	return true
}

func (s *signature) argument(a any) bool {
	switch a := a.(type) {
	case nil:
		return s.add(markNull)
	case *Tensor:
		return s.tensor(a)
	case *Scalar:
		if a == nil {
			return s.add(markNull)
		}
		return s.add(markScalar|uint64(a.DType)<<8) && s.add(binary.NativeEndian.Uint64(a.Bits[:])) && s.add(binary.NativeEndian.Uint64(a.Bits[8:]))
	case int64:
		return s.add(markNumber) && s.add(uint64(a))
	case float64:
		return s.add(markNumber) && s.add(math.Float64bits(a))
	case bool:
		return s.flag(a)
	case []int64:
		if a == nil {
			return s.add(markNull)
		}
		return s.add(markList|uint64(len(a))<<8) && s.dims(a)
	case []bool:
		if a == nil {
			return s.add(markNull)
		}
		for _, b := range a {
			if !s.flag(b) {
				return false
			}
		}
		return s.add(markList | uint64(len(a))<<8)
	case []*Tensor:
		if a == nil {
			return s.add(markNull)
		}
		for _, t := range a {
			if !s.tensor(t) {
				return false
			}
		}
		return s.add(markList | uint64(len(a))<<8)
	}
	return false
}

func (s *signature) flag(b bool) bool {
	if b {
		return s.add(markNumber | 1<<8)
	}
	return s.add(markNumber)
}

func (s *signature) tensor(t *Tensor) bool {
	if t == nil {
		return s.add(markNull)
	}
	kind := markTensor | uint64(uint8(t.DType))<<8 | uint64(uint16(t.Format))<<16 | uint64(uint8(len(t.Shape)))<<32 | uint64(uint8(len(t.Storage)))<<40
	return s.add(kind) && s.add(uint64(t.Offset)) && s.dims(t.Shape) && s.dims(t.Storage)
}

func (s *signature) dims(d []int64) bool {
	if len(d) > len(s.words)-s.n {
		return false
	}
	for _, n := range d {
		s.words[s.n] = uint64(n)
		s.n++
	}
	return true
}
