package qwen

import (
	"context"
	"errors"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// AdamW are the optimiser's options, with PyTorch's meaning: the decay is applied to the
// weight before the update, to every weight.
type AdamW struct {
	LR, Beta1, Beta2, Epsilon, WeightDecay float64
	MaxNorm                                float64 // gradients are clipped to this global norm; 0 = not
}

// Optimizer updates the weights of a model and keeps the moments of their gradients.
type Optimizer struct {
	Options AdamW

	m       *Model
	steps   int
	moments []moments
}

type moments struct{ average, square *aclnn.Tensor }

// NewOptimizer makes an optimiser with moments of zero.
func NewOptimizer(m *Model, options AdamW) (*Optimizer, error) {
	o := &Optimizer{Options: options, m: m}
	for _, p := range m.params.all {
		var mo moments
		for _, t := range []**aclnn.Tensor{&mo.average, &mo.square} {
			x, err := aclnn.New(m.st, aclnn.Float32, p.Shape()...)
			if err != nil {
				return nil, errors.Join(err, o.Close())
			}
			*t = x
			if err := aclnn.InplaceZero(m.st, aclnn.InplaceZeroParams{SelfRef: x}); err != nil {
				return nil, errors.Join(err, mo.close(), o.Close())
			}
		}
		o.moments = append(o.moments, mo)
	}
	return o, nil
}

func (mo moments) close() error { return errors.Join(mo.average.Close(), mo.square.Close()) }

// Close frees the moments.
func (o *Optimizer) Close() error {
	var err error
	for _, mo := range o.moments {
		err = errors.Join(err, mo.close())
	}
	o.moments = nil
	return err
}

// Steps is the number of updates made.
func (o *Optimizer) Steps() int { return o.steps }

// Step clips the gradients and updates the weights. It returns the gradients' norm before
// clipping. Once it has begun, the end of ctx does not stop it: the weights are of one step.
func (o *Optimizer) Step(ctx context.Context) (norm float64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	ctx = context.WithoutCancel(ctx)
	p := &pass{ctx: ctx, st: o.m.st, reg: o.m.reg, dt: o.m.dt}
	defer func() { err = errors.Join(err, p.close()) }()
	grads := make([]*aclnn.Tensor, len(o.m.params.all))
	for i, w := range o.m.params.all {
		grads[i] = w.Grad
	}
	total := p.tensor(aclnn.Float32)
	run(p, o.m.reg.ClipGradNorm, &ops.ClipGradNormArgs{Grads: grads, MaxNorm: o.Options.MaxNorm, Norm: total})
	for i, w := range o.m.params.all {
		args := ops.AdamWArgs{
			Param: w.Master, Grad: w.Grad, ExpAvg: o.moments[i].average, ExpAvgSq: o.moments[i].square, Step: o.steps + 1,
			LR: o.Options.LR, Beta1: o.Options.Beta1, Beta2: o.Options.Beta2, Epsilon: o.Options.Epsilon, WeightDecay: o.Options.WeightDecay,
		}
		if w.Value != w.Master {
			args.Copy = w.Value
		}
		run(p, o.m.reg.AdamW, &args)
	}
	if p.err != nil {
		return 0, p.err
	}
	o.steps++
	return readScalar(ctx, o.m.st, total)
}
