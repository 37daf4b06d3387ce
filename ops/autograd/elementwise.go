package autograd

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// Add computes x + y for tensors of one shape (aclnnAdd).
func (t *Tape) Add(x, y *Var) *Var {
	c := t.elementwise("add", x, y)
	if c == nil {
		return t.failed()
	}
	out := c.Output(x.Value.DType(), x.Shape()...)
	launch(t, aclnn.Add, aclnn.AddParams{Self: x.Value, Other: y.Value, Alpha: aclnn.Float(1), Out: out})
	c.Backward(func(g *Gradients) {
		g.Pass(0, 0, nil)
		g.Pass(1, 0, nil)
	})
	return c.end()[0]
}

// Mul computes x·y (aclnnMul). Dimensions of y may be 1 where those of x are not, as for a factor per row: its gradient is
// summed over them (aclnnReduceSum).
func (t *Tape) Mul(x, y *Var) *Var {
	c := t.begin("mul", x, y)
	if c == nil {
		return t.failed()
	}
	sums, ok := broadcast(x.Shape(), y.Shape())
	if !ok || x.Value.DType() != y.Value.DType() {
		t.Fail(fmt.Errorf("mul: %w: x is %v and y %v; they must have one dtype, and the dimensions of y must be those of x or 1", acl.ErrInvalidArgument, x, y))
		return t.failed()
	}
	a := aclnn.MulParams{Self: x.Value, Other: y.Value, Out: c.Output(x.Value.DType(), x.Shape()...)}
	launch(t, aclnn.Mul, a)
	if y.NeedsGrad() {
		c.Keep(x)
	}
	if x.NeedsGrad() {
		c.Keep(y)
	}
	c.Backward(func(g *Gradients) {
		if dx := g.Input(0); dx != nil {
			launch(t, aclnn.Mul, aclnn.MulParams{Self: g.Output(0), Other: y.now(a.Other), Out: dx})
		}
		if dy := g.Input(1); dy != nil {
			product := dy
			if len(sums) > 0 {
				product = g.Scratch(dy.DType(), g.Output(0).Shape()...)
			}
			launch(t, aclnn.Mul, aclnn.MulParams{Self: g.Output(0), Other: x.now(a.Self), Out: product})
			if len(sums) > 0 {
				launch(t, aclnn.ReduceSum, aclnn.ReduceSumParams{Self: product, Dims: sums, KeepDims: true, Dtype: dy.DType(), Out: dy})
			}
		}
	})
	return c.end()[0]
}

// broadcast returns the dimensions in which y is repeated for x; ok is false if they do not fit.
func broadcast(x, y []int64) (repeated []int64, ok bool) {
	if len(x) != len(y) {
		return nil, false
	}
	for i := range x {
		switch {
		case y[i] == x[i]:
		case y[i] == 1:
			repeated = append(repeated, int64(i))
		default:
			return nil, false
		}
	}
	return repeated, true
}

// AddTo adds x to a part of y, which is a view of it, and returns y, which must not be used any more itself. It is added in place (aclnnInplaceAdd),
// but to a copy if something else needs the value of y.
func (t *Tape) AddTo(y, x *Var, part func(*aclnn.Tensor) *aclnn.Tensor) *Var {
	c := t.begin("add to", y, x)
	if c == nil {
		return t.failed()
	}
	var out *aclnn.Tensor
	if y.mem != nil && y.mem.refs == 1 && y.mem.saved == nil && slices.Contains(t.block.vars, y) {
		out = c.View(y, y.Value)
	} else {
		out = c.Output(y.Value.DType(), y.Shape()...)
		c.Do(func() error { return aclnn.Copy(t.st, out, y.Value) })
	}
	if t.err == nil {
		launch(t, aclnn.InplaceAdd, aclnn.InplaceAddParams{Self: part(out), Other: x.Value, Alpha: aclnn.Float(1)})
	}
	t.Free(y)
	c.Backward(func(g *Gradients) {
		g.Pass(0, 0, nil)
		if !g.Needs(1) {
			return
		}
		if d := part(g.Output(0)); !d.Contiguous() {
			dx := g.Input(1)
			g.Do(func() error { return aclnn.Copy(t.st, dx, d) })
			return
		}
		g.Pass(1, 0, part)
	})
	return c.end()[0]
}

// elementwise begins an operator on two tensors of one shape and dtype.
func (t *Tape) elementwise(name string, x, y *Var) *Call {
	c := t.begin(name, x, y)
	if c != nil && (!slices.Equal(x.Shape(), y.Shape()) || x.Value.DType() != y.Value.DType()) {
		t.Fail(fmt.Errorf("%s: %w: x is %v and y %v; they must have one shape and dtype", name, acl.ErrInvalidArgument, x, y))
		return nil
	}
	return c
}

// Scale computes factor·x (aclnnMuls).
func (t *Tape) Scale(x *Var, factor float64) *Var {
	return t.unary("scale", x, func(from, to *aclnn.Tensor) {
		launch(t, aclnn.Muls, aclnn.MulsParams{Self: from, Other: aclnn.Float(factor), Out: to})
	}, func(g *Gradients) {
		launch(t, aclnn.Muls, aclnn.MulsParams{Self: g.Output(0), Other: aclnn.Float(factor), Out: g.Input(0)})
	})
}

// AddScalar computes x + number (aclnnAdds).
func (t *Tape) AddScalar(x *Var, number float64) *Var {
	return t.unary("add scalar", x, func(from, to *aclnn.Tensor) {
		launch(t, aclnn.Adds, aclnn.AddsParams{Self: from, Other: aclnn.Float(number), Alpha: aclnn.Float(1), Out: to})
	}, func(g *Gradients) { g.Pass(0, 0, nil) })
}

// unary records an operator whose gradient needs no value.
func (t *Tape) unary(name string, x *Var, forward func(from, to *aclnn.Tensor), backward func(g *Gradients)) *Var {
	c := t.begin(name, x)
	if c == nil {
		return t.failed()
	}
	forward(x.Value, c.Output(x.Value.DType(), x.Shape()...))
	c.Backward(backward)
	return c.end()[0]
}

// Sigmoid computes 1/(1 + exp(−x)) (aclnnSigmoid).
func (t *Tape) Sigmoid(x *Var) *Var {
	return t.ofOutput("sigmoid", x, func(x, y *aclnn.Tensor) {
		launch(t, aclnn.Sigmoid, aclnn.SigmoidParams{Self: x, Out: y})
	}, func(dy, y, dx *aclnn.Tensor) {
		launch(t, aclnn.SigmoidBackward, aclnn.SigmoidBackwardParams{GradOutput: dy, Output: y, GradInput: dx})
	})
}

// Tanh computes the hyperbolic tangent (aclnnTanh).
func (t *Tape) Tanh(x *Var) *Var {
	return t.ofOutput("tanh", x, func(x, y *aclnn.Tensor) {
		launch(t, aclnn.Tanh, aclnn.TanhParams{Self: x, Out: y})
	}, func(dy, y, dx *aclnn.Tensor) {
		launch(t, aclnn.TanhBackward, aclnn.TanhBackwardParams{GradOutput: dy, Output: y, GradInput: dx})
	})
}

// ofOutput records an operator of which the gradient needs the output alone.
func (t *Tape) ofOutput(name string, x *Var, forward func(x, y *aclnn.Tensor), backward func(dy, y, dx *aclnn.Tensor)) *Var {
	c := t.begin(name, x)
	if c == nil {
		return t.failed()
	}
	y := c.Output(x.Value.DType(), x.Shape()...)
	forward(x.Value, y)
	c.KeepOutputs()
	c.Backward(func(g *Gradients) { backward(g.Output(0), y, g.Input(0)) })
	return c.end()[0]
}

// Cast converts x to another dtype (aclnnCast); the gradient is converted back. It returns x itself if it has the dtype.
func (t *Tape) Cast(x *Var, dt aclnn.DType) *Var {
	c := t.begin("cast", x)
	if c == nil {
		return t.failed()
	}
	if x.Value.DType() == dt {
		return x
	}
	launch(t, aclnn.Cast, aclnn.CastParams{Self: x.Value, Dtype: dt, Out: c.Output(dt, x.Shape()...)})
	c.Backward(func(g *Gradients) {
		dx := g.Input(0)
		launch(t, aclnn.Cast, aclnn.CastParams{Self: g.Output(0), Dtype: dx.DType(), Out: dx})
	})
	return c.end()[0]
}

// AddBias computes x + bias of each row (aclnnAdd): x [..., width], bias [width]; the gradient of bias is summed over the rows (ops.LinearGrad).
func (t *Tape) AddBias(x, bias *Var) *Var {
	c := t.begin("add bias", x, bias)
	if c == nil {
		return t.failed()
	}
	if b := bias.Value; b.Rank() != 1 || x.Value.Rank() == 0 || b.Dim(0) != x.Dim(-1) || b.DType() != x.Value.DType() {
		t.Fail(fmt.Errorf("add bias: %w: x is %v and bias %v; it must have one number for each of the last dimension of x, of its dtype", acl.ErrInvalidArgument, x, bias))
		return t.failed()
	}
	launch(t, aclnn.Add, aclnn.AddParams{Self: x.Value, Other: bias.Value, Alpha: aclnn.Float(1), Out: c.Output(x.Value.DType(), x.Shape()...)})
	c.Backward(func(g *Gradients) {
		if g.Needs(1) {
			grad := ops.LinearGradArgs{X: g.Output(0), DOut: g.Output(0)}
			grad.DBias, grad.Accumulate = g.Weight(1)
			runGrad(g, t.reg.LinearGrad(), &grad)
		}
		g.Pass(0, 0, nil)
	})
	return c.end()[0]
}

// Gelu computes x·Φ(x), where Φ is the distribution function of the normal distribution, or with tanh its approximation by that function
// (aclnnGeluV2, https://arxiv.org/abs/1606.08415).
func (t *Tape) Gelu(x *Var, tanh bool) *Var {
	c := t.begin("gelu", x)
	if c == nil {
		return t.failed()
	}
	formula, name := aclnn.GeluErf, aclnn.GeluNameErf
	if tanh {
		formula, name = aclnn.GeluTanh, aclnn.GeluNameTanh
	}
	a := aclnn.GeluV2Params{X: x.Value, Approximate: formula, Y: c.Output(x.Value.DType(), x.Shape()...)}
	launch(t, aclnn.GeluV2, a)
	c.Keep(x)
	c.Backward(func(g *Gradients) {
		launch(t, aclnn.GeluBackwardV2, aclnn.GeluBackwardV2Params{GradOutput: g.Output(0), Self: a.X, Approximate: name, GradInput: g.Input(0)})
	})
	return c.end()[0]
}

// SwiGLU computes silu(gate)·up of the halves of x [..., 2·width], gate first (ops.SwiGLU): [..., width].
func (t *Tape) SwiGLU(x *Var) *Var {
	c := t.begin("swiglu", x)
	if c == nil {
		return t.failed()
	}
	a := ops.SwiGLUArgs{X: x.Value, Out: c.Output(x.Value.DType(), with(x.Shape(), x.Dim(-1)/2)...)}
	run(c, t.reg.SwiGLU(), &a)
	c.Keep(x)
	c.Backward(func(g *Gradients) {
		runGrad(g, t.reg.SwiGLUGrad(), &ops.SwiGLUGradArgs{DOut: g.Output(0), X: a.X, DX: g.Input(0)})
	})
	return c.end()[0]
}

// ClippedSwiGLU computes the gated activation of gpt-oss (ops.ClippedSwiGLU) of x [..., 2·width]: [..., width]. a gives Alpha, Limit, Offset and Interleaved; its
// tensors must be nil.
func (t *Tape) ClippedSwiGLU(x *Var, a ops.ClippedSwiGLUArgs) *Var {
	c := t.begin("clipped swiglu", x)
	if c == nil {
		return t.failed()
	}
	if a.X != nil || a.Out != nil {
		t.Fail(fmt.Errorf("clipped swiglu: %w: X and Out are the tape's; give x as a variable", acl.ErrInvalidArgument))
		return t.failed()
	}
	a.X, a.Out = x.Value, c.Output(x.Value.DType(), with(x.Shape(), x.Dim(-1)/2)...)
	run(c, t.reg.ClippedSwiGLU(), &a)
	a.Out = nil
	c.Keep(x)
	c.Backward(func(g *Gradients) {
		runGrad(g, t.reg.ClippedSwiGLUGrad(), &ops.ClippedSwiGLUGradArgs{ClippedSwiGLUArgs: a, DOut: g.Output(0), DX: g.Input(0)})
	})
	return c.end()[0]
}

// SwiGLUOf is SwiGLU of two tensors.
func (t *Tape) SwiGLUOf(gate, up *Var) *Var {
	c := t.begin("swiglu", gate, up)
	if c == nil {
		return t.failed()
	}
	a := ops.SwiGLUArgs{Gate: gate.Value, Up: up.Value, Out: c.Output(gate.Value.DType(), gate.Shape()...)}
	run(c, t.reg.SwiGLU(), &a)
	c.Keep(gate, up)
	c.Backward(func(g *Gradients) {
		runGrad(g, t.reg.SwiGLUGrad(), &ops.SwiGLUGradArgs{DOut: g.Output(0), Gate: a.Gate, Up: a.Up, DGate: g.orScratch(0), DUp: g.orScratch(1)})
	})
	return c.end()[0]
}
