package matmul

import (
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// useHF32 is the cubeMathType that rounds float32 factors to HF32.
const useHF32 = 3

// roundsToHF32 reports whether the call lets the device round a float32 factor. With
// ALLOW_FP32_DOWN_PRECISION the device may, and the emulator does not.
func roundsToHF32(c *op.Call, f Factor) bool {
	return f.t.DType == dtype.Float32 && !op.IsPrivate(f.t.Format) && c.Has("cubeMathType") && c.Int("cubeMathType") == useHF32
}

// hf32Cut is the number of bits that HF32 lacks: it keeps 11 of the 23 bits of the fraction.
const hf32Cut = 12

// toHF32 returns a copy of a float32 view, rounded to the nearest HF32, ties to even, and the
// function that frees it.
func toHF32(v kernel.View) (kernel.View, func(), error) {
	out, release := kernel.Temporary(v.Shape...)
	if err := elementwise.Copy(out, v); err != nil {
		release()
		return v, nil, err
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
