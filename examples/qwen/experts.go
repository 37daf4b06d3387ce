package qwen

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// experts is a feed-forward layer of experts, of which the router chooses some for each
// token. Its weights are [experts, out, in] as in the checkpoint; the grouped products read
// them through their transposes.
type experts struct {
	router       linear // [experts, hidden]
	gateUp, down *Parameter
	perToken     int64
	normalize    bool
	nz           bool // the products read FRACTAL_NZ copies of the weights
}

func newExperts(ps *parameters, c Config, prefix string) experts {
	h, i, n := int64(c.HiddenSize), int64(c.MoEIntermediate), int64(c.Experts)
	return experts{
		router:   linear{ps.add(prefix+"gate.weight", n, h)},
		gateUp:   ps.add(prefix+"experts.gate_up_proj", n, 2*i, h),
		down:     ps.add(prefix+"experts.down_proj", n, h, i),
		perToken: int64(c.ExpertsPerToken), normalize: c.NormTopK, nz: c.GroupedNZ,
	}
}

// expertsState is what the way back needs.
type expertsState struct {
	experts
	x, weights, places *aclnn.Tensor
	unit               ops.MoEExpertsArgs
	routed
}

// routed is the routing of a layer.
type routed struct{ probs, chosen *aclnn.Tensor }

func (r routed) routing() routed { return r }

func (f experts) forward(p *pass, x *aclnn.Tensor) (*aclnn.Tensor, fed) {
	tokens, h, n := x.Dim(0), x.Dim(1), f.gateUp.Value.Dim(0)
	rows, inner := tokens*f.perToken, f.down.Value.Dim(2)
	s := &expertsState{experts: f, x: x}
	// The router computes in float32, whatever the dtype of the model.
	logits := p.tensor(aclnn.Float32, tokens, n)
	p.copy(logits, f.router.forward(p, x))
	s.weights, s.chosen = p.tensor(aclnn.Float32, tokens, f.perToken), p.tensor(aclnn.Int32, tokens, f.perToken)
	s.probs = p.tensor(aclnn.Float32, tokens, n)
	run(p, p.reg.MoERouting, &ops.MoERoutingArgs{Logits: logits, Normalize: f.normalize, Weights: s.weights, Experts: s.chosen, Probs: s.probs})

	sums := p.tensor(aclnn.Int32, n)
	s.places = p.tensor(aclnn.Int32, rows)
	s.unit = ops.MoEExpertsArgs{
		Rows: p.tensor(p.dt, rows, h), GateUp: f.weight(p, f.gateUp), Down: f.weight(p, f.down), Groups: ops.Groups{Device: sums, Cumulative: true},
		Hidden: p.tensor(p.dt, rows, 2*inner), Active: p.tensor(p.dt, rows, inner), Out: p.tensor(p.dt, rows, h),
	}
	run(p, p.reg.MoEPermute, &ops.MoEPermuteArgs{X: x, Experts: s.chosen, Rows: s.unit.Rows, Places: s.places, Sums: sums})
	run(p, p.reg.MoEExperts, &s.unit)
	y := p.like(x)
	run(p, p.reg.MoEUnpermute, &ops.MoEUnpermuteArgs{Rows: s.unit.Out, Places: s.places, Weights: s.weights, Out: y})
	return y, s
}

// weight is [experts, in, out] for the grouped products: a view of the weight, or of a copy
// in FRACTAL_NZ, which the backward pass reads too.
func (f experts) weight(p *pass, w *Parameter) *aclnn.Tensor {
	if !f.nz {
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
	dResults, dWeights := p.like(s.unit.Out), p.like(s.weights)
	run(p, p.reg.MoEUnpermuteGrad, &ops.MoEUnpermuteGradArgs{DOut: dy, Rows: s.unit.Out, Places: s.places, Weights: s.weights, DRows: dResults, DWeights: dWeights})
	dRows := p.like(s.unit.Rows)
	run(p, p.reg.MoEExpertsGrad, &ops.MoEExpertsGradArgs{
		MoEExpertsArgs: s.unit, DOut: dResults, DRows: dRows,
		DGateUp: f.gateUp.Grad.Transpose(1, 2), DDown: f.down.Grad.Transpose(1, 2),
	})
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
