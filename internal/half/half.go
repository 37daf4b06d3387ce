package half

import (
	"math"
	"strconv"
)

// Float16 is an IEEE 754 binary16: 1 sign, 5 exponent and 10 fraction bits, held as its bit
// pattern. The largest finite value is 65504, the smallest subnormal 2^-24.
type Float16 uint16

// BFloat16 is the upper half of an IEEE 754 binary32: 1 sign, 8 exponent and 7 fraction bits,
// held as its bit pattern.
type BFloat16 uint16

const (
	signMask = 0x8000
	inf32    = 0x7f800000
	// overflow16 is 2^16 as a float32: values in [65520, 2^16) reach infinity by the rounding
	// carry, everything from here on is out of the exponent's range.
	overflow16 = 0x47800000
	// normal16 is 2^-14, the smallest normal Float16, as a float32.
	normal16 = 0x38800000
	// rebias16 moves the exponent bias between 127 and 15, at the float32's exponent position.
	rebias16 = (127 - 15) << 23
)

// Float16FromFloat32 rounds f to the nearest Float16, ties to even. Magnitudes of 65520 and
// above become infinite. A NaN stays a NaN: it keeps its sign and the upper payload bits and
// turns quiet.
func Float16FromFloat32(f float32) Float16 {
	b := math.Float32bits(f)
	sign := Float16(b>>16) & signMask
	a := b &^ (1 << 31)
	switch {
	case a > inf32:
		return sign | 0x7e00 | Float16(a>>13)&0x1ff
	case a >= overflow16:
		return sign | 0x7c00
	case a < normal16:
		// One ulp of 0.5 is 2^-24, the subnormal step, so the addition rounds for us.
		return sign | Float16(math.Float32bits(math.Float32frombits(a)+0.5)-math.Float32bits(0.5))
	}
	return sign | Float16((a-rebias16+0xfff+a>>13&1)>>13)
}

// BFloat16FromFloat32 rounds f to the nearest BFloat16, ties to even. A NaN stays a NaN: it
// keeps its sign and the upper payload bits and turns quiet.
func BFloat16FromFloat32(f float32) BFloat16 {
	b := math.Float32bits(f)
	if b&^(1<<31) > inf32 {
		return BFloat16(b>>16) | 0x40
	}
	return BFloat16((b + 0x7fff + b>>16&1) >> 16)
}

// Float16FromFloat64 rounds f to the nearest Float16 as Float16FromFloat32 does. It rounds
// once: rounding to float32 first may end at another value.
func Float16FromFloat64(f float64) Float16 { return Float16FromFloat32(roundToOdd(f)) }

// BFloat16FromFloat64 rounds f to the nearest BFloat16 as BFloat16FromFloat32 does. It rounds
// once: rounding to float32 first may end at another value.
func BFloat16FromFloat64(f float64) BFloat16 { return BFloat16FromFloat32(roundToOdd(f)) }

// roundToOdd is f where float32 has it. Of the two float32 values around any other f it is
// the one whose last bit is set: as far as a second rounding, which keeps fewer bits, can
// distinguish, that is f.
func roundToOdd(f float64) float32 {
	r := float32(f)
	back := float64(r)
	if back == f || math.IsNaN(f) {
		return r
	}
	b := math.Float32bits(r)
	if b&1 != 0 {
		return r
	}
	// r is even; its neighbour on the other side of f is odd.
	if math.Abs(back) > math.Abs(f) {
		return math.Float32frombits(b - 1)
	}
	return math.Float32frombits(b + 1)
}

// Float32 is the value of h, exactly; the payload of a NaN is kept.
func (h Float16) Float32() float32 {
	sign := uint32(h&signMask) << 16
	a := uint32(h&^signMask) << 13
	switch {
	case a >= 0x1f<<23:
		return math.Float32frombits(sign | inf32 | a)
	case a < 1<<23:
		// Subnormal: the fraction counts steps of 2^-24.
		return math.Float32frombits(sign | math.Float32bits(float32(a>>13)*0x1p-24))
	}
	return math.Float32frombits(sign | (a + rebias16))
}

// Float32 is the value of h, exactly; the payload of a NaN is kept.
func (h BFloat16) Float32() float32 { return math.Float32frombits(uint32(h) << 16) }

// String is the shortest decimal that names the float32 value of h.
func (h Float16) String() string { return strconv.FormatFloat(float64(h.Float32()), 'g', -1, 32) }

// String is the shortest decimal that names the float32 value of h.
func (h BFloat16) String() string { return strconv.FormatFloat(float64(h.Float32()), 'g', -1, 32) }
