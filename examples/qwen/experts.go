package qwen

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// experts is a feed-forward layer of experts, of which the router chooses some for each
// token. Its weights are [experts, out, in] as in the checkpoint; the grouped products read
// them through their transposes.
type experts struct {
	router       linear     // [experts, hidden]
	gateUp, down *Parameter // of this rank's experts
	count        int64      // experts of all ranks
	perToken     int64
	normalize    bool
	nz           bool // the products read FRACTAL_NZ copies of the weights
}

func newExperts(ps *parameters, c Config, prefix string) experts {
	h, i, n := int64(c.HiddenSize), int64(c.MoEIntermediate), int64(c.Experts)
	return experts{
		router: linear{ps.add(prefix+"gate.weight", n, h)},
		gateUp: ps.addExperts(prefix+"experts.gate_up_proj", n, 2*i, h),
		down:   ps.addExperts(prefix+"experts.down_proj", n, h, i),
		count:  n, perToken: int64(c.ExpertsPerToken), normalize: c.NormTopK, nz: c.GroupedNZ,
	}
}

// expertsState is what the way back needs.
type expertsState struct {
	experts
	x, weights, places *aclnn.Tensor
	results            *aclnn.Tensor // of the experts, by row of this rank's tokens
	unit               ops.MoEExpertsArgs
	plan               *ops.ExpertPlan // nil when the rows stay and only the device counts them
	read               *aclnn.Tensor   // the weight that unit.GateUp views
	routed
}

// routed is the routing of a layer.
type routed struct{ probs, chosen *aclnn.Tensor }

func (r routed) routing() routed { return r }

func (f experts) forward(p *pass, x *aclnn.Tensor) (*aclnn.Tensor, fed) {
	tokens, h, n := x.Dim(0), x.Dim(1), f.count
	rows := tokens * f.perToken
	s := &expertsState{experts: f, x: x}
	// The router computes in float32, whatever the dtype of the model.
	logits := p.tensor(aclnn.Float32, tokens, n)
	p.copy(logits, f.router.forward(p, x))
	s.weights, s.chosen = p.tensor(aclnn.Float32, tokens, f.perToken), p.tensor(aclnn.Int32, tokens, f.perToken)
	s.probs = p.tensor(aclnn.Float32, tokens, n)
	run(p, p.reg.MoERouting, &ops.MoERoutingArgs{Logits: logits, Normalize: f.normalize, Weights: s.weights, Experts: s.chosen, Probs: s.probs})

	sums, permuted := p.tensor(aclnn.Int32, n), p.tensor(p.dt, rows, h)
	s.places = p.tensor(aclnn.Int32, rows)
	run(p, p.reg.MoEPermute, &ops.MoEPermuteArgs{X: x, Experts: s.chosen, Rows: permuted, Places: s.places, Sums: sums})
	s.unit = ops.MoEExpertsArgs{Rows: permuted, Groups: ops.Groups{Device: sums, Cumulative: true}}
	s.results = p.tensor(p.dt, rows, h)
	s.unit.Out = s.results
	// CANN reads FRACTAL_NZ weights of float32 in plain products only: one per expert, for which
	// the host must know its rows, as it must to send them to other ranks.
	if p.ep.Size() > 1 || f.nz && p.dt == aclnn.Float32 {
		s.dispatch(p, sums, permuted)
	}
	s.compute(p)
	y := p.like(x)
	run(p, p.reg.MoEUnpermute, &ops.MoEUnpermuteArgs{Rows: s.results, Places: s.places, Weights: s.weights, Out: y})
	return y, s
}

// dispatch brings the rows to this rank's experts, and their numbers to the host.
func (s *expertsState) dispatch(p *pass, sums, permuted *aclnn.Tensor) {
	if p.err != nil {
		return
	}
	if s.plan, p.err = p.ep.Plan(p.ctx, p.st, sums); p.err != nil {
		return
	}
	p.plans = append(p.plans, s.plan)
	s.unit.Groups = s.plan.Groups()
	s.unit.Rows, s.unit.Out = p.tensor(p.dt, s.plan.Rows(), permuted.Dim(1)), p.tensor(p.dt, s.plan.Rows(), permuted.Dim(1))
	if p.err == nil {
		p.err = s.plan.Dispatch(p.st, permuted, s.unit.Rows)
	}
}

// compute runs the experts on their rows, and brings the results back.
func (s *expertsState) compute(p *pass) {
	if p.err != nil {
		return
	}
	rows, inner := s.unit.Rows.Dim(0), s.down.Value.Dim(2)
	s.readWeights(p)
	s.unit.Hidden, s.unit.Active = p.tensor(p.dt, rows, 2*inner), p.tensor(p.dt, rows, inner)
	run(p, p.reg.MoEExperts, &s.unit)
	if s.plan != nil && p.err == nil {
		p.err = s.plan.Combine(p.st, s.unit.Out, s.results)
	}
}

// readWeights views the weights for the grouped products, again when they were gathered anew.
func (s *expertsState) readWeights(p *pass) {
	if s.read != s.gateUp.Value {
		s.read = s.gateUp.Value
		s.unit.GateUp, s.unit.Down = s.weight(p, s.gateUp), s.weight(p, s.down)
	}
}

// weight is [experts, in, out] for the grouped products: a view of the weight, or of a copy
// in FRACTAL_NZ, which the backward pass reads too.
func (f experts) weight(p *pass, w *Parameter) *aclnn.Tensor {
	if !f.nz || w.Value.Format() == aclnn.FractalNZ {
		return w.Value.Transpose(1, 2)
	}
	shape := w.Value.Shape()
	storage := p.tensor(p.dt, int64(aclnn.NZBytes(p.dt, shape...)/p.dt.Size()))
	nz := storage.Narrow(0, 0, w.Value.Len()).Reshape(shape...).AsNZ()
	run(p, p.reg.SliceToNZ, &ops.SliceToNZArgs{Gathered: w.Value.Reshape(1, -1), End: w.Value.Len(), Out: nz})
	return nz.Transpose(1, 2)
}

func (s *expertsState) backward(p *pass, dy *aclnn.Tensor) *aclnn.Tensor {
	f := s.experts
	dResults, dWeights := p.like(s.results), p.like(s.weights)
	run(p, p.reg.MoEUnpermuteGrad, &ops.MoEUnpermuteGradArgs{DOut: dy, Rows: s.results, Places: s.places, Weights: s.weights, DRows: dResults, DWeights: dWeights})
	dRows := s.computeGrad(p, dResults)
	dx := p.like(s.x)
	run(p, p.reg.MoEPermuteGrad, &ops.MoEPermuteGradArgs{DRows: dRows, Places: s.places, DX: dx})
	dLogits := p.like(s.probs)
	run(p, p.reg.MoERoutingGrad, &ops.MoERoutingGradArgs{
		DWeights: dWeights, Weights: s.weights, Experts: s.chosen, Normalize: f.normalize, Probs: s.probs, DProbs: p.dProbs(s.routed), DLogits: dLogits,
	})
	narrow := p.tensor(p.dt, dLogits.Shape()...)
	p.copy(narrow, dLogits)
	p.add(dx, f.router.backward(p, s.x, narrow))
	return dx
}

// computeGrad turns the gradient of the results into that of the permuted rows.
func (s *expertsState) computeGrad(p *pass, dResults *aclnn.Tensor) *aclnn.Tensor {
	dOut, dMine := dResults, p.like(s.unit.Rows)
	if p.err != nil {
		return nothing
	}
	if s.plan != nil {
		dOut = p.like(s.unit.Out)
		if p.err == nil {
			p.err = s.plan.Dispatch(p.st, dResults, dOut)
		}
	}
	s.readWeights(p)
	run(p, p.reg.MoEExpertsGrad, &ops.MoEExpertsGradArgs{
		MoEExpertsArgs: s.unit, DOut: dOut, DRows: dMine, Accumulate: p.accumulate,
		DGateUp: s.gateUp.Grad.Transpose(1, 2), DDown: s.down.Grad.Transpose(1, 2),
	})
	if s.plan == nil {
		return dMine
	}
	dRows := p.like(dResults)
	if p.err == nil {
		p.err = s.plan.Combine(p.st, dMine, dRows)
	}
	return dRows
}
