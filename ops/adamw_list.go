package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// AdamWListArgs describes updates of many weights, which are one launch where CANN has a kernel for
// lists. They differ in their tensors only.
type AdamWListArgs struct{ Updates []AdamWArgs }

// options returns an update without its tensors.
func (a AdamWArgs) options() AdamWArgs {
	a.Param, a.Grad, a.ExpAvg, a.ExpAvgSq, a.MaxExpAvgSq, a.Copy = nil, nil, nil, nil, nil, nil
	return a
}

func (a *AdamWListArgs) validate() error {
	var c args
	for i := range a.Updates {
		u := &a.Updates[i]
		if err := u.validate(); err != nil {
			return fmt.Errorf("update %d: %w", i, err)
		}
		if u.options() != a.Updates[0].options() || (u.MaxExpAvgSq == nil) != (a.Updates[0].MaxExpAvgSq == nil) {
			c.Fail("Updates[%d] differs from the first in more than its tensors", i)
		}
	}
	return c.Err
}

func (a *AdamWListArgs) key() key.AdamWList {
	k := key.AdamWList{Updates: key.ExtentOf(int64(len(a.Updates)))}
	for i, u := range a.Updates {
		if i == 0 {
			k.Param, k.Grad, k.AMSGrad, k.Schedule = u.Param.DType(), u.Grad.DType(), u.MaxExpAvgSq != nil, u.Schedule != nil
		}
		if u.Param.DType() != k.Param || u.Grad.DType() != k.Grad {
			k.Param, k.Grad = aclnn.Undefined, aclnn.Undefined
			break
		}
	}
	return k
}

func newAdamWList(reg *Registry) *Op[AdamWListArgs, key.AdamWList] {
	return op(reg, "adamw_list", (*AdamWListArgs).validate, (*AdamWListArgs).key,
		Kernel[AdamWListArgs, key.AdamWList]{
			Name: "FusedAdamw",
			Supports: func(env *Env, k key.AdamWList) error {
				switch {
				case k.Schedule:
					return errors.New("it takes the learning rate from the host, and here the device has it")
				case k.Param == aclnn.Undefined || k.Param != k.Grad:
					return errors.New("it takes weights and gradients of one dtype")
				case k.AMSGrad:
					return errors.New("it keeps the maximum of the corrected moments, not of the moments")
				}
				return env.Has(&aclnn.FusedAdamwParams{})
			},
			Run: func(_ context.Context, st *acl.Stream, a *AdamWListArgs) error {
				return compose(st, func(s *steps) { a.fused(s) })
			},
		},
		Kernel[AdamWListArgs, key.AdamWList]{
			Name: "separate",
			Run: func(ctx context.Context, st *acl.Stream, a *AdamWListArgs) error {
				for i := range a.Updates {
					if err := reg.AdamW().Run(ctx, st, &a.Updates[i]); err != nil {
						return err
					}
				}
				return nil
			},
		})
}

// fused updates as many weights with each launch as it takes. CANN skips empty tensors in all lists
// but that of the steps, so they are left out here.
func (a *AdamWListArgs) fused(s *steps) {
	var p aclnn.FusedAdamwParams
	for _, u := range a.Updates {
		if u.Param.Len() == 0 {
			continue
		}
		if p.StateSteps == nil {
			step := s.Tensor(aclnn.Float32, 1)
			s.Fill(step, aclnn.Float(float64(u.Step)))
			p = aclnn.FusedAdamwParams{
				StateSteps: []*aclnn.Tensor{step}, Lr: u.LR, Beta1: u.Beta1, Beta2: u.Beta2, WeightDecay: u.WeightDecay, Eps: u.Epsilon, Maximize: u.Maximize,
			}
		}
		p.Params, p.Grads = append(p.Params, u.Param), append(p.Grads, u.Grad)
		p.ExpAvgs, p.ExpAvgSqs = append(p.ExpAvgs, u.ExpAvg), append(p.ExpAvgSqs, u.ExpAvgSq)
	}
	each(p.Params, func(at int, part []*aclnn.Tensor) {
		one, end := p, at+len(part)
		one.Params, one.Grads, one.ExpAvgs, one.ExpAvgSqs = part, p.Grads[at:end], p.ExpAvgs[at:end], p.ExpAvgSqs[at:end]
		for len(one.StateSteps) < len(part) {
			one.StateSteps = append(one.StateSteps, p.StateSteps[0])
		}
		launch(s, aclnn.FusedAdamw, one)
	})
	for _, u := range a.Updates {
		if u.Copy != nil && u.Param.Len() > 0 {
			s.Copy(u.Copy, u.Param)
		}
	}
}
