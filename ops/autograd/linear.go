package autograd

import (
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// run queues an operator of package ops.
func run[A any, K comparable](c *Call, o *ops.Op[A, K], a *A) {
	c.Do(func() error { return o.Run(c.t.ctx, c.t.st, a) })
}

// runGrad queues the gradient of an operator of package ops.
func runGrad[A any, K comparable](g *Gradients, o *ops.Op[A, K], a *A) {
	g.Do(func() error { return o.Run(g.t.ctx, g.t.st, a) })
}

// value returns the tensor of an optional argument.
func value(v *Var) *aclnn.Tensor {
	if v == nil {
		return nil
	}
	return v.Value
}

// with returns a shape with another last dimension.
func with(shape []int64, last int64) []int64 {
	if len(shape) > 0 {
		shape[len(shape)-1] = last
	}
	return shape
}

// failed is what an operator returns on a tape that has failed.
func (t *Tape) failed() *Var { return &Var{tape: t} }

// Linear computes x·weightᵀ + bias (ops.Linear): x [..., in], weight [out, in], bias [out] or nil; the result is [..., out].
func (t *Tape) Linear(x, weight, bias *Var) *Var {
	return t.linear("linear", x, weight, bias, x.Shape(), linearCalls{
		apart:    true,
		forward:  func(c *Call, a *ops.LinearArgs) { run(c, t.reg.Linear(), a) },
		backward: func(g *Gradients, a *ops.LinearGradArgs) { runGrad(g, t.reg.LinearGrad(), a) },
	})
}

// linearCalls are an operator of the form of Linear and its gradient.
type linearCalls struct {
	forward  func(*Call, *ops.LinearArgs)
	backward func(*Gradients, *ops.LinearGradArgs)
	apart    bool // node.apart
}

// linear records a projection whose result has the leading dimensions of shape.
func (t *Tape) linear(name string, x, weight, bias *Var, shape []int64, calls linearCalls) *Var {
	c := t.beginOptional(name, 2, x, weight, bias)
	if c == nil {
		return t.failed()
	}
	a := ops.LinearArgs{X: x.Value, Weight: weight.Value, Bias: value(bias), Out: c.Output(x.Value.DType(), with(shape, weight.Dim(0))...)}
	calls.forward(c, &a)
	c.n.apart = calls.apart
	if weight.NeedsGrad() {
		c.Keep(x)
	}
	c.Keep(weight)
	c.Backward(func(g *Gradients) {
		grad := ops.LinearGradArgs{X: x.now(a.X), Weight: weight.now(a.Weight), DOut: g.Output(0), DX: g.Input(0)}
		grad.DWeight, grad.Accumulate = g.Weight(1)
		var apart bool
		if g.Needs(2) {
			var adds bool
			grad.DBias, adds = g.Weight(2)
			// One switch says whether both are added to, so a bias that differs is computed in a second call.
			apart = grad.DWeight != nil && adds != grad.Accumulate
			if grad.DWeight == nil {
				grad.Accumulate = adds
			}
		}
		if apart {
			alone := ops.LinearGradArgs{X: grad.X, DOut: grad.DOut, DBias: grad.DBias, Accumulate: !grad.Accumulate}
			grad.DBias = nil
			calls.backward(g, &alone)
		}
		calls.backward(g, &grad)
	})
	return c.end()[0]
}

// MatMul computes a·b (ops.MatMul): a [..., m, k], b [..., k, n] with equal leading dimensions.
func (t *Tape) MatMul(a, b *Var) *Var {
	c := t.begin("matmul", a, b)
	if c == nil {
		return t.failed()
	}
	args := ops.MatMulArgs{A: a.Value, B: b.Value, Out: c.Output(a.Value.DType(), with(a.Shape(), b.Dim(-1))...)}
	run(c, t.reg.MatMul(), &args)
	c.Keep(a, b)
	c.Backward(func(g *Gradients) {
		runGrad(g, t.reg.MatMulGrad(), &ops.MatMulGradArgs{DOut: g.Output(0), A: a.now(args.A), B: b.now(args.B), DA: g.Input(0), DB: g.Input(1)})
	})
	return c.end()[0]
}

// GroupedMatmul multiplies the rows of each group by the matrix of the group (ops.GroupedMatmul): x [rows, in], weight [groups, in, out],
// bias [groups, out] or nil; the result is [rows, out]. For a weight stored as [groups, out, in], make the parameter of
// the transposed views of value and gradient.
func (t *Tape) GroupedMatmul(x, weight, bias *Var, groups Groups) *Var {
	c := t.beginOptional("grouped matmul", 2, x, weight, bias, groups.sums)
	if c == nil {
		return t.failed()
	}
	a := ops.GroupedMatmulArgs{X: x.Value, Weight: weight.Value, Bias: value(bias), Groups: groups.Groups, Out: c.Output(x.Value.DType(), x.Dim(0), weight.Dim(2))}
	run(c, t.reg.GroupedMatmul(), &a)
	c.Keep(x, weight, groups.sums)
	c.n.apart = true
	c.Backward(func(g *Gradients) {
		grad := ops.GroupedMatmulGradArgs{DOut: g.Output(0), X: x.now(a.X), Weight: weight.now(a.Weight), Groups: groups.Groups, DX: g.Input(0)}
		grad.DWeight, grad.Accumulate = g.Weight(1)
		if g.Needs(2) {
			grad.DBias = g.Input(2)
			if grad.Accumulate { // the bias is added by the tape, so it must come apart from the weight
				alone := grad
				alone.DX, alone.DWeight, alone.Accumulate = nil, nil, false
				runGrad(g, t.reg.GroupedMatmulGrad(), &alone)
				grad.DBias = nil
			}
		}
		runGrad(g, t.reg.GroupedMatmulGrad(), &grad)
	})
	return c.end()[0]
}

// WeightQuantGroupedMatmul is GroupedMatmul with weights in codes (ops.WeightQuantGroupedMatmul): a gives Weight, Scale and Offset; its other tensors and Groups must be
// nil. There is no gradient: on a tape that records, no input may need one.
func (t *Tape) WeightQuantGroupedMatmul(x, bias *Var, groups Groups, a ops.WeightQuantGroupedMatmulArgs) *Var {
	const name = "grouped matmul with codes"
	c := t.beginOptional(name, 1, x, bias, groups.sums)
	if c == nil {
		return t.failed()
	}
	switch {
	case a.X != nil || a.Bias != nil || a.Out != nil || a.Groups.Device != nil || a.Groups.Host != nil:
		t.Fail(fmt.Errorf("%s: %w: X, Bias, Groups and Out are the tape's; give them as variables", name, acl.ErrInvalidArgument))
	case a.Scale == nil || a.Scale.Rank() == 0:
		t.Fail(fmt.Errorf("%s: %w: Scale is %v; it must be [groups, out] or [groups, blocks, out]", name, acl.ErrInvalidArgument, a.Scale))
	case c.Needs():
		t.Fail(fmt.Errorf("%s: %w: it has no gradient, and x or bias needs one; use weights in %v, or a tape without gradients", name, acl.ErrInvalidArgument, x.Value.DType()))
	}
	if t.Err() != nil {
		return t.failed()
	}
	a.X, a.Bias, a.Groups, a.Out = x.Value, value(bias), groups.Groups, c.Output(x.Value.DType(), x.Dim(0), a.Scale.Dim(-1))
	run(c, t.reg.WeightQuantGroupedMatmul(), &a)
	return c.end()[0]
}

// Embedding looks up rows (ops.Embedding): weight [vocabulary, width], ids [...] of int32 or int64; the result is [..., width].
func (t *Tape) Embedding(weight, ids *Var) *Var {
	c := t.begin("embedding", weight, ids)
	if c == nil {
		return t.failed()
	}
	a := ops.EmbeddingArgs{Weight: weight.Value, IDs: ids.Value, Out: c.Output(weight.Value.DType(), append(ids.Shape(), weight.Dim(1))...)}
	run(c, t.reg.Embedding(), &a)
	c.Keep(ids)
	c.n.apart = true
	c.Backward(func(g *Gradients) {
		grad := ops.EmbeddingGradArgs{DOut: g.Output(0), IDs: a.IDs}
		grad.DWeight, grad.Accumulate = g.Weight(0)
		runGrad(g, t.reg.EmbeddingGrad(), &grad)
	})
	return c.end()[0]
}
