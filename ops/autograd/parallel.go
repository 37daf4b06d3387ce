package autograd

import (
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/parallel"
)

// ColumnLinear is Linear with the rows of weight and bias split over the ranks (parallel.TensorParallel.ColumnLinear): x [rows, in], the result is [rows, out/n].
// With sequence parallelism x holds this rank's rows.
func (t *Tape) ColumnLinear(p *parallel.TensorParallel, x, weight, bias *Var) *Var {
	shape := x.Shape()
	if p.Sequence() && len(shape) > 0 {
		shape[0] *= p.Size()
	}
	return t.linear("column linear", x, weight, bias, shape, linearCalls{
		forward: func(c *Call, a *ops.LinearArgs) { c.Do(func() error { return p.ColumnLinear(t.ctx, t.st, a) }) },
		backward: func(g *Gradients, a *ops.LinearGradArgs) {
			g.Do(func() error { return p.ColumnLinearGrad(t.ctx, t.st, a) })
		},
	})
}

// RowLinear is Linear with the columns of weight split over the ranks (parallel.TensorParallel.RowLinear): x [rows, in/n], the result is [rows, out], summed over the
// ranks. With sequence parallelism it holds this rank's rows.
func (t *Tape) RowLinear(p *parallel.TensorParallel, x, weight, bias *Var) *Var {
	shape := x.Shape()
	if p.Sequence() && len(shape) > 0 {
		shape[0] /= p.Size()
	}
	return t.linear("row linear", x, weight, bias, shape, linearCalls{
		forward: func(c *Call, a *ops.LinearArgs) { c.Do(func() error { return p.RowLinear(t.ctx, t.st, a) }) },
		backward: func(g *Gradients, a *ops.LinearGradArgs) {
			g.Do(func() error { return p.RowLinearGrad(t.ctx, t.st, a) })
		},
	})
}

// ParallelEmbedding is Embedding with the vocabulary split over the ranks (parallel.TensorParallel.Embedding): weight [vocabulary/n, width], ids [rows]; the result is
// [rows, width], or with sequence parallelism this rank's rows of it.
func (t *Tape) ParallelEmbedding(p *parallel.TensorParallel, weight, ids *Var) *Var {
	c := t.begin("parallel embedding", weight, ids)
	if c == nil {
		return t.failed()
	}
	rows := ids.Dim(0)
	if p.Sequence() {
		rows /= p.Size()
	}
	a := ops.EmbeddingArgs{Weight: weight.Value, IDs: ids.Value, Out: c.Output(weight.Value.DType(), rows, weight.Dim(1))}
	c.Do(func() error { return p.Embedding(t.ctx, t.st, &a) })
	c.Keep(ids)
	c.n.apart = true
	c.Backward(func(g *Gradients) {
		grad := ops.EmbeddingGradArgs{DOut: g.Output(0), IDs: a.IDs}
		grad.DWeight, grad.Accumulate = g.Weight(0)
		g.Do(func() error { return p.EmbeddingGrad(t.ctx, t.st, &grad) })
	})
	return c.end()[0]
}

// ParallelCrossEntropy is CrossEntropy with the classes split over the ranks (parallel.TensorParallel.CrossEntropy): logits [rows, classes/n].
func (t *Tape) ParallelCrossEntropy(p *parallel.TensorParallel, logits, labels *Var, ignore int64) *Var {
	return t.crossEntropy("parallel cross-entropy", logits, labels, ignore,
		func(c *Call, a *ops.CrossEntropyArgs) { c.Do(func() error { return p.CrossEntropy(t.ctx, t.st, a) }) },
		func(g *Gradients, a *ops.CrossEntropyGradArgs) {
			g.Do(func() error { return p.CrossEntropyGrad(t.ctx, t.st, a) })
		})
}

// Gather is the way into layers that are split over the ranks (parallel.TensorParallel.Gather): with sequence parallelism it gathers the rows of all ranks, x [rows/n,
// width]; without it returns x. The gradient is summed over the ranks.
func (t *Tape) Gather(p *parallel.TensorParallel, x *Var) *Var {
	return t.exchange("gather", p, x, p.Size(), 1, p.Gather, p.Reduce)
}

// Reduce is the way out of such layers (parallel.TensorParallel.Reduce): it sums x [rows, width] over the ranks, and with sequence parallelism keeps this rank's
// rows. The gradient is gathered.
func (t *Tape) Reduce(p *parallel.TensorParallel, x *Var) *Var {
	return t.exchange("reduce", p, x, 1, p.Size(), p.Reduce, p.Gather)
}

// exchange records a collective and its gradient, the inverse collective. Without sequence parallelism Gather does nothing.
func (t *Tape) exchange(name string, p *parallel.TensorParallel, x *Var, times, divided int64, forward, backward func(st *acl.Stream, from, to *aclnn.Tensor) error) *Var {
	c := t.begin(name, x)
	if c == nil {
		return t.failed()
	}
	if p.Size() == 1 {
		return x
	}
	gathers := times > 1
	shape := x.Shape()
	if p.Sequence() {
		shape[0] = shape[0] * times / divided
	}
	if gathers && !p.Sequence() {
		c.View(x, x.Value)
	} else {
		out := c.Output(x.Value.DType(), shape...)
		c.Do(func() error { return forward(t.st, x.Value, out) })
	}
	c.Backward(func(g *Gradients) {
		if !gathers && !p.Sequence() {
			g.Pass(0, 0, nil)
			return
		}
		d, dx := g.Output(0), g.Input(0)
		g.Do(func() error { return backward(t.st, d, dx) })
	})
	return c.end()[0]
}

// ContextAttention is Attention with the sequence split over the ranks (parallel.ContextParallel.Attention): the tensors hold this rank's positions, and the mask
// describes the whole sequence.
func (t *Tape) ContextAttention(p *parallel.ContextParallel, query, key, value, sinks *Var, a ops.AttentionArgs) *Var {
	return t.attention("context-parallel attention", query, key, value, sinks, a, p.Attention, p.AttentionGrad)
}

// ContextGatedDelta is GatedDelta with the sequence split over the ranks (parallel.ContextParallel.GatedDelta): the tensors hold this rank's positions, and
// CuSeqLens describes the whole row. Sequences start from zero states.
func (t *Tape) ContextGatedDelta(p *parallel.ContextParallel, query, key, value, decay, beta *Var, a ops.GatedDeltaArgs) *Var {
	const name = "context-parallel gated delta rule"
	if p.Size() == 1 {
		return t.GatedDelta(query, key, value, decay, beta, a)
	}
	c := t.begin(name, query, key, value, decay, beta)
	if c == nil {
		return t.failed()
	}
	if !t.untouched(name, a.Query, a.Key, a.Value, a.Decay, a.Beta, a.InitialState, a.Out, a.FinalState) {
		return t.failed()
	}
	states, err := p.DeltaStates(a.CuSeqLens, query.Dim(0), query.Dim(1))
	if err != nil {
		t.Fail(fmt.Errorf("%s: %w", name, err))
		return t.failed()
	}
	a.Query, a.Key, a.Value, a.Decay, a.Beta = query.Value, key.Value, value.Value, decay.Value, beta.Value
	a.Out = c.Output(value.Value.DType(), value.Shape()...)
	shape := []int64{states, value.Dim(2), query.Dim(3), value.Dim(3)}
	s := aclnn.Scope{Stream: t.st}
	if a.InitialState = c.Scratch(aclnn.Float32, shape...); a.InitialState == nil {
		a.InitialState = s.Tensor(aclnn.Float32, shape...)
	}
	c.Do(func() error { return p.GatedDelta(t.ctx, t.st, &a) })
	t.Fail(s.Err())
	t.Fail(s.Close())
	c.Keep(query, key, value, decay, beta)
	c.Backward(func(g *Gradients) {
		grad := ops.GatedDeltaGradArgs{
			GatedDeltaArgs: a, DOut: g.Output(0), DQuery: g.orScratch(0), DKey: g.orScratch(1), DValue: g.orScratch(2), DDecay: g.orScratch(3), DBeta: g.orScratch(4),
		}
		grad.Out = nil // the gradient does not read it, and the tape has freed it
		g.Do(func() error { return p.GatedDeltaGrad(t.ctx, t.st, &grad) })
	})
	return c.end()[0]
}

// ContextCausalConv is CausalConv with the sequence split over the ranks (parallel.ContextParallel.CausalConv): x holds this rank's positions, and
// CuSeqLens describes the whole row. The gradients of the weights are those of this rank's positions.
func (t *Tape) ContextCausalConv(p *parallel.ContextParallel, x, weight, bias *Var, a ops.CausalConvArgs) *Var {
	return t.causalConv("context-parallel causal convolution", x, weight, bias, a, p.CausalConv, p.CausalConvGrad)
}

// Dispatched holds the rows of this rank's experts.
type Dispatched struct {
	Rows   *Var // [rows, width]
	Groups Groups
	plan   *parallel.ExpertPlan
	mem    *memory
	rows   int64 // that were sent
}

// Dispatch sends rows to the ranks of their experts (parallel.ExpertParallel). It waits for the stream, because the host needs the numbers of rows.
func (t *Tape) Dispatch(e *parallel.ExpertParallel, p Permuted) Dispatched {
	if t.begin("plan of experts", p.Rows, p.Groups.sums) == nil {
		return Dispatched{Rows: t.failed()}
	}
	plan, err := e.Plan(t.ctx, t.st, p.Groups.Device)
	if err != nil {
		t.Fail(err)
		return Dispatched{Rows: t.failed()}
	}
	d := Dispatched{plan: plan, mem: &memory{closer: plan}, rows: p.Rows.Dim(0), Groups: Groups{Groups: plan.Groups()}}
	t.own(p.Rows.Value, d.mem) // the block keeps the plan
	d.Rows = t.sendRows("dispatch", d.mem, p.Rows, plan.Rows(), d.send, d.back)
	return d
}

// Combine sends the results of the experts back to the ranks that the rows came from.
func (t *Tape) Combine(d Dispatched, results *Var) *Var {
	return t.sendRows("combine", d.mem, results, d.rows, d.back, d.send)
}

func (d Dispatched) send(st *acl.Stream, from, to *aclnn.Tensor) error {
	return d.plan.Dispatch(st, from, to)
}
func (d Dispatched) back(st *acl.Stream, from, to *aclnn.Tensor) error {
	return d.plan.Combine(st, from, to)
}

// sendRows records an exchange of rows between the ranks. The node keeps the plan until its backward pass has run.
func (t *Tape) sendRows(name string, plan *memory, x *Var, rows int64, forward, backward func(st *acl.Stream, from, to *aclnn.Tensor) error) *Var {
	c := t.begin(name, x)
	if c == nil {
		return t.failed()
	}
	out := c.Output(x.Value.DType(), rows, x.Dim(1))
	c.Do(func() error { return forward(t.st, x.Value, out) })
	c.keep(plan)
	c.Backward(func(g *Gradients) {
		d, dx := g.Output(0), g.Input(0)
		g.Do(func() error { return backward(t.st, d, dx) })
	})
	return c.end()[0]
}
