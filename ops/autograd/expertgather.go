package autograd

import (
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/parallel"
)

// GatherTokens gathers the tokens of all ranks, x [tokens, width] becomes [ranks·tokens, width], and their choices of experts (parallel.ExpertParallel.Gather). All ranks
// have equally many tokens.
//
// beside, which may be nil, records what does not need the gathered tokens, such as an expert that all tokens pass. With side, a stream of the same device that serves
// only this, the exchange runs beside these kernels, and so does that of the gradients beside their gradients. Without side it runs before them.
func (t *Tape) GatherTokens(e *parallel.ExpertParallel, x *Var, r Routing, side *acl.Stream, beside func()) (*Var, Routing) {
	if beside == nil {
		beside = func() {}
	}
	if t.err == nil && e.Size() == 1 {
		beside()
		return x, r
	}
	tokens, weights := &gathering{t: t, e: e, side: side}, &gathering{t: t, e: e, side: side}
	all, w := tokens.begin("gather of tokens", x), weights.begin("gather of weights", r.Weights)
	ids := t.gatherExperts(e, r, side)
	beside()
	all, w = tokens.end("gather of tokens", all), weights.end("gather of weights", w)
	if t.err != nil {
		return t.failed(), Routing{Weights: t.failed(), Probs: t.failed(), experts: t.failed()}
	}
	return all, Routing{Weights: w, Probs: r.Probs, Experts: ids.Value, experts: ids}
}

// gatherExperts gathers the numbers of the experts, before end of the weights' gathering.
func (t *Tape) gatherExperts(e *parallel.ExpertParallel, r Routing, side *acl.Stream) *Var {
	c := t.begin("gather of choices", r.experts)
	if c == nil {
		return t.failed()
	}
	ids := c.constant(aclnn.Int32, r.Experts.Dim(0)*e.Size(), r.Experts.Dim(1))
	c.Do(func() error { return e.Gather(beside(side, t.st), r.Experts, ids) })
	return c.end()[0]
}

// beside returns side, or st in its place.
func beside(side, st *acl.Stream) *acl.Stream {
	if side != nil {
		return side
	}
	return st
}

// gathering is a gather of tokens that begins at one place of a pass and ends at a later one. Its gradient, the sum over the ranks, begins and ends at the same two
// places of the backward pass, which comes to them in reverse.
type gathering struct {
	t    *Tape
	e    *parallel.ExpertParallel
	side *acl.Stream // or nil
	sum  memory      // of the gradient, from end's backward pass to begin's
	dx   *aclnn.Tensor
}

// forks makes the side stream wait for what is queued on the tape's.
func (h *gathering) forks() error {
	if h.side == nil {
		return nil
	}
	return h.side.WaitStream(h.t.st)
}

// joins makes the tape's stream wait for the exchange.
func (h *gathering) joins() error {
	if h.side == nil {
		return nil
	}
	return h.t.st.WaitStream(h.side)
}

// begin begins the exchange; the value of what it returns is not there before end.
func (h *gathering) begin(name string, x *Var) *Var {
	t := h.t
	c := t.begin(name, x)
	if c == nil {
		return t.failed()
	}
	full := c.Output(x.Value.DType(), x.Dim(0)*h.e.Size(), x.Dim(1))
	c.Do(func() error { return errors.Join(h.forks(), h.e.Gather(beside(h.side, t.st), x.Value, full)) })
	c.keep(&h.sum)
	c.Backward(func(g *Gradients) {
		g.Do(h.joins)
		dx := g.Input(0)
		g.Do(func() error { return aclnn.Copy(t.st, dx, h.dx) })
	})
	return c.end()[0]
}

// end waits for the exchange, on the device.
func (h *gathering) end(name string, full *Var) *Var {
	t := h.t
	c := t.begin(name, full)
	if c == nil {
		return t.failed()
	}
	c.Do(h.joins)
	c.View(full, full.Value)
	c.Backward(func(g *Gradients) {
		d := g.Output(0)
		g.Do(func() (err error) {
			if h.dx, err = aclnn.New(t.st, d.DType(), d.Dim(0)/h.e.Size(), d.Dim(1)); err != nil {
				return err
			}
			h.sum.closer = h.dx
			return errors.Join(h.forks(), h.e.Reduce(beside(h.side, t.st), d, h.dx))
		})
		g.Pass(0, 0, nil) // keeps it until the sum has been computed
	})
	return c.end()[0]
}

// ReduceTokens sums the results y [ranks·tokens, width] over the ranks, each of which has those of its own experts, and keeps this rank's tokens
// (parallel.ExpertParallel.Reduce).
func (t *Tape) ReduceTokens(e *parallel.ExpertParallel, y *Var) *Var {
	if t.err == nil && e.Size() == 1 {
		return y
	}
	return t.sendRows("sum of tokens", nil, y, y.Dim(0)/e.Size(), e.Reduce, e.Gather)
}

// OwnRows takes the rows of this rank's experts (parallel.ExpertParallel.Own) of tokens that all its ranks have, x [tokens, width], for MoEExperts and then MoEUnpermute,
// whose result lacks the experts of the other ranks. experts counts those of all ranks, room the rows for which there is memory, and excess is as OwnRowsArgs has it. The
// host does not wait.
func (t *Tape) OwnRows(e *parallel.ExpertParallel, x *Var, r Routing, experts, room int64, excess *aclnn.Tensor) Permuted {
	c := t.begin("rows of own experts", x, r.experts)
	if c == nil {
		return Permuted{Rows: t.failed(), places: t.failed(), Groups: Groups{sums: t.failed()}}
	}
	a := parallel.OwnRowsArgs{
		X: x.Value, Experts: r.Experts, Count: experts, Rows: c.Output(x.Value.DType(), room, x.Dim(1)), Places: c.constant(aclnn.Int32, r.Experts.Len()),
		Ends: c.constant(aclnn.Int32, e.Experts(experts)), Excess: excess,
	}
	c.Do(func() error { return e.Own(t.ctx, t.st, t.reg, &a) })
	c.Keep(c.n.outputs[1:]...)
	c.Backward(func(g *Gradients) {
		runGrad(g, t.reg.MoEPermuteGrad(), &ops.MoEPermuteGradArgs{DRows: g.Output(0), Places: a.Places, DX: g.Input(0), Partial: true})
	})
	outputs := c.end()
	if t.err != nil {
		return Permuted{Rows: t.failed(), places: t.failed(), Groups: Groups{sums: t.failed()}}
	}
	groups := Groups{Groups: ops.Groups{Device: a.Ends, Cumulative: true}, sums: outputs[2]}
	return Permuted{Rows: outputs[0], Groups: groups, Places: a.Places, places: outputs[1], partial: true}
}
