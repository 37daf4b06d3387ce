package ops

import (
	"context"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// GatedNormArgs normalises rows, then gates them: Out = X·RStd·Weight·silu(Gate) with
// RStd = 1/√(mean(X²) + Epsilon), computed in float32. The normalised value is rounded to
// the dtype of X before the gate.
type GatedNormArgs struct {
	X, Gate *aclnn.Tensor // [..., width]; float32, float16 or bfloat16
	Weight  *aclnn.Tensor // [width], dtype of X or float32
	Epsilon float64
	Out     *aclnn.Tensor // like X
	RStd    *aclnn.Tensor // [..., 1], float32, which GatedNormGrad needs; nil if it will not run
}

// GatedNormGradArgs are the gradients of GatedNorm.
type GatedNormGradArgs struct {
	DOut      *aclnn.Tensor // [..., width]
	X, Gate   *aclnn.Tensor // [..., width]
	RStd      *aclnn.Tensor // [..., 1], float32, from GatedNorm
	Weight    *aclnn.Tensor // [width]
	DX, DGate *aclnn.Tensor // like X
	DWeight   *aclnn.Tensor // [width], of the dtype of Weight or float32
	// Accumulate adds to what DWeight has instead of overwriting it.
	Accumulate bool
}

func (a *GatedNormArgs) validate() error {
	norm := RMSNormArgs{X: a.X, Weight: a.Weight, Epsilon: a.Epsilon, Out: a.Out, RStd: a.RStd}
	if err := norm.validate(); err != nil {
		return err
	}
	var c check
	c.tensor("Gate", a.Gate, a.X.DType())
	c.like("Gate", a.Gate, "X", a.X)
	return c.err
}

func (a *GatedNormGradArgs) norm() RMSNormGradArgs {
	return RMSNormGradArgs{DOut: a.DOut, X: a.X, RStd: a.RStd, Weight: a.Weight, DX: a.DX, DWeight: a.DWeight, Accumulate: a.Accumulate}
}

func (a *GatedNormGradArgs) validate() error {
	norm := a.norm()
	if err := norm.validate(); err != nil {
		return err
	}
	var c check
	c.tensor("Gate", a.Gate, a.X.DType())
	c.like("Gate", a.Gate, "X", a.X)
	c.tensor("DGate", a.DGate, a.X.DType())
	c.like("DGate", a.DGate, "X", a.X)
	return c.err
}

// newGatedNorm has one kernel, which takes the norm from RMSNorm with all its kernels.
func newGatedNorm(reg *Registry) *Op[GatedNormArgs] {
	return op(reg, "gated_norm", (*GatedNormArgs).validate,
		func(a *GatedNormArgs) Signature { return dtypeSignature(a.X, a.Weight) },
		Kernel[GatedNormArgs]{
			Name: "RMSNorm and gate", Supports: Always[GatedNormArgs],
			Run: func(ctx context.Context, st *acl.Stream, a *GatedNormArgs) error {
				if a.X.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					normed := s.tensor(a.X.DType(), a.X.Shape()...)
					call(ctx, s, reg.RMSNorm, &RMSNormArgs{X: a.X, Weight: a.Weight, Epsilon: a.Epsilon, Out: normed, RStd: a.RStd})
					y := s.silu(s.float(a.Gate))
					s.times(y, s.float(normed))
					s.store(a.Out, y)
				})
			},
		})
}

func newGatedNormGrad(reg *Registry) *Op[GatedNormGradArgs] {
	return op(reg, "gated_norm_grad", (*GatedNormGradArgs).validate,
		func(a *GatedNormGradArgs) Signature { return dtypeSignature(a.X, a.Weight) },
		Kernel[GatedNormGradArgs]{
			Name: "RMSNorm and gate", Supports: Always[GatedNormGradArgs],
			Run: func(ctx context.Context, st *acl.Stream, a *GatedNormGradArgs) error {
				return compose(st, func(s *steps) {
					norm := a.norm()
					if a.X.Len() > 0 {
						normed := s.mul(s.float(a.X), a.RStd)
						s.times(normed, s.float(a.Weight))
						gate, dOut := s.float(a.Gate), s.float(a.DOut)
						dGate := s.tensor(aclnn.Float32, a.X.Shape()...)
						launch(s, aclnn.SiluBackward, aclnn.SiluBackwardParams{GradOutput: s.mul(dOut, normed), Self: gate, GradInput: dGate})
						s.store(a.DGate, dGate)
						dNormed := s.silu(gate)
						s.times(dNormed, dOut)
						norm.DOut = s.cast(dNormed, a.X.DType())
					}
					call(ctx, s, reg.RMSNormGrad, &norm)
				})
			},
		})
}

// call runs another operator as a step.
func call[A any](ctx context.Context, s *steps, o *Op[A], a *A) {
	if s.err == nil {
		s.err = o.Run(ctx, s.st, a)
	}
}
