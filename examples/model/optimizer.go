package model

import (
	"context"
	"errors"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/parallel"
)

// AdamW holds the optimiser's options, with the same meaning as in PyTorch. Weight decay is applied
// to every weight before the update, or with DecayMatrices to those of two and more dimensions only:
// not to norms, biases and other vectors.
type AdamW struct {
	LR, Beta1, Beta2, Epsilon, WeightDecay float64
	MaxNorm                                float64 // limit of the gradient norm; 0 = none
	DecayMatrices                          bool
}

// Optimizer updates the weights of a model, or of an adapter, and keeps the moments of their
// gradients.
type Optimizer struct {
	Options AdamW

	m       *Model
	adapter *Adapter // nil if it updates the model's own weights
	store   storage
	params  *parameters
	steps   int
	moments []moments // by slot
	memory  aclnn.Scope
}

type moments struct{ average, square *aclnn.Tensor }

// NewOptimizer makes an optimiser of a model's weights, whose moments are zero.
func NewOptimizer(m *Model, options AdamW) (*Optimizer, error) {
	if m.Config.Frozen {
		return nil, errFrozen
	}
	return newOptimizer(m, nil, m.store, &m.params, options)
}

func newOptimizer(m *Model, a *Adapter, store storage, params *parameters, options AdamW) (*Optimizer, error) {
	o := &Optimizer{Options: options, m: m, adapter: a, store: store, params: params, memory: aclnn.Scope{Stream: m.st}}
	for _, s := range store.slots() {
		shape := s.master.Shape()
		o.moments = append(o.moments, moments{
			average: zeros(&o.memory, aclnn.Float32, shape...), square: zeros(&o.memory, aclnn.Float32, shape...),
		})
	}
	if err := o.memory.Err(); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// Close frees the moments.
func (o *Optimizer) Close() error {
	if o == nil {
		return nil
	}
	return o.memory.Close()
}

// Steps returns the number of updates made.
func (o *Optimizer) Steps() int { return o.steps }

// Step clips the gradients and updates the weights. It returns the gradients' norm before clipping.
// Once it has started, it ignores the end of ctx, so that all weights are of the same step. With
// Float16, gradients that have become infinite are dropped: the norm is then infinite, Steps stays as
// it was, and LossScale halves. For an adapter that GradientsEach found no labels of, Step does nothing.
func (o *Optimizer) Step(ctx context.Context) (norm float64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if o.adapter != nil && o.adapter.rests {
		return 0, nil
	}
	ctx = context.WithoutCancel(ctx)
	if o.m.dt == aclnn.Float16 {
		return o.stepScaled(ctx)
	}
	defer o.m.measure(&o.m.peaks.Step)()
	s := &aclnn.Scope{Stream: o.m.st}
	defer func() { err = errors.Join(err, s.Close()) }()
	norms := o.queue(ctx, s, nil)
	if s.Err() != nil {
		return 0, s.Err()
	}
	o.count(o.steps + 1)
	return readScalar(ctx, o.m.st, norms)
}

// count sets the number of updates.
func (o *Optimizer) count(steps int) {
	o.steps = steps
	o.adapter.begin(steps)
}

// args describes the next update of matrices or of vectors, but for its tensors.
func (o *Optimizer) args(vectors bool) ops.AdamWArgs {
	a := ops.AdamWArgs{
		Step: o.steps + 1, LR: o.Options.LR, Beta1: o.Options.Beta1, Beta2: o.Options.Beta2, Epsilon: o.Options.Epsilon, WeightDecay: o.Options.WeightDecay,
	}
	if vectors && o.Options.DecayMatrices {
		a.WeightDecay = 0
	}
	return a
}

// rates returns ops.AdamWArgs.Schedule for matrices, then that for vectors.
func (o *Optimizer) rates() []float32 {
	matrices, vectors := o.args(false).Rates(), o.args(true).Rates()
	return append(matrices[:], vectors[:]...)
}

// queue clips the gradients and updates the weights, and returns the norm before clipping. schedule
// holds the rates of the update if the device has them.
func (o *Optimizer) queue(ctx context.Context, s *aclnn.Scope, schedule *aclnn.Tensor) (norm *aclnn.Tensor) {
	norm = o.clip(ctx, s)
	o.update(ctx, s, schedule)
	return norm
}

// clip clips the gradients and returns their norm before.
func (o *Optimizer) clip(ctx context.Context, s *aclnn.Scope) (norm *aclnn.Tensor) {
	clip := ops.ClipGradNormArgs{MaxNorm: o.Options.MaxNorm, Norm: s.Tensor(aclnn.Float32), Sum: parallel.Sum(o.m.par.World)}
	for _, w := range o.store.slots() {
		if w.constant {
			continue
		}
		clip.Grads, clip.Copies = append(clip.Grads, w.grad), append(clip.Copies, w.copies)
	}
	ops.Queue(ctx, s, o.m.reg.ClipGradNorm(), &clip)
	return clip.Norm
}

// update updates the weights.
func (o *Optimizer) update(ctx context.Context, s *aclnn.Scope, schedule *aclnn.Tensor) {
	var lists [2]ops.AdamWListArgs // of weights that differ in their decay
	var schedules [2]*aclnn.Tensor
	for i := range schedules {
		if schedule != nil {
			n := schedule.Len() / 2
			schedules[i] = schedule.Narrow(0, int64(i)*n, n)
		}
	}
	for i, w := range o.store.slots() {
		if w.constant {
			if o.m.biasRate > 0 {
				o.balance(s, w)
			}
			continue
		}
		at := 0
		if w.vectors && o.Options.DecayMatrices {
			at = 1
		}
		a := o.args(w.vectors)
		a.Param, a.Copy, a.Grad, a.ExpAvg, a.ExpAvgSq, a.Schedule = w.master, w.copy, w.grad, o.moments[i].average, o.moments[i].square, schedules[at]
		lists[at].Updates = append(lists[at].Updates, a)
	}
	for i := range lists {
		if len(lists[i].Updates) > 0 {
			ops.Queue(ctx, s, o.m.reg.AdamWList(), &lists[i])
		}
	}
	s.Do(o.store.updated)
}
