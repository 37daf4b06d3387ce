package describe

import (
	"math"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/half"
)

// aclDataTypeSize returns the same sizes as CANN, which are not the storage sizes of narrow types:
// one byte for types of four bits and of one bit, and eight for floats below a byte.
func aclDataTypeSize(dataType dtype.Type) uint64 {
	switch dataType {
	case dtype.Undefined, dtype.String:
		return 0
	case dtype.Int4, dtype.Uint1:
		return 1
	}
	if n := dataType.Size(); n > 0 {
		return uint64(n)
	}
	return 8
}

// CANN's conversions know neither infinity nor NaN: an overflow saturates, and the exponent of
// infinity counts as an ordinary exponent.
const largestFloat16 = 65504

func aclFloatToFloat16(value float32) uint16 {
	f := value
	switch {
	case f != f, f > largestFloat16:
		f = float32(math.Copysign(largestFloat16, float64(f)))
	case f < -largestFloat16:
		f = -largestFloat16
	}
	return uint16(half.Float16FromFloat32(f))
}

func aclFloat16ToFloat(value uint16) float32 {
	h := value
	if h&0x7c00 != 0x7c00 {
		return half.Float16(h).Float32()
	}
	f := float32(1+float64(h&0x3ff)/1024) * 65536
	if h&0x8000 != 0 {
		return -f
	}
	return f
}
