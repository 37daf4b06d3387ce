package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// gatedUnits send one half of their input through an activation and multiply the other
// half with it.
var gatedUnits = table{
	"SwiGlu": gated, "SwiGluGrad": gatedGrad, "Glu": gated, "GluBackward": gatedGrad, "GeluMul": gated,
	"GeGlu": gated, "GeGluBackward": gatedGrad, "GeGluV3": gated, "GeGluV3Backward": gatedGrad, "FatreluMul": fatRelu,
}

// gate is the unit that a call names, and the axis that it halves.
func (c *Call) gate(x *Tensor) (g kernel.Gate, axis int) {
	dim := int64(-1)
	if c.Has("dim") {
		dim = c.Int("dim")
	}
	axis = c.Axis(x, dim)
	switch c.op.name {
	case "SwiGlu", "SwiGluGrad":
		return kernel.SwishGate, axis
	case "Glu", "GluBackward":
		return kernel.SigmoidGate, axis
	case "GeluMul":
		switch form := c.Text("approximateOptional"); form {
		case "", "none":
			g = kernel.ErfGate
		case "tanh":
			g = kernel.TanhGate
		default:
			c.Invalid("approximateOptional is %q; use \"none\" or \"tanh\"", form)
		}
		g.Left = true
		return g, axis
	}
	switch form := c.Int("approximate"); form {
	case 0:
		g = kernel.ErfGate
	case 1:
		g = kernel.TanhGate
	default:
		c.Invalid("approximate is %d; use 0 (erf) or 1 (tanh)", form)
	}
	g.Left = c.Has("activateLeft") && c.Bool("activateLeft")
	return g, axis
}

// halved is the shape of one half of x along an axis.
func halved(c *Call, x *Tensor, axis int) []int64 {
	shape := slices.Clone(x.Shape)
	if x.Rank() == 0 || x.Shape[axis]%2 != 0 {
		c.Invalid("dimension %d of %v cannot be halved", axis, x)
		return shape
	}
	shape[axis] /= 2
	return shape
}

func gated(c *Call) (Run, error) {
	x, out := c.Tensor(c.either("x", "self", "input")), c.Tensor("out")
	g, axis := c.gate(x)
	activated := (*Tensor)(nil)
	if c.Has("outGelu") {
		activated = c.Tensor("outGelu")
		c.Same(out, activated)
	}
	c.plain(x, out)
	c.DType(x, transformerTypes...)
	c.SameDType(x, out)
	c.Shape(out, halved(c, x, axis), "half of x along dim")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return g.Forward(out.View(), optionalView(activated), x.View(), axis)
	}, nil
}

// gatedGrad computes the activation anew; the one of GeGlu's forward call is only checked.
func gatedGrad(c *Call) (Run, error) {
	dy, x, dx := c.Tensor(c.either("yGrad", "gradOutput", "gradOut")), c.Tensor(c.either("x", "self")), c.Tensor(c.either("out", "gradInput"))
	g, axis := c.gate(x)
	if c.Has("gelu") {
		c.Same(dy, c.Tensor("gelu"))
	}
	c.plain(x, dy, dx)
	c.DType(x, transformerTypes...)
	c.SameDType(x, dy, dx)
	c.SameShape(x, dx)
	c.Shape(dy, halved(c, x, axis), "half of x along dim")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return nil
		}
		return g.Backward(dx.View(), dy.View(), x.View(), axis)
	}, nil
}

// fatRelu lets through the elements of the first half that reach a threshold, a tensor of
// one element.
func fatRelu(c *Call) (Run, error) {
	x, threshold, out := c.Tensor("input"), c.Tensor("threshold"), c.Tensor("out")
	c.plain(x, out)
	c.DType(x, transformerTypes...)
	c.Rank(x, 1, kernel.MaxRank)
	c.SameDType(x, threshold, out)
	c.single(threshold)
	last := x.Rank() - 1
	if c.Err() == nil {
		c.Shape(out, halved(c, x, last), "half of the last dimension of input")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		n := x.Shape[last] / 2
		a, b := x.View().Part(last, 0, n, 1), x.View().Part(last, n, n, 1)
		t, release := kernel.Temporary(out.Shape...)
		defer release()
		if err := kernel.Map(kernel.Less, dtype.Float32, t, []kernel.Input{kernel.Of(a), kernel.Of(threshold.As([]int64{}, []int64{}))}); err != nil {
			return err
		}
		if err := kernel.Map(kernel.Where, dtype.Float32, t, []kernel.Input{kernel.Of(t), kernel.Const(kernel.Whole(0)), kernel.Of(a)}); err != nil {
			return err
		}
		return kernel.Map(kernel.Mul, dtype.Float32, out.View(), []kernel.Input{kernel.Of(t), kernel.Of(b)})
	}, nil
}
