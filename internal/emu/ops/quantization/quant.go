package quantization

import (
	"slices"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/minifloat"
	"github.com/goascend/cann/internal/emu/op"
)

// quantisations lists the conversions between numbers and int8 or int4. DynamicQuant alone takes floats of eight bits.
var quantisations = op.Table{
	"AscendQuant": ascendQuant, "AscendQuantV3": ascendQuant, "AscendAntiQuant": ascendAntiQuant, "Quantize": quantize,
	"DynamicQuant": dynamicQuant, "DynamicQuantV2": dynamicQuant, "DynamicQuantV3": dynamicQuant, "DynamicQuantV4": dynamicQuant,
}.Omits("DynamicQuant", "DynamicQuantV2", "DynamicQuantV3", "DynamicQuantV4")

// roundings maps the values of roundMode.
var roundings = map[string]elementwise.Op{"": elementwise.Round, "round": elementwise.Round, "floor": elementwise.Floor, "ceil": elementwise.Ceil, "trunc": elementwise.Trunc}

// optionalPerAxis is PerAxis for a tensor that may be absent.
func optionalPerAxis(c *op.Call, name string, x *op.Tensor, axis int) func() kernel.View {
	if t := c.Optional(name); t != nil && t.Len() > 0 {
		return c.PerAxis(t, x, axis)
	}
	return func() kernel.View { return kernel.View{} }
}

// eightBits checks the 8-bit output of a quantisation.
func eightBits(c *op.Call, x, y *op.Tensor) {
	c.Plain(x, y)
	c.DType(x, op.FloatTypes...)
	c.DType(y, dtype.Int8)
	c.SameShape(x, y)
	namedType(c, y)
}

// namedType checks that dstType is the type of y, if the operator has it.
func namedType(c *op.Call, y *op.Tensor) {
	if c.Has("dstType") {
		if d := dtype.Type(c.Int("dstType")); d != y.DType {
			c.Invalid("dstType is %v, but %v", d, y)
		}
	}
}

// fewBits checks the output of a quantisation, of int8 or int4, and reports whether it is int4.
func fewBits(c *op.Call, x, y *op.Tensor) (fours bool) {
	if c.Err() != nil || y.DType != dtype.Int4 && y.DType != dtype.Int32 {
		eightBits(c, x, y)
		return false
	}
	c.Plain(x, y)
	c.DType(x, op.FloatTypes...)
	c.Rank(x, 1, kernel.MaxRank)
	c.FourBits(y, x.Shape)
	namedType(c, y)
	return true
}

func ascendQuant(c *op.Call) (op.Run, error) {
	x, y := c.Tensor("x"), c.Tensor("y")
	fewBits(c, x, y)
	c.Rank(x, 1, kernel.MaxRank)
	round, known := roundings[c.Text("roundMode")]
	if !known {
		c.Invalid("roundMode %q is unknown; use round, floor, ceil or trunc", c.Text("roundMode"))
	}
	axis := c.Axis(x, c.IntOr("axis", -1))
	if c.Err() != nil {
		return nil, c.Err()
	}
	scale, offset := c.PerAxis(c.Tensor("scale"), x, axis), optionalPerAxis(c, "offset", x, axis)
	root := c.Bool("sqrtMode")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		q := gemm.Quantizer{Factor: scale(), Offset: offset(), Root: root, Round: round}
		return op.WithInt8(y, x.Shape, func(into kernel.View) error { return q.Quantize(into, x.View()) })
	}, nil
}

// quantize divides by the scales and adds the zero points, which may have an integer dtype.
func quantize(c *op.Call) (op.Run, error) {
	x, scales, zeros, out := c.Tensor("x"), c.Tensor("scales"), c.Optional("zeroPoints"), c.Tensor("out")
	c.Plain(x, out)
	c.DType(x, op.FloatTypes...)
	c.DType(out, dtype.Int8, dtype.Uint8, dtype.Int32)
	c.SameShape(x, out)
	if d := dtype.Type(c.Int("dtype")); d != out.DType {
		c.Invalid("dtype is %v, but %v", d, out)
	}
	axis := c.Axis(x, c.Int("axis"))
	if c.Err() != nil {
		return nil, c.Err()
	}
	factor := c.PerAxis(scales, x, axis)
	offset := func() kernel.View { return kernel.View{} }
	if zeros != nil {
		c.Countable(zeros)
		c.SameShape(scales, zeros)
		offset = func() kernel.View {
			v := factor()
			return zeros.As(v.Shape, zeros.Along(axis, x.Rank()).Strides)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		return gemm.Quantizer{Factor: factor(), Offset: offset(), Divide: true, Round: elementwise.Round}.Quantize(out.View(), x.View())
	}, nil
}

func ascendAntiQuant(c *op.Call) (op.Run, error) {
	x, y := c.Tensor("x"), c.Tensor("y")
	c.Plain(x, y)
	c.DType(x, dtype.Int8, dtype.Int4, dtype.Int32)
	c.DType(y, dtype.Float16, dtype.BFloat16)
	fours := x.DType != dtype.Int8
	c.Rank(y, 1, kernel.MaxRank)
	if fours {
		c.FourBits(x, y.Shape)
	} else {
		c.SameShape(x, y)
	}
	if d := dtype.Type(c.Int("dstType")); d != y.DType {
		c.Invalid("dstType is %v, but %v", d, y)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	axis := y.Rank() - 1
	scale, offset := c.PerAxis(c.Tensor("scale"), y, axis), optionalPerAxis(c, "offset", y, axis)
	root := c.Bool("sqrtMode")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		values := x.View()
		if fours {
			bytes, release := kernel.TemporaryInt8(y.Shape...)
			defer release()
			if err := gemm.UnpackInt4(bytes, x.Data); err != nil {
				return err
			}
			values = bytes
		}
		return gemm.Dequantize(y.View(), values, scale(), offset(), root)
	}, nil
}

// smoothed returns the factors of the elements of each line of x, and the ends of the groups of rows that have their
// own. Both may be nil.
func smoothed(c *op.Call, x *op.Tensor, length int64, line string) (smooth, groups *op.Tensor) {
	smooth = c.Optional("smoothScalesOptional")
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
			c.Fail(op.NullPointer, "smoothScalesOptional is null; groupIndexOptional needs it")
		}
	}
	return smooth, groups
}

// dynamicQuant scales each row of x, or all of x, by its largest magnitude. The third and the fourth version
// can also scale each position of the last dimension.
func dynamicQuant(c *op.Call) (op.Run, error) {
	x, y, scale := c.Tensor("x"), c.Tensor("yOut"), c.Tensor("scaleOut")
	floats, fours, most := c.Chip() == acceptance.Ascend950 && slices.Contains(eightBitFloats, y.DType), false, float32(0)
	if floats {
		c.Plain(x, y)
		c.SameShape(x, y)
		namedType(c, y)
		most = largestOf(c, y.DType)
	} else {
		fours = fewBits(c, x, y)
	}
	c.Rank(x, 2, kernel.MaxRank)
	if c.Err() != nil {
		return nil, c.Err()
	}
	q, channels := gemm.DynamicQuantizer{}, false
	if fours {
		q.Most = gemm.MostInt4
	}
	want, length, line := x.Shape[:x.Rank()-1], x.Dim(-1), "row"
	if limit := minifloat.Largest(dtype.HiFloat8); c.Has("dstTypeMax") && (c.Float("dstTypeMax") < 0 || c.Float("dstTypeMax") > limit) {
		c.Unfit("dstTypeMax is %g; it must be within the range [0, %g], and hifloat8 alone heeds it", c.Float("dstTypeMax"), limit)
	}
	if c.Has("quantMode") {
		switch mode := c.Text("quantMode"); {
		case mode == "" || mode == "pertoken":
		case mode == "pertensor":
			q.Whole, want = true, []int64{1}
		case mode == "perchannel":
			channels, want, length, line = true, append(slices.Clone(x.Shape[:x.Rank()-2]), x.Dim(-1)), x.Dim(-2), "column"
		default:
			c.Invalid("quantMode %q is not supported; use pertoken, pertensor or perchannel", mode)
		}
	}
	offset := (*op.Tensor)(nil)
	if c.Has("offsetOut") && !(c.Has("isSymmetrical") && c.Bool("isSymmetrical")) {
		offset = c.Tensor("offsetOut")
	}
	for _, t := range []*op.Tensor{scale, offset} {
		if t != nil {
			c.DType(t, dtype.Float32)
			c.Shape(t, want, "one for each "+line+" of x, or one with quantMode pertensor")
		}
	}
	smooth, groups := smoothed(c, x, length, line)
	if groups != nil && channels {
		c.Invalid("%v is given; quantMode perchannel has no groups", groups)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		run := q
		run.Smooth, run.Offset = op.OptionalView(smooth), op.OptionalView(offset)
		if groups != nil {
			var err error
			if run.Ends, err = op.RowEnds(groups, x.Len()/x.Dim(-1)); err != nil {
				return err
			}
		}
		lines := func(v kernel.View) kernel.View { // treats columns as rows
			order := op.InOrder(x.Rank())
			if channels {
				slices.Reverse(order[x.Rank()-2:])
			}
			return op.Permuted(v, order)
		}
		if floats {
			return floatQuantizer{run, most}.quantise(lines(y.View()), scale.View(), lines(x.View()))
		}
		return op.WithInt8(y, x.Shape, func(into kernel.View) error {
			return run.Quantize(lines(into), scale.View(), lines(x.View()))
		})
	}, nil
}
