package model

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/parallel"
)

// experts is a feed-forward layer of experts, of which the router chooses some for each token. Its
// weights are [experts, out, in] as in the checkpoint, though shards may keep them transposed; the grouped
// products read their transposes.
type experts struct {
	router       linear     // [experts, hidden]
	gateUp, down *Parameter // of this rank's experts
	count        int64      // number of experts of all ranks
	perToken     int64
	normalize    bool
	nz           nzUse
}

// nzUse says in which passes the products of experts read weights in FRACTAL_NZ.
type nzUse struct{ forward, backward bool }

// nzUse returns both passes, but where this CANN is not known to read the weight of the forward pass transposed
// too, which the gradient of its input needs: the backward pass then reads ND.
func (c Config) nzUse() nzUse { return nzUse{c.GroupedNZ, c.GroupedNZ && ReadsTransposedNZ()} }

// in reports whether the products read FRACTAL_NZ at this point of a pass.
func (nz nzUse) in(p *pass) bool {
	if p.backward {
		return nz.backward
	}
	return nz.forward
}

// ReadsTransposedNZ reports whether this CANN is known to read a FRACTAL_NZ weight of a grouped product transposed.
// CANN 8.1 is not: its kernel has the addresses for it, but the checks before the kernel are not public, and its
// header promises ND only.
func ReadsTransposedNZ() bool {
	return (&aclnn.GroupedMatmulWeightNzParams{}).Operator().Available() == nil
}

func newExperts(ps *parameters, c Config, prefix string) experts {
	h, i, n := int64(c.HiddenSize), int64(c.MoEIntermediate), int64(c.Experts)
	return experts{
		router: linear{ps.add(prefix+"gate.weight", n, h)},
		gateUp: ps.addExperts(prefix+"experts.gate_up_proj", n, 2*i, h),
		down:   ps.addExperts(prefix+"experts.down_proj", n, h, i),
		count:  n, perToken: int64(c.ExpertsPerToken), normalize: c.NormTopK, nz: c.nzUse(),
	}
}

// expertsState keeps the tensors of the forward pass that the backward pass reads.
type expertsState struct {
	experts
	x, weights, places *aclnn.Tensor
	results            *aclnn.Tensor // results of the experts, by row of this rank's tokens
	unit               ops.MoEExpertsArgs
	plan               *parallel.ExpertPlan // nil if only the device knows the numbers of rows
	read               *aclnn.Tensor        // the weight that unit.GateUp views
	routed
}

// routed holds the routing of a layer.
type routed struct{ probs, chosen *aclnn.Tensor }

func (r routed) routing() routed { return r }

func (f experts) forward(p *pass, x *aclnn.Tensor) (*aclnn.Tensor, fed) {
	y, s := f.beside(p, x, nil)
	return y, s
}

// beside adds the result of a shared expert, if there is one.
func (f experts) beside(p *pass, x, shared *aclnn.Tensor) (*aclnn.Tensor, *expertsState) {
	tokens, h, n := x.Dim(0), x.Dim(1), f.count
	rows := tokens * f.perToken
	s := &expertsState{experts: f, x: x}
	// The router computes in float32 for every dtype of the model.
	logits := p.Tensor(aclnn.Float32, tokens, n)
	p.Copy(logits, f.router.forward(p, x))
	s.weights, s.chosen = p.Tensor(aclnn.Float32, tokens, f.perToken), p.Tensor(aclnn.Int32, tokens, f.perToken)
	s.probs = p.Tensor(aclnn.Float32, tokens, n)
	ops.Queue(p.ctx, &p.Scope, p.reg.MoERouting(), &ops.MoERoutingArgs{Logits: logits, Normalize: f.normalize, Weights: s.weights, Experts: s.chosen, Probs: s.probs})

	sums, permuted := p.Tensor(aclnn.Int32, n), p.Tensor(p.dt, rows, h)
	s.places = p.Tensor(aclnn.Int32, rows)
	ops.Queue(p.ctx, &p.Scope, p.reg.MoEPermute(), &ops.MoEPermuteArgs{X: x, Experts: f.ownFirst(p, s.chosen), Rows: permuted, Places: s.places, Sums: sums})
	s.unit = ops.MoEExpertsArgs{Rows: permuted, Groups: ops.Groups{Device: sums, Cumulative: true}}
	s.results = p.Tensor(p.dt, rows, h)
	if f.shares(p) {
		return s.share(p, sums, shared), s
	}
	s.unit.Out = s.results
	// CANN reads float32 weights in FRACTAL_NZ in plain products only, one per expert. The host
	// must then know the number of rows, as it must to send them to other ranks.
	if p.ep.Size() > 1 || f.nz.forward && p.dt == aclnn.Float32 {
		s.dispatch(p, sums, permuted)
	}
	s.compute(p)
	y := p.Like(x)
	ops.Queue(p.ctx, &p.Scope, p.reg.MoEUnpermute(), &ops.MoEUnpermuteArgs{Rows: s.results, Places: s.places, Weights: s.weights, Shared: shared, Out: y})
	return y, s
}

// dispatch sends the rows to the ranks of their experts and reads their numbers to the host.
func (s *expertsState) dispatch(p *pass, sums, permuted *aclnn.Tensor) {
	var err error
	if p.Err() == nil {
		s.plan, err = p.ep.Plan(p.ctx, p.Stream, sums)
		p.Fail(err)
	}
	if p.Err() != nil {
		return
	}
	p.Own(s.plan)
	s.unit.Groups = s.plan.Groups()
	s.unit.Rows, s.unit.Out = p.Tensor(p.dt, s.plan.Rows(), permuted.Dim(1)), p.Tensor(p.dt, s.plan.Rows(), permuted.Dim(1))
	p.Do(func() error { return s.plan.Dispatch(p.Stream, permuted, s.unit.Rows) })
}

// compute runs the experts on their rows and sends the results back.
func (s *expertsState) compute(p *pass) {
	if p.Err() != nil {
		return
	}
	rows, inner := s.unit.Rows.Dim(0), s.down.Value.Dim(2)
	s.readWeights(p)
	s.unit.Hidden, s.unit.Active = p.Tensor(p.dt, rows, 2*inner), p.Tensor(p.dt, rows, inner)
	if p.adapter.adaptsExperts(s.gateUp) || p.adapter.adaptsExperts(s.down) {
		s.forwardAdapted(p)
	} else {
		ops.Queue(p.ctx, &p.Scope, p.reg.MoEExperts(), &s.unit)
	}
	if s.plan != nil {
		p.Do(func() error { return s.plan.Combine(p.Stream, s.unit.Out, s.results) })
	}
}

// readWeights views the weights for the grouped products; call it again after they are gathered
// again, and for the backward pass.
func (s *expertsState) readWeights(p *pass) {
	if s.read != s.gateUp.Value || p.backward && s.nz.forward != s.nz.backward {
		s.read = s.gateUp.Value
		s.unit.GateUp, s.unit.Down = s.weight(p, s.gateUp), s.weight(p, s.down)
	}
}

// weight returns [experts, in, out] for the grouped products: a view of the weight, or of a
// FRACTAL_NZ copy that the backward pass reads too, if it can.
func (f experts) weight(p *pass, w *Parameter) *aclnn.Tensor {
	read := w.Value.Transpose(1, 2)
	if !f.nz.in(p) || read.Format() == aclnn.FractalNZ {
		return read
	}
	if !f.nz.backward && !read.Contiguous() {
		read = p.Contiguous(read)
		*p.copied += int64(2 * read.Bytes())
	}
	if read.Contiguous() {
		return p.toNZ(read)
	}
	return p.toNZ(w.Value).Transpose(1, 2)
}

// toNZ returns a FRACTAL_NZ copy of a contiguous weight.
func (p *pass) toNZ(w *aclnn.Tensor) *aclnn.Tensor {
	shape := w.Shape()
	storage := p.Tensor(p.dt, int64(aclnn.NZBytes(p.dt, shape...)/p.dt.Size()))
	nz := storage.Narrow(0, 0, w.Len()).Reshape(shape...).AsNZ()
	a := ops.SliceToNZArgs{Gathered: w.Reshape(1, -1), End: w.Len(), Out: nz}
	ops.Queue(p.ctx, &p.Scope, p.reg.SliceToNZ(), &a)
	*p.copied += int64(a.Traffic(p.reg.SliceToNZ().Explain(&a).Kernel))
	return nz
}

func (s *expertsState) backward(p *pass, dy *aclnn.Tensor) *aclnn.Tensor {
	f := s.experts
	dResults, dWeights := p.Like(s.results), p.Like(s.weights)
	ops.Queue(p.ctx, &p.Scope, p.reg.MoEUnpermuteGrad(), &ops.MoEUnpermuteGradArgs{DOut: dy, Rows: s.results, Places: s.places, Weights: s.weights, DRows: dResults, DWeights: dWeights})
	dRows := s.computeGrad(p, dResults)
	dx := p.Like(s.x)
	ops.Queue(p.ctx, &p.Scope, p.reg.MoEPermuteGrad(), &ops.MoEPermuteGradArgs{DRows: dRows, Places: s.places, DX: dx})
	dLogits := p.Like(s.probs)
	ops.Queue(p.ctx, &p.Scope, p.reg.MoERoutingGrad(), &ops.MoERoutingGradArgs{
		DWeights: dWeights, Weights: s.weights, Experts: s.chosen, Normalize: f.normalize, Probs: s.probs, DProbs: p.dProbs(s.routed), DLogits: dLogits,
	})
	narrow := p.Tensor(p.dt, dLogits.Shape()...)
	p.Copy(narrow, dLogits)
	p.add(dx, f.router.backward(p, s.x, narrow))
	return dx
}

// computeGrad computes the gradient of the permuted rows from that of the results.
func (s *expertsState) computeGrad(p *pass, dResults *aclnn.Tensor) *aclnn.Tensor {
	dOut, dMine := dResults, p.Like(s.unit.Rows)
	if s.plan != nil {
		dOut = p.Like(s.unit.Out)
		p.Do(func() error { return s.plan.Dispatch(p.Stream, dResults, dOut) })
	}
	s.readWeights(p)
	if p.adapter.adaptsExperts(s.gateUp) || p.adapter.adaptsExperts(s.down) {
		s.backwardAdapted(p, dOut, dMine)
	} else {
		grad := ops.MoEExpertsGradArgs{MoEExpertsArgs: s.unit, DOut: dOut, DRows: dMine, Accumulate: p.accumulate}
		if !p.frozen {
			grad.DGateUp, grad.DDown = s.gateUp.Grad.Transpose(1, 2), s.down.Grad.Transpose(1, 2)
		}
		ops.Queue(p.ctx, &p.Scope, p.reg.MoEExpertsGrad(), &grad)
	}
	if s.plan == nil {
		return dMine
	}
	dRows := p.Like(dResults)
	p.Do(func() error { return s.plan.Combine(p.Stream, dMine, dRows) })
	return dRows
}
