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
	moments []moments // by slot
	memory  memory
}

type moments struct{ average, square *aclnn.Tensor }

// NewOptimizer makes an optimiser with moments of zero.
func NewOptimizer(m *Model, options AdamW) (*Optimizer, error) {
	o := &Optimizer{Options: options, m: m}
	o.memory.st = m.st
	for _, s := range m.store.slots() {
		var mo moments
		for _, t := range []**aclnn.Tensor{&mo.average, &mo.square} {
			var err error
			if *t, err = o.memory.zeros(aclnn.Float32, s.master.Shape()...); err != nil {
				return nil, errors.Join(err, o.Close())
			}
		}
		o.moments = append(o.moments, mo)
	}
	return o, nil
}

// Close frees the moments.
func (o *Optimizer) Close() error { return o.memory.close() }

// Steps is the number of updates made.
func (o *Optimizer) Steps() int { return o.steps }

// Step clips the gradients and updates the weights. It returns the gradients' norm before
// clipping. Once it has begun, the end of ctx does not stop it: the weights are of one step.
func (o *Optimizer) Step(ctx context.Context) (norm float64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	ctx = context.WithoutCancel(ctx)
	p := o.m.pass(ctx)
	defer func() { err = errors.Join(err, p.close()) }()
	clip := ops.ClipGradNormArgs{MaxNorm: o.Options.MaxNorm, Norm: p.tensor(aclnn.Float32), Comm: o.m.par.World}
	for _, s := range o.m.store.slots() {
		clip.Grads, clip.Copies = append(clip.Grads, s.grad), append(clip.Copies, s.copies)
	}
	run(p, o.m.reg.ClipGradNorm, &clip)
	for i, s := range o.m.store.slots() {
		run(p, o.m.reg.AdamW, &ops.AdamWArgs{
			Param: s.master, Copy: s.copy, Grad: s.grad, ExpAvg: o.moments[i].average, ExpAvgSq: o.moments[i].square, Step: o.steps + 1,
			LR: o.Options.LR, Beta1: o.Options.Beta1, Beta2: o.Options.Beta2, Epsilon: o.Options.Epsilon, WeightDecay: o.Options.WeightDecay,
		})
	}
	if p.err != nil {
		return 0, p.err
	}
	o.steps++
	return readScalar(ctx, o.m.st, clip.Norm)
}
