package ops

import (
	"context"
	"math"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// RMSNormArgs describes the RMS norm of rows: Out = X·RStd·Weight with RStd = 1/√(mean(X²) +
// Epsilon), computed in float32.
type RMSNormArgs struct {
	X       *aclnn.Tensor // [..., width]; float32, float16 or bfloat16
	Weight  *aclnn.Tensor // [width], dtype of X or float32
	Epsilon float64       // such as 1e-6; 0 is refused, since a row of zeros would give NaN
	Out     *aclnn.Tensor // like X
	RStd    *aclnn.Tensor // [..., 1], float32, which RMSNormGrad needs; may be nil
}

func (a *RMSNormArgs) validate() error {
	var c args
	c.rms(a.X, a.Weight, a.RStd, a.RStd != nil)
	if !c.OK() {
		return c.Err
	}
	c.Same("Out", a.Out, "X", a.X)
	c.epsilon(a.Epsilon)
	return c.Err
}

// epsilon checks what keeps a division by zero away.
func (c *args) epsilon(epsilon float64) {
	if !(epsilon > 0) || math.IsInf(epsilon, 1) {
		c.Fail("Epsilon is %g; it must be positive, such as 1e-6", epsilon)
	}
}

// rms checks what RMSNorm and its gradient share.
func (c *args) rms(x, weight, rstd *aclnn.Tensor, withRStd bool) {
	c.Tensor("X", x, floats...)
	if !c.OK() {
		return
	}
	if x.Rank() == 0 {
		c.Fail("X is %v; it must have rows to normalise", x)
	}
	c.Tensor("Weight", weight, x.DType(), aclnn.Float32)
	c.Shape("Weight", weight, x.Dim(-1))
	if withRStd {
		c.Tensor("RStd", rstd, aclnn.Float32)
		if c.OK() {
			c.Rows("RStd", rstd, "X", x)
		}
		if c.OK() && rstd.Dim(-1) != 1 {
			c.Fail("RStd is %v; its last dimension must be 1", rstd)
		}
	}
}

func (a *RMSNormArgs) key() key.RMSNorm {
	return key.RMSNorm{
		X: a.X.DType(), Weight: a.Weight.DType(), Width: a.X.Dim(-1), Rows: key.ExtentOf(rowCount(a.X)), RStd: a.RStd != nil,
		Contiguous: contiguous(a.X, a.Weight, a.Out, a.RStd),
	}
}

func newRMSNorm(reg *Registry) *Op[RMSNormArgs, key.RMSNorm] {
	return op(reg, "rms_norm", (*RMSNormArgs).validate, (*RMSNormArgs).key,
		Kernel[RMSNormArgs, key.RMSNorm]{
			Name: "RmsNorm", Supports: trains[key.RMSNorm](&aclnn.RmsNormParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *RMSNormArgs) error {
				if a.X.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					rstd := a.RStd
					if rstd == nil {
						rstd = s.Tensor(aclnn.Float32, reduced(a.X, -1)...)
					}
					launch(s, aclnn.RmsNorm, aclnn.RmsNormParams{X: a.X, Gamma: a.Weight, Epsilon: a.Epsilon, YOut: a.Out, RstdOut: rstd})
				})
			},
		},
		Kernel[RMSNormArgs, key.RMSNorm]{
			Name: "composite",
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
					s.Copy(a.Out, y)
				})
			},
		})
}

// RMSNormGradArgs describes the gradients of RMSNorm. With x̂ = X·RStd, DX = RStd·(DOut·Weight −
// x̂·mean(DOut·Weight·x̂)), and DWeight is the sum of DOut·x̂ over the rows.
type RMSNormGradArgs struct {
	DOut   *aclnn.Tensor // [..., width], dtype of X
	X      *aclnn.Tensor // [..., width]
	RStd   *aclnn.Tensor // [..., 1], float32, from RMSNorm
	Weight *aclnn.Tensor // [width]
	DX     *aclnn.Tensor // like X
	// DWeight is [width], of the dtype of Weight or float32; sums are taken in float32.
	DWeight *aclnn.Tensor
	// Accumulate adds to DWeight instead of overwriting it.
	Accumulate bool
}

func (a *RMSNormGradArgs) validate() error {
	var c args
	c.rms(a.X, a.Weight, a.RStd, true)
	if !c.OK() {
		return c.Err
	}
	c.Same("DOut", a.DOut, "X", a.X)
	c.Same("DX", a.DX, "X", a.X)
	c.Tensor("DWeight", a.DWeight, a.Weight.DType(), aclnn.Float32)
	c.Shape("DWeight", a.DWeight, a.X.Dim(-1))
	return c.Err
}

func (a *RMSNormGradArgs) key() key.RMSNormGrad {
	return key.RMSNormGrad{
		X: a.X.DType(), Weight: a.Weight.DType(), DWeight: a.DWeight.DType(), Width: a.X.Dim(-1), Rows: key.ExtentOf(rowCount(a.X)),
		Accumulate: a.Accumulate, Contiguous: contiguous(a.DOut, a.X, a.RStd, a.Weight, a.DX, a.DWeight),
	}
}

func newRMSNormGrad(reg *Registry) *Op[RMSNormGradArgs, key.RMSNormGrad] {
	return op(reg, "rms_norm_grad", (*RMSNormGradArgs).validate, (*RMSNormGradArgs).key,
		Kernel[RMSNormGradArgs, key.RMSNormGrad]{
			Name: "RmsNormGrad", Supports: trains[key.RMSNormGrad](&aclnn.RmsNormGradParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *RMSNormGradArgs) error {
				return a.run(st, func(s *steps) {
					dWeight := a.DWeight
					direct := !a.Accumulate && dWeight.DType() == aclnn.Float32
					if !direct {
						dWeight = s.Tensor(aclnn.Float32, a.X.Dim(-1))
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
		Kernel[RMSNormGradArgs, key.RMSNormGrad]{
			Name: "composite",
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
					s.Copy(a.DX, g)
				})
			},
		})
}

// run handles the case without rows, in which the weight gradient is zero.
func (a *RMSNormGradArgs) run(st *acl.Stream, body func(*steps)) error {
	return compose(st, func(s *steps) {
		switch {
		case a.X.Len() > 0:
			body(s)
		case !a.Accumulate && a.DWeight.Len() > 0:
			s.Zero(a.DWeight)
		}
	})
}
