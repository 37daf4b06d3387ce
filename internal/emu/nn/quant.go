package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// quantisations turn numbers into int8 and back. int4 and float8 outputs are refused.
var quantisations = table{
	"AscendQuant": ascendQuant, "AscendQuantV3": ascendQuant, "AscendAntiQuant": ascendAntiQuant, "Quantize": quantize,
	"DynamicQuant": dynamicQuant, "DynamicQuantV2": dynamicQuant, "DynamicQuantV3": dynamicQuant, "DynamicQuantV4": dynamicQuant,
	"QuantMatmulV3": quantMatmul, "QuantMatmulV4": quantMatmul, "QuantMatmulV5": quantMatmul,
	"QuantMatmulV2": quantMatmul, "QuantMatmulWeightNz": quantMatmul, "FusedQuantMatmul": quantMatmul, "FusedQuantMatmulWeightNz": quantMatmul,
	"QuantMatmulReduceSumWeightNz": quantMatmulSum,
	"WeightQuantBatchMatmulV2":     weightQuantMatmul, "WeightQuantBatchMatmulV3": weightQuantMatmul,
}

// roundings are the values of roundMode.
var roundings = map[string]kernel.Op{"": kernel.Round, "round": kernel.Round, "floor": kernel.Floor, "ceil": kernel.Ceil, "trunc": kernel.Trunc}

// perAxis checks parameters of x: one for all, one for each place of a dimension as a
// vector, or a tensor that broadcasts. The view is for Run.
func (c *Call) perAxis(t, x *Tensor, axis int) func() kernel.View {
	c.plain(t)
	c.DType(t, transformerTypes...)
	if t.Rank() == 1 && (t.Len() == 1 || x.Rank() > axis && t.Len() == x.Shape[axis]) {
		return func() kernel.View { return t.along(axis, x.Rank()) }
	}
	if shape, ok := broadcastShape(t.Shape, x.Shape); !ok || !slices.Equal(shape, x.Shape) {
		c.Invalid("%v must have one element, one for each place of dimension %d of %v, or broadcast to it", t, axis, x)
	}
	return t.View
}

// optionalPerAxis is perAxis of a tensor that may be absent.
func (c *Call) optionalPerAxis(name string, x *Tensor, axis int) func() kernel.View {
	if t := c.Optional(name); t != nil && t.Len() > 0 {
		return c.perAxis(t, x, axis)
	}
	return func() kernel.View { return kernel.View{} }
}

// eightBits checks the output of a quantisation.
func (c *Call) eightBits(x, y *Tensor, argument string) {
	c.plain(x, y)
	c.DType(x, transformerTypes...)
	c.DType(y, dtype.Int8)
	c.SameShape(x, y)
	if c.Has(argument) {
		if d := dtype.Type(c.Int(argument)); d != y.DType {
			c.Invalid("%s is %v, but %v; only int8 is supported", argument, d, y)
		}
	}
}

func ascendQuant(c *Call) (Run, error) {
	x, y := c.Tensor("x"), c.Tensor("y")
	c.eightBits(x, y, "dstType")
	c.Rank(x, 1, kernel.MaxRank)
	round, known := roundings[c.Text("roundMode")]
	if !known {
		c.Invalid("roundMode %q is unknown; use round, floor, ceil or trunc", c.Text("roundMode"))
	}
	axis := c.Axis(x, c.intOr("axis", -1))
	if c.Err() != nil {
		return nil, c.Err()
	}
	scale, offset := c.perAxis(c.Tensor("scale"), x, axis), c.optionalPerAxis("offset", x, axis)
	root := c.Bool("sqrtMode")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return nil
		}
		return kernel.Quantizer{Factor: scale(), Offset: offset(), Root: root, Round: round}.Quantize(y.View(), x.View())
	}, nil
}

// quantize divides by the scales and moves by the zero points, whose dtype may be int.
func quantize(c *Call) (Run, error) {
	x, scales, zeros, out := c.Tensor("x"), c.Tensor("scales"), c.Optional("zeroPoints"), c.Tensor("out")
	c.plain(x, out)
	c.DType(x, transformerTypes...)
	c.DType(out, dtype.Int8, dtype.Uint8, dtype.Int32)
	c.SameShape(x, out)
	if d := dtype.Type(c.Int("dtype")); d != out.DType {
		c.Invalid("dtype is %v, but %v", d, out)
	}
	axis := c.Axis(x, c.Int("axis"))
	if c.Err() != nil {
		return nil, c.Err()
	}
	factor := c.perAxis(scales, x, axis)
	offset := func() kernel.View { return kernel.View{} }
	if zeros != nil {
		c.countable(zeros)
		c.SameShape(scales, zeros)
		offset = func() kernel.View {
			v := factor()
			return zeros.As(v.Shape, zeros.along(axis, x.Rank()).Strides)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return nil
		}
		return kernel.Quantizer{Factor: factor(), Offset: offset(), Divide: true, Round: kernel.Round}.Quantize(out.View(), x.View())
	}, nil
}

func ascendAntiQuant(c *Call) (Run, error) {
	x, y := c.Tensor("x"), c.Tensor("y")
	c.plain(x, y)
	c.DType(x, dtype.Int8)
	c.DType(y, dtype.Float16, dtype.BFloat16)
	c.SameShape(x, y)
	c.Rank(x, 1, kernel.MaxRank)
	if d := dtype.Type(c.Int("dstType")); d != y.DType {
		c.Invalid("dstType is %v, but %v", d, y)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	axis := x.Rank() - 1
	scale, offset := c.perAxis(c.Tensor("scale"), x, axis), c.optionalPerAxis("offset", x, axis)
	root := c.Bool("sqrtMode")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return nil
		}
		return kernel.Dequantize(y.View(), x.View(), scale(), offset(), root)
	}, nil
}

// dynamicQuant scales each row of x, or all of it, by its own extremes; the fourth version also
// each place of the last dimension.
func dynamicQuant(c *Call) (Run, error) {
	x, y, scale := c.Tensor("x"), c.Tensor("yOut"), c.Tensor("scaleOut")
	c.eightBits(x, y, "dstType")
	c.Rank(x, 2, kernel.MaxRank)
	if c.Err() != nil {
		return nil, c.Err()
	}
	q, channels := kernel.DynamicQuantizer{}, false
	want, length, line := x.Shape[:x.Rank()-1], x.Dim(-1), "row"
	if c.Has("dstTypeMax") && c.Float("dstTypeMax") != 0 {
		c.Invalid("dstTypeMax is %g; int8 has its own, pass 0", c.Float("dstTypeMax"))
	}
	if c.Has("quantMode") {
		switch mode := c.Text("quantMode"); {
		case mode == "" || mode == "pertoken":
		case mode == "pertensor":
			q.Whole, want = true, []int64{1}
		case mode == "perchannel" && c.op.name == "DynamicQuantV4":
			channels, want, length, line = true, append(slices.Clone(x.Shape[:x.Rank()-2]), x.Dim(-1)), x.Dim(-2), "column"
		default:
			c.Invalid("quantMode %q is not supported; use pertoken or pertensor, or perchannel of DynamicQuantV4", mode)
		}
	}
	offset := (*Tensor)(nil)
	if c.Has("offsetOut") && !(c.Has("isSymmetrical") && c.Bool("isSymmetrical")) {
		offset = c.Tensor("offsetOut")
	}
	for _, t := range []*Tensor{scale, offset} {
		if t != nil {
			c.DType(t, dtype.Float32)
			c.Shape(t, want, "one for each "+line+" of x, or one with quantMode pertensor")
		}
	}
	smooth, groups := c.Optional("smoothScalesOptional"), (*Tensor)(nil)
	if c.Has("groupIndexOptional") {
		groups = c.Optional("groupIndexOptional")
	}
	if smooth != nil {
		shape := []int64{length}
		if groups != nil {
			shape = []int64{groups.Len(), length}
		}
		c.SameDType(x, smooth)
		c.Shape(smooth, shape, "one for each place of a "+line+" of x, for each group")
	}
	if groups != nil {
		c.DType(groups, dtype.Int32)
		c.Rank(groups, 1, 1)
		if smooth == nil {
			c.Fail(nullPointer, "smoothScalesOptional is null; groupIndexOptional needs it")
		}
		if channels {
			c.Invalid("%v is given; quantMode perchannel has no groups", groups)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return nil
		}
		run := q
		run.Smooth, run.Offset = optionalView(smooth), optionalView(offset)
		if groups != nil {
			var err error
			if run.Ends, err = rowEnds(groups, x.Len()/x.Dim(-1)); err != nil {
				return err
			}
		}
		from, to := x.View(), y.View()
		if channels { // whose rows are the columns
			order := inOrder(x.Rank())
			slices.Reverse(order[x.Rank()-2:])
			from, to = permuted(from, order), permuted(to, order)
		}
		return run.Quantize(to, scale.View(), from)
	}, nil
}
