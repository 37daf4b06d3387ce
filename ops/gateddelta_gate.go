package ops

import (
	"context"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// DeltaGateArgs computes the gates of the delta rule from two projections:
// Decay = −exp(ALog)·softplus(A + DTBias), in float32, and Beta = sigmoid(B).
type DeltaGateArgs struct {
	A, B         *aclnn.Tensor // [..., heads]; float32, float16 or bfloat16
	ALog, DTBias *aclnn.Tensor // [heads]; float32, float16 or bfloat16
	Decay        *aclnn.Tensor // like A, float32
	Beta         *aclnn.Tensor // like B
}

// DeltaGateGradArgs are the gradients of DeltaGate.
type DeltaGateGradArgs struct {
	DeltaGateArgs // Decay and Beta as DeltaGate wrote them

	DDecay, DBeta  *aclnn.Tensor // like Decay and Beta
	DA, DB         *aclnn.Tensor // like A and B
	DALog, DDTBias *aclnn.Tensor // [heads]; dtype of ALog and DTBias or float32
	// Accumulate adds to what DALog and DDTBias have instead of overwriting it.
	Accumulate bool
}

func (a *DeltaGateArgs) validate() error {
	var c check
	c.tensor("A", a.A, floats...)
	if !c.ok() {
		return c.err
	}
	if a.A.Rank() == 0 {
		c.fail("A is %v; its last dimension must be the heads", a.A)
		return c.err
	}
	c.tensor("B", a.B, a.A.DType())
	c.like("B", a.B, "A", a.A)
	c.tensor("ALog", a.ALog, floats...)
	c.shape("ALog", a.ALog, a.A.Dim(-1))
	c.tensor("DTBias", a.DTBias, floats...)
	c.shape("DTBias", a.DTBias, a.A.Dim(-1))
	c.tensor("Decay", a.Decay, aclnn.Float32)
	c.like("Decay", a.Decay, "A", a.A)
	c.tensor("Beta", a.Beta, a.A.DType())
	c.like("Beta", a.Beta, "A", a.A)
	return c.err
}

func (a *DeltaGateGradArgs) validate() error {
	if err := a.DeltaGateArgs.validate(); err != nil {
		return err
	}
	var c check
	c.tensor("DDecay", a.DDecay, aclnn.Float32)
	c.like("DDecay", a.DDecay, "A", a.A)
	c.tensor("DALog", a.DALog, a.ALog.DType(), aclnn.Float32)
	c.shape("DALog", a.DALog, a.A.Dim(-1))
	c.tensor("DDTBias", a.DDTBias, a.DTBias.DType(), aclnn.Float32)
	c.shape("DDTBias", a.DDTBias, a.A.Dim(-1))
	for name, t := range map[string]*aclnn.Tensor{"DBeta": a.DBeta, "DA": a.DA, "DB": a.DB} {
		c.tensor(name, t, a.A.DType())
		c.like(name, t, "A", a.A)
	}
	return c.err
}

// Softplus of CANN switches to x itself above a threshold, where float32 sees no difference.
var softplusBeta, softplusThreshold = aclnn.Float(1), aclnn.Float(20)

// rate is −exp(ALog), float32.
func (a *DeltaGateArgs) rate(s *steps) *aclnn.Tensor {
	r := s.exp(s.float(a.ALog))
	s.scale(r, -1)
	return r
}

// biased is A + DTBias, float32.
func (a *DeltaGateArgs) biased(s *steps) *aclnn.Tensor {
	x := s.tensor(aclnn.Float32, a.A.Shape()...)
	s.store(x, a.A)
	s.add(x, s.float(a.DTBias), 1)
	return x
}

func newDeltaGate(reg *Registry) *Op[DeltaGateArgs] {
	return op(reg, "delta_gate", (*DeltaGateArgs).validate,
		func(a *DeltaGateArgs) Signature { return dtypeSignature(a.A, a.ALog) },
		Kernel[DeltaGateArgs]{
			Name: "composite", Supports: Always[DeltaGateArgs],
			Run: func(_ context.Context, st *acl.Stream, a *DeltaGateArgs) error {
				if a.A.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					x := a.biased(s)
					launch(s, aclnn.Softplus, aclnn.SoftplusParams{Self: x, Beta: softplusBeta, Threshold: softplusThreshold, Out: a.Decay})
					s.times(a.Decay, a.rate(s))
					launch(s, aclnn.Sigmoid, aclnn.SigmoidParams{Self: a.B, Out: a.Beta})
				})
			},
		})
}

func newDeltaGateGrad(reg *Registry) *Op[DeltaGateGradArgs] {
	return op(reg, "delta_gate_grad", (*DeltaGateGradArgs).validate,
		func(a *DeltaGateGradArgs) Signature { return dtypeSignature(a.A, a.ALog) },
		Kernel[DeltaGateGradArgs]{
			Name: "composite", Supports: Always[DeltaGateGradArgs],
			Run: func(_ context.Context, st *acl.Stream, a *DeltaGateGradArgs) error {
				return compose(st, func(s *steps) {
					heads := a.A.Dim(-1)
					if a.A.Len() == 0 {
						for _, t := range []*aclnn.Tensor{a.DALog, a.DDTBias} {
							if !a.Accumulate && heads > 0 {
								s.zero(t)
							}
						}
						return
					}
					over := make([]int64, a.A.Rank()-1)
					for i := range over {
						over[i] = int64(i)
					}
					perHead := func(dst, t *aclnn.Tensor) {
						if len(over) > 0 {
							t = s.sum(t, over...)
						}
						s.deliver(dst, t.Reshape(-1), a.Accumulate)
					}
					perHead(a.DALog, s.mul(a.DDecay, a.Decay))
					da := s.tensor(aclnn.Float32, a.A.Shape()...)
					launch(s, aclnn.SoftplusBackward, aclnn.SoftplusBackwardParams{
						GradOutput: s.mul(a.DDecay, a.rate(s)), Self: a.biased(s), Beta: softplusBeta, Threshold: softplusThreshold, GradInput: da,
					})
					perHead(a.DDTBias, da)
					s.store(a.DA, da)
					launch(s, aclnn.SigmoidBackward, aclnn.SigmoidBackwardParams{GradOutput: a.DBeta, Output: a.Beta, GradInput: a.DB})
				})
			},
		})
}
