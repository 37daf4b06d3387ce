package ops

import (
	"context"
	"errors"
	"math"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// AdamWArgs is one update of AdamW, in place, with PyTorch's meaning and order: the weight
// decays by LR·WeightDecay, the moments move towards the gradient and its square, and the
// weight by LR times the ratio of the moments, both corrected for their start at zero.
type AdamWArgs struct {
	Param *aclnn.Tensor // float32 master weights, or float16 or bfloat16 without any
	Grad  *aclnn.Tensor // like Param; float32, float16 or bfloat16
	// ExpAvg and ExpAvgSq are the moments, like Param; zero before the first step.
	ExpAvg, ExpAvgSq *aclnn.Tensor
	// MaxExpAvgSq keeps the largest second moment, like Param, for the AMSGrad variant; nil
	// without it.
	MaxExpAvgSq *aclnn.Tensor
	// Copy receives the new weights in the dtype of the model, like Param otherwise; nil when
	// the model reads Param itself.
	Copy *aclnn.Tensor
	Step int // of this update: 1 for the first

	LR, Beta1, Beta2, Epsilon, WeightDecay float64
	Maximize                               bool // climb instead of descend
}

func (a *AdamWArgs) validate() error {
	var c check
	c.tensor("Param", a.Param, floats...)
	if !c.ok() {
		return c.err
	}
	c.tensor("Grad", a.Grad, floats...)
	c.state("ExpAvg", a.ExpAvg, a.Param)
	c.state("ExpAvgSq", a.ExpAvgSq, a.Param)
	if a.MaxExpAvgSq != nil {
		c.state("MaxExpAvgSq", a.MaxExpAvgSq, a.Param)
	}
	c.like("Grad", a.Grad, "Param", a.Param)
	if c.optional("Copy", a.Copy, floats...) {
		c.like("Copy", a.Copy, "Param", a.Param)
	}
	in := func(x, low, high float64) bool { return x >= low && x < high } // false for NaN
	switch {
	case a.Step < 1:
		c.fail("Step is %d; the first update is step 1", a.Step)
	case !in(a.Beta1, 0, 1) || !in(a.Beta2, 0, 1):
		c.fail("Beta1 is %g and Beta2 %g; they must be in [0, 1)", a.Beta1, a.Beta2)
	case !in(a.LR, 0, math.Inf(1)) || !in(a.Epsilon, 0, math.Inf(1)) || !in(a.WeightDecay, 0, math.Inf(1)):
		c.fail("LR is %g, Epsilon %g and WeightDecay %g; they must not be negative", a.LR, a.Epsilon, a.WeightDecay)
	}
	return c.err
}

// state checks a tensor that is kept beside a parameter.
func (c *check) state(name string, t, param *aclnn.Tensor) {
	c.tensor(name, t, param.DType())
	c.like(name, t, "Param", param)
}

func newAdamW(reg *Registry) *Op[AdamWArgs] {
	return op(reg, "adamw", (*AdamWArgs).validate,
		func(a *AdamWArgs) Signature { return dtypeSignature(a.Param, a.Grad, a.MaxExpAvgSq) },
		Kernel[AdamWArgs]{
			Name: "ApplyAdamWV2",
			Supports: func(env *Env, a *AdamWArgs) error {
				switch mixed := a.Grad.DType() != a.Param.DType(); {
				case mixed && is16(a.Param.DType()):
					return errors.New("16-bit weights need gradients of their dtype")
				case mixed && a.MaxExpAvgSq != nil:
					return errors.New("it would keep the maximum in the dtype of the gradient")
				}
				return errors.Join(trainingChip(env, "ApplyAdamWV2"), available(&aclnn.ApplyAdamWV2Params{}))
			},
			Run: func(_ context.Context, st *acl.Stream, a *AdamWArgs) error {
				return a.run(st, func(s *steps) {
					// The operator adds one before it corrects the moments.
					step := s.tensor(aclnn.Int64, 1)
					s.fill(step, aclnn.Int(int64(a.Step-1)))
					launch(s, aclnn.ApplyAdamWV2, aclnn.ApplyAdamWV2Params{
						VarRef: a.Param, MRef: a.ExpAvg, VRef: a.ExpAvgSq, MaxGradNormOptionalRef: a.MaxExpAvgSq, Grad: a.Grad, Step: step,
						Lr: float32(a.LR), Beta1: float32(a.Beta1), Beta2: float32(a.Beta2), WeightDecay: float32(a.WeightDecay), Eps: float32(a.Epsilon),
						Amsgrad: a.MaxExpAvgSq != nil, Maximize: a.Maximize,
					})
				})
			},
		},
		Kernel[AdamWArgs]{Name: "composite", Supports: Always[AdamWArgs], Run: func(_ context.Context, st *acl.Stream, a *AdamWArgs) error {
			return a.run(st, a.composite)
		}})
}

// run updates, and copies the weights to the model.
func (a *AdamWArgs) run(st *acl.Stream, update func(*steps)) error {
	if a.Param.Len() == 0 {
		return nil
	}
	return compose(st, func(s *steps) {
		update(s)
		if a.Copy != nil {
			s.store(a.Copy, a.Param)
		}
	})
}

// composite updates in float32; 16-bit tensors are rounded at the end.
func (a *AdamWArgs) composite(s *steps) {
	param, grad, m, v := s.float(a.Param), s.float(a.Grad), s.float(a.ExpAvg), s.float(a.ExpAvgSq)
	sign := 1.0
	if a.Maximize {
		sign = -1
	}
	s.scale(param, 1-a.LR*a.WeightDecay)
	s.scale(m, a.Beta1)
	s.add(m, grad, sign*(1-a.Beta1))
	s.scale(v, a.Beta2)
	launch(s, aclnn.InplaceAddcmul, aclnn.InplaceAddcmulParams{SelfRef: v, Tensor1: grad, Tensor2: grad, Value: aclnn.Float(1 - a.Beta2)})
	second := v
	if a.MaxExpAvgSq != nil {
		second = s.float(a.MaxExpAvgSq)
		launch(s, aclnn.Maximum, aclnn.MaximumParams{Self: second, Other: v, Out: second})
	}
	root := s.tensor(aclnn.Float32, param.Shape()...)
	launch(s, aclnn.Sqrt, aclnn.SqrtParams{Self: second, Out: root})
	t := float64(a.Step)
	s.scale(root, 1/math.Sqrt(1-math.Pow(a.Beta2, t)))
	s.adds(root, a.Epsilon)
	rate := a.LR / (1 - math.Pow(a.Beta1, t))
	launch(s, aclnn.InplaceAddcdiv, aclnn.InplaceAddcdivParams{SelfRef: param, Tensor1: m, Tensor2: root, Value: aclnn.Float(-rate)})
	for _, pair := range [][2]*aclnn.Tensor{{a.Param, param}, {a.ExpAvg, m}, {a.ExpAvgSq, v}, {a.MaxExpAvgSq, second}} {
		if pair[0] != nil && pair[0] != pair[1] {
			s.store(pair[0], pair[1])
		}
	}
}
