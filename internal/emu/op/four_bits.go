package op

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
)

// FourBits checks packed, of int4 or of int32 elements that hold eight int4 elements each. numbers is
// the shape of the int4 elements.
func (c *Call) FourBits(packed *Tensor, numbers []int64) {
	if len(numbers) == 0 {
		c.Invalid("%v must have a dimension: int4 elements share bytes", packed)
	}
	if c.Err() != nil {
		return
	}
	per, shape, last := int64(2), slices.Clone(numbers), len(numbers)-1
	if packed.DType == dtype.Int32 {
		per = 8
		shape[last] /= per
	}
	if numbers[last]%per != 0 {
		c.Invalid("%v: the last dimension of its int4 elements %s must be a multiple of %d", packed, Dims(numbers), per)
	}
	if packed.Rank() > 0 || packed.DType != dtype.Int32 || Count(numbers) != per { // one int32 may stand alone
		c.Shape(packed, shape, "that of "+Dims(numbers)+" in elements of its type")
	}
	if !packed.Contiguous() {
		c.Invalid("%v must be contiguous: int4 elements share bytes", packed)
	}
}

// WithInt8 lets compute write int8 elements to out. For an out that FourBits has checked, compute gets
// temporary memory of the shape of numbers, whose elements are then packed as int4.
func WithInt8(out *Tensor, numbers []int64, compute func(into kernel.View) error) error {
	if out.DType == dtype.Int8 {
		return compute(out.View())
	}
	bytes, release := kernel.TemporaryInt8(numbers...)
	defer release()
	if err := compute(bytes); err != nil {
		return err
	}
	return gemm.PackInt4(out.Data, bytes)
}
