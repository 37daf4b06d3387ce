package model

import "github.com/goascend/cann/aclnn"

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
		shared:  newMLP(ps, prefix+"shared_expert.", h, int64(c.SharedIntermediate)),
		gate:    ps.linear(ps.add(prefix+"shared_expert_gate.weight", 1, h)),
	}
}

type sharedExpertsState struct {
	*expertsState // of the routed experts
	sharedExperts
	shared  fed
	y, open *aclnn.Tensor // output of the shared expert, and its gate after the sigmoid
}

func (f sharedExperts) forward(p *pass, x *aclnn.Tensor) (*aclnn.Tensor, fed) {
	s := &sharedExpertsState{sharedExperts: f}
	s.y, s.shared = f.shared.forward(p, x)
	gate := f.gate.forward(p, x)
	s.open = p.Like(gate)
	aclnn.Launch(&p.Scope, aclnn.Sigmoid, aclnn.SigmoidParams{Self: gate, Out: s.open})
	out, chosen := f.experts.beside(p, x, p.product(s.y, s.open))
	s.expertsState = chosen
	return out, s
}

func (s *sharedExpertsState) backward(p *pass, dy *aclnn.Tensor) *aclnn.Tensor {
	dx := s.expertsState.backward(p, dy)
	p.add(dx, s.shared.backward(p, p.product(dy, s.open)))
	dOpen, dGate := p.Like(s.open), p.Like(s.open)
	aclnn.Launch(&p.Scope, aclnn.ReduceSum, aclnn.ReduceSumParams{Self: p.product(dy, s.y), Dims: []int64{-1}, KeepDims: true, Dtype: dOpen.DType(), Out: dOpen})
	aclnn.Launch(&p.Scope, aclnn.SigmoidBackward, aclnn.SigmoidBackwardParams{GradOutput: dOpen, Output: s.open, GradInput: dGate})
	p.add(dx, s.gate.backward(p, s.x, dGate))
	return dx
}
