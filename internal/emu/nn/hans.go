package nn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// exponentCodes compress floats without loss: the bytes that hold exponents by how often each
// occurs (asymmetric numeral systems), the others as they are. How the code lies in fixed and
// var is the emulator's own, for the device's is not documented: each reads what it wrote.
var exponentCodes = table{"HansEncode": hansEncode, "HansDecode": hansDecode}

const (
	hansHeader = 512     // bytes of fixed before the code
	hansMark   = "HANS1" // of a header
	hansScale  = 1 << 14 // what the shares of all bytes add up to
	hansFloor  = 1 << 23 // the coder's state does not fall below
	hansLeast  = 32768   // elements
)

// hans is a tensor, what is made of it, and the counts of its exponent bytes.
type hans struct {
	*Call
	whole, mantissa, fixed, rest, counts *Tensor
	outputs                              [][2]*Tensor // dense ones, and those of the call
}

func (c *Call) hans(whole, mantissa, fixed, rest, counts string) *hans {
	h := &hans{Call: c, whole: c.Tensor(whole), mantissa: c.Tensor(mantissa), fixed: c.Tensor(fixed), rest: c.Tensor(rest), counts: c.Tensor(counts)}
	c.plain(h.whole, h.mantissa, h.fixed, h.rest, h.counts)
	c.DType(h.whole, transformerTypes...)
	c.SameDType(h.whole, h.mantissa, h.fixed, h.rest)
	c.DType(h.counts, dtype.Int32)
	c.Shape(h.counts, []int64{1, 256}, "a count for each byte")
	if c.err != nil {
		return h
	}
	n, size := h.whole.Len(), int64(h.whole.DType.Size())
	switch {
	case n%64 != 0 || n < hansLeast:
		c.Invalid("%v must have a multiple of 64 elements, at least %d", h.whole, hansLeast)
	case h.mantissa.Len()*size != n*(size-1):
		c.Invalid("%v must have %d elements, for the bytes of %v without exponents", h.mantissa, n*(size-1)/size, h.whole)
	case h.fixed.Len()*size < hansHeader:
		c.Invalid("%v must have %d bytes for what is known of the code", h.fixed, hansHeader)
	}
	return h
}

// dense is a tensor to write without gaps; finish copies it to the one that was given.
func (h *hans) dense(t *Tensor) *Tensor {
	if h.err != nil || t.Contiguous() {
		return t
	}
	d := h.scratch(t.DType, t.Shape...)
	h.outputs = append(h.outputs, [2]*Tensor{d, t})
	return d
}

func (h *hans) finish() error {
	for _, pair := range h.outputs {
		if err := kernel.Copy(pair[1].View(), pair[0].View()); err != nil {
			return err
		}
	}
	return nil
}

// bytes are those of a dense tensor. Valid inside Run only.
func (t *Tensor) bytes() []byte {
	return unsafe.Slice((*byte)(t.host), t.Len()*int64(t.DType.Size()))
}

// byteShares are the shares of bytes, of hansScale together; each has some.
type byteShares struct {
	share, first [256]uint32
	byPlace      [hansScale]byte
}

func newByteShares(counts []int64) (*byteShares, error) {
	s, total, most := &byteShares{}, int64(0), 0
	for i, n := range counts {
		if n < 0 {
			return nil, fmt.Errorf("byte %d has a count of %d", i, n)
		}
		if total += n; n > counts[most] {
			most = i
		}
	}
	left := uint32(hansScale)
	for i, n := range counts {
		s.share[i] = 1
		if total > 0 {
			s.share[i] += uint32(n * (hansScale - 256) / total)
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

// encode gives the code of bytes, in the order in which decode reads it, and the last state.
func (s *byteShares) encode(bytes []byte) (code []byte, state uint32) {
	state = hansFloor
	for i := len(bytes) - 1; i >= 0; i-- {
		share := s.share[bytes[i]]
		for state >= hansFloor/hansScale*256*share {
			code = append(code, byte(state))
			state >>= 8
		}
		state = state/share*hansScale + state%share + s.first[bytes[i]]
	}
	slices.Reverse(code)
	return code, state
}

// decode fills bytes from a code.
func (s *byteShares) decode(bytes, code []byte, state uint32) error {
	for i := range bytes {
		place := state % hansScale
		b := s.byPlace[place]
		bytes[i] = b
		state = s.share[b]*(state/hansScale) + place - s.first[b]
		for state < hansFloor {
			if len(code) == 0 {
				return fmt.Errorf("the code ends at byte %d of %d", i, len(bytes))
			}
			state = state<<8 | uint32(code[0])
			code = code[1:]
		}
	}
	return nil
}

func hansEncode(c *Call) (Run, error) {
	h := c.hans("inputTensor", "mantissaOut", "fixedOut", "varOut", "pdfRef")
	count := c.Bool("statistic")
	if c.err != nil {
		return nil, c.err
	}
	whole, mantissa, fixed, rest := c.contiguous(h.whole), h.dense(h.mantissa), h.dense(h.fixed), h.dense(h.rest)
	return func(*Exec) error {
		all, size := whole.bytes(), whole.DType.Size()
		exponents, other := make([]byte, len(all)/size), mantissa.bytes()[:0]
		for i := range exponents {
			element := all[i*size : (i+1)*size]
			other, exponents[i] = append(other, element[:size-1]...), element[size-1]
		}
		counts := make([]int64, 256)
		if count {
			for _, b := range exponents {
				counts[b]++
			}
			if err := kernel.SetInts(h.counts.View(), counts); err != nil {
				return err
			}
		} else {
			var err error
			if counts, err = kernel.Indices(h.counts.View()); err != nil {
				return err
			}
		}
		shares, err := newByteShares(counts)
		if err != nil {
			return err
		}
		code, state := shares.encode(exponents)
		if len(code) >= len(exponents) {
			code, state = exponents, 0 // shorter as they are
		}
		room := fixed.bytes()
		if have := len(room) - hansHeader + len(rest.bytes()); len(code) > have {
			return fmt.Errorf("the code has %d bytes; %v and %v have room for %d", len(code), h.fixed, h.rest, have)
		}
		clear(room)
		clear(rest.bytes())
		copy(room, hansMark)
		binary.LittleEndian.PutUint32(room[8:], state)
		binary.LittleEndian.PutUint64(room[16:], uint64(len(exponents)))
		binary.LittleEndian.PutUint64(room[24:], uint64(len(code)))
		copy(rest.bytes(), code[copy(room[hansHeader:], code):])
		return h.finish()
	}, nil
}

func hansDecode(c *Call) (Run, error) {
	h := c.hans("out", "mantissa", "fixed", "var", "pdf")
	if c.err != nil {
		return nil, c.err
	}
	mantissa, fixed, rest, out := c.contiguous(h.mantissa), c.contiguous(h.fixed), c.contiguous(h.rest), h.dense(h.whole)
	return func(*Exec) error {
		header, all, size := fixed.bytes(), out.bytes(), out.DType.Size()
		exponents := make([]byte, len(all)/size)
		if string(header[:len(hansMark)]) != hansMark {
			return errors.New("fixed holds no code of this emulator's HansEncode")
		}
		n, length := binary.LittleEndian.Uint64(header[16:]), binary.LittleEndian.Uint64(header[24:])
		code := slices.Concat(header[hansHeader:], rest.bytes())
		if n != uint64(len(exponents)) || length > uint64(len(code)) {
			return fmt.Errorf("the code is %d bytes for %d elements; there are %d for %d", length, n, len(code), len(exponents))
		}
		code = code[:length]
		if state := binary.LittleEndian.Uint32(header[8:]); state == 0 {
			if copy(exponents, code) != len(exponents) {
				return fmt.Errorf("the code has %d bytes of %d", len(code), len(exponents))
			}
		} else {
			counts, err := kernel.Indices(h.counts.View())
			if err != nil {
				return err
			}
			shares, err := newByteShares(counts)
			if err != nil {
				return err
			}
			if err := shares.decode(exponents, code, state); err != nil {
				return err
			}
		}
		other := mantissa.bytes()
		for i, b := range exponents {
			all[(i+1)*size-1] = b
			copy(all[i*size:(i+1)*size-1], other[i*(size-1):])
		}
		return h.finish()
	}, nil
}
