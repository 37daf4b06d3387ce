package op

import (
	"encoding/binary"
	"math"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/half"
)

// HasValue reports whether the emulator can read scalars of this type.
func (s *Scalar) HasValue() bool {
	if _, ok := s.whole(); ok {
		return true
	}
	switch s.DType {
	case dtype.Float32, dtype.Float64, dtype.Float16, dtype.BFloat16, dtype.Complex32, dtype.Complex64, dtype.Complex128:
		return true
	}
	return false
}

// Float64 returns the value converted to float64. For a complex scalar it is the real part.
func (s *Scalar) Float64() float64 {
	le := binary.LittleEndian
	switch s.DType {
	case dtype.Float32, dtype.Complex64:
		return float64(math.Float32frombits(le.Uint32(s.Bits[:])))
	case dtype.Float64, dtype.Complex128:
		return math.Float64frombits(le.Uint64(s.Bits[:]))
	case dtype.Float16, dtype.Complex32:
		return float64(half.Float16(le.Uint16(s.Bits[:])).Float32())
	case dtype.BFloat16:
		return float64(half.BFloat16(le.Uint16(s.Bits[:])).Float32())
	case dtype.Uint64:
		return float64(le.Uint64(s.Bits[:]))
	}
	n, _ := s.whole()
	return float64(n)
}

// Complex returns the value as a complex number.
func (s *Scalar) Complex() complex128 {
	le := binary.LittleEndian
	imaginary := 0.0
	switch s.DType {
	case dtype.Complex32:
		imaginary = float64(half.Float16(le.Uint16(s.Bits[2:])).Float32())
	case dtype.Complex64:
		imaginary = float64(math.Float32frombits(le.Uint32(s.Bits[4:])))
	case dtype.Complex128:
		imaginary = math.Float64frombits(le.Uint64(s.Bits[8:]))
	}
	return complex(s.Float64(), imaginary)
}

// Int64 returns the value converted to int64, truncated toward zero.
func (s *Scalar) Int64() int64 {
	if n, ok := s.whole(); ok {
		return n
	}
	return int64(s.Float64())
}

// whole returns the value of an integer or bool scalar. ok is false for other types.
func (s *Scalar) whole() (n int64, ok bool) {
	le := binary.LittleEndian
	switch s.DType {
	case dtype.Int8:
		return int64(int8(s.Bits[0])), true
	case dtype.Uint8, dtype.Bool:
		return int64(s.Bits[0]), true
	case dtype.Int16:
		return int64(int16(le.Uint16(s.Bits[:]))), true
	case dtype.Uint16:
		return int64(le.Uint16(s.Bits[:])), true
	case dtype.Int32:
		return int64(int32(le.Uint32(s.Bits[:]))), true
	case dtype.Uint32:
		return int64(le.Uint32(s.Bits[:])), true
	case dtype.Int64, dtype.Uint64:
		return int64(le.Uint64(s.Bits[:])), true
	}
	return 0, false
}

// IsFloat reports whether the scalar has a floating-point type.
func (s *Scalar) IsFloat() bool { return s.DType.IsFloat() }

// Number returns the scalar as both float64 and int64, the form that kernels take.
func (s *Scalar) Number() elementwise.Number { return elementwise.Number{F: s.Float64(), I: s.Int64()} }
