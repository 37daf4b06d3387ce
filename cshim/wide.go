package cshim

import (
	"fmt"
	"math"
	"runtime"
)

// wide is the arguments of a Wide call. It is allocated, because C must not see it move.
type wide struct {
	words  [maxParams]uint64
	floats [maxFloats]float64
	n      uint32
}

// Wide is Call.Do for a function with more words than a Call has, or with floating-point numbers: up to 64 words, integers and
// pointers in C order, and up to eight numbers, as bits (a float in the low half). Go memory that a word points to must be
// pinned. Results are written to such memory.
func Wide(f *Func, context uint64, words []uint64, floats ...uint64) error {
	if len(words) > maxParams || len(floats) > maxFloats {
		return fmt.Errorf("cshim: %s: %d words and %d numbers; a call takes %d and %d", f.name, len(words), len(floats), maxParams, maxFloats)
	}
	address, err := f.address()
	if err != nil {
		return err
	}
	w := &wide{n: uint32(len(words))}
	copy(w.words[:], words)
	for i, bits := range floats {
		w.floats[i] = math.Float64frombits(bits)
	}
	c := &Call{fn: address, context: context}
	c.runWide(w)
	if c.bind != 0 || int32(c.ret) != 0 {
		return c.failure(f.name)
	}
	return nil
}

// Complex returns a complex number by value as the numbers of a Wide call: one on x86-64, where both parts share a register,
// and two on AArch64.
func Complex(z complex64) []uint64 {
	re, im := uint64(math.Float32bits(real(z))), uint64(math.Float32bits(imag(z)))
	if runtime.GOARCH == "arm64" {
		return []uint64{re, im}
	}
	return []uint64{im<<32 | re}
}
