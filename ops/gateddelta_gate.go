package ops

import (
	"context"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// DeltaGateArgs computes the gates of the delta rule from two projections:
// Decay = −exp(ALog)·softplus(A + DTBias), in float32, and Beta = sigmoid(B).
type DeltaGateArgs struct {
	A, B         *aclnn.Tensor // [..., heads]; float32, float16 or bfloat16
	ALog, DTBias *aclnn.Tensor // [heads]; float32, float16 or bfloat16
	Decay        *aclnn.Tensor // like A, float32
	Beta         *aclnn.Tensor // like B
}

// DeltaGateGradArgs describes the gradients of DeltaGate.
type DeltaGateGradArgs struct {
	DeltaGateArgs // Decay and Beta as DeltaGate wrote them

	DDecay, DBeta  *aclnn.Tensor // like Decay and Beta
	DA, DB         *aclnn.Tensor // like A and B
	DALog, DDTBias *aclnn.Tensor // [heads]; dtype of ALog and DTBias or float32
	// Accumulate adds to DALog and DDTBias instead of overwriting them.
	Accumulate bool
}

func (a *DeltaGateArgs) validate() error {
	var c args
	c.Tensor("A", a.A, floats...)
	if !c.OK() {
		return c.Err
	}
	if a.A.Rank() == 0 {
		c.Fail("A is %v; its last dimension must be the heads", a.A)
		return c.Err
	}
	c.Same("B", a.B, "A", a.A)
	c.Tensor("ALog", a.ALog, floats...)
	c.Shape("ALog", a.ALog, a.A.Dim(-1))
	c.Tensor("DTBias", a.DTBias, floats...)
	c.Shape("DTBias", a.DTBias, a.A.Dim(-1))
	c.Tensor("Decay", a.Decay, aclnn.Float32)
	c.Like("Decay", a.Decay, "A", a.A)
	c.Same("Beta", a.Beta, "A", a.A)
	return c.Err
}

func (a *DeltaGateGradArgs) validate() error {
	if err := a.DeltaGateArgs.validate(); err != nil {
		return err
	}
	var c args
	c.Tensor("DDecay", a.DDecay, aclnn.Float32)
	c.Like("DDecay", a.DDecay, "A", a.A)
	c.Tensor("DALog", a.DALog, a.ALog.DType(), aclnn.Float32)
	c.Shape("DALog", a.DALog, a.A.Dim(-1))
	c.Tensor("DDTBias", a.DDTBias, a.DTBias.DType(), aclnn.Float32)
	c.Shape("DDTBias", a.DDTBias, a.A.Dim(-1))
	for name, t := range map[string]*aclnn.Tensor{"DBeta": a.DBeta, "DA": a.DA, "DB": a.DB} {
		c.Same(name, t, "A", a.A)
	}
	return c.Err
}

// CANN's softplus returns x itself above a threshold; in float32 the results are equal there.
var softplusBeta, softplusThreshold = aclnn.Float(1), aclnn.Float(20)

// rate computes −exp(ALog) in float32.
func (a *DeltaGateArgs) rate(s *steps) *aclnn.Tensor {
	r := s.exp(s.float(a.ALog))
	s.scale(r, -1)
	return r
}

// biased computes A + DTBias in float32.
func (a *DeltaGateArgs) biased(s *steps) *aclnn.Tensor {
	x := s.Tensor(aclnn.Float32, a.A.Shape()...)
	s.Copy(x, a.A)
	s.add(x, s.float(a.DTBias), 1)
	return x
}

func (a *DeltaGateArgs) key() key.DeltaGate {
	return key.DeltaGate{
		A: a.A.DType(), ALog: a.ALog.DType(), DTBias: a.DTBias.DType(), Heads: a.A.Dim(-1), Rows: key.ExtentOf(rowCount(a.A)),
		Contiguous: contiguous(a.A, a.B, a.ALog, a.DTBias, a.Decay, a.Beta),
	}
}

func newDeltaGate(reg *Registry) *Op[DeltaGateArgs, key.DeltaGate] {
	return op(reg, "delta_gate", (*DeltaGateArgs).validate, (*DeltaGateArgs).key,
		Kernel[DeltaGateArgs, key.DeltaGate]{
			Name: "composite",
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

func (a *DeltaGateGradArgs) key() key.DeltaGateGrad {
	k := key.DeltaGateGrad{DeltaGate: a.DeltaGateArgs.key(), DALog: a.DALog.DType(), DDTBias: a.DDTBias.DType(), Accumulate: a.Accumulate}
	k.Contiguous = k.Contiguous && contiguous(a.DDecay, a.DBeta, a.DA, a.DB, a.DALog, a.DDTBias)
	return k
}

func newDeltaGateGrad(reg *Registry) *Op[DeltaGateGradArgs, key.DeltaGateGrad] {
	return op(reg, "delta_gate_grad", (*DeltaGateGradArgs).validate, (*DeltaGateGradArgs).key,
		Kernel[DeltaGateGradArgs, key.DeltaGateGrad]{
			Name: "composite",
			Run: func(_ context.Context, st *acl.Stream, a *DeltaGateGradArgs) error {
				return compose(st, func(s *steps) {
					heads := a.A.Dim(-1)
					if a.A.Len() == 0 {
						for _, t := range []*aclnn.Tensor{a.DALog, a.DDTBias} {
							if !a.Accumulate && heads > 0 {
								s.Zero(t)
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
					da := s.Tensor(aclnn.Float32, a.A.Shape()...)
					launch(s, aclnn.SoftplusBackward, aclnn.SoftplusBackwardParams{
						GradOutput: s.mul(a.DDecay, a.rate(s)), Self: a.biased(s), Beta: softplusBeta, Threshold: softplusThreshold, GradInput: da,
					})
					perHead(a.DDTBias, da)
					s.Copy(a.DA, da)
					launch(s, aclnn.SigmoidBackward, aclnn.SigmoidBackwardParams{GradOutput: a.DBeta, Output: a.Beta, GradInput: a.DB})
				})
			},
		})
}
