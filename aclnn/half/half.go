package half

import "github.com/goascend/cann/internal/half"

// Float16 is an IEEE 754 binary16: 1 sign, 5 exponent and 10 fraction bits, held as its bit
// pattern, a uint16. The largest finite value is 65504, the smallest subnormal 2^-24. Its methods
// are Float32, its exact value (the payload of a NaN is kept), and String, the shortest decimal
// that names that value.
type Float16 = half.Float16

// BFloat16 is the upper half of an IEEE 754 binary32: 1 sign, 8 exponent and 7 fraction bits,
// held as its bit pattern, a uint16. Its methods are Float32 and String, as those of Float16.
type BFloat16 = half.BFloat16

// Half is either 16-bit type.
type Half = half.Half

// Float16FromFloat32 rounds f to the nearest Float16, ties to even. Magnitudes of 65520 and
// above become infinite. A NaN stays a NaN: it keeps its sign and the upper payload bits and
// turns quiet.
func Float16FromFloat32(f float32) Float16 { return half.Float16FromFloat32(f) }

// BFloat16FromFloat32 rounds f to the nearest BFloat16, ties to even. A NaN stays a NaN: it
// keeps its sign and the upper payload bits and turns quiet.
func BFloat16FromFloat32(f float32) BFloat16 { return half.BFloat16FromFloat32(f) }

// Float16FromFloat64 rounds f to the nearest Float16 as Float16FromFloat32 does. It rounds
// once: rounding to float32 first may end at another value.
func Float16FromFloat64(f float64) Float16 { return half.Float16FromFloat64(f) }

// BFloat16FromFloat64 rounds f to the nearest BFloat16 as BFloat16FromFloat32 does. It rounds
// once: rounding to float32 first may end at another value.
func BFloat16FromFloat64(f float64) BFloat16 { return half.BFloat16FromFloat64(f) }

// Encode rounds src to dst, ties to even, and returns the number of elements converted: the
// shorter of the two lengths, as the built-in copy does.
func Encode[T Half](dst []T, src []float32) int { return half.Encode(dst, src) }

// Decode writes the exact values of src to dst and returns the number of elements converted:
// the shorter of the two lengths, as the built-in copy does.
func Decode[T Half](dst []float32, src []T) int { return half.Decode(dst, src) }
