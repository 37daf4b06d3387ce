package autograd

import (
	"fmt"
	"math"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// RMSNorm normalises rows (ops.RMSNorm): x [..., width], weight [width].
func (t *Tape) RMSNorm(x, weight *Var, epsilon float64) *Var {
	c := t.begin("rms norm", x, weight)
	if c == nil {
		return t.failed()
	}
	a := ops.RMSNormArgs{X: x.Value, Weight: weight.Value, Epsilon: epsilon, Out: c.Output(x.Value.DType(), x.Shape()...)}
	a.RStd = c.Scratch(aclnn.Float32, with(x.Shape(), 1)...)
	run(c, t.reg.RMSNorm(), &a)
	c.Keep(x, weight)
	c.Backward(func(g *Gradients) {
		t.normGrad(g, g.Output(0), x.now(a.X), a.RStd, weight.now(a.Weight), g.orScratch(0), 1)
	})
	return c.end()[0]
}

// AddRMSNorm adds the terms of a residual stream and normalises their sum in one launch (ops.AddRMSNorm).
func (t *Tape) AddRMSNorm(x, residual, weight *Var, epsilon float64) (sum, normed *Var) {
	c := t.begin("add rms norm", x, residual, weight)
	if c == nil {
		return t.failed(), t.failed()
	}
	dt := x.Value.DType()
	a := ops.AddRMSNormArgs{X: x.Value, Residual: residual.Value, Weight: weight.Value, Epsilon: epsilon, Sum: c.Output(dt, x.Shape()...), Out: c.Output(dt, x.Shape()...)}
	a.RStd = c.Scratch(aclnn.Float32, with(x.Shape(), 1)...)
	run(c, t.reg.AddRMSNorm(), &a)
	c.Keep(weight)
	c.Keep(c.n.outputs[0])
	c.Backward(func(g *Gradients) {
		if dOut := g.Output(1); dOut != nil {
			dSum := g.Scratch(dt, a.Sum.Shape()...)
			t.normGrad(g, dOut, a.Sum, a.RStd, weight.now(a.Weight), dSum, 2)
			g.addToOutput(0, dSum)
		}
		g.Pass(0, 0, nil)
		g.Pass(1, 0, nil)
	})
	outputs := c.end()
	return outputs[0], outputs[len(outputs)-1]
}

// LayerNorm subtracts the mean of each row, divides by the root of its variance + epsilon, multiplies by weight and adds bias (aclnnLayerNorm,
// https://arxiv.org/abs/1607.06450): x [..., width], weight and bias [width].
func (t *Tape) LayerNorm(x, weight, bias *Var, epsilon float64) *Var {
	c := t.begin("layer norm", x, weight, bias)
	if c == nil {
		return t.failed()
	}
	if w, b := weight.Value, bias.Value; x.Value.Rank() == 0 || w.Rank() != 1 || b.Rank() != 1 || w.Dim(0) != x.Dim(-1) || b.Dim(0) != x.Dim(-1) || !(epsilon > 0) || math.IsInf(epsilon, 1) {
		t.Fail(fmt.Errorf("layer norm: %w: x is %v, weight %v, bias %v and epsilon %g; weight and bias must have one number for each of the last dimension of x, and epsilon must be positive, such as 1e-12", acl.ErrInvalidArgument, x, weight, bias, epsilon))
		return t.failed()
	}
	a := aclnn.LayerNormParams{Input: x.Value, NormalizedShape: []int64{x.Dim(-1)}, Weight: weight.Value, Bias: bias.Value, Eps: epsilon, Out: c.Output(x.Value.DType(), x.Shape()...)}
	if c.Needs() {
		a.MeanOut, a.RstdOut = c.Scratch(aclnn.Float32, with(x.Shape(), 1)...), c.Scratch(aclnn.Float32, with(x.Shape(), 1)...)
	}
	launch(t, aclnn.LayerNorm, a)
	c.Keep(x, weight, bias)
	c.Backward(func(g *Gradients) {
		launch(t, aclnn.LayerNormBackward, aclnn.LayerNormBackwardParams{
			GradOut: g.Output(0), Input: x.now(a.Input), NormalizedShape: a.NormalizedShape, Mean: a.MeanOut, Rstd: a.RstdOut, Weight: weight.now(a.Weight), Bias: bias.now(a.Bias),
			OutputMask: []bool{true, true, true}, GradInputOut: g.orScratch(0), GradWeightOut: g.orScratch(1), GradBiasOut: g.orScratch(2),
		})
	})
	return c.end()[0]
}

// normGrad computes the gradients of a norm with respect to its input and its weight, which is input at of the operator. The kernel computes
// both, so that of a frozen weight goes to scratch memory.
func (t *Tape) normGrad(g *Gradients, dOut, x, rstd, weight, dx *aclnn.Tensor, at int) {
	a := ops.RMSNormGradArgs{DOut: dOut, X: x, RStd: rstd, Weight: weight, DX: dx}
	if a.DWeight, a.Accumulate = g.Weight(at); a.DWeight == nil {
		a.DWeight = g.Scratch(aclnn.Float32, weight.Shape()...)
	}
	runGrad(g, t.reg.RMSNormGrad(), &a)
}

// GatedNorm computes the RMS norm of rows times silu(gate) (ops.GatedNorm): x and gate [..., width], weight [width].
func (t *Tape) GatedNorm(x, gate, weight *Var, epsilon float64) *Var {
	c := t.begin("gated norm", x, gate, weight)
	if c == nil {
		return t.failed()
	}
	a := ops.GatedNormArgs{X: x.Value, Gate: gate.Value, Weight: weight.Value, Epsilon: epsilon, Out: c.Output(x.Value.DType(), x.Shape()...)}
	a.RStd = c.Scratch(aclnn.Float32, with(x.Shape(), 1)...)
	run(c, t.reg.GatedNorm(), &a)
	c.Keep(x, gate, weight)
	c.Backward(func(g *Gradients) {
		grad := ops.GatedNormGradArgs{DOut: g.Output(0), X: x.now(a.X), Gate: gate.now(a.Gate), RStd: a.RStd, Weight: weight.now(a.Weight), DX: g.orScratch(0), DGate: g.orScratch(1)}
		if grad.DWeight, grad.Accumulate = g.Weight(2); grad.DWeight == nil {
			grad.DWeight = g.Scratch(aclnn.Float32, a.Weight.Shape()...)
		}
		runGrad(g, t.reg.GatedNormGrad(), &grad)
	})
	return c.end()[0]
}
