package ops

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// RMSNormArgs normalises rows by their root mean square:
// Out = X·RStd·Weight with RStd = 1/√(mean(X²) + Epsilon), computed in float32.
type RMSNormArgs struct {
	X       *aclnn.Tensor // [..., width]; float32, float16 or bfloat16
	Weight  *aclnn.Tensor // [width], dtype of X or float32
	Epsilon float64
	Out     *aclnn.Tensor // like X
	RStd    *aclnn.Tensor // [..., 1], float32, which RMSNormGrad needs; nil if it will not run
}

func (a *RMSNormArgs) validate() error {
	var c check
	c.rms(a.X, a.Weight, a.RStd, a.RStd != nil)
	if !c.ok() {
		return c.err
	}
	c.tensor("Out", a.Out, a.X.DType())
	c.like("Out", a.Out, "X", a.X)
	return c.err
}

// rms checks what RMSNorm and its gradient share.
func (c *check) rms(x, weight, rstd *aclnn.Tensor, withRStd bool) {
	c.tensor("X", x, floats...)
	if !c.ok() {
		return
	}
	if x.Rank() == 0 {
		c.fail("X is %v; it must have rows to normalise", x)
	}
	c.tensor("Weight", weight, x.DType(), aclnn.Float32)
	c.shape("Weight", weight, x.Dim(-1))
	if withRStd {
		c.tensor("RStd", rstd, aclnn.Float32)
		if c.ok() {
			c.rows("RStd", rstd, "X", x)
		}
		if c.ok() && rstd.Dim(-1) != 1 {
			c.fail("RStd is %v; its last dimension must be 1", rstd)
		}
	}
}

func newRMSNorm(reg *Registry) *Op[RMSNormArgs] {
	return op(reg, "rms_norm", (*RMSNormArgs).validate,
		func(a *RMSNormArgs) Signature { return dtypeSignature(a.X, a.Weight) },
		Kernel[RMSNormArgs]{
			Name: "RmsNorm",
			Supports: func(env *Env, _ *RMSNormArgs) error {
				return errors.Join(trainingChip(env, "RmsNorm"), available(&aclnn.RmsNormParams{}))
			},
			Run: func(_ context.Context, st *acl.Stream, a *RMSNormArgs) error {
				if a.X.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					rstd := a.RStd
					if rstd == nil {
						rstd = s.tensor(aclnn.Float32, reduced(a.X, -1)...)
					}
					launch(s, aclnn.RmsNorm, aclnn.RmsNormParams{X: a.X, Gamma: a.Weight, Epsilon: a.Epsilon, YOut: a.Out, RstdOut: rstd})
				})
			},
		},
		Kernel[RMSNormArgs]{
			Name: "composite", Supports: Always[RMSNormArgs],
			Run: func(_ context.Context, st *acl.Stream, a *RMSNormArgs) error {
				if a.X.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					x := s.float(a.X)
					square := s.mean(s.mul(x, x))
					s.adds(square, a.Epsilon)
					rstd := a.RStd
					if rstd == nil {
						rstd = square
					}
					launch(s, aclnn.Rsqrt, aclnn.RsqrtParams{Self: square, Out: rstd})
					y := s.mul(x, rstd)
					s.times(y, s.float(a.Weight))
					s.store(a.Out, y)
				})
			},
		})
}

// RMSNormGradArgs are the gradients of RMSNorm. With x̂ = X·RStd:
// DX = RStd·(DOut·Weight − x̂·mean(DOut·Weight·x̂)), DWeight = the sum of DOut·x̂ over rows.
type RMSNormGradArgs struct {
	DOut   *aclnn.Tensor // [..., width], dtype of X
	X      *aclnn.Tensor // [..., width]
	RStd   *aclnn.Tensor // [..., 1], float32, from RMSNorm
	Weight *aclnn.Tensor // [width]
	DX     *aclnn.Tensor // like X
	// DWeight is [width], of the dtype of Weight or float32; sums are taken in float32.
	DWeight *aclnn.Tensor
	// Accumulate adds to what DWeight has instead of overwriting it.
	Accumulate bool
}

func (a *RMSNormGradArgs) validate() error {
	var c check
	c.rms(a.X, a.Weight, a.RStd, true)
	if !c.ok() {
		return c.err
	}
	c.tensor("DOut", a.DOut, a.X.DType())
	c.like("DOut", a.DOut, "X", a.X)
	c.tensor("DX", a.DX, a.X.DType())
	c.like("DX", a.DX, "X", a.X)
	c.tensor("DWeight", a.DWeight, a.Weight.DType(), aclnn.Float32)
	c.shape("DWeight", a.DWeight, a.X.Dim(-1))
	return c.err
}

func newRMSNormGrad(reg *Registry) *Op[RMSNormGradArgs] {
	return op(reg, "rms_norm_grad", (*RMSNormGradArgs).validate,
		func(a *RMSNormGradArgs) Signature { return dtypeSignature(a.X, a.Weight) },
		Kernel[RMSNormGradArgs]{
			Name: "RmsNormGrad",
			Supports: func(env *Env, _ *RMSNormGradArgs) error {
				return errors.Join(trainingChip(env, "RmsNormGrad"), available(&aclnn.RmsNormGradParams{}))
			},
			Run: func(_ context.Context, st *acl.Stream, a *RMSNormGradArgs) error {
				return a.run(st, func(s *steps) {
					dWeight := a.DWeight
					direct := !a.Accumulate && dWeight.DType() == aclnn.Float32
					if !direct {
						dWeight = s.tensor(aclnn.Float32, a.X.Dim(-1))
					}
					launch(s, aclnn.RmsNormGrad, aclnn.RmsNormGradParams{
						Dy: a.DOut, X: a.X, Rstd: a.RStd, Gamma: a.Weight, DxOut: a.DX, DgammaOut: dWeight,
					})
					if !direct {
						s.deliver(a.DWeight, dWeight, a.Accumulate)
					}
				})
			},
		},
		Kernel[RMSNormGradArgs]{
			Name: "composite", Supports: Always[RMSNormGradArgs],
			Run: func(_ context.Context, st *acl.Stream, a *RMSNormGradArgs) error {
				return a.run(st, func(s *steps) {
					dOut := s.float(a.DOut)
					normed := s.mul(s.float(a.X), a.RStd)
					leading := make([]int64, a.X.Rank()-1)
					for i := range leading {
						leading[i] = int64(i)
					}
					product := s.mul(dOut, normed)
					if len(leading) > 0 {
						product = s.sum(product, leading...)
					}
					s.deliver(a.DWeight, product.Reshape(-1), a.Accumulate)
					g := s.mul(dOut, s.float(a.Weight))
					s.times(normed, s.mean(s.mul(g, normed)))
					s.add(g, normed, -1)
					s.times(g, a.RStd)
					s.store(a.DX, g)
				})
			},
		})
}

// run handles the case without rows, whose weight gradient is zero.
func (a *RMSNormGradArgs) run(st *acl.Stream, body func(*steps)) error {
	return compose(st, func(s *steps) {
		switch {
		case a.X.Len() > 0:
			body(s)
		case !a.Accumulate && a.DWeight.Len() > 0:
			s.zero(a.DWeight)
		}
	})
}
