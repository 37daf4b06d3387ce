package rt

import (
	"math"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/half"
)

// valueFunctions convert and measure values; they need no device.
func valueFunctions() table {
	return table{
		"aclDataTypeSize":   func(_ *Thread, a []uint64) uint64 { return dataTypeSize(dtype.Type(int32(a[0]))) },
		"aclFloat16ToFloat": func(_ *Thread, a []uint64) uint64 { return uint64(math.Float32bits(float16ToFloat(uint16(a[0])))) },
		"aclFloatToFloat16": func(_ *Thread, a []uint64) uint64 { return uint64(floatToFloat16(math.Float32frombits(uint32(a[0])))) },
	}
}

// dataTypeSize answers as CANN does, which is not the storage of the narrow types: it has
// one byte for those of four and one bit, and eight for the floats below a byte.
func dataTypeSize(t dtype.Type) uint64 {
	switch t {
	case dtype.Undefined, dtype.String:
		return 0
	case dtype.Int4, dtype.Uint1:
		return 1
	}
	if n := t.Size(); n > 0 {
		return uint64(n)
	}
	return 8
}

// CANN's conversions have no infinities and no NaN: what would be one saturates, and the
// exponent of infinity counts as an ordinary one.
const largestFloat16 = 65504

func floatToFloat16(f float32) uint16 {
	switch {
	case f != f, f > largestFloat16:
		f = float32(math.Copysign(largestFloat16, float64(f)))
	case f < -largestFloat16:
		f = -largestFloat16
	}
	return uint16(half.Float16FromFloat32(f))
}

func float16ToFloat(h uint16) float32 {
	if h&0x7c00 != 0x7c00 {
		return half.Float16(h).Float32()
	}
	f := float32(1+float64(h&0x3ff)/1024) * 65536
	if h&0x8000 != 0 {
		return -f
	}
	return f
}
