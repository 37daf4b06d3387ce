package layout

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/entropy"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/op"
)

// exponentCodes lists the operators that compress floats without loss. The exponent bytes are
// entropy-coded by frequency (asymmetric numeral systems); the other bytes are stored unchanged.
// The device's layout of fixed and var is not documented, so the emulator uses its own: a code
// written by one cannot be read by the other.
var exponentCodes = op.Table{"HansEncode": hansEncode, "HansDecode": hansDecode}

const (
	hansHeader = 512     // bytes reserved at the start of fixed
	hansMark   = "HANS1" // magic string of the header
	hansLeast  = 32768   // minimum number of elements
)

// hans holds the input, the compressed parts, and the histogram of the exponent bytes.
type hans struct {
	*op.Call
	whole, mantissa, fixed, rest, counts *op.Tensor
	outputs                              [][2]*op.Tensor // dense tensors and the outputs they replace
}

func newHans(c *op.Call, whole, mantissa, fixed, rest, counts string) *hans {
	h := &hans{Call: c, whole: c.Tensor(whole), mantissa: c.Tensor(mantissa), fixed: c.Tensor(fixed), rest: c.Tensor(rest), counts: c.Tensor(counts)}
	c.Plain(h.whole, h.mantissa, h.fixed, h.rest, h.counts)
	c.DType(h.whole, op.FloatTypes...)
	c.SameDType(h.whole, h.mantissa, h.fixed, h.rest)
	c.DType(h.counts, dtype.Int32)
	c.Shape(h.counts, []int64{1, 256}, "a count for each byte")
	if c.Err() != nil {
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

// dense returns a contiguous tensor to write in place of t. finish copies it to t.
func (h *hans) dense(t *op.Tensor) *op.Tensor {
	if h.Err() != nil || t.Contiguous() {
		return t
	}
	d := h.Scratch(t.DType, t.Shape...)
	h.outputs = append(h.outputs, [2]*op.Tensor{d, t})
	return d
}

func (h *hans) finish() error {
	for _, pair := range h.outputs {
		if err := elementwise.Copy(pair[1].View(), pair[0].View()); err != nil {
			return err
		}
	}
	return nil
}

// bytes returns the memory of a dense tensor. Valid inside Run only.
func bytes(t *op.Tensor) []byte {
	return unsafe.Slice((*byte)(t.Data), t.Len()*int64(t.DType.Size()))
}

func hansEncode(c *op.Call) (op.Run, error) {
	h := newHans(c, "inputTensor", "mantissaOut", "fixedOut", "varOut", "pdfRef")
	count := c.Bool("statistic")
	if c.Err() != nil {
		return nil, c.Err()
	}
	whole, mantissa, fixed, rest := c.Contiguous(h.whole), h.dense(h.mantissa), h.dense(h.fixed), h.dense(h.rest)
	return func(*op.Exec) error {
		all, size := bytes(whole), whole.DType.Size()
		exponents, other := make([]byte, len(all)/size), bytes(mantissa)[:0]
		for i := range exponents {
			element := all[i*size : (i+1)*size]
			other, exponents[i] = append(other, element[:size-1]...), element[size-1]
		}
		counts := make([]int64, 256)
		if count {
			for _, b := range exponents {
				counts[b]++
			}
			if err := indexing.SetInts(h.counts.View(), counts); err != nil {
				return err
			}
		} else {
			var err error
			if counts, err = elementwise.Indices(h.counts.View()); err != nil {
				return err
			}
		}
		bytewise, err := entropy.New(counts)
		if err != nil {
			return err
		}
		code, state := bytewise.Encode(exponents)
		if len(code) >= len(exponents) {
			code, state = exponents, 0 // the code is not shorter, so store the exponents unchanged
		}
		room := bytes(fixed)
		if have := len(room) - hansHeader + len(bytes(rest)); len(code) > have {
			return fmt.Errorf("the code has %d bytes; %v and %v have room for %d", len(code), h.fixed, h.rest, have)
		}
		clear(room)
		clear(bytes(rest))
		copy(room, hansMark)
		binary.LittleEndian.PutUint32(room[8:], state)
		binary.LittleEndian.PutUint64(room[16:], uint64(len(exponents)))
		binary.LittleEndian.PutUint64(room[24:], uint64(len(code)))
		copy(bytes(rest), code[copy(room[hansHeader:], code):])
		return h.finish()
	}, nil
}

func hansDecode(c *op.Call) (op.Run, error) {
	h := newHans(c, "out", "mantissa", "fixed", "var", "pdf")
	if c.Err() != nil {
		return nil, c.Err()
	}
	mantissa, fixed, rest, out := c.Contiguous(h.mantissa), c.Contiguous(h.fixed), c.Contiguous(h.rest), h.dense(h.whole)
	return func(*op.Exec) error {
		header, all, size := bytes(fixed), bytes(out), out.DType.Size()
		exponents := make([]byte, len(all)/size)
		if string(header[:len(hansMark)]) != hansMark {
			return errors.New("fixed holds no code of this emulator's HansEncode")
		}
		n, length := binary.LittleEndian.Uint64(header[16:]), binary.LittleEndian.Uint64(header[24:])
		code := slices.Concat(header[hansHeader:], bytes(rest))
		if n != uint64(len(exponents)) || length > uint64(len(code)) {
			return fmt.Errorf("the code is %d bytes for %d elements; there are %d for %d", length, n, len(code), len(exponents))
		}
		code = code[:length]
		if state := binary.LittleEndian.Uint32(header[8:]); state == 0 {
			if copy(exponents, code) != len(exponents) {
				return fmt.Errorf("the code has %d bytes of %d", len(code), len(exponents))
			}
		} else {
			counts, err := elementwise.Indices(h.counts.View())
			if err != nil {
				return err
			}
			bytewise, err := entropy.New(counts)
			if err != nil {
				return err
			}
			if err := bytewise.Decode(exponents, code, state); err != nil {
				return err
			}
		}
		other := bytes(mantissa)
		for i, b := range exponents {
			all[(i+1)*size-1] = b
			copy(all[i*size:(i+1)*size-1], other[i*(size-1):])
		}
		return h.finish()
	}, nil
}
