package gemm

import (
	"fmt"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
)

// QuantWeight is a quantised weight matrix with the value (Weight + Offset) · Scale. Scale and
// Offset are [groups, N] or [groups, 1]; each group is an equal part of the K rows. Offset may
// have no data.
type QuantWeight struct {
	Weight, Scale, Offset kernel.View
	Packed                unsafe.Pointer // int4 elements without gaps, at Weight's strides, in place of its memory
	Group                 int64          // rows per group
}

// Product computes out = x · weight + bias in float32. bias may have no data. The kernel reads the elements of
// the weight once, and never stores it as floats.
func (w QuantWeight) Product(out, x, bias kernel.View) error {
	k, n := w.Weight.Shape[0], w.Weight.Shape[1]
	b := w.Weight
	if w.Packed != nil {
		b.Data, b.DType = w.Packed, dtype.Int4
	}
	if b.DType != dtype.Int4 && b.DType != dtype.Int8 || w.Group < 1 {
		return fmt.Errorf("kernel: weight of %v in groups of %d: want int8 or packed int4 in groups of at least one row", b.DType, w.Group)
	}
	if b.DType == dtype.Int8 && b.Strides[0] != 1 && b.Strides[1] != 1 {
		t, release := kernel.TemporaryOf(dtype.Int8, b.Shape...)
		defer release()
		if err := elementwise.Copy(t, b); err != nil {
			return err
		}
		b = t // whose columns are adjacent, as the kernel needs one axis to be
	}
	groups := max((k+w.Group-1)/w.Group, 1)
	for _, f := range []*kernel.View{&w.Scale, &w.Offset} {
		if f.Data == nil {
			continue
		}
		wide, err := f.Broadcast([]int64{groups, n})
		if err != nil {
			return err
		}
		*f = wide
	}
	if bias.Data == nil {
		return Gemm(Product{Out: out, A: x, B: b, Alpha: 1, quant: &w})
	}
	c := rowwise.NewChain()
	sum := c.Temp(out.Shape)
	if c.Err == nil {
		c.Err = Gemm(Product{Out: sum, A: x, B: b, Alpha: 1, quant: &w})
	}
	c.Set(out, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(sum), elementwise.Of(bias))
	return c.End()
}
