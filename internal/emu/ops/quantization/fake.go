package quantization

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// fakeQuantisations lists the operators that quantise and dequantise in one step. They also
// return a mask of the values inside the quantisation range.
var fakeQuantisations = op.Table{
	"FakeQuantPerTensorAffineCachemask": fakeQuant, "FakeQuantPerChannelAffineCachemask": fakeQuant,
}.Selects()

func fakeQuant(c *op.Call) (op.Run, error) {
	x, scale, zero, out, mask := c.Tensor("self"), c.Tensor("scale"), c.Tensor("zeroPoint"), c.Tensor("out"), c.Tensor("mask")
	least, most := c.Int("quantMin"), c.Int("quantMax")
	enabled := !c.Has("fakeQuantEnabled") || c.Float("fakeQuantEnabled") >= 1
	c.Plain(x, scale, zero, out, mask)
	c.DType(x, dtype.Float32, dtype.Float16)
	c.DType(scale, dtype.Float32, dtype.Float16)
	c.DType(zero, dtype.Int32, dtype.Float32, dtype.Float16)
	c.DType(mask, dtype.Bool)
	c.Same(x, out)
	c.SameShape(x, mask)
	if least > most {
		c.Invalid("quantMin %d is above quantMax %d", least, most)
	}
	axis := 0
	if c.Has("axis") {
		axis = c.Axis(x, c.Int("axis"))
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	for _, t := range []*op.Tensor{scale, zero} {
		switch {
		case !c.Has("axis"):
			c.Single(t)
		case x.Rank() > 0:
			c.Shape(t, x.Shape[axis:axis+1], "one for each place of axis")
		default:
			c.Single(t)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	wide := func(t *op.Tensor) kernel.View {
		if t.Len() == 1 {
			return t.As([]int64{}, []int64{})
		}
		return t.Along(axis, x.Rank())
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		if !enabled {
			if err := elementwise.Fill(mask.View(), elementwise.Whole(1)); err != nil {
				return err
			}
			return elementwise.Copy(out.View(), x.View())
		}
		return fakeQuantise(out.View(), mask.View(), x.View(), elementwise.Of(wide(scale)), elementwise.Of(wide(zero)), least, most)
	}, nil
}

// fakeQuantise rounds x to steps of factor, with a zero point, and converts back. Steps are
// clamped to [least, most]; mask marks those inside that range.
func fakeQuantise(out, mask, x kernel.View, factor, shift elementwise.Input, least, most int64) error {
	t, release := kernel.Temporary(x.Shape...)
	defer release()
	inside, releaseInside := kernel.Temporary(x.Shape...)
	defer releaseInside()
	now, low, high := elementwise.Of(t), elementwise.Const(elementwise.Whole(least)), elementwise.Const(elementwise.Whole(most))
	minus, plus := elementwise.Whole(-1), elementwise.Whole(1)
	for _, s := range []struct {
		op     elementwise.Op
		out    kernel.View
		in     []elementwise.Input
		params []elementwise.Number
	}{
		{elementwise.Div, t, []elementwise.Input{elementwise.Of(x), factor}, nil},
		{elementwise.Round, t, []elementwise.Input{now}, nil},
		{elementwise.Add, t, []elementwise.Input{now, shift}, []elementwise.Number{plus}},
		{elementwise.Round, t, []elementwise.Input{now}, nil},
		{elementwise.GreaterEqual, inside, []elementwise.Input{now, low}, nil},
		{elementwise.LessEqual, mask, []elementwise.Input{now, high}, nil},
		{elementwise.LogicalAnd, mask, []elementwise.Input{elementwise.Of(mask), elementwise.Of(inside)}, nil},
		{elementwise.Clamp, t, []elementwise.Input{now, low, high}, nil},
		{elementwise.Add, t, []elementwise.Input{now, shift}, []elementwise.Number{minus}},
		{elementwise.Mul, out, []elementwise.Input{now, factor}, nil},
	} {
		if err := elementwise.Map(s.op, dtype.Float32, s.out, s.in, s.params...); err != nil {
			return err
		}
	}
	return nil
}
