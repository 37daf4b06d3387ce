package element

import (
	"encoding/binary"
	"math"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/half"
)

// block is the number of elements that are converted at a time through float64 or int64, which hold
// all values of their class.
const block = 512

func convertFloats(dst []byte, to dtype.Type, src []byte, from dtype.Type) {
	var values [block]float64
	for len(src) > 0 {
		n := min(block, len(src)/from.Size())
		decodeFloats(values[:n], src, from)
		encodeFloats(dst, to, values[:n])
		src, dst = src[n*from.Size():], dst[n*to.Size():]
	}
}

// Floats decodes elements of a floating-point dtype as float64, which represents each of them
// exactly. Integer dtypes are not supported.
func Floats(dst []float64, src []byte, from dtype.Type) { decodeFloats(dst, src, from) }

func decodeFloats(dst []float64, src []byte, from dtype.Type) {
	le := binary.LittleEndian
	switch from {
	case dtype.Float64:
		for i := range dst {
			dst[i] = math.Float64frombits(le.Uint64(src[8*i:]))
		}
	case dtype.Float32:
		for i := range dst {
			dst[i] = float64(math.Float32frombits(le.Uint32(src[4*i:])))
		}
	case dtype.Float16:
		for i := range dst {
			dst[i] = float64(half.Float16(le.Uint16(src[2*i:])).Float32())
		}
	case dtype.BFloat16:
		for i := range dst {
			dst[i] = float64(half.BFloat16(le.Uint16(src[2*i:])).Float32())
		}
	case dtype.Float8E5M2: // the format is the upper byte of a Float16
		for i := range dst {
			dst[i] = float64(half.Float16(uint16(src[i]) << 8).Float32())
		}
	case dtype.Float8E4M3:
		for i := range dst {
			dst[i] = float8E4M3(src[i])
		}
	case dtype.Float8E8M0:
		for i := range dst {
			dst[i] = float8E8M0(src[i])
		}
	}
}

func encodeFloats(dst []byte, to dtype.Type, values []float64) {
	le := binary.LittleEndian
	switch to {
	case dtype.Float64:
		for i, v := range values {
			le.PutUint64(dst[8*i:], math.Float64bits(v))
		}
	case dtype.Float32:
		for i, v := range values {
			le.PutUint32(dst[4*i:], math.Float32bits(float32(v)))
		}
	case dtype.Float16:
		for i, v := range values {
			le.PutUint16(dst[2*i:], uint16(half.Float16FromFloat64(v)))
		}
	case dtype.BFloat16:
		for i, v := range values {
			le.PutUint16(dst[2*i:], uint16(half.BFloat16FromFloat64(v)))
		}
	}
}

// float8E4M3 decodes the "fn" variant: bias 7, no infinities, and NaN where all bits but the sign
// are set.
func float8E4M3(b byte) float64 {
	exp, frac := int(b>>3&0xf), float64(b&7)
	var v float64
	switch {
	case b&0x7f == 0x7f:
		v = math.NaN()
	case exp == 0:
		v = math.Ldexp(frac, -9)
	default:
		v = math.Ldexp(8+frac, exp-10)
	}
	if b&0x80 != 0 {
		v = math.Copysign(v, -1)
	}
	return v
}

// float8E8M0 decodes a power of two with bias 127; 255 is NaN.
func float8E8M0(b byte) float64 {
	if b == 0xff {
		return math.NaN()
	}
	return math.Ldexp(1, int(b)-127)
}
