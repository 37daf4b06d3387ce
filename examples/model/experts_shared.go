package model

import "github.com/goascend/cann/ops/autograd"

// sharedExperts adds to the routed experts a gated shared expert that every token passes: y =
// experts(x) + sigmoid(gate·x)·shared(x).
type sharedExperts struct {
	experts experts
	shared  mlp
	gate    linear // [1, hidden]
}

func newSharedExperts(ps *parameters, c Config, prefix string) sharedExperts {
	h := int64(c.HiddenSize)
	return sharedExperts{
		experts: newExperts(ps, c, prefix),
		shared:  newMLP(ps, c, prefix+"shared_expert.", int64(c.SharedIntermediate)),
		gate:    ps.linear(ps.add(prefix+"shared_expert_gate.weight", 1, h)),
	}
}

func (f sharedExperts) forward(p *pass, x *autograd.Var) (*autograd.Var, *autograd.Routing) {
	y, _ := f.shared.forward(p, x)
	return f.experts.beside(p, x, p.Mul(y, p.Sigmoid(f.gate.forward(p, x))))
}
