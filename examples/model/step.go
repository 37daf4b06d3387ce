package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/ops/autograd"
	"github.com/goascend/cann/ops/parallel"
)

// step is one forward and backward pass of a batch on this rank's pipeline stage, which may be the
// whole model.
type step struct {
	m       *Model
	batches []Batch       // micro-batches
	targets []int         // labels of the whole step over all ranks, by portion.number
	factors []float64     // of the sequences' values, by portion.number, in place of targets; nil for means over labels
	loss    *aclnn.Tensor // of each of targets, and the excess
	room    expertRoom
	excess  int // rows of experts without room, after totals
	pass    *pass
	live    map[microChunk]*micro
	draws   map[*Adapter]uint64 // of dropout before the step
}

// microChunk names a forward and backward pass of a step: of a micro-batch through a chunk of layers.
type microChunk struct{ micro, chunk int }

// micro is a micro-batch between its forward and backward pass.
type micro struct {
	pass     *pass
	in       *inputs
	input    *autograd.Var // from the stage before, or nil
	out      *autograd.Var
	gradient []autograd.Output // with which the backward pass starts, but for that of the stage after
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
	if m.Config.Encoder() {
		return nil, errEncoder
	}
	parts, err := m.parts(b)
	if err != nil {
		return nil, err
	}
	targets := []int{cmp.Or(b.Targets, counted(b.Labels))}
	if b.Numbers != nil {
		targets = make([]int, len(m.factors)+1) // the last one is of the balance of experts
	}
	if b.Adapters != nil {
		if targets, err = m.multi.targets(b); err != nil {
			return nil, err
		}
		for i := range parts {
			parts[i] = parts[i].byAdapter()
		}
	}
	s := &step{m: m, batches: parts, pass: m.pass(ctx, autograd.Options{NoGrad: true}), targets: targets, factors: m.factors, live: map[microChunk]*micro{}, draws: map[*Adapter]uint64{}}
	s.pass.queue(func(scope *aclnn.Scope) { s.loss = zeros(scope, aclnn.Float32, int64(len(targets)+1)) })
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
	var stages []parallel.Stage
	for i := range m.ends {
		stages = append(stages, stage{s, i})
	}
	s.draw()
	if err := m.pipe.Run(ctx, m.st, m.dt, []int64{rows, int64(m.Config.HiddenSize)}, stages...); err != nil {
		return errors.Join(err, m.trained().restart())
	}
	defer m.measure(&m.peaks.Exchange)()
	if err := m.trained().finish(s.pass); err != nil {
		return err
	}
	return s.tie()
}

// tie adds up the gradients of a tied embedding, of which the first stage of a pipeline has those of
// the input, and the last stage those of the head. Both then make the same update.
func (s *step) tie() error {
	m := s.m
	at, stages := m.par.stage()
	w, other := m.embedding, stages-1
	if at > 0 {
		w, other = m.head.weight, 0
	}
	if m.Config.Frozen || w == nil || !w.tied {
		return nil
	}
	grad := m.store.slots()[m.store.slotOf(w)].grad // of shards, only the embedding is in this slot
	return aclnn.Compose(m.st, func(s *aclnn.Scope) {
		theirs := s.Like(grad)
		s.Do(func() error {
			return m.par.Pipeline.Exchange(m.st, hccl.SendTo(other, grad), hccl.RecvFrom(other, theirs))
		})
		aclnn.Launch(s, aclnn.InplaceAdd, aclnn.InplaceAddParams{Self: grad, Other: theirs, Alpha: aclnn.Float(1)})
	})
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
	chunks, err := s.m.par.positions(s.m.Config, b.Length)
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

// stage is a chunk of this rank's layers in a step. It implements parallel.WeightStage.
type stage struct {
	*step
	chunk int
}

// Forward computes the layers on a micro-batch, and the loss in the last stage.
func (s stage) Forward(ctx context.Context, _ *acl.Stream, at int, x, out *aclnn.Tensor) error {
	m := s.m
	defer m.measure(&m.peaks.Forward)()
	each := m.par.Shard && !m.Config.Frozen // shards take the gradients of each micro-batch
	u := &micro{pass: m.pass(ctx, autograd.Options{Accumulate: at > 0 && !each || m.multi != nil, DeferWeights: m.par.ZeroBubble, Offload: m.offload})}
	s.live[microChunk{at, s.chunk}] = u
	p := u.pass
	p.training, p.chunk, p.complete, p.adds = true, s.chunk, each || at == len(s.batches)-1, each && at > 0
	p.balances, p.room = m.biasRate > 0, s.room
	p.draws = map[*Adapter]uint64{}
	for a, n := range s.draws {
		p.draws[a] = n + uint64(at) + 1
	}
	balance := m.Config.balanceScale() * s.share()
	if m.Config.Score { // the losses of sequences have no number for it, and transformers' classifiers do not add it
		balance = 0
	}
	p.balanced = balance != 0
	var err error
	if u.in, err = m.inputs(p, s.batches[at]); err != nil {
		return err
	}
	if x != nil {
		u.input = autograd.NewReceived(x)
	}
	s.chooseLoss(u)
	u.out = m.forward(p, u.in, u.input)
	if len(p.routings) > 0 {
		loss := p.LoadBalance(balance, p.routings...)
		// The total over ranks is divided by the number of tensor-parallel ranks, because these have
		// the same cross-entropy; but their tokens of the balance differ.
		s.add(loss, len(s.targets)-1, float64(m.tp.Size()))
		u.start(autograd.Output{Var: loss, Factor: m.scale.factor})
	}
	if out != nil {
		p.do(func() error { return aclnn.Copy(m.st, out, u.out.Value) })
		return p.Err()
	}
	s.crossEntropy(u)
	return p.Err()
}

// start adds a gradient with which the backward pass starts, if something needs it.
func (u *micro) start(o autograd.Output) {
	if o.Var.NeedsGrad() {
		u.gradient = append(u.gradient, o)
	}
}

// add adds a weighted loss to those of the step.
func (s *step) add(loss *autograd.Var, number int, weight float64) {
	s.pass.do(func() error {
		if loss.Value == nil { // after an error of its pass
			return nil
		}
		return aclnn.InplaceAdd(s.m.st, aclnn.InplaceAddParams{Self: s.loss.Narrow(0, int64(number), 1), Other: loss.Value, Alpha: aclnn.Float(weight)})
	})
}

// weight returns the factor of the mean loss of some labels in the loss of the step.
func (s *step) weight(number, labelled int) float64 {
	if s.factors != nil {
		return float64(labelled) * s.factors[number]
	}
	return float64(labelled) / float64(s.targets[number])
}

// share returns the weight of this rank's tokens of a micro-batch in the balance loss, which is a
// mean over micro-batches, stages and ranks, as in other frameworks.
func (s *step) share() float64 {
	_, stages := s.m.par.stage()
	return 1 / float64(len(s.batches)*stages*s.m.par.chunks()*int(size(s.m.par.Data)*s.m.tp.Size()))
}

// chooseLoss lets the head compute the loss of a micro-batch at once if it would have too many logits.
func (s *step) chooseLoss(u *micro) {
	m, p := s.m, u.pass
	if !m.finishes(p.chunk) {
		return
	}
	if m.Config.Score {
		u.in.weighted = true
		u.in.loss = func(x *autograd.Var) *autograd.Var { return s.scores(u, x) }
		return
	}
	if !m.chunks(u) {
		return
	}
	if m.special() || len(u.in.parts) > 1 {
		u.in.weighted = true
		u.in.loss = func(x *autograd.Var) *autograd.Var { return s.inChunks(u, x) }
		return
	}
	u.in.loss = func(x *autograd.Var) *autograd.Var {
		return p.LinearCrossEntropy(x, m.head.weight.Var, p.Input(u.in.labels), ignored, autograd.LinearLoss{Parallel: m.tp, Bytes: m.memory.LogitBytes})
	}
}

// inChunks is the loss of a head that adapters add to, of several adapters, or of logits that are looked at: each chunk of rows has logits, which the backward pass computes
// again. It adds the losses to those of the step and returns what the gradients come from, or x if there are none.
func (s *step) inChunks(u *micro, x *autograd.Var) *autograd.Var {
	m, p := s.m, u.pass
	total, multi := x, p.multi
	for _, part := range u.in.parts {
		size := m.chunkRows()
		for from := int64(0); from < part.rows; from += size {
			first, rows := part.first+from, min(size, part.rows-from)
			labelled := counted(u.in.targets[first : first+rows])
			if labelled == 0 {
				continue
			}
			loss := p.Checkpoint("chunk of the loss", func() *autograd.Var {
				defer func(draw int64) { p.multi, p.draw = multi, draw }(p.draw)
				p.draw = from
				if multi != nil {
					p.multi = &multiAdapterPass{multiAdapter: multi.multiAdapter, parts: []portion{{number: part.number, rows: rows}}, rows: rows}
				}
				logits := m.head.forward(p, p.Narrow(x, 0, first, rows))
				p.finite(logits, "the logits")
				return p.ParallelCrossEntropy(p.tp, logits, p.Input(u.in.labels.Narrow(0, first, rows)), ignored)
			})
			weight := s.weight(part.number, labelled)
			s.add(loss, part.number, weight)
			if !part.trained {
				continue
			}
			if loss = p.Scale(loss, weight); total == x {
				total = loss
			} else {
				total = p.Add(total, loss)
			}
		}
	}
	if total != x {
		u.in.trains = true
	}
	return total
}

// crossEntropy adds the losses of a micro-batch to those of the step. It weights the mean over the labels of each part by
// their share of all labels of the step.
func (s *step) crossEntropy(u *micro) {
	p, started := u.pass, len(u.gradient)
	if u.in.trains {
		u.start(autograd.Output{Var: u.out, Factor: s.m.scale.factor})
	}
	for i, logits := range u.parts() {
		part := u.in.parts[i]
		if part.labelled == 0 || p.Err() != nil {
			continue
		}
		loss := u.out
		if u.in.loss == nil {
			loss = p.ParallelCrossEntropy(p.tp, logits, p.Input(u.in.labels.Narrow(0, part.first, part.rows)), ignored)
		}
		weight := s.weight(part.number, part.labelled)
		s.add(loss, part.number, weight)
		if part.trained {
			u.start(autograd.Output{Var: loss, Factor: weight * s.m.scale.factor})
		}
	}
	if len(u.gradient) == started && p.Records() { // the other ranks of a sequence may have labels, and exchange gradients with this one
		p.queue(func(s *aclnn.Scope) {
			u.start(autograd.Output{Var: u.out, Grad: zeros(s, u.out.Value.DType(), u.out.Shape()...)})
		})
	}
}

// parts returns the rows of the logits that have a loss of their own.
func (u *micro) parts() []*autograd.Var {
	switch {
	case u.in.weighted:
		return nil
	case len(u.in.parts) == 1 || u.pass.Err() != nil:
		return []*autograd.Var{u.out}
	}
	var rows []int64
	for _, part := range u.in.parts {
		rows = append(rows, part.rows)
	}
	return u.pass.Split(u.out, 0, rows...)
}

// Backward adds the gradients of a micro-batch to those of the weights, or with ZeroBubble leaves those of linear layers to BackwardWeights. In the last micro-batch
// their exchange overlaps with the computation of the remaining ones.
func (s stage) Backward(_ context.Context, _ *acl.Stream, at int, dOut, dIn *aclnn.Tensor) error {
	defer s.m.measure(&s.m.peaks.Backward)()
	u := s.live[microChunk{at, s.chunk}]
	p := u.pass
	p.backward = true
	if u.input != nil {
		u.input.Grad = dIn
	}
	if dOut != nil {
		u.start(autograd.Output{Var: u.out, Grad: dOut})
	}
	if len(u.gradient) > 0 {
		p.Fail(p.BackwardFrom(u.gradient...))
	}
	if s.m.par.ZeroBubble {
		return p.Err()
	}
	return s.end(at)
}

// BackwardWeights computes the gradients that Backward has left.
func (s stage) BackwardWeights(_ context.Context, _ *acl.Stream, at int) error {
	defer s.m.measure(&s.m.peaks.Backward)()
	if u := s.live[microChunk{at, s.chunk}]; len(u.gradient) > 0 {
		u.pass.Fail(u.pass.BackwardWeights())
	}
	return s.end(at)
}

// end frees a micro-batch.
func (s stage) end(at int) error {
	p := s.live[microChunk{at, s.chunk}].pass
	delete(s.live, microChunk{at, s.chunk})
	return errors.Join(p.Err(), p.Close())
}

// draw numbers the passes of the micro-batches for the masks of dropout, which are the same in any order of the passes.
func (s *step) draw() {
	for _, a := range s.m.trainedAdapters() {
		if a != nil {
			s.draws[a] = a.passes
			a.passes += uint64(len(s.batches))
		}
	}
}

// gather lets ranks that divide experts gather tokens, with room for a multiple of the rows of a balanced routing.
func (s *step) gather(capacity float64) {
	if capacity == 0 || s.m.ep.Size() == 1 {
		return
	}
	s.room = expertRoom{capacity: capacity, side: s.m.side}
	s.pass.queue(func(scope *aclnn.Scope) { s.room.excess = zeros(scope, aclnn.Int32, 1) })
}

// again reports whether the step must be computed once more, and undoes what it has counted.
func (s *step) again() bool {
	if s.excess == 0 {
		return false
	}
	for a, n := range s.draws {
		a.passes = n
	}
	s.m.overflow.steps++
	s.m.overflow.most = max(s.m.overflow.most, s.excess)
	return true
}

// sum adds up the losses of all ranks.
func (s *step) sum() error {
	if s.room.excess != nil {
		if err := aclnn.Copy(s.m.st, s.loss.Narrow(0, int64(len(s.targets)), 1), s.room.excess); err != nil {
			return err
		}
	}
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
	values := make([]float32, len(s.targets)+1)
	if err := aclnn.CopyFromDevice(ctx, s.m.st, values, s.loss); err != nil {
		return nil, err
	}
	for _, v := range values[:len(s.targets)] {
		losses = append(losses, float64(v)/float64(s.m.tp.Size())) // tensor-parallel ranks have the same loss
	}
	s.excess = int(values[len(s.targets)])
	return losses, nil
}

// readScalar waits for the stream and reads one float32.
func readScalar(ctx context.Context, st *acl.Stream, t *aclnn.Tensor) (float64, error) {
	var v [1]float32
	err := aclnn.CopyFromDevice(ctx, st, v[:], t)
	return float64(v[0]), err
}
