package quantization

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// groupQuantisations lists the operators that quantise with parameters per group of rows, as
// experts need them, or dequantise the sums of a product.
var groupQuantisations = op.Table{"GroupQuant": groupQuant, "SwiGluQuant": swiGLUQuant, "SwiGluQuantV2": swiGLUQuant, "DequantBias": dequantBias}.Selects("GroupQuant").Omits("SwiGluQuant", "SwiGluQuantV2")

// groupQuant quantises rows x [S, H] by the scales [E, H] of their group.
func groupQuant(c *op.Call) (op.Run, error) {
	x, scale, groups, offset, y := c.Tensor("x"), c.Tensor("scale"), c.Tensor("groupIndex"), c.Optional("offsetOptional"), c.Tensor("y")
	eightBits(c, x, y)
	c.Plain(scale, groups)
	c.DType(scale, op.FloatTypes...)
	c.DType(groups, op.IndexTypes...)
	c.Rank(x, 2, 2)
	c.Rank(groups, 1, 1)
	if c.Err() == nil {
		c.Shape(scale, []int64{groups.Len(), x.Shape[1]}, "a row for each group")
	}
	if offset != nil {
		c.SameDType(scale, offset)
		c.Single(offset)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		ends, err := op.RowEnds(groups, x.Shape[0])
		if err != nil {
			return err
		}
		q := gemm.Quantizer{Round: elementwise.Round}
		if offset != nil {
			q.Offset = offset.As([]int64{}, []int64{})
		}
		return op.EachGroup(ends, func(g int, first, n int64) error {
			q.Factor = scale.View().Select(0, int64(g))
			return q.Quantize(y.View().Narrow(0, first, n), x.View().Narrow(0, first, n))
		})
	}, nil
}

// ofGroup returns the part of a contiguous tensor that belongs to one group, or nil for a nil
// tensor.
func ofGroup(t *op.Tensor, groups int64, g int) kernel.View {
	if t == nil {
		return kernel.View{}
	}
	n := t.Len() / groups
	return t.As([]int64{groups, n}, []int64{n, 1}).Select(0, int64(g))
}

// swiGLUQuant quantises the result of a gated linear unit, either dynamically after smoothing or
// with given scales and offsets. Smoothing factors, scales and offsets may differ between groups
// of rows.
func swiGLUQuant(c *op.Call) (op.Run, error) {
	x, smooth, offsets, groups := c.Tensor("x"), c.Optional("smoothScalesOptional"), c.Optional("offsetsOptional"), c.Optional("groupIndexOptional")
	y, scale := c.Tensor("yOut"), c.Tensor("scaleOut")
	gate := rowwise.SwishGate
	gate.Left = c.Bool("activateLeft")
	mode := c.Text("quantModeOptional")
	dynamic := mode == "dynamic"
	if !dynamic && mode != "" && mode != "static" {
		c.Invalid("quantModeOptional %q is not supported; use static or dynamic", mode)
	}
	c.Plain(x, y)
	c.DType(x, op.FloatTypes...)
	types := []dtype.Type{dtype.Int8}
	if c.Has("dstType") {
		types = append(types, dtype.Int4)
	}
	c.DType(y, types...)
	namedType(c, y)
	each := c.Has("groupListType") && c.Int("groupListType") == 1
	if c.Has("groupListType") && c.Int("groupListType") != 0 && !each {
		c.Invalid("groupListType is %d; 0 is where groups end, 1 how many rows they have", c.Int("groupListType"))
	}
	c.Rank(x, 2, kernel.MaxRank)
	if c.Err() != nil {
		return nil, c.Err()
	}
	last := x.Rank() - 1
	half := op.Halved(c, x, last)
	rounder := gemm.DynamicQuantizer{}
	if y.DType == dtype.Int4 {
		rounder.Most = gemm.MostInt4
		c.FourBits(y, half)
	} else {
		c.Shape(y, half, "x with half its last dimension")
	}
	width, rows, parts := y.Dim(-1), op.Count(x.Shape[:last]), int64(1)
	if groups != nil {
		c.DType(groups, dtype.Int32)
		c.Rank(groups, 1, 1)
		parts = groups.Len()
	}
	if dynamic {
		c.DType(scale, dtype.Float32)
		c.Shape(scale, x.Shape[:last], "one for each row of x")
	} else if smooth == nil {
		c.Fail(op.NullPointer, "smoothScalesOptional is null; a static quantisation needs scales")
	}
	forGroups(c, parts, width, smooth, offsets)
	c.Dense(y, scale)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if y.Len() == 0 {
			return nil
		}
		t, release := kernel.Temporary(y.Shape...)
		defer release()
		if err := gate.Forward(t, kernel.View{}, x.View(), last); err != nil {
			return err
		}
		ends, err := op.GroupEnds(groups, rows, each)
		if err != nil {
			return err
		}
		shape := []int64{rows, width}
		flat := func(v kernel.View) kernel.View {
			return kernel.View{Data: v.Data, DType: v.DType, Shape: shape, Strides: op.ContiguousStrides(shape)}
		}
		return op.WithInt8(y, y.Shape, func(into kernel.View) error {
			return op.EachGroup(ends, func(g int, first, n int64) error {
				part, into := flat(t).Narrow(0, first, n), flat(into).Narrow(0, first, n)
				if !dynamic {
					return gemm.Quantizer{Factor: ofGroup(smooth, parts, g), Offset: ofGroup(offsets, parts, g), Round: elementwise.Round}.Quantize(into, part)
				}
				return quantiseSmoothed(rounder, into, scale.As([]int64{rows}, []int64{1}).Narrow(0, first, n), part, ofGroup(smooth, parts, g))
			})
		})
	}, nil
}

// quantiseSmoothed quantises rows, multiplied by smooth if that has data, and sets factors to what they
// were multiplied by. The device gives these instead of the scales that dequantise.
func quantiseSmoothed(q gemm.DynamicQuantizer, into, factors, rows, smooth kernel.View) error {
	q.Smooth = smooth
	if err := q.Quantize(into, factors, rows); err != nil {
		return err
	}
	return elementwise.Map(elementwise.Reciprocal, dtype.Float32, factors, []elementwise.Input{elementwise.Of(factors)})
}

// forGroups checks quantisation parameters: one per group, or one per column of each group.
func forGroups(c *op.Call, groups, width int64, tensors ...*op.Tensor) {
	for _, t := range tensors {
		if t == nil {
			continue
		}
		c.Plain(t)
		c.DType(t, dtype.Float32)
		if n := t.Len(); n != groups*width && n != groups {
			c.Invalid("%v must be [%d,%d] or [%d], for each group", t, groups, width, groups)
		}
		c.Dense(t)
	}
}

// dequantBias scales int32 sums [M, N] by column and row. An int32 bias is added before scaling,
// any other bias after it.
func dequantBias(c *op.Call) (op.Run, error) {
	x, columns, rows, bias, out := c.Tensor("x"), c.Tensor("weightScale"), c.Optional("activateScaleOptional"), c.Optional("biasOptional"), c.Tensor("out")
	c.Plain(x, columns, out)
	c.DType(x, dtype.Int32)
	c.DType(columns, dtype.Float32, dtype.BFloat16)
	c.DType(out, dtype.Float16, dtype.BFloat16)
	if d := dtype.Type(c.Int("outputDtype")); d != out.DType {
		c.Invalid("outputDtype is %v, but %v", d, out)
	}
	c.Rank(x, 2, 2)
	c.SameShape(x, out)
	if c.Err() == nil {
		c.Shape(columns, x.Shape[1:], "one for each column of x")
		if rows != nil {
			c.DType(rows, dtype.Float32)
			c.Shape(rows, x.Shape[:1], "one for each row of x")
		}
		if bias != nil {
			c.DType(bias, dtype.Int32, dtype.Float32, dtype.Float16, dtype.BFloat16)
			c.Shape(bias, x.Shape[1:], "one for each column of x")
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		return op.ScaledBack(out.View(), x.View(), columns, rows, bias)
	}, nil
}
