package model

import "github.com/goascend/cann/ops/autograd"

// sharedExperts adds to the routed experts a shared expert that every token passes: y = experts(x) + shared(x), or with a
// gate experts(x) + sigmoid(gate·x)·shared(x).
type sharedExperts struct {
	experts experts
	shared  mlp
	gate    linear // [1, hidden], or none
}

func newSharedExperts(ps *parameters, c Config, prefix string) sharedExperts {
	h := int64(c.HiddenSize)
	if c.family().deepseek {
		return sharedExperts{experts: newExperts(ps, c, prefix), shared: newMLP(ps, c, prefix+"shared_experts.", int64(c.SharedExperts*c.MoEIntermediate))}
	}
	return sharedExperts{
		experts: newExperts(ps, c, prefix),
		shared:  newMLP(ps, c, prefix+"shared_expert.", int64(c.SharedIntermediate)),
		gate:    ps.linear(ps.add(prefix+"shared_expert_gate.weight", 1, h)),
	}
}

func (f sharedExperts) forward(p *pass, x *autograd.Var) (*autograd.Var, *autograd.Routing) {
	return f.experts.beside(p, x, func() *autograd.Var {
		y, _ := f.shared.forward(p, x)
		if f.gate.weight == nil {
			return y
		}
		return p.Mul(y, p.Sigmoid(f.gate.forward(p, x)))
	})
}
