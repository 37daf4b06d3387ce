package op

import (
	"math"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
)

// ScaledBack dequantizes the integer product x [S, H]: out is x times the scales of the columns and
// of the rows, plus a bias. An int32 bias is added before scaling, a floating-point bias after it.
// Rows and bias may be nil.
func ScaledBack(out, x kernel.View, columns, rows, bias *Tensor) error {
	before, after := kernel.View{}, kernel.View{}
	if bias != nil && bias.DType == dtype.Int32 {
		before = bias.View()
	} else if bias != nil {
		after = bias.View()
	}
	t, release := kernel.Temporary(x.Shape...)
	defer release()
	if err := gemm.Dequantize(t, x, columns.View(), before, false); err != nil {
		return err
	}
	if rows != nil {
		if err := elementwise.Map(elementwise.Mul, dtype.Float32, t, []elementwise.Input{elementwise.Of(t), elementwise.Of(rows.As([]int64{x.Shape[0], 1}, []int64{rows.Strides[0], 0}))}); err != nil {
			return err
		}
	}
	if after.Data != nil {
		return elementwise.Map(elementwise.Add, dtype.Float32, out, []elementwise.Input{elementwise.Of(t), elementwise.Of(after)}, elementwise.Real(1))
	}
	return elementwise.Copy(out, t)
}

// PackScale packs a scale and an optional offset into 64 bits. The low half holds the upper 19 bits
// of the float32 scale, bit 46 is set, and the nine bits of the offset start at bit 37. With
// rounding, the scale is rounded to 19 bits instead of truncated.
func PackScale(scale float32, offset *float32, rounding bool) uint64 {
	const lost = 13
	bits := math.Float32bits(scale)
	if rounding {
		bits += 1<<(lost-1) - 1 + bits>>lost&1
	}
	packed := uint64(bits&^(1<<lost-1)) | ScaleFlag
	if offset != nil {
		packed |= PackOffset(math.RoundToEven(float64(*offset)))
	}
	return packed
}

// ScaleFlag is the bit that is set in every packed scale.
const ScaleFlag = 1 << 46

// PackOffset places a whole number, limited to nine bits, where packed scales have the offset.
func PackOffset(whole float64) uint64 {
	return uint64(int64(min(max(whole, -256), 255))&0x1ff) << 37
}
