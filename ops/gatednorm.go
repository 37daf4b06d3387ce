package ops

import (
	"context"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// GatedNormArgs describes a gated RMS norm of rows: Out = X·RStd·Weight·silu(Gate) with RStd =
// 1/√(mean(X²) + Epsilon), computed in float32. The normalised value is rounded to the dtype of X
// before it is gated.
type GatedNormArgs struct {
	X, Gate *aclnn.Tensor // [..., width]; float32, float16 or bfloat16
	Weight  *aclnn.Tensor // [width], dtype of X or float32
	Epsilon float64
	Out     *aclnn.Tensor // like X
	RStd    *aclnn.Tensor // [..., 1], float32, which GatedNormGrad needs; may be nil
}

// GatedNormGradArgs describes the gradients of GatedNorm.
type GatedNormGradArgs struct {
	DOut      *aclnn.Tensor // [..., width]
	X, Gate   *aclnn.Tensor // [..., width]
	RStd      *aclnn.Tensor // [..., 1], float32, from GatedNorm
	Weight    *aclnn.Tensor // [width]
	DX, DGate *aclnn.Tensor // like X
	DWeight   *aclnn.Tensor // [width], of the dtype of Weight or float32
	// Accumulate adds to DWeight instead of overwriting it.
	Accumulate bool
}

func (a *GatedNormArgs) validate() error {
	norm := RMSNormArgs{X: a.X, Weight: a.Weight, Epsilon: a.Epsilon, Out: a.Out, RStd: a.RStd}
	if err := norm.validate(); err != nil {
		return err
	}
	var c args
	c.Same("Gate", a.Gate, "X", a.X)
	return c.Err
}

func (a *GatedNormGradArgs) norm() RMSNormGradArgs {
	return RMSNormGradArgs{DOut: a.DOut, X: a.X, RStd: a.RStd, Weight: a.Weight, DX: a.DX, DWeight: a.DWeight, Accumulate: a.Accumulate}
}

func (a *GatedNormGradArgs) validate() error {
	norm := a.norm()
	if err := norm.validate(); err != nil {
		return err
	}
	var c args
	c.Same("Gate", a.Gate, "X", a.X)
	c.Same("DGate", a.DGate, "X", a.X)
	return c.Err
}

func (a *GatedNormArgs) key() key.GatedNorm {
	return key.GatedNorm{
		X: a.X.DType(), Weight: a.Weight.DType(), Width: a.X.Dim(-1), Rows: key.ExtentOf(rowCount(a.X)), RStd: a.RStd != nil,
		Contiguous: contiguous(a.X, a.Gate, a.Weight, a.Out, a.RStd),
	}
}

func (a *GatedNormGradArgs) key() key.GatedNormGrad {
	return key.GatedNormGrad{
		X: a.X.DType(), Weight: a.Weight.DType(), DWeight: a.DWeight.DType(), Width: a.X.Dim(-1), Rows: key.ExtentOf(rowCount(a.X)),
		Accumulate: a.Accumulate, Contiguous: contiguous(a.DOut, a.X, a.Gate, a.RStd, a.Weight, a.DX, a.DGate, a.DWeight),
	}
}

// newGatedNorm has one kernel, which normalises with RMSNorm.
func newGatedNorm(reg *Registry) *Op[GatedNormArgs, key.GatedNorm] {
	return op(reg, "gated_norm", (*GatedNormArgs).validate, (*GatedNormArgs).key,
		Kernel[GatedNormArgs, key.GatedNorm]{
			Name: "RMSNorm and gate",
			Run: func(ctx context.Context, st *acl.Stream, a *GatedNormArgs) error {
				if a.X.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					normed := s.Like(a.X)
					Queue(ctx, &s.Scope, reg.RMSNorm(), &RMSNormArgs{X: a.X, Weight: a.Weight, Epsilon: a.Epsilon, Out: normed, RStd: a.RStd})
					y := s.silu(s.float(a.Gate))
					s.times(y, s.float(normed))
					s.Copy(a.Out, y)
				})
			},
		})
}

func newGatedNormGrad(reg *Registry) *Op[GatedNormGradArgs, key.GatedNormGrad] {
	return op(reg, "gated_norm_grad", (*GatedNormGradArgs).validate, (*GatedNormGradArgs).key,
		Kernel[GatedNormGradArgs, key.GatedNormGrad]{
			Name: "RMSNorm and gate",
			Run: func(ctx context.Context, st *acl.Stream, a *GatedNormGradArgs) error {
				return compose(st, func(s *steps) {
					norm := a.norm()
					if a.X.Len() > 0 {
						normed := s.mul(s.float(a.X), a.RStd)
						s.times(normed, s.float(a.Weight))
						gate, dOut := s.float(a.Gate), s.float(a.DOut)
						dGate := s.Tensor(aclnn.Float32, a.X.Shape()...)
						launch(s, aclnn.SiluBackward, aclnn.SiluBackwardParams{GradOutput: s.mul(dOut, normed), Self: gate, GradInput: dGate})
						s.Copy(a.DGate, dGate)
						dNormed := s.silu(gate)
						s.times(dNormed, dOut)
						norm.DOut = s.Cast(dNormed, a.X.DType())
					}
					Queue(ctx, &s.Scope, reg.RMSNormGrad(), &norm)
				})
			},
		})
}
