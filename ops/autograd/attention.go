package autograd

import (
	"context"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// Attention computes scaled dot-product attention (ops.Attention) of query, key and value, with the sinks of the heads, [N], float32, or nil for
// none. a gives everything else: Layout, Heads, Mask, Scale, a bias, KeepProb; its tensors Query, Key, Value, Sinks, Out, SoftmaxMax, SoftmaxSum and DropMask must be nil. With a KeepProb between 0 and 1
// the tape draws the dropout mask, and again the same one in the backward pass. The result is like query, with the head dimension of
// value.
func (t *Tape) Attention(query, key, value, sinks *Var, a ops.AttentionArgs) *Var {
	return t.attention("attention", query, key, value, sinks, a, t.reg.Attention().Run, t.reg.AttentionGrad().Run)
}

// attention records an attention that forward and backward compute.
func (t *Tape) attention(
	name string, query, key, value, sinks *Var, a ops.AttentionArgs,
	forward func(context.Context, *acl.Stream, *ops.AttentionArgs) error, backward func(context.Context, *acl.Stream, *ops.AttentionGradArgs) error,
) *Var {
	c := t.beginOptional(name, 3, query, key, value, sinks)
	if c == nil {
		return t.failed()
	}
	if a.Query != nil || a.Key != nil || a.Value != nil || a.Out != nil || a.SoftmaxMax != nil || a.SoftmaxSum != nil || a.DropMask != nil || a.Sinks != nil {
		t.Fail(fmt.Errorf("%s: %w: Query, Key, Value, Out, SoftmaxMax, SoftmaxSum, DropMask and Sinks are the tape's; give query, key, value and sinks as variables", name, acl.ErrInvalidArgument))
		return t.failed()
	}
	a.Query, a.Key, a.Value = query.Value, key.Value, value.Value
	if sinks != nil {
		a.Sinks = sinks.Value
	}
	sizes, err := a.Sizes()
	if err != nil {
		t.Fail(fmt.Errorf("%s: %w", name, err))
		return t.failed()
	}
	last := sizes.ValueDim
	if a.Layout == ops.BSH || a.Layout == ops.SBH {
		last *= sizes.Heads
	}
	a.Out = c.Output(query.Value.DType(), with(query.Shape(), last)...)
	stats := []int64{sizes.Batch, sizes.Heads, sizes.Queries, ops.SoftmaxCopies}
	if a.Layout == ops.TND {
		stats = []int64{sizes.Queries, sizes.Heads, ops.SoftmaxCopies}
	}
	a.SoftmaxMax, a.SoftmaxSum = c.Scratch(aclnn.Float32, stats...), c.Scratch(aclnn.Float32, stats...)
	draw := func(scratch func(aclnn.DType, ...int64) *aclnn.Tensor) *aclnn.Tensor { return nil }
	if a.KeepProb > 0 && a.KeepProb < 1 {
		draw = t.dropMask(1-a.KeepProb, sizes.Batch, sizes.Heads, sizes.Queries, sizes.Keys)
	}
	args := a
	s := aclnn.Scope{Stream: t.st}
	args.DropMask = draw(s.Tensor)
	c.Do(func() error { return forward(t.ctx, t.st, &args) })
	t.Fail(s.Err())
	t.Fail(s.Close())
	c.Keep(query, key, value, sinks)
	c.KeepOutputs()
	c.Backward(func(g *Gradients) {
		grad := ops.AttentionGradArgs{AttentionArgs: a, DOut: g.Output(0), DQuery: g.orScratch(0), DKey: g.orScratch(1), DValue: g.orScratch(2)}
		grad.DropMask = draw(g.Scratch)
		if sinks != nil {
			grad.Sinks, grad.DSinks = sinks.now(a.Sinks), g.Input(3)
		}
		g.Do(func() error { return backward(t.ctx, t.st, &grad) })
	})
	return c.end()[0]
}

// RoPE rotates x and key, which may be nil, by their positions (ops.RoPE): x and key [B,S,N,D], or another order that ends in D; cos and
// sin have the shapes that ops.RoPEArgs says, and get no gradient.
func (t *Tape) RoPE(x, key *Var, cos, sin *aclnn.Tensor) (rotated, rotatedKey *Var) {
	return t.rope(x, key, cos, sin, false)
}

// RoPEInterleaved is RoPE of which neighbouring features are pairs, in place of the halves (ops.RoPEArgs.Interleaved).
func (t *Tape) RoPEInterleaved(x, key *Var, cos, sin *aclnn.Tensor) (rotated, rotatedKey *Var) {
	return t.rope(x, key, cos, sin, true)
}

func (t *Tape) rope(x, key *Var, cos, sin *aclnn.Tensor, interleaved bool) (rotated, rotatedKey *Var) {
	c := t.beginOptional("rope", 1, x, key)
	if c == nil {
		return t.failed(), t.failed()
	}
	a := ops.RoPEArgs{Interleaved: interleaved, X: x.Value, Key: value(key), Cos: cos, Sin: sin, Out: c.Output(x.Value.DType(), x.Shape()...)}
	if key != nil {
		a.KeyOut = c.Output(key.Value.DType(), key.Shape()...)
	}
	run(c, t.reg.RoPE(), &a)
	c.Backward(func(g *Gradients) {
		grad := ops.RoPEGradArgs{Interleaved: interleaved, DOut: g.OutputOrZero(0), Cos: cos, Sin: sin, DX: g.orScratch(0)}
		if key != nil {
			grad.DKeyOut, grad.DKey = g.OutputOrZero(1), g.orScratch(1)
		}
		runGrad(g, t.reg.RoPEGrad(), &grad)
	})
	outputs := c.end()
	if key == nil {
		return outputs[0], nil
	}
	return outputs[0], outputs[len(outputs)-1]
}
