package ops

import (
	"context"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// AttentionSinkArgs describes how the result of attention takes in the sinks of its heads, scores in each softmax row of keys whose values
// are zero: with (o, m, l) the result, the maximum and the sum of a softmax row, and s the sink, m′ = max(m, s),
// l′ = l·e^(m−m′) + e^(s−m′) and o′ = o·l·e^(m−m′)/l′. Attention does it for its own Sinks; of
// attention to parts of the keys, the sum of all takes them in once. Tensors may be views with any strides.
type AttentionSinkArgs struct {
	Out                    *aclnn.Tensor // [B,N,S,D], float32, float16 or bfloat16, in place
	SoftmaxMax, SoftmaxSum *aclnn.Tensor // [B,N,S,8], float32, as Attention writes them, in place
	Sinks                  *aclnn.Tensor // [N], float32
}

// AttentionSinkGradArgs describes the gradient of sinks. Those of query, key and value are what AttentionGrad computes from the
// results with the sinks.
type AttentionSinkGradArgs struct {
	AttentionSinkArgs               // as AttentionSink left them
	DOut              *aclnn.Tensor // like Out
	DSinks            *aclnn.Tensor // [N], float32
	// Accumulate adds to DSinks instead of overwriting it.
	Accumulate bool
}

func (a *AttentionSinkArgs) validate() error {
	var c args
	a.check(&c)
	return c.Err
}

func (a *AttentionSinkArgs) check(c *args) {
	c.Tensor("Out", a.Out, floats...)
	if c.OK() && a.Out.Rank() != 4 {
		c.Fail("Out is %v; it must be [batch, heads, queries, head dimension]", a.Out)
	}
	if !c.OK() {
		return
	}
	stats := a.Out.Shape()
	stats[3] = SoftmaxCopies
	c.Tensor("SoftmaxMax", a.SoftmaxMax, aclnn.Float32)
	c.Shape("SoftmaxMax", a.SoftmaxMax, stats...)
	c.Tensor("SoftmaxSum", a.SoftmaxSum, aclnn.Float32)
	c.Shape("SoftmaxSum", a.SoftmaxSum, stats...)
	c.sinks("Sinks", a.Sinks, a.Out.Dim(1))
}

// sinks checks a number for each head.
func (c *args) sinks(name string, t *aclnn.Tensor, heads int64) {
	c.Tensor(name, t, aclnn.Float32)
	c.Shape(name, t, heads)
}

func (a *AttentionSinkArgs) key() key.AttentionSink {
	return key.AttentionSink{DType: a.Out.DType(), Heads: a.Out.Dim(1), Dim: a.Out.Dim(3), Batch: key.ExtentOf(a.Out.Dim(0)), Queries: key.ExtentOf(a.Out.Dim(2))}
}

func (a *AttentionSinkGradArgs) validate() error {
	var c args
	a.AttentionSinkArgs.check(&c)
	if c.OK() {
		c.Tensor("DOut", a.DOut, a.Out.DType())
		c.Like("DOut", a.DOut, "Out", a.Out)
		c.sinks("DSinks", a.DSinks, a.Out.Dim(1))
	}
	return c.Err
}

func newAttentionSink(reg *Registry) *Op[AttentionSinkArgs, key.AttentionSink] {
	return op(reg, "attention_sink", (*AttentionSinkArgs).validate, (*AttentionSinkArgs).key,
		Kernel[AttentionSinkArgs, key.AttentionSink]{
			Name: "composite",
			Run: func(_ context.Context, st *acl.Stream, a *AttentionSinkArgs) error {
				return compose(st, a.run)
			},
		})
}

func newAttentionSinkGrad(reg *Registry) *Op[AttentionSinkGradArgs, key.AttentionSink] {
	return op(reg, "attention_sink_grad", (*AttentionSinkGradArgs).validate, func(a *AttentionSinkGradArgs) key.AttentionSink { return a.key() },
		Kernel[AttentionSinkGradArgs, key.AttentionSink]{
			Name: "composite",
			Run: func(_ context.Context, st *acl.Stream, a *AttentionSinkGradArgs) error {
				return compose(st, a.runGrad)
			},
		})
}

// weights returns e^(s−m) of every row, [B,N,S,8], for a maximum that is at least the sink.
func (a *AttentionSinkArgs) weights(s *steps, top *aclnn.Tensor) *aclnn.Tensor {
	w := s.Like(top)
	s.Copy(w, a.Sinks.Reshape(1, -1, 1, 1))
	s.exponentials(w, top)
	return w
}

func (a *AttentionSinkArgs) run(s *steps) {
	if a.Out.Len() == 0 {
		return
	}
	top, keys := s.Tensor(aclnn.Float32, a.SoftmaxMax.Shape()...), s.Tensor(aclnn.Float32, a.SoftmaxMax.Shape()...)
	launch(s, aclnn.Maximum, aclnn.MaximumParams{Self: a.SoftmaxMax, Other: a.Sinks.Reshape(1, -1, 1, 1), Out: top})
	s.Copy(keys, a.SoftmaxMax)
	s.exponentials(keys, top)
	s.times(keys, a.SoftmaxSum)
	sum := a.weights(s, top)
	s.add(sum, keys, 1)
	launch(s, aclnn.InplaceDiv, aclnn.InplaceDivParams{Self: keys, Other: sum})
	out := s.mul(s.float(a.Out), keys.Narrow(3, 0, 1))
	s.Copy(a.Out, out)
	s.Copy(a.SoftmaxMax, top)
	s.Copy(a.SoftmaxSum, sum)
}

// runGrad computes −Σ p·δ over the rows of a head, with p the probability of the sink and δ = Σ DOut·Out.
func (a *AttentionSinkGradArgs) runGrad(s *steps) {
	if a.Out.Len() == 0 {
		if !a.Accumulate {
			s.Zero(a.DSinks)
		}
		return
	}
	p := a.weights(s, a.SoftmaxMax)
	launch(s, aclnn.InplaceDiv, aclnn.InplaceDivParams{Self: p, Other: a.SoftmaxSum})
	delta := s.sum(s.mul(s.float(a.DOut), s.float(a.Out)), -1)
	s.times(delta, p.Narrow(3, 0, 1))
	d := s.sum(delta, 0, 2).Reshape(-1)
	s.scale(d, -1)
	s.deliver(a.DSinks, d, a.Accumulate)
}

// sinkParts calls f with views [B,N,S,·] of the outputs and the softmax statistics: of all rows together, or of the sequences
// of TND one after another, whose statistics are ordered by head.
func (a *AttentionArgs) sinkParts(p *plan, f func(out, stats func(*aclnn.Tensor) *aclnn.Tensor)) {
	same := func(t *aclnn.Tensor) *aclnn.Tensor { return t }
	switch a.Layout {
	case BNSD:
		f(same, same)
	case BSND:
		f(func(t *aclnn.Tensor) *aclnn.Tensor { return t.Permute(0, 2, 1, 3) }, same)
	case BSH:
		f(func(t *aclnn.Tensor) *aclnn.Tensor { return t.Unflatten(2, p.n, p.dv).Permute(0, 2, 1, 3) }, same)
	case SBH:
		f(func(t *aclnn.Tensor) *aclnn.Tensor { return t.Unflatten(2, p.n, p.dv).Permute(1, 2, 0, 3) }, same)
	default:
		from := int64(0)
		for _, end := range p.SeqQueries {
			first, n := from, end-from
			from = end
			if n == 0 {
				continue
			}
			f(func(t *aclnn.Tensor) *aclnn.Tensor { return t.Narrow(0, first, n).Permute(1, 0, 2).Unsqueeze(0) },
				func(t *aclnn.Tensor) *aclnn.Tensor { return t.Narrow(0, first, n).Reshape(1, p.n, n, SoftmaxCopies) })
		}
	}
}

// sink takes the sinks in, after the attention to the keys.
func (a *AttentionArgs) sink(ctx context.Context, reg *Registry, s *steps, p *plan) {
	if a.Sinks == nil {
		return
	}
	a.sinkParts(p, func(out, stats func(*aclnn.Tensor) *aclnn.Tensor) {
		if s.Err() == nil {
			Queue(ctx, &s.Scope, reg.AttentionSink(), &AttentionSinkArgs{Out: out(a.Out), SoftmaxMax: stats(p.top), SoftmaxSum: stats(p.sum), Sinks: a.Sinks})
		}
	})
}

// sink computes the gradient of the sinks.
func (a *AttentionGradArgs) sink(ctx context.Context, reg *Registry, s *steps, p *plan) {
	if a.DSinks == nil {
		return
	}
	s.Zero(a.DSinks)
	a.sinkParts(p, func(out, stats func(*aclnn.Tensor) *aclnn.Tensor) {
		if s.Err() == nil {
			Queue(ctx, &s.Scope, reg.AttentionSinkGrad(), &AttentionSinkGradArgs{
				AttentionSinkArgs: AttentionSinkArgs{Out: out(a.Out), SoftmaxMax: stats(a.SoftmaxMax), SoftmaxSum: stats(a.SoftmaxSum), Sinks: a.Sinks},
				DOut:              out(a.DOut), DSinks: a.DSinks, Accumulate: true,
			})
		}
	})
}
