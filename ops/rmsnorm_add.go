package ops

import (
	"context"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// AddRMSNormArgs describes a step of a residual stream and its RMS norm: Sum = X + Residual, and Out
// is the RMSNorm of Sum. Its gradient is that of RMSNorm with Sum for X, which goes to both terms.
type AddRMSNormArgs struct {
	X, Residual *aclnn.Tensor // [..., width]; float32, float16 or bfloat16
	Weight      *aclnn.Tensor // [width], dtype of X or float32
	Epsilon     float64
	Sum         *aclnn.Tensor // like X
	Out         *aclnn.Tensor // like X
	RStd        *aclnn.Tensor // [..., 1], float32, which RMSNormGrad needs; may be nil
}

// norm describes the norm of the sum.
func (a *AddRMSNormArgs) norm() RMSNormArgs {
	return RMSNormArgs{X: a.Sum, Weight: a.Weight, Epsilon: a.Epsilon, Out: a.Out, RStd: a.RStd}
}

func (a *AddRMSNormArgs) validate() error {
	var c args
	c.Tensor("X", a.X, floats...)
	if !c.OK() {
		return c.Err
	}
	c.Same("Residual", a.Residual, "X", a.X)
	c.Same("Sum", a.Sum, "X", a.X)
	if !c.OK() {
		return c.Err
	}
	norm := a.norm()
	return norm.validate()
}

func (a *AddRMSNormArgs) key() key.RMSNorm {
	norm := a.norm()
	k := norm.key()
	k.Contiguous = k.Contiguous && contiguous(a.X, a.Residual)
	return k
}

func newAddRMSNorm(reg *Registry) *Op[AddRMSNormArgs, key.RMSNorm] {
	return op(reg, "add_rms_norm", (*AddRMSNormArgs).validate, (*AddRMSNormArgs).key,
		Kernel[AddRMSNormArgs, key.RMSNorm]{
			Name: "AddRmsNorm",
			Supports: func(env *Env, k key.RMSNorm) error {
				if k.Weight != k.X {
					return fmt.Errorf("the weight is %v and the features %v; AddRmsNorm takes one dtype", k.Weight, k.X)
				}
				return env.Has(&aclnn.AddRmsNormParams{})
			},
			Run: func(_ context.Context, st *acl.Stream, a *AddRMSNormArgs) error {
				if a.X.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					rstd := a.RStd
					if rstd == nil {
						rstd = s.Tensor(aclnn.Float32, reduced(a.X, -1)...)
					}
					launch(s, aclnn.AddRmsNorm, aclnn.AddRmsNormParams{X1: a.X, X2: a.Residual, Gamma: a.Weight, Epsilon: a.Epsilon, YOut: a.Out, RstdOut: rstd, XOut: a.Sum})
				})
			},
		},
		Kernel[AddRMSNormArgs, key.RMSNorm]{
			Name: "separate",
			Run: func(ctx context.Context, st *acl.Stream, a *AddRMSNormArgs) error {
				if a.X.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					launch(s, aclnn.Add, aclnn.AddParams{Self: a.X, Other: a.Residual, Alpha: aclnn.Float(1), Out: a.Sum})
					norm := a.norm()
					Queue(ctx, &s.Scope, reg.RMSNorm(), &norm)
				})
			},
		})
}
