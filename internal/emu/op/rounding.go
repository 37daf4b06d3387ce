package op

import (
	"unsafe"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/half"
)

// Rounding is how the cube unit rounds the float32 factors of a product.
type Rounding uint8

const (
	Unrounded   Rounding = iota
	RoundToHF32          // to 11 bits of the fraction, with the exponents of float32
	RoundToHalf          // to float16; numbers beyond its range become infinite
)

// Values of cubeMathType.
const (
	allowDownPrecision = 1
	useFP16            = 2
	useHF32            = 3
)

// Rounding returns what the call's cubeMathType asks for on its chip. The cubes of the 910 and the 310P multiply
// float16 only.
func (c *Call) Rounding() Rounding {
	if c.plain || !c.Has("cubeMathType") {
		return Unrounded
	}
	switch c.Int("cubeMathType") {
	case allowDownPrecision:
		if c.multipliesHalf() {
			return RoundToHalf
		}
		return RoundToHF32
	case useFP16:
		return RoundToHalf
	case useHF32:
		return RoundToHF32
	}
	return Unrounded
}

// multipliesHalf reports whether the cube unit of the chip has no float32.
func (c *Call) multipliesHalf() bool {
	return c.chip == acceptance.Ascend910 || c.chip == acceptance.Ascend310P
}

// RoundsResults reports whether the call rounds float32 results to float16 too: on chips whose cubes have float32,
// USE_FP16 makes the whole product one of float16.
func (c *Call) RoundsResults() bool {
	return c.Rounding() == RoundToHalf && !c.multipliesHalf()
}

// Round returns a rounded copy of a factor, and the function that frees it. Factors that need no rounding are returned
// as they are.
func (r Rounding) Round(v kernel.View) (kernel.View, func(), error) {
	if r == Unrounded || v.DType != dtype.Float32 && (v.DType != dtype.BFloat16 || r != RoundToHalf) {
		return v, func() {}, nil
	}
	out, release := kernel.Temporary(v.Shape...)
	if err := elementwise.Copy(out, v); err != nil {
		release()
		return v, func() {}, err
	}
	if r == RoundToHalf {
		values := unsafe.Slice((*float32)(out.Data), out.Len())
		for i, x := range values {
			values[i] = half.Float16FromFloat32(x).Float32()
		}
		return out, release, nil
	}
	values := unsafe.Slice((*uint32)(out.Data), out.Len())
	for i, u := range values {
		if u&0x7f800000 != 0x7f800000 { // not infinite, nor a NaN
			u += 1<<(hf32Cut-1) - 1 + u>>hf32Cut&1
			values[i] = u &^ (1<<hf32Cut - 1)
		}
	}
	return out, release, nil
}

// hf32Cut is the number of bits that HF32 lacks: it keeps 11 of the 23 bits of the fraction.
const hf32Cut = 12
