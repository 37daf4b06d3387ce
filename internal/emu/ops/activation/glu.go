package activation

import (
	"errors"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// gatedUnits apply an activation to one half of their input and multiply it with the other half.
var gatedUnits = op.Table{
	"SwiGlu": gated, "SwiGluGrad": gatedGrad, "Glu": gated, "GluBackward": gatedGrad, "GeluMul": gated,
	"GeGlu": gated, "GeGluBackward": gatedGrad, "GeGluV3": gated, "GeGluV3Backward": gatedGrad, "FatreluMul": fatRelu,
}

// gate returns the gated unit of a call and the axis that it halves.
func gate(c *op.Call, x *op.Tensor) (g rowwise.Gate, axis int) {
	dim := int64(-1)
	if c.Has("dim") {
		dim = c.Int("dim")
	}
	axis = c.Axis(x, dim)
	switch c.Op.Name {
	case "SwiGlu", "SwiGluGrad":
		return rowwise.SwishGate, axis
	case "Glu", "GluBackward":
		return rowwise.SigmoidGate, axis
	case "GeluMul":
		switch form := c.Text("approximateOptional"); form {
		case "", "none":
			g = rowwise.ErfGate
		case "tanh":
			g = rowwise.TanhGate
		default:
			c.Invalid("approximateOptional is %q; use \"none\" or \"tanh\"", form)
		}
		g.Left = true
		return g, axis
	}
	switch form := c.Int("approximate"); form {
	case 0:
		g = rowwise.ErfGate
	case 1:
		g = rowwise.TanhGate
	default:
		c.Invalid("approximate is %d; use 0 (erf) or 1 (tanh)", form)
	}
	g.Left = c.Has("activateLeft") && c.Bool("activateLeft")
	return g, axis
}

func gated(c *op.Call) (op.Run, error) {
	x, out := c.Tensor(c.Either("x", "self", "input")), c.Tensor("out")
	g, axis := gate(c, x)
	activated := (*op.Tensor)(nil)
	if c.Has("outGelu") {
		activated = c.Tensor("outGelu")
		c.Same(out, activated)
	}
	c.Plain(x, out)
	c.DType(x, gateTypes(c)...)
	c.SameDType(x, out)
	c.Shape(out, op.Halved(c, x, axis), "half of x along dim")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		if x.DType == dtype.Float64 {
			return gluDouble(out.View(), x.View(), axis)
		}
		return g.Forward(out.View(), op.OptionalView(activated), x.View(), axis)
	}, nil
}

// gluDouble is Glu in double precision, in which the gates of the kernel do not compute.
func gluDouble(out, x kernel.View, axis int) error {
	half := x.Shape[axis] / 2
	t, release := kernel.TemporaryOf(dtype.Float64, out.Shape...)
	defer release()
	if err := elementwise.Map(elementwise.Sigmoid, dtype.Float64, t, []elementwise.Input{elementwise.Of(x.Narrow(axis, half, half))}); err != nil {
		return err
	}
	return elementwise.Map(elementwise.Mul, dtype.Float64, out, []elementwise.Input{elementwise.Of(x.Narrow(axis, 0, half)), elementwise.Of(t)})
}

// gluGradDouble is the gradient of gluDouble: that of the gate is dy·a·σ·(1−σ).
func gluGradDouble(dx, dy, x kernel.View, axis int) error {
	half := x.Shape[axis] / 2
	gate, releaseGate := kernel.TemporaryOf(dtype.Float64, dy.Shape...)
	defer releaseGate()
	slope, releaseSlope := kernel.TemporaryOf(dtype.Float64, dy.Shape...)
	defer releaseSlope()
	set := func(out kernel.View, fn elementwise.Op, in ...elementwise.Input) error {
		return elementwise.Map(fn, dtype.Float64, out, in)
	}
	return errors.Join(
		set(gate, elementwise.Sigmoid, elementwise.Of(x.Narrow(axis, half, half))),
		set(slope, elementwise.SigmoidGrad, elementwise.Of(dy), elementwise.Of(gate)),
		set(dx.Narrow(axis, half, half), elementwise.Mul, elementwise.Of(slope), elementwise.Of(x.Narrow(axis, 0, half))),
		set(dx.Narrow(axis, 0, half), elementwise.Mul, elementwise.Of(dy), elementwise.Of(gate)),
	)
}

// gateTypes are the element types of a gated unit.
func gateTypes(c *op.Call) []dtype.Type {
	if c.Op.Name == "Glu" || c.Op.Name == "GluBackward" {
		return append(slices.Clone(op.FloatTypes), dtype.Float64)
	}
	return op.FloatTypes
}

// gatedGrad recomputes the activation. It checks the activation that the forward call of GeGlu
// returned, but does not use it.
func gatedGrad(c *op.Call) (op.Run, error) {
	dy, x, dx := c.Tensor(c.Either("yGrad", "gradOutput", "gradOut")), c.Tensor(c.Either("x", "self")), c.Tensor(c.Either("out", "gradInput"))
	g, axis := gate(c, x)
	if c.Has("gelu") {
		c.Same(dy, c.Tensor("gelu"))
	}
	c.Plain(x, dy, dx)
	c.DType(x, gateTypes(c)...)
	c.SameDType(x, dy, dx)
	c.SameShape(x, dx)
	c.Shape(dy, op.Halved(c, x, axis), "half of x along dim")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		if x.DType == dtype.Float64 {
			return gluGradDouble(dx.View(), dy.View(), x.View(), axis)
		}
		return g.Backward(dx.View(), dy.View(), x.View(), axis)
	}, nil
}

// fatRelu replaces the elements of the first half that are below a threshold by zero. The threshold
// is a tensor of one element.
func fatRelu(c *op.Call) (op.Run, error) {
	x, threshold, out := c.Tensor("input"), c.Tensor("threshold"), c.Tensor("out")
	c.Plain(x, out)
	c.DType(x, op.FloatTypes...)
	c.Rank(x, 1, kernel.MaxRank)
	c.SameDType(x, threshold, out)
	c.Single(threshold)
	last := x.Rank() - 1
	if c.Err() == nil {
		c.Shape(out, op.Halved(c, x, last), "half of the last dimension of input")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		n := x.Shape[last] / 2
		a, b := x.View().Part(last, 0, n, 1), x.View().Part(last, n, n, 1)
		t, release := kernel.Temporary(out.Shape...)
		defer release()
		if err := elementwise.Map(elementwise.Less, dtype.Float32, t, []elementwise.Input{elementwise.Of(a), elementwise.Of(threshold.As([]int64{}, []int64{}))}); err != nil {
			return err
		}
		if err := elementwise.Map(elementwise.Where, dtype.Float32, t, []elementwise.Input{elementwise.Of(t), elementwise.Const(elementwise.Whole(0)), elementwise.Of(a)}); err != nil {
			return err
		}
		return elementwise.Map(elementwise.Mul, dtype.Float32, out.View(), []elementwise.Input{elementwise.Of(t), elementwise.Of(b)})
	}, nil
}
