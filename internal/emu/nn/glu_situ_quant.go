package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// boundedQuantGates take sums back to numbers, send them through a unit that tanh bounds, and
// quantise the result by cutting.
var boundedQuantGates = table{"DequantSituQuant": dequantSitu}

func dequantSitu(c *Call) (Run, error) {
	x, columns, whole, bias := c.Tensor("x"), c.Optional("weightScaleOptional"), c.Optional("activationScaleOptional"), c.Optional("biasOptional")
	scale, offset, y, extent := c.Optional("quantScaleOptional"), c.Optional("quantOffsetOptional"), c.Tensor("yOut"), c.Tensor("yScaleOut")
	g := kernel.TanhBoundGate{Beta: c.Float("beta"), Linear: c.Float("linearBeta"), Left: c.Bool("activateLeft")}
	if g.Beta == 0 {
		c.Invalid("beta is 0")
	}
	dynamic := true
	switch mode := c.Text("quantTypeOptional"); mode {
	case "", "dynamic":
	case "static":
		dynamic = false
	default:
		c.Invalid("quantTypeOptional is %q; use static or dynamic", mode)
	}
	c.noneOf("groupIndexOptional")
	c.plain(x, y, extent)
	c.DType(x, dtype.Int8, dtype.Int32, dtype.BFloat16, dtype.Float16)
	c.DType(y, dtype.Int8)
	c.DType(extent, dtype.Float32)
	c.Rank(x, 2, kernel.MaxRank)
	if c.err != nil {
		return nil, c.err
	}
	if x.Len() == 0 {
		c.Invalid("%v is empty", x)
	}
	last := x.Rank() - 1
	width := x.Dim(-1)
	c.Shape(y, halved(c, x, last), "x with half its last dimension")
	c.Shape(extent, x.Shape[:last], "one for each row of x")
	numbers := func(name string, t *Tensor, needed bool, n int64) {
		switch {
		case needed && t == nil:
			c.Fail(nullPointer, "%s is null; %v needs it", name, x.DType)
		case t != nil:
			c.plain(t)
			c.DType(t, dtype.Float32)
			if t.Rank() != 1 || t.Len() != 1 && t.Len() != n {
				c.Invalid("%v must have one element or %d", t, n)
			}
		}
	}
	exact := x.DType == dtype.Int8 || x.DType == dtype.Int32
	if !exact {
		columns, bias = nil, nil
	}
	if x.DType != dtype.Int32 {
		if whole != nil && exact {
			c.Invalid("%v is given; int8 has no such scale", whole)
		}
		whole = nil
	}
	numbers("weightScaleOptional", columns, exact, width)
	numbers("activationScaleOptional", whole, x.DType == dtype.Int32, 1)
	numbers("biasOptional", bias, false, width)
	numbers("quantScaleOptional", scale, !dynamic, width/2)
	if dynamic {
		offset = nil
	}
	numbers("quantOffsetOptional", offset, false, width/2)
	if c.err != nil {
		return nil, c.err
	}
	return func(*Exec) error {
		f := dtype.Float32
		in, releaseIn := kernel.Temporary(x.Shape...)
		defer releaseIn()
		if err := kernel.Map(kernel.Identity, f, in, []kernel.Input{kernel.Of(x.View())}); err != nil {
			return err
		}
		for _, t := range []*Tensor{columns, whole} {
			if t == nil {
				continue
			}
			if err := kernel.Map(kernel.Mul, f, in, []kernel.Input{kernel.Of(in), kernel.Of(t.View())}); err != nil {
				return err
			}
		}
		if bias != nil {
			if err := kernel.Map(kernel.Add, f, in, []kernel.Input{kernel.Of(in), kernel.Of(bias.View())}, kernel.Real(1)); err != nil {
				return err
			}
		}
		out, releaseOut := kernel.Temporary(y.Shape...)
		defer releaseOut()
		if err := g.Forward(out, in, last); err != nil {
			return err
		}
		if !dynamic {
			return kernel.Quantizer{Factor: scale.View(), Offset: optionalView(offset), Divide: true, Round: kernel.Trunc}.Quantize(y.View(), out)
		}
		if scale != nil {
			if err := kernel.Map(kernel.Mul, f, out, []kernel.Input{kernel.Of(out), kernel.Of(scale.View())}); err != nil {
				return err
			}
		}
		sizes, releaseSizes := kernel.Temporary(y.Shape...)
		defer releaseSizes()
		if err := kernel.Map(kernel.Abs, f, sizes, []kernel.Input{kernel.Of(out)}); err != nil {
			return err
		}
		if err := kernel.Reduce(kernel.ReduceMax, extent.View(), sizes, []int{last}, 0); err != nil {
			return err
		}
		if err := kernel.Map(kernel.Mul, f, extent.View(), []kernel.Input{kernel.Of(extent.View()), kernel.Const(kernel.Real(1.0 / 127))}); err != nil {
			return err
		}
		column := extent.As(append(slices.Clone(extent.Shape), 1), append(slices.Clone(extent.Strides), 0))
		return kernel.Quantizer{Factor: column, Divide: true, Round: kernel.Trunc}.Quantize(y.View(), out)
	}, nil
}
