package nn

import (
	"encoding/binary"
	"math"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/half"
)

// Float64 is the value converted to float64; the real part of a complex scalar.
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
	return float64(s.Int64())
}

// Int64 is the value converted to int64, truncating towards zero.
func (s *Scalar) Int64() int64 {
	le := binary.LittleEndian
	switch s.DType {
	case dtype.Int8:
		return int64(int8(s.Bits[0]))
	case dtype.Uint8, dtype.Bool:
		return int64(s.Bits[0])
	case dtype.Int16:
		return int64(int16(le.Uint16(s.Bits[:])))
	case dtype.Uint16:
		return int64(le.Uint16(s.Bits[:]))
	case dtype.Int32:
		return int64(int32(le.Uint32(s.Bits[:])))
	case dtype.Uint32:
		return int64(le.Uint32(s.Bits[:]))
	case dtype.Int64, dtype.Uint64:
		return int64(le.Uint64(s.Bits[:]))
	}
	return int64(s.Float64())
}

// IsFloat reports whether the scalar has a floating-point type.
func (s *Scalar) IsFloat() bool { return s.DType.IsFloat() }
