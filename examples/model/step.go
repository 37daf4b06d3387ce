package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/parallel"
)

// step is one forward and backward pass of a batch on this rank's pipeline stage, which may be the
// whole model.
type step struct {
	m       *Model
	batches []Batch // micro-batches
	targets []int   // labels of the whole step over all ranks, by portion.number
	loss    *aclnn.Tensor
	pass    *pass
	live    map[int]*micro
}

// micro is a micro-batch between its forward and backward pass.
type micro struct {
	pass    *pass
	in      *inputs
	state   *state
	dLogits *aclnn.Tensor
}

func (m *Model) newStep(ctx context.Context, b Batch) (*step, error) {
	if err := b.validate(m.Config.VocabSize); err != nil {
		return nil, err
	}
	if m.trained() == nil {
		return nil, errFrozen
	}
	if (m.multi == nil) != (b.Adapters == nil) {
		return nil, errEach
	}
	if m.par.NeedsSequence(m.Config) && !m.par.Sequence {
		return nil, errCounted
	}
	if m.quantized.Stream != nil {
		return nil, errQuantized
	}
	s, err := m.pieces(ctx, b)
	if err == nil && m.multi != nil {
		err = m.multi.start(s.targets)
	}
	if m.adapter != nil {
		m.adapter.rests = false
	}
	return s, err
}

// pieces makes the step of a batch that was checked.
func (m *Model) pieces(ctx context.Context, b Batch) (*step, error) {
	parts, err := m.parts(b)
	if err != nil {
		return nil, err
	}
	targets := []int{cmp.Or(b.Targets, counted(b.Labels))}
	if b.Adapters != nil {
		if targets, err = m.multi.targets(b); err != nil {
			return nil, err
		}
		for i := range parts {
			parts[i] = parts[i].byAdapter()
		}
	}
	s := &step{m: m, batches: parts, pass: m.pass(ctx), targets: targets, live: map[int]*micro{}}
	s.loss = s.pass.Tensor(aclnn.Float32, int64(len(targets)))
	s.pass.Zero(s.loss)
	return s, s.pass.Err()
}

// parts divides a batch into micro-batches.
func (m *Model) parts(b Batch) (parts []Batch, err error) {
	n := m.par.micros()
	if b.CuSeqLens != nil {
		return b.cut(n)
	}
	if b.Size%n != 0 {
		return nil, fmt.Errorf("model: %d rows are not a multiple of %d micro-batches", b.Size, n)
	}
	for i := range n {
		parts = append(parts, b.Rows(i*b.Size/n, b.Size/n))
	}
	return parts, nil
}

// run queues the forward and backward passes.
func (s *step) run(ctx context.Context) error {
	rows, err := s.rows()
	if err != nil {
		return err
	}
	m := s.m
	pipeline := parallel.NewPipeline(m.par.Pipeline, m.dt, rows, int64(m.Config.HiddenSize))
	if err := pipeline.Run(ctx, m.st, len(s.batches), s); err != nil {
		return errors.Join(err, m.trained().restart())
	}
	if err := m.trained().finish(); err != nil {
		return err
	}
	return s.tie(ctx)
}

// tie adds up the gradients of a tied embedding, of which the first stage of a pipeline has those of
// the input, and the last stage those of the head. Both then make the same update.
func (s *step) tie(ctx context.Context) error {
	m := s.m
	at, stages := m.par.stage()
	w, other := m.embedding, stages-1
	if at > 0 {
		w, other = m.head.weight, 0
	}
	if m.Config.Frozen || w == nil || !w.tied {
		return nil
	}
	p := m.pass(ctx)
	theirs := p.Like(w.Grad)
	p.Do(func() error {
		return m.par.Pipeline.Exchange(m.st, hccl.SendTo(other, w.Grad), hccl.RecvFrom(other, theirs))
	})
	p.add(w.Grad, theirs)
	return errors.Join(p.Err(), p.Close())
}

// close frees the loss and what remains after an error.
func (s *step) close() error {
	var errs []error
	for _, u := range s.live {
		errs = append(errs, u.pass.Close())
	}
	return errors.Join(append(errs, s.pass.Close())...)
}

// rows returns the number of tokens of a micro-batch that this rank has between layers.
func (s *step) rows() (int64, error) {
	b := s.batches[0]
	chunks, err := s.m.par.positions(b.Length)
	if err != nil {
		return 0, err
	}
	n := int64(0)
	for _, c := range chunks {
		n += c.Len() * int64(b.Size)
	}
	if tp := s.m.tp.Size(); s.m.tp.Sequence() {
		if n%tp != 0 {
			return 0, fmt.Errorf("model: %d tokens of a micro-batch are not a multiple of the %d tensor-parallel ranks", n, tp)
		}
		n /= tp
	}
	return n, nil
}

// Forward computes the stage's layers on a micro-batch, and the loss in the last stage.
func (s *step) Forward(ctx context.Context, _ *acl.Stream, at int, x, out *aclnn.Tensor) error {
	u := &micro{pass: s.m.pass(ctx)}
	s.live[at] = u
	p := u.pass
	p.training = true
	var err error
	if u.in, err = s.m.inputs(p, s.batches[at]); err != nil {
		return err
	}
	if u.state = s.m.forward(p, u.in, x); p.Err() != nil {
		return p.Err()
	}
	p.balance.scale, p.balance.up = s.m.Config.balanceScale()*s.share(), s.m.scale.factor
	p.balance.add(p, s.loss)
	if out != nil {
		p.Copy(out, u.state.out)
		return p.Err()
	}
	s.crossEntropy(u)
	return p.Err()
}

// share returns the weight of this rank's tokens of a micro-batch in the balance loss, which is a
// mean over micro-batches, stages and ranks, as in other frameworks.
func (s *step) share() float64 {
	_, stages := s.m.par.stage()
	return 1 / float64(len(s.batches)*stages*int(size(s.m.par.Data)*s.m.tp.Size()))
}

// crossEntropy adds the loss of a micro-batch to that of the step, and computes the gradient of its
// logits.
func (s *step) crossEntropy(u *micro) {
	p := u.pass
	u.dLogits = p.Like(u.state.out)
	for _, part := range u.in.parts {
		dLogits := u.dLogits.Narrow(0, part.first, part.rows)
		args, weight := s.addLoss(u, part)
		if part.labelled == 0 || !part.trained {
			p.Zero(dLogits)
			continue
		}
		weight *= s.m.scale.factor
		grad := ops.CrossEntropyGradArgs{CrossEntropyArgs: args, DLogits: dLogits}
		if weight != 1 {
			grad.DLoss = p.Tensor(aclnn.Float32, 1)
			p.Fill(grad.DLoss, aclnn.Float(weight))
		}
		p.Do(func() error { return p.tp.CrossEntropyGrad(p.ctx, p.Stream, &grad) })
	}
}

// addLoss adds the loss of a part of a micro-batch to that of the step, if it has labels. It weights
// the mean over these labels by their share of all labels of the step.
func (s *step) addLoss(u *micro, part portion) (args ops.CrossEntropyArgs, weight float64) {
	if part.labelled == 0 {
		return args, 0
	}
	p := u.pass
	logits, labels := u.state.out.Narrow(0, part.first, part.rows), u.in.labels.Narrow(0, part.first, part.rows)
	own, logProb := p.Tensor(aclnn.Float32, 1), p.Like(logits)
	args = ops.CrossEntropyArgs{Logits: logits, Labels: labels, Loss: own, LogProb: logProb}
	weight = float64(part.labelled) / float64(s.targets[part.number])
	p.Do(func() error { return p.tp.CrossEntropy(p.ctx, p.Stream, &args) })
	sum := s.loss.Narrow(0, int64(part.number), 1)
	aclnn.Launch(&p.Scope, aclnn.InplaceAdd, aclnn.InplaceAddParams{Self: sum, Other: own, Alpha: aclnn.Float(weight)})
	return args, weight
}

// Backward adds the gradients of a micro-batch to those of the weights. In the last micro-batch
// their exchange overlaps with the computation of the remaining ones.
func (s *step) Backward(_ context.Context, _ *acl.Stream, at int, dOut, dIn *aclnn.Tensor) error {
	u := s.live[at]
	delete(s.live, at)
	p := u.pass
	p.accumulate = at > 0
	if dOut == nil {
		dOut = u.dLogits
	}
	s.m.backward(p, u.in, u.state, dOut, dIn, at == len(s.batches)-1)
	return errors.Join(p.Err(), p.Close())
}

// sum adds up the losses of all ranks.
func (s *step) sum() error {
	if world := s.m.par.World; world != nil {
		return world.AllReduce(s.m.st, s.loss, s.loss, hccl.Sum)
	}
	return nil
}

// total returns the loss over all ranks.
func (s *step) total(ctx context.Context) (float64, error) {
	losses, err := s.totals(ctx)
	if err != nil {
		return 0, err
	}
	return losses[0], nil
}

// totals returns the losses over all ranks, by portion.number.
func (s *step) totals(ctx context.Context) (losses []float64, err error) {
	if err := s.sum(); err != nil {
		return nil, err
	}
	values := make([]float32, len(s.targets))
	if err := aclnn.CopyFromDevice(ctx, s.m.st, values, s.loss); err != nil {
		return nil, err
	}
	for _, v := range values {
		losses = append(losses, float64(v)/float64(s.m.tp.Size())) // tensor-parallel ranks have the same loss
	}
	return losses, nil
}

// readScalar waits for the stream and reads one float32.
func readScalar(ctx context.Context, st *acl.Stream, t *aclnn.Tensor) (float64, error) {
	var v [1]float32
	err := aclnn.CopyFromDevice(ctx, st, v[:], t)
	return float64(v[0]), err
}
