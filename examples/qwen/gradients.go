package qwen

import (
	"context"
	"errors"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// state is what a forward pass of a stage leaves for the backward pass.
type state struct {
	layers []layerState
	final  normState
	normed *aclnn.Tensor // what the head reads
	out    *aclnn.Tensor // for the next stage, or the logits
}

// reading runs a part of the model while its units of weights are open, and not at all when
// they cannot be opened.
func (p *pass) reading(part func(), units ...int) {
	for _, u := range units {
		p.store.open(p, u)
	}
	if p.err == nil {
		part()
	}
	for _, u := range units {
		p.store.close(p, u)
	}
}

// forward runs the stage's layers; x is what the stage before has made, nil in the first.
func (m *Model) forward(p *pass, in *inputs, x *aclnn.Tensor) *state {
	s := &state{}
	if m.first() {
		p.reading(func() { x = m.embed(p, in) }, embeddingUnit)
	}
	for i, l := range m.layers {
		var ls layerState
		p.reading(func() { x, ls = l.forward(p, x, in.layer(i)) }, i+1)
		if p.err != nil {
			return s
		}
		s.layers = append(s.layers, ls)
		if e, ok := ls.fed.(interface{ routing() routed }); ok {
			p.balance.layers = append(p.balance.layers, e.routing())
		}
	}
	s.out = x
	if m.last() {
		p.reading(func() {
			x, s.final = m.finalNorm.forward(p, in.newest(p, x))
			s.normed = p.enter(x)
			s.out = m.head.forward(p, s.normed)
		}, m.headUnits()...)
	}
	return s
}

// headUnits are what the head reads: of a tied one the embedding, too.
func (m *Model) headUnits() []int {
	if m.Config.TieWordEmbeddings {
		return []int{m.headUnit(), embeddingUnit}
	}
	return []int{m.headUnit()}
}

// embed looks the tokens up: [tokens, hidden], or with sequence parallelism this rank's rows.
func (m *Model) embed(p *pass, in *inputs) *aclnn.Tensor {
	rows := in.batch * in.length
	if m.tp.Sequence() {
		rows /= m.tp.Size()
	}
	x := p.tensor(m.dt, rows, int64(m.Config.HiddenSize))
	if p.err == nil {
		p.err = m.tp.Embedding(p.ctx, p.st, &ops.EmbeddingArgs{Weight: m.embedding.Value, IDs: in.ids, Out: x})
	}
	return x
}

// backward writes the gradient of every weight of the stage, given that of its result; dIn,
// nil in the first stage, receives that of its input. In the last micro-batch the gradients
// are then ready to be exchanged.
func (m *Model) backward(p *pass, in *inputs, s *state, dx, dIn *aclnn.Tensor, lastMicro bool) {
	// of runs the way back through a part that writes the gradients of its units. Those of the
	// first are then complete.
	of := func(part func(), units ...int) {
		p.reading(func() {
			for _, u := range units {
				p.store.begin(p, u)
			}
			if p.err == nil {
				part()
			}
			if lastMicro {
				p.store.ready(p, units[0])
			}
		}, units...)
	}
	if m.last() {
		of(func() { dx = m.finalNorm.backward(p, s.final, p.leave(m.head.backward(p, s.normed, dx))) }, m.headUnits()...)
	}
	for i := len(m.layers) - 1; i >= 0; i-- {
		of(func() { dx = m.layers[i].backward(p, s.layers[i], in, dx) }, i+1)
	}
	if !m.first() {
		p.copy(dIn, dx)
		return
	}
	p.store.begin(p, embeddingUnit)
	if p.err == nil {
		// A tied head has written its share of the gradient already.
		more := m.Config.TieWordEmbeddings || p.accumulate
		p.err = m.tp.EmbeddingGrad(p.ctx, p.st, &ops.EmbeddingGradArgs{DOut: dx, IDs: in.ids, DWeight: m.embedding.Grad, Accumulate: more})
	}
	if lastMicro {
		p.store.ready(p, embeddingUnit)
	}
}

// Gradients runs forward and backward on a batch, this rank's data: every parameter's gradient
// is then that of the loss, which it returns. The loss is the mean cross-entropy over the labels
// of all ranks that count, and for experts that of their balance if the configuration asks for
// it.
func (m *Model) Gradients(ctx context.Context, b Batch) (loss float64, err error) {
	s, err := m.newStep(ctx, b)
	if s != nil {
		defer func() { err = errors.Join(err, s.close()) }()
	}
	if err != nil {
		return 0, err
	}
	rows, err := s.rows()
	if err != nil {
		return 0, err
	}
	pipeline := ops.NewPipeline(m.par.Pipeline, m.dt, rows, int64(m.Config.HiddenSize))
	if err := pipeline.Run(ctx, m.st, len(s.batches), s); err != nil {
		return 0, errors.Join(err, m.store.restart())
	}
	if err := m.store.finish(); err != nil {
		return 0, err
	}
	return s.total(ctx)
}

// Logits runs the forward pass and returns the logits, [size, length, vocabulary].
func (m *Model) Logits(ctx context.Context, b Batch) (logits []float32, err error) {
	if err := m.alone("Logits"); err != nil {
		return nil, err
	}
	p := m.pass(ctx)
	defer func() { err = errors.Join(err, p.close()) }()
	in, err := m.inputs(p, b)
	if err != nil {
		return nil, err
	}
	return p.read(m.forward(p, in, nil).out)
}
