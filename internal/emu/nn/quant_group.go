package nn

import (
	"fmt"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// groupQuantisations have parameters for groups of rows, as experts need them, or scale the
// sums of a product back.
var groupQuantisations = table{"GroupQuant": groupQuant, "SwiGluQuant": swiGLUQuant, "SwiGluQuantV2": swiGLUQuant, "DequantBias": dequantBias, "GroupedBiasAddGrad": groupedBiasGrad, "GroupedBiasAddGradV2": groupedBiasGrad}

// endsOf reads where the groups of rows end, or with counts how many rows each has; all rows
// are one group without a tensor.
func endsOf(groups *Tensor, rows int64, counts bool) ([]int64, error) {
	if groups == nil {
		return []int64{rows}, nil
	}
	if !counts {
		return rowEnds(groups, rows)
	}
	ends, err := kernel.Indices(groups.View())
	if err != nil {
		return nil, err
	}
	end := int64(0)
	for i, n := range ends {
		if n < 0 || n > rows-end {
			return nil, fmt.Errorf("%v holds %v; the numbers of rows must not be negative and not exceed %d together", groups, ends, rows)
		}
		end += n
		ends[i] = end
	}
	return ends, nil
}

// groupQuant quantises rows x [S, H] by the scales [E, H] of their group.
func groupQuant(c *Call) (Run, error) {
	x, scale, groups, offset, y := c.Tensor("x"), c.Tensor("scale"), c.Tensor("groupIndex"), c.Optional("offsetOptional"), c.Tensor("y")
	c.eightBits(x, y, "dstType")
	c.plain(scale, groups)
	c.DType(scale, transformerTypes...)
	c.DType(groups, indexTypes...)
	c.Rank(x, 2, 2)
	c.Rank(groups, 1, 1)
	if c.Err() == nil {
		c.Shape(scale, []int64{groups.Len(), x.Shape[1]}, "a row for each group")
	}
	if offset != nil {
		c.SameDType(scale, offset)
		c.single(offset)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return nil
		}
		ends, err := rowEnds(groups, x.Shape[0])
		if err != nil {
			return err
		}
		q := kernel.Quantizer{Round: kernel.Round}
		if offset != nil {
			q.Offset = offset.As([]int64{}, []int64{})
		}
		return eachGroup(ends, func(g int, first, n int64) error {
			q.Factor = scale.View().Select(0, int64(g))
			return q.Quantize(y.View().Narrow(0, first, n), x.View().Narrow(0, first, n))
		})
	}, nil
}

// eachGroup calls f for the groups that have rows.
func eachGroup(ends []int64, f func(g int, first, n int64) error) error {
	first := int64(0)
	for g, end := range ends {
		if end > first {
			if err := f(g, first, end-first); err != nil {
				return err
			}
		}
		first = end
	}
	return nil
}

// ofGroup is the part of a contiguous tensor that one of several groups has; nothing of nil.
func (t *Tensor) ofGroup(groups int64, g int) kernel.View {
	if t == nil {
		return kernel.View{}
	}
	n := t.Len() / groups
	return t.As([]int64{groups, n}, []int64{n, 1}).Select(0, int64(g))
}

// swiGLUQuant quantises what the gated unit gives: dynamically, after smoothing, or with
// given scales and offsets; both may differ between groups of rows.
func swiGLUQuant(c *Call) (Run, error) {
	x, smooth, offsets, groups := c.Tensor("x"), c.Optional("smoothScalesOptional"), c.Optional("offsetsOptional"), c.Optional("groupIndexOptional")
	y, scale := c.Tensor("yOut"), c.Tensor("scaleOut")
	gate := kernel.SwishGate
	gate.Left = c.Bool("activateLeft")
	dynamic := true
	switch mode := c.Text("quantModeOptional"); mode {
	case "dynamic":
	case "", "static":
		dynamic = false
	default:
		c.Invalid("quantModeOptional %q is not supported; use static or dynamic", mode)
	}
	c.plain(x, y)
	c.DType(x, transformerTypes...)
	c.DType(y, dtype.Int8)
	if c.Has("dstType") && c.Int("dstType") != int64(dtype.Int8) {
		c.Invalid("dstType is %v; only int8 (2) is supported", dtype.Type(c.Int("dstType")))
	}
	each := c.Has("groupListType") && c.Int("groupListType") == 1
	if c.Has("groupListType") && c.Int("groupListType") != 0 && !each {
		c.Invalid("groupListType is %d; 0 is where groups end, 1 how many rows they have", c.Int("groupListType"))
	}
	c.Rank(x, 2, kernel.MaxRank)
	if c.Err() != nil {
		return nil, c.Err()
	}
	last := x.Rank() - 1
	c.Shape(y, halved(c, x, last), "x with half its last dimension")
	width, rows, parts := y.Dim(-1), count(x.Shape[:last]), int64(1)
	if groups != nil {
		c.DType(groups, dtype.Int32)
		c.Rank(groups, 1, 1)
		parts = groups.Len()
	}
	if dynamic {
		c.DType(scale, dtype.Float32)
		c.Shape(scale, x.Shape[:last], "one for each row of x")
	} else if smooth == nil {
		c.Fail(nullPointer, "smoothScalesOptional is null; a static quantisation needs scales")
	}
	for _, t := range []*Tensor{smooth, offsets} {
		if t == nil {
			continue
		}
		c.plain(t)
		c.DType(t, dtype.Float32)
		if n := t.Len(); n != parts*width && n != parts {
			c.Invalid("%v must be [%d,%d] or [%d], for each group", t, parts, width, parts)
		}
		if !t.Contiguous() {
			c.Invalid("%v must be contiguous", t)
		}
	}
	for _, t := range []*Tensor{y, scale} {
		if !t.Contiguous() {
			c.Invalid("%v must be contiguous", t)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if y.Len() == 0 {
			return nil
		}
		t, release := kernel.Temporary(y.Shape...)
		defer release()
		if err := gate.Forward(t, kernel.View{}, x.View(), last); err != nil {
			return err
		}
		ends, err := endsOf(groups, rows, each)
		if err != nil {
			return err
		}
		shape := []int64{rows, width}
		flat, out := kernel.View{Data: t.Data, DType: t.DType, Shape: shape, Strides: ContiguousStrides(shape)}, y.As(shape, ContiguousStrides(shape))
		return eachGroup(ends, func(g int, first, n int64) error {
			part, into := flat.Narrow(0, first, n), out.Narrow(0, first, n)
			if !dynamic {
				return kernel.Quantizer{Factor: smooth.ofGroup(parts, g), Offset: offsets.ofGroup(parts, g), Round: kernel.Round}.Quantize(into, part)
			}
			if smooth != nil {
				if err := kernel.Map(kernel.Mul, dtype.Float32, part, []kernel.Input{kernel.Of(part), kernel.Of(smooth.ofGroup(parts, g))}); err != nil {
					return err
				}
			}
			extent := scale.As([]int64{rows}, []int64{1}).Narrow(0, first, n)
			if err := (kernel.DynamicQuantizer{}).Quantize(into, extent, part); err != nil {
				return err
			}
			// The device gives what it multiplied by, not what gives the numbers back.
			return kernel.Map(kernel.Reciprocal, dtype.Float32, extent, []kernel.Input{kernel.Of(extent)})
		})
	}, nil
}

// dequantBias scales int32 sums [M, N] by columns and rows; an int32 bias is added before,
// another after.
func dequantBias(c *Call) (Run, error) {
	x, columns, rows, bias, out := c.Tensor("x"), c.Tensor("weightScale"), c.Optional("activateScaleOptional"), c.Optional("biasOptional"), c.Tensor("out")
	c.plain(x, columns, out)
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
	return func(*Exec) error {
		if x.Len() == 0 {
			return nil
		}
		return scaledBack(out.View(), x.View(), columns, rows, bias)
	}, nil
}

// scaledBack sets out to the sums x [S, H] of a product of integers times scales for columns
// and rows, and adds a bias: before that one of integers, after it one of floats. Rows and
// bias may be nil.
func scaledBack(out, x kernel.View, columns, rows, bias *Tensor) error {
	before, after := kernel.View{}, kernel.View{}
	if bias != nil && bias.DType == dtype.Int32 {
		before = bias.View()
	} else if bias != nil {
		after = bias.View()
	}
	t, release := kernel.Temporary(x.Shape...)
	defer release()
	if err := kernel.Dequantize(t, x, columns.View(), before, false); err != nil {
		return err
	}
	if rows != nil {
		if err := kernel.Map(kernel.Mul, dtype.Float32, t, []kernel.Input{kernel.Of(t), kernel.Of(rows.As([]int64{x.Shape[0], 1}, []int64{rows.Strides[0], 0}))}); err != nil {
			return err
		}
	}
	if after.Data != nil {
		return kernel.Map(kernel.Add, dtype.Float32, out, []kernel.Input{kernel.Of(t), kernel.Of(after)}, kernel.Real(1))
	}
	return kernel.Copy(out, t)
}

// groupedBiasGrad sums the rows of each group: [G, C, H], or [S, H] with the ends of groups, or
// with their sizes.
func groupedBiasGrad(c *Call) (Run, error) {
	dy, groups, out := c.Tensor("gradY"), c.Optional("groupIdxOptional"), c.Tensor("out")
	kind := int64(0)
	if c.Has("groupIdxType") {
		if kind = c.Int("groupIdxType"); kind != 0 && kind != 1 {
			c.Invalid("groupIdxType %d is unknown; 0 is where groups end, 1 how many rows they have", kind)
		}
	}
	c.plain(dy, out)
	c.DType(dy, transformerTypes...)
	c.SameDType(dy, out)
	if groups == nil {
		c.Rank(dy, 3, 3)
		if c.Err() == nil {
			c.Shape(out, []int64{dy.Shape[0], dy.Shape[2]}, "a row for each group")
		}
	} else {
		c.Rank(dy, 2, 2)
		c.DType(groups, indexTypes...)
		c.Rank(groups, 1, 1)
		if c.Err() == nil {
			c.Shape(out, []int64{groups.Len(), dy.Shape[1]}, "a row for each group")
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if groups == nil {
			return kernel.Reduce(kernel.ReduceSum, out.View(), dy.View(), []int{1}, 0)
		}
		ends, err := endsOf(groups, dy.Shape[0], kind == 1)
		if err != nil {
			return err
		}
		if ends[len(ends)-1] != dy.Shape[0] {
			return fmt.Errorf("%v ends at row %d of %d", groups, ends[len(ends)-1], dy.Shape[0])
		}
		if err := zero(out); err != nil {
			return err
		}
		return eachGroup(ends, func(g int, first, n int64) error {
			return kernel.Reduce(kernel.ReduceSum, out.View().Select(0, int64(g)), dy.View().Narrow(0, first, n), []int{0}, 0)
		})
	}, nil
}
