package autograd

import (
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// Routing is the choice of experts for tokens.
type Routing struct {
	Weights *Var          // [tokens, k], dtype of the logits
	Probs   *Var          // [tokens, experts], float32
	Experts *aclnn.Tensor // [tokens, k], int32
	experts *Var
}

// Vars lists what LoadBalance reads of the routing, so that a block or a checkpoint can return it.
func (r Routing) Vars() []*Var { return []*Var{r.Probs, r.experts} }

// MoERouting chooses k experts for each token (ops.MoERouting): logits [tokens, experts]. a gives how: Score, Bias, Groups, TopGroups,
// GroupBest, Normalize and Scale; its other tensors must be nil.
func (t *Tape) MoERouting(logits *Var, k int64, a ops.MoERoutingArgs) Routing {
	c := t.begin("moe routing", logits)
	if c == nil {
		return Routing{Weights: t.failed(), Probs: t.failed(), experts: t.failed()}
	}
	if a.Logits != nil || a.Weights != nil || a.Experts != nil || a.Probs != nil {
		t.Fail(fmt.Errorf("moe routing: %w: Logits, Weights, Experts and Probs are the tape's; give the logits as a variable", acl.ErrInvalidArgument))
		return Routing{Weights: t.failed(), Probs: t.failed(), experts: t.failed()}
	}
	tokens := logits.Dim(0)
	a.Logits, a.Weights, a.Probs = logits.Value, c.Output(logits.Value.DType(), tokens, k), c.Output(aclnn.Float32, logits.Shape()...)
	a.Experts = c.constant(aclnn.Int32, tokens, k)
	run(c, t.reg.MoERouting(), &a)
	c.KeepOutputs()
	c.Backward(func(g *Gradients) {
		runGrad(g, t.reg.MoERoutingGrad(), &ops.MoERoutingGradArgs{
			DWeights: g.OutputOrZero(0), Weights: a.Weights, Experts: a.Experts, Score: a.Score, Normalize: a.Normalize, Scale: a.Scale, Probs: a.Probs, DProbs: g.Output(1), DLogits: g.Input(0),
		})
	})
	outputs := c.end()
	if t.err != nil {
		return Routing{Weights: t.failed(), Probs: t.failed(), experts: t.failed()}
	}
	return Routing{Weights: outputs[0], Probs: outputs[1], Experts: a.Experts, experts: outputs[2]}
}

// LoadBalance computes scale times the loss that balances the load of experts (ops.LoadBalance) over the tokens of all routings, which
// have the same numbers of experts: [1], float32.
func (t *Tape) LoadBalance(scale float64, routings ...Routing) *Var {
	var inputs []*Var
	for _, r := range routings {
		inputs = append(inputs, r.Probs, r.experts)
	}
	c := t.begin("load balance", inputs...)
	if c == nil {
		return t.failed()
	}
	if len(routings) == 0 {
		t.Fail(fmt.Errorf("load balance: %w: there are no routings", acl.ErrInvalidArgument))
		return t.failed()
	}
	experts, k, rows := routings[0].Probs.Dim(1), routings[0].experts.Dim(1), int64(0)
	for _, r := range routings {
		rows += r.Probs.Dim(0)
	}
	loss := c.Output(aclnn.Float32, 1)
	s := aclnn.Scope{Stream: t.st}
	a := ops.LoadBalanceArgs{Probs: s.Tensor(aclnn.Float32, rows, experts), Experts: s.Tensor(aclnn.Int32, rows, k), Loss: loss}
	gather := func(copy func(dst, src *aclnn.Tensor), probs, chosen *aclnn.Tensor) {
		at := int64(0)
		for _, r := range routings {
			n := r.Probs.like.Dim(0)
			if probs != nil {
				copy(probs.Narrow(0, at, n), r.Probs.Value)
			}
			copy(chosen.Narrow(0, at, n), r.Experts)
			at += n
		}
	}
	gather(s.Copy, a.Probs, a.Experts)
	t.Fail(s.Err())
	run(c, t.reg.LoadBalance(), &a)
	if scale != 1 {
		launch(t, aclnn.InplaceMuls, aclnn.InplaceMulsParams{Self: loss, Other: aclnn.Float(scale)})
	}
	t.Fail(s.Close())
	for _, r := range routings {
		c.Keep(r.experts)
	}
	c.Backward(func(g *Gradients) {
		chosen, dProbs := g.Scratch(aclnn.Int32, rows, k), g.Scratch(aclnn.Float32, rows, experts)
		gather(func(dst, src *aclnn.Tensor) { g.Do(func() error { return aclnn.Copy(t.st, dst, src) }) }, nil, chosen)
		factor := g.factor(0)
		known := factor != 0
		if !known {
			factor = 1
		}
		runGrad(g, t.reg.LoadBalanceGrad(), &ops.LoadBalanceGradArgs{Scale: scale * factor, Experts: chosen, DProbs: dProbs})
		if !known {
			launch(t, aclnn.InplaceMul, aclnn.InplaceMulParams{Self: dProbs, Other: g.Output(0)})
		}
		at := int64(0)
		for i, r := range routings {
			n := r.Probs.like.Dim(0)
			if dx := g.Input(2 * i); dx != nil {
				g.Do(func() error { return aclnn.Copy(t.st, dx, dProbs.Narrow(0, at, n)) })
			}
			at += n
		}
	})
	return c.end()[0]
}

// Permuted holds tokens sorted by expert.
type Permuted struct {
	Rows    *Var // [tokens·k, width]
	Groups  Groups
	Places  *aclnn.Tensor // int32, as ops.MoEPermuteArgs describes them
	places  *Var
	partial bool // as ops.MoEUnpermuteArgs has it
}

// Groups says which rows are those of which group of a grouped product. Those of Permuted and Dispatched are the tape's; a program makes its own with
// ops.Groups.Host.
type Groups struct {
	ops.Groups
	sums *Var
}

// MoEPermute sorts tokens by expert (ops.MoEPermute): x [tokens, width], for a number of experts.
func (t *Tape) MoEPermute(x *Var, r Routing, experts int64) Permuted {
	c := t.begin("moe permute", x, r.experts)
	if c == nil {
		return Permuted{Rows: t.failed(), places: t.failed(), Groups: Groups{sums: t.failed()}}
	}
	rows := r.Experts.Len()
	a := ops.MoEPermuteArgs{
		X: x.Value, Experts: r.Experts, Rows: c.Output(x.Value.DType(), rows, x.Dim(1)), Places: c.constant(aclnn.Int32, rows), Sums: c.constant(aclnn.Int32, experts),
	}
	run(c, t.reg.MoEPermute(), &a)
	c.Keep(c.n.outputs[1:]...)
	c.Backward(func(g *Gradients) {
		runGrad(g, t.reg.MoEPermuteGrad(), &ops.MoEPermuteGradArgs{DRows: g.Output(0), Places: a.Places, DX: g.Input(0)})
	})
	outputs := c.end()
	if t.err != nil {
		return Permuted{Rows: t.failed(), places: t.failed(), Groups: Groups{sums: t.failed()}}
	}
	groups := Groups{Groups: ops.Groups{Device: a.Sums, Cumulative: true}, sums: outputs[2]}
	return Permuted{Rows: outputs[0], Groups: groups, Places: a.Places, places: outputs[1]}
}

// MoEExperts computes a gated feed-forward unit per expert (ops.MoEExperts) on rows that MoEPermute or Dispatch has sorted: gateUp [experts, width, 2·inner] and
// down [experts, inner, width]. For weights stored as [experts, out, in], Derive their transposes.
func (t *Tape) MoEExperts(rows *Var, groups Groups, gateUp, down *Var) *Var {
	c := t.beginOptional("experts", 3, rows, gateUp, down, groups.sums)
	if c == nil {
		return t.failed()
	}
	dt, n := rows.Value.DType(), rows.Dim(0)
	a := ops.MoEExpertsArgs{Rows: rows.Value, GateUp: gateUp.Value, Down: down.Value, Groups: groups.Groups, Out: c.Output(dt, n, rows.Dim(1))}
	s := aclnn.Scope{Stream: t.st}
	if a.Hidden, a.Active = c.Scratch(dt, n, gateUp.Dim(2)), c.Scratch(dt, n, down.Dim(1)); !c.Needs() {
		a.Hidden, a.Active = s.Tensor(dt, n, gateUp.Dim(2)), s.Tensor(dt, n, down.Dim(1))
	}
	run(c, t.reg.MoEExperts(), &a)
	t.Fail(s.Err())
	t.Fail(s.Close())
	c.Keep(rows, gateUp, down, groups.sums)
	c.Backward(func(g *Gradients) {
		a.GateUp, a.Down = gateUp.now(a.GateUp), down.now(a.Down)
		grad := ops.MoEExpertsGradArgs{MoEExpertsArgs: a, DOut: g.Output(0), DRows: g.orScratch(0)}
		grad.DGateUp, grad.DDown, grad.Accumulate = g.weights(1, 2, false)
		runGrad(g, t.reg.MoEExpertsGrad(), &grad)
	})
	return c.end()[0]
}

// MoEUnpermute combines the results of the experts for each token (ops.MoEUnpermute), and adds shared [tokens, width], which may be nil. The
// result is [tokens, width].
func (t *Tape) MoEUnpermute(rows *Var, p Permuted, r Routing, shared *Var) *Var {
	c := t.beginOptional("moe unpermute", 3, rows, r.Weights, p.places, shared)
	if c == nil {
		return t.failed()
	}
	a := ops.MoEUnpermuteArgs{
		Rows: rows.Value, Places: p.Places, Weights: r.Weights.Value, Shared: value(shared), Out: c.Output(rows.Value.DType(), r.Weights.Dim(0), rows.Dim(1)), Partial: p.partial,
	}
	run(c, t.reg.MoEUnpermute(), &a)
	c.Keep(rows, r.Weights, p.places)
	c.Backward(func(g *Gradients) {
		runGrad(g, t.reg.MoEUnpermuteGrad(), &ops.MoEUnpermuteGradArgs{
			DOut: g.Output(0), Rows: a.Rows, Places: a.Places, Weights: a.Weights, DRows: g.orScratch(0), DWeights: g.orScratch(1), Partial: a.Partial,
		})
		g.Pass(3, 0, nil)
	})
	return c.end()[0]
}
