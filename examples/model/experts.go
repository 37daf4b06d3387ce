package model

import (
	"fmt"
	"math"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/autograd"
)

// experts is a feed-forward layer of experts, of which the router chooses some for each token. Its
// weights are [experts, out, in] as in the checkpoint, though shards may keep them transposed; the grouped
// products read their transposes.
type experts struct {
	router       linear     // [experts, hidden]
	gateUp, down *Parameter // of this rank's experts
	count        int64      // number of experts of all ranks
	perToken     int64
	routing      ops.MoERoutingArgs // without tensors
	bias         *Parameter         // of the choice, or nil; training leaves it as it is, but for BalanceExperts
	nz           nzUse
	clipped      *clippedUnit // in place of SwiGLU, or nil
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
	h, i, n := int64(c.HiddenSize), int64(c.ExpertSize()), int64(c.Experts)
	if c.family().clipped {
		return newClippedExperts(ps, c, prefix)
	}
	f := experts{
		router: linear{weight: ps.add(prefix+"gate.weight", n, h)},
		gateUp: ps.addExperts(prefix+"experts.gate_up_proj", n, 2*i, h).sharded(1, i, i),
		down:   ps.addExperts(prefix+"experts.down_proj", n, h, i).sharded(2),
		count:  n, perToken: int64(c.ExpertsPerToken), routing: c.routing(), nz: c.nzUse(),
	}
	if c.family().sigmoid {
		f.bias = ps.addVector(prefix+"gate.e_score_correction_bias", n, zero)
		f.bias.constant = true
	}
	return f
}

// routing returns how routers choose experts.
func (c Config) routing() ops.MoERoutingArgs {
	r := ops.MoERoutingArgs{Normalize: c.NormTopK, Scale: c.RoutedScale}
	switch {
	case c.family().sigmoid:
		r.Score = ops.SigmoidScore
		r.Groups, r.TopGroups, r.GroupBest = int64(c.Groups), int64(c.TopGroups), min(2, int64(c.Groups))
	case c.TopKMethod == groupLimited:
		r.Groups, r.TopGroups, r.GroupBest = int64(c.Groups), int64(c.TopGroups), 1
	}
	return r
}

const groupLimited = "group_limited_greedy"

// validateRouting checks the fields of the choice of experts.
func (c Config) validateRouting() error {
	grouped := c.family().sigmoid && c.Groups > 0 || c.TopKMethod == groupLimited
	best := 1
	if c.family().sigmoid {
		best = 2
	}
	switch {
	case c.FirstDense < 0 || c.SharedExperts < 0:
		return fmt.Errorf("model: first_k_dense_replace is %d and n_shared_experts %d; neither can be negative", c.FirstDense, c.SharedExperts)
	case !(c.RoutedScale > 0) || math.IsInf(c.RoutedScale, 1):
		return fmt.Errorf("model: routed_scaling_factor is %g; it must be positive", c.RoutedScale)
	case c.TopKMethod != "" && c.TopKMethod != "greedy" && c.TopKMethod != groupLimited && !c.family().sigmoid:
		return fmt.Errorf("model: topk_method is %q; use greedy or %s", c.TopKMethod, groupLimited)
	case grouped && (c.Groups < 1 || c.Experts%c.Groups != 0 || c.Experts/c.Groups < best):
		return fmt.Errorf("model: n_group is %d; it must divide the %d experts (n_routed_experts), %d to a group at least", c.Groups, c.Experts, best)
	case grouped && (c.TopGroups < 1 || c.TopGroups > c.Groups || c.ExpertsPerToken > c.Experts/c.Groups*c.TopGroups):
		return fmt.Errorf("model: topk_group is %d of %d groups; so many must be chosen that they have the %d experts of a token", c.TopGroups, c.Groups, c.ExpertsPerToken)
	}
	return nil
}

func (f experts) forward(p *pass, x *autograd.Var) (*autograd.Var, *autograd.Routing) {
	return f.beside(p, x, func() *autograd.Var { return nil })
}

// beside adds the result of a shared expert, or of nil.
func (f experts) beside(p *pass, x *autograd.Var, shared func() *autograd.Var) (*autograd.Var, *autograd.Routing) {
	// The router computes in float32 for every dtype of the model.
	how := f.routing
	if f.bias != nil {
		p.queue(func(s *aclnn.Scope) { how.Bias = s.Cast(f.bias.Value, aclnn.Float32) })
	}
	routing := p.MoERouting(p.Cast(f.router.forward(p, x), aclnn.Float32), f.perToken, how)
	routing.Weights = f.imbalance(p, routing)
	if f.shares(p) || p.room.capacity > 0 && p.ep.Size() > 1 && !f.byExpert(p) {
		return f.gathered(p, x, routing, shared), &routing
	}
	also := shared()
	rows := p.MoEPermute(x, routing, f.count)
	if p.ep.Size() > 1 || f.byExpert(p) {
		sent := p.Dispatch(p.ep, rows)
		return p.MoEUnpermute(p.Combine(sent, f.compute(p, sent.Rows, sent.Groups)), rows, routing, also), &routing
	}
	return p.MoEUnpermute(f.compute(p, rows.Rows, rows.Groups), rows, routing, also), &routing
}

// byExpert reports whether there is a product for each expert, so that the host must know the numbers of rows: CANN reads float32 weights in
// FRACTAL_NZ in plain products only.
func (f experts) byExpert(p *pass) bool { return f.nz.forward && p.dt == aclnn.Float32 }

// compute runs the experts on their rows.
func (f experts) compute(p *pass, rows *autograd.Var, groups autograd.Groups) *autograd.Var {
	if f.clipped != nil {
		return f.clipped.forward(p, rows, groups, f.weight(p, f.gateUp), f.weight(p, f.down))
	}
	if !p.adapter.adaptsExperts(f.gateUp) && !p.adapter.adaptsExperts(f.down) && !f.gateUp.coded() && !f.down.coded() {
		return p.MoEExperts(rows, groups, f.weight(p, f.gateUp), f.weight(p, f.down))
	}
	active := p.SwiGLU(p.adapter.forwardRows(p, f.gateUp, rows, f.product(p, f.gateUp, rows, groups), groups))
	return p.adapter.forwardRows(p, f.down, active, f.product(p, f.down, active, groups), groups)
}

// weight returns [experts, in, out] for the grouped products: a view of the weight, or a FRACTAL_NZ copy.
func (f experts) weight(p *pass, w *Parameter) *autograd.Var {
	return p.Derive(w.Var, func(s *aclnn.Scope, value *aclnn.Tensor) *aclnn.Tensor { return f.read(p, s, value) }, f.turn)
}

// turn views a weight as [experts, in, out], or its gradient.
func (f experts) turn(t *aclnn.Tensor) *aclnn.Tensor {
	if f.clipped != nil {
		return t
	}
	return transpose(t)
}

func transpose(t *aclnn.Tensor) *aclnn.Tensor { return t.Transpose(1, 2) }

// read brings a weight into the form that the grouped products read.
func (f experts) read(p *pass, s *aclnn.Scope, value *aclnn.Tensor) *aclnn.Tensor {
	read := f.turn(value)
	if !f.nz.in(p) || read.Format() == aclnn.FractalNZ {
		return read
	}
	if !f.nz.backward && !read.Contiguous() {
		read = s.Contiguous(read)
		*p.copied += int64(2 * read.Bytes())
	}
	if read.Contiguous() {
		return p.toNZ(s, read)
	}
	return f.turn(p.toNZ(s, value))
}

// toNZ returns a FRACTAL_NZ copy of a contiguous weight.
func (p *pass) toNZ(s *aclnn.Scope, w *aclnn.Tensor) *aclnn.Tensor {
	shape := w.Shape()
	storage := s.Tensor(p.dt, int64(aclnn.NZBytes(p.dt, shape...)/p.dt.Size()))
	nz := storage.Narrow(0, 0, w.Len()).Reshape(shape...).AsNZ()
	a := ops.SliceToNZArgs{Gathered: w.Reshape(1, -1), End: w.Len(), Out: nz}
	ops.Queue(p.ctx, s, p.reg.SliceToNZ(), &a)
	*p.copied += int64(a.Traffic(p.reg.SliceToNZ().Explain(&a).Kernel))
	return nz
}
