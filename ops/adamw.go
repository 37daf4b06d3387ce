package ops

import (
	"context"
	"errors"
	"math"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// AdamWArgs describes one in-place update of AdamW, as PyTorch computes it: the weight decays by
// LR·WeightDecay, the moments move towards the gradient and its square, and the weight moves by LR
// times the bias-corrected first moment over the root of the second.
type AdamWArgs struct {
	Param *aclnn.Tensor // float32 master weights, or float16 or bfloat16 without any
	Grad  *aclnn.Tensor // like Param; float32, float16 or bfloat16
	// ExpAvg and ExpAvgSq are the moments, like Param; zero before the first step.
	ExpAvg, ExpAvgSq *aclnn.Tensor
	// MaxExpAvgSq keeps the largest second moment, like Param, for AMSGrad; nil otherwise.
	MaxExpAvgSq *aclnn.Tensor
	// Copy receives the new weights in the dtype of the model, otherwise like Param; nil if the
	// model reads Param itself.
	Copy *aclnn.Tensor
	Step int // number of this update: 1 for the first

	// LR, Beta1 and WeightDecay may be 0: no step, no momentum, no decay. Beta2 and Epsilon must not be.
	LR, Beta1, Beta2, Epsilon, WeightDecay float64
	Maximize                               bool // maximize instead of minimize

	// Schedule has the values of Rates on the device, float32 [3], in place of Step, LR and
	// WeightDecay: for a captured graph, in whose replays they change. Nil otherwise.
	Schedule *aclnn.Tensor
}

// Rates returns the values of Schedule that stand for Step, LR and WeightDecay: the factor of the
// weight, that of the root of the second moment, and that of the update.
func (a AdamWArgs) Rates() [3]float32 {
	t := float64(a.Step)
	return [3]float32{
		float32(1 - a.LR*a.WeightDecay), float32(1 / math.Sqrt(1-math.Pow(a.Beta2, t))), float32(a.LR / (1 - math.Pow(a.Beta1, t))),
	}
}

func (a *AdamWArgs) validate() error {
	var c args
	c.Tensor("Param", a.Param, floats...)
	if !c.OK() {
		return c.Err
	}
	c.Tensor("Grad", a.Grad, floats...)
	c.state("ExpAvg", a.ExpAvg, a.Param)
	c.state("ExpAvgSq", a.ExpAvgSq, a.Param)
	if a.MaxExpAvgSq != nil {
		c.state("MaxExpAvgSq", a.MaxExpAvgSq, a.Param)
	}
	c.Like("Grad", a.Grad, "Param", a.Param)
	if c.Optional("Copy", a.Copy, floats...) {
		c.Like("Copy", a.Copy, "Param", a.Param)
	}
	if c.Optional("Schedule", a.Schedule, aclnn.Float32) && (a.Schedule.Rank() != 1 || a.Schedule.Len() != 3) {
		c.Fail("Schedule is %v; it must have the 3 values of Rates", a.Schedule)
	}
	in := func(x, low, high float64) bool { return x >= low && x < high } // false for NaN
	switch {
	case a.Step < 1 && a.Schedule == nil:
		c.Fail("Step is %d; the first update is step 1", a.Step)
	case !in(a.Beta1, 0, 1) || !in(a.Beta2, 0, 1) || a.Beta2 == 0:
		c.Fail("Beta1 is %g and Beta2 %g; Beta1 must be in [0, 1), usually 0.9, and Beta2 in (0, 1), usually 0.999", a.Beta1, a.Beta2)
	case !in(a.LR, 0, math.Inf(1)) || !in(a.WeightDecay, 0, math.Inf(1)):
		c.Fail("LR is %g and WeightDecay %g; they must not be negative", a.LR, a.WeightDecay)
	}
	c.epsilon(a.Epsilon)
	return c.Err
}

// state checks a moment of a parameter.
func (c *args) state(name string, t, param *aclnn.Tensor) {
	c.Same(name, t, "Param", param)
}

func (a *AdamWArgs) key() key.AdamW {
	return key.AdamW{
		Param: a.Param.DType(), Grad: a.Grad.DType(), Copy: dtypeOf(a.Copy), Elements: key.ExtentOf(a.Param.Len()), AMSGrad: a.MaxExpAvgSq != nil,
		Maximize: a.Maximize, Contiguous: contiguous(a.Param, a.Grad, a.ExpAvg, a.ExpAvgSq, a.MaxExpAvgSq, a.Copy),
		Schedule: a.Schedule != nil,
	}
}

func newAdamW(reg *Registry) *Op[AdamWArgs, key.AdamW] {
	return op(reg, "adamw", (*AdamWArgs).validate, (*AdamWArgs).key,
		Kernel[AdamWArgs, key.AdamW]{
			Name: "ApplyAdamWV2",
			Supports: func(env *Env, k key.AdamW) error {
				switch mixed := k.Grad != k.Param; {
				case k.Schedule:
					return errors.New("it takes the learning rate from the host, and here the device has it")
				case mixed && is16(k.Param):
					return errors.New("16-bit weights need gradients of their dtype")
				case mixed && k.AMSGrad:
					return errors.New("it would keep the maximum in the dtype of the gradient")
				}
				return env.Has(&aclnn.ApplyAdamWV2Params{})
			},
			Run: func(_ context.Context, st *acl.Stream, a *AdamWArgs) error {
				return a.run(st, func(s *steps) {
					// The operator increments the step before it corrects the moments.
					step := s.Tensor(aclnn.Int64, 1)
					s.Fill(step, aclnn.Int(int64(a.Step-1)))
					launch(s, aclnn.ApplyAdamWV2, aclnn.ApplyAdamWV2Params{
						Var: a.Param, M: a.ExpAvg, V: a.ExpAvgSq, MaxGradNorm: a.MaxExpAvgSq, Grad: a.Grad, Step: step,
						Lr: float32(a.LR), Beta1: float32(a.Beta1), Beta2: float32(a.Beta2), WeightDecay: float32(a.WeightDecay), Eps: float32(a.Epsilon),
						Amsgrad: a.MaxExpAvgSq != nil, Maximize: a.Maximize,
					})
				})
			},
		},
		Kernel[AdamWArgs, key.AdamW]{
			Name: "composite",
			Run:  func(_ context.Context, st *acl.Stream, a *AdamWArgs) error { return a.run(st, a.composite) },
		})
}

// run updates the weights and copies them to the model.
func (a *AdamWArgs) run(st *acl.Stream, update func(*steps)) error {
	if a.Param.Len() == 0 {
		return nil
	}
	return compose(st, func(s *steps) {
		update(s)
		if a.Copy != nil {
			s.Copy(a.Copy, a.Param)
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
	if a.Schedule != nil {
		s.times(param, a.Schedule.Select(0, 0))
	} else {
		s.scale(param, 1-a.LR*a.WeightDecay)
	}
	s.scale(m, a.Beta1)
	s.add(m, grad, sign*(1-a.Beta1))
	s.scale(v, a.Beta2)
	launch(s, aclnn.InplaceAddcmul, aclnn.InplaceAddcmulParams{Self: v, Tensor1: grad, Tensor2: grad, Value: aclnn.Float(1 - a.Beta2)})
	second := v
	if a.MaxExpAvgSq != nil {
		second = s.float(a.MaxExpAvgSq)
		launch(s, aclnn.Maximum, aclnn.MaximumParams{Self: second, Other: v, Out: second})
	}
	root := s.Tensor(aclnn.Float32, param.Shape()...)
	launch(s, aclnn.Sqrt, aclnn.SqrtParams{Self: second, Out: root})
	if a.Schedule != nil {
		s.times(root, a.Schedule.Select(0, 1))
		s.adds(root, a.Epsilon)
		move := s.mul(m, a.Schedule.Select(0, 2))
		launch(s, aclnn.InplaceDiv, aclnn.InplaceDivParams{Self: move, Other: root})
		s.add(param, move, -1)
	} else {
		t := float64(a.Step)
		s.scale(root, 1/math.Sqrt(1-math.Pow(a.Beta2, t)))
		s.adds(root, a.Epsilon)
		rate := a.LR / (1 - math.Pow(a.Beta1, t))
		launch(s, aclnn.InplaceAddcdiv, aclnn.InplaceAddcdivParams{Self: param, Tensor1: m, Tensor2: root, Value: aclnn.Float(-rate)})
	}
	for _, pair := range [][2]*aclnn.Tensor{{a.Param, param}, {a.ExpAvg, m}, {a.ExpAvgSq, v}, {a.MaxExpAvgSq, second}} {
		if pair[0] != nil && pair[0] != pair[1] {
			s.Copy(pair[0], pair[1])
		}
	}
}
