package quantization

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/fractal"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/op"
)

// quantPacks lists the operators that pack elements of few bits.
var quantPacks = op.Table{
	"ConvertWeightToINT4Pack": packInt4,
}

// packInt4 packs weights from -8 to 7, given as int32, as int4. The first element of a byte is
// in the low half. An int32 output has eight int4 elements per element.
func packInt4(c *op.Call) (op.Run, error) {
	weight, out := c.Tensor("weight"), c.Tensor("weightInt4Pack")
	c.Plain(weight)
	c.DType(weight, dtype.Int32)
	c.DType(out, dtype.Int4, dtype.Int32)
	c.Rank(weight, 2, 3)
	if c.Err() != nil {
		return nil, c.Err()
	}
	per := int64(2)
	want := slices.Clone(weight.Shape)
	if out.DType == dtype.Int32 {
		per = 8
		want[len(want)-1] /= per
	}
	if n := weight.Dim(-1); n%per != 0 || weight.Len() == 0 {
		c.Invalid("%v: the last dimension must be a multiple of %d, and none be empty", weight, per)
	}
	c.Shape(out, want, "weight, in elements of the output")
	if !out.Contiguous() {
		c.Invalid("%v must be contiguous", out)
	}
	nz := op.IsNZ(out.Format)
	if nz {
		c.CheckNZ(out)
	} else {
		c.Plain(out)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	c0 := out.NZColumns() // in elements of out
	if out.DType == dtype.Int32 {
		c0 *= per
	}
	return func(*op.Exec) error {
		values, release := kernel.TemporaryInt8(weight.Shape...)
		defer release()
		if err := elementwise.Copy(values, weight.View()); err != nil {
			return err
		}
		if !nz {
			return gemm.PackInt4(out.Data, values)
		}
		packed, releasePacked := kernel.TemporaryInt8(weight.Len() / 2)
		defer releasePacked()
		if err := gemm.PackInt4(packed.Data, values); err != nil {
			return err
		}
		v := kernel.View{Data: packed.Data, DType: dtype.Int4, Shape: weight.Shape, Strides: op.ContiguousStrides(weight.Shape)}
		return fractal.Pack(out.Data, c0, v)
	}, nil
}
