package quantization

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/minifloat"
	"github.com/goascend/cann/internal/emu/op"
)

// quantActivations lists the activations that quantise their result.
var quantActivations = op.Table{"GeluQuant": geluQuant}

// geluQuant quantises by given scales, or dynamically per row after multiplying by the given
// scales. In mode "hybrid" the device rounds some numbers at random; here all are rounded as in mode "round".
func geluQuant(c *op.Call) (op.Run, error) {
	self, factor, offset, y := c.Tensor("self"), c.Optional("inputScaleOptional"), c.Optional("inputOffsetOptional"), c.Tensor("y")
	c.Plain(self, y)
	c.DType(self, op.FloatTypes...)
	c.DType(y, dtype.Int8, dtype.HiFloat8, dtype.Float8E5M2, dtype.Float8E4M3)
	c.SameShape(self, y)
	namedType(c, y)
	gelu, known := map[string]elementwise.Op{"none": elementwise.Gelu, "tanh": elementwise.GeluTanh}[c.Text("approximate")]
	if !known {
		c.Invalid("approximate is %q; use none or tanh", c.Text("approximate"))
	}
	mode := c.Text("roundMode")
	if wide := y.DType == dtype.HiFloat8; wide && mode != "round" && mode != "hybrid" || !wide && mode != "rint" {
		c.Invalid("roundMode is %q; use round or hybrid for hifloat8, and rint for other types", mode)
	}
	least, scale := 1, (*op.Tensor)(nil)
	switch mode := c.Text("quantMode"); mode {
	case "static":
		factor = c.Tensor("inputScaleOptional")
	case "dynamic":
		least, scale = 2, c.Tensor("outScaleOptional")
	default:
		c.Invalid("quantMode is %q; use static or dynamic", mode)
	}
	c.Rank(self, least, 8)
	if c.Err() == nil && self.Len() == 0 {
		c.Invalid("%v is empty", self)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	for _, t := range []*op.Tensor{factor, offset} {
		if t == nil {
			continue
		}
		c.Plain(t)
		c.DType(t, op.FloatTypes...)
		if t.Rank() != 1 || t.Len() != 1 && t.Len() != self.Dim(-1) {
			c.Invalid("%v must have one element, or one for each of the last dimension of %v", t, self)
		}
	}
	if offset != nil {
		if factor == nil {
			c.Invalid("%v is given without inputScaleOptional", offset)
		} else {
			c.Same(factor, offset)
		}
	}
	if scale != nil {
		c.Plain(scale)
		c.DType(scale, dtype.Float32)
		c.Shape(scale, self.Shape[:self.Rank()-1], "one for each row of self")
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		t, release := kernel.Temporary(self.Shape...)
		defer release()
		if err := elementwise.Map(gelu, dtype.Float32, t, []elementwise.Input{elementwise.Of(self.View())}); err != nil {
			return err
		}
		if y.DType != dtype.Int8 {
			return quantiseToFloats(y, scale, t, op.OptionalView(factor), op.OptionalView(offset))
		}
		if scale == nil {
			return gemm.Quantizer{Factor: factor.View(), Offset: op.OptionalView(offset), Round: elementwise.Round}.Quantize(y.View(), t)
		}
		return gemm.DynamicQuantizer{Smooth: op.OptionalView(factor)}.Quantize(y.View(), scale.View(), t)
	}, nil
}

// quantiseToFloats sets y, of floats of eight bits, to t·factor + offset. With a scale it sets that to the largest
// magnitude of each row of t·factor, over the largest number of the type, and y to the quotients.
func quantiseToFloats(y, scale *op.Tensor, t, factor, offset kernel.View) error {
	if scale == nil {
		return minifloat.Quantize(gemm.Quantizer{Factor: factor, Offset: offset}, y.View(), t)
	}
	if factor.Data != nil {
		if err := elementwise.Map(elementwise.Mul, dtype.Float32, t, []elementwise.Input{elementwise.Of(t), elementwise.Of(factor)}); err != nil {
			return err
		}
	}
	whole, release := kernel.Temporary(t.Shape...) // the same in whole numbers, which nobody needs
	defer release()
	if err := (gemm.DynamicQuantizer{Most: minifloat.Largest(y.DType)}).Quantize(whole, scale.View(), t); err != nil {
		return err
	}
	rows := scale.View()
	rows.Shape, rows.Strides = append(slices.Clone(rows.Shape), 1), append(slices.Clone(rows.Strides), 0)
	return minifloat.Quantize(gemm.Quantizer{Factor: rows, Divide: true}, y.View(), t)
}
