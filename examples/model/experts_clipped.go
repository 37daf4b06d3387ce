package model

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/autograd"
)

// clippedUnit is the gated unit of gpt-oss: experts with biases, [experts, out], whose values are limited.
type clippedUnit struct{ gateUp, down *Parameter }

// clippedForm takes rows in which gate and up projection take turns. Its numbers are constants of the class in transformers.
var clippedForm = ops.ClippedSwiGLUArgs{Alpha: 1.702, Limit: 7, Offset: 1, Interleaved: true}

// newClippedExperts makes experts of such units. PEFT and shards take weights [experts, out, in] only, so that these are no weights of experts to them.
func newClippedExperts(ps *parameters, c Config, prefix string) experts {
	h, i, n := int64(c.HiddenSize), int64(c.ExpertSize()), int64(c.Experts)
	add := func(name string, shape ...int64) *Parameter {
		p := ps.addExperts(prefix+name, shape...)
		p.expert = false
		return p
	}
	f := experts{
		router: linear{weight: ps.add(prefix+"router.weight", n, h), bias: ps.addVector(prefix+"router.bias", n, nil)},
		gateUp: add("experts.gate_up_proj", n, h, 2*i),
		down:   add("experts.down_proj", n, i, h),
		count:  n, perToken: int64(c.ExpertsPerToken), routing: ops.MoERoutingArgs{Normalize: true}, nz: c.nzUse(),
		clipped: &clippedUnit{gateUp: add("experts.gate_up_proj_bias", n, 2*i), down: add("experts.down_proj_bias", n, h)},
	}
	f.clipped.gateUp.start, f.clipped.down.start = zero, zero
	return f
}

// forward runs the experts on their rows.
func (u *clippedUnit) forward(p *pass, rows *autograd.Var, groups autograd.Groups, gateUp, down *autograd.Var) *autograd.Var {
	active := p.ClippedSwiGLU(p.GroupedMatmul(rows, gateUp, p.groupedBias(u.gateUp), groups), clippedForm)
	return p.GroupedMatmul(active, down, p.groupedBias(u.down), groups)
}

// groupedBias is a bias of experts in the dtype that grouped products take.
func (p *pass) groupedBias(w *Parameter) *autograd.Var {
	if p.dt == aclnn.BFloat16 {
		return p.Cast(w.Var, aclnn.Float32)
	}
	return w.Var
}
