package model

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// state holds the tensors of a stage's forward pass that the backward pass needs.
type state struct {
	layers []layerState
	final  normState
	normed *aclnn.Tensor // input of the head
	out    *aclnn.Tensor // input of the next stage, or the logits
}

// reading runs part while the given units of weights are open. It does nothing if they cannot be
// opened.
func (p *pass) reading(part func(), units ...int) {
	for _, u := range units {
		p.store.open(p, u)
	}
	if p.Err() == nil {
		part()
	}
	for _, u := range units {
		p.store.close(p, u)
	}
}

// forward runs the stage's layers; x is the output of the previous stage, nil in the first.
func (m *Model) forward(p *pass, in *inputs, x *aclnn.Tensor) *state {
	s := &state{}
	if m.first() {
		p.reading(func() { x = m.embed(p, in) }, embeddingUnit)
		p.finite(x, "the embedding of the tokens")
	}
	from, _ := m.par.layers(m.Config.Layers)
	var y *aclnn.Tensor // of the residual stream x + y
	for i, l := range m.layers {
		var ls layerState
		span := m.st.Range(fmt.Sprintf("forward of layer %d", i))
		p.reading(func() { x, y, ls = l.forward(p, x, y, in.layer(i)) }, i+1)
		span.End()
		p.finite(x, "layer %d, after its attention or delta net", from+i)
		p.finite(y, "layer %d, its feed-forward part", from+i)
		if p.Err() != nil {
			return s
		}
		s.layers = append(s.layers, ls)
		if e, ok := ls.fed.(interface{ routing() routed }); ok {
			p.balance.layers = append(p.balance.layers, e.routing())
		}
	}
	switch {
	case m.last():
		p.reading(func() {
			_, x, s.final = m.finalNorm.after(p, in.newest(p, x), in.newest(p, y))
			s.normed = p.enter(x)
			if !in.headless {
				s.out = m.head.forward(p, s.normed)
			}
		}, m.headUnits()...)
		p.finite(s.out, "the logits")
	case y != nil:
		s.out = p.sum(x, y)
	default:
		s.out = x
	}
	return s
}

// headUnits returns the units that the head reads, including the embedding if it is tied.
func (m *Model) headUnits() []int {
	if m.embedding != nil && m.head.weight == m.embedding {
		return []int{m.headUnit(), embeddingUnit}
	}
	return []int{m.headUnit()}
}

// embed looks up the tokens: [tokens, hidden], or with sequence parallelism this rank's rows.
func (m *Model) embed(p *pass, in *inputs) *aclnn.Tensor {
	rows := in.batch * in.length
	if m.tp.Sequence() {
		rows /= m.tp.Size()
	}
	x := p.Tensor(m.dt, rows, int64(m.Config.HiddenSize))
	p.Do(func() error {
		return m.tp.Embedding(p.ctx, p.Stream, &ops.EmbeddingArgs{Weight: m.embedding.Value, IDs: in.ids, Out: x})
	})
	return x
}

// backward writes the gradient of every weight of the stage, given the gradient of its output. dIn
// receives the gradient of its input; it is nil in the first stage. In the last micro-batch the
// gradients are then ready to be exchanged.
func (m *Model) backward(p *pass, in *inputs, s *state, dx, dIn *aclnn.Tensor, lastMicro bool) {
	p.backward = true
	trained := []*parameters{&m.params}
	switch {
	case p.multi != nil:
		trained = nil
		for _, a := range p.multi.active() {
			trained = append(trained, &a.params)
		}
	case p.frozen:
		trained = []*parameters{&p.adapter.params}
	}
	// of runs the backward pass of a part that writes the gradients of its units. Those of the
	// first unit are then complete.
	of := func(part func(), units ...int) {
		p.reading(func() {
			for _, u := range units {
				p.trained.begin(p, u)
			}
			if p.Err() == nil {
				part()
			}
			for _, ps := range trained {
				p.finiteGradients(ps, units[0])
			}
			if lastMicro {
				p.trained.ready(p, units[0])
			}
		}, units...)
	}
	if m.last() {
		of(func() { dx = m.finalNorm.backward(p, s.final, p.leave(m.head.backward(p, s.normed, dx))) }, m.headUnits()...)
	}
	from, _ := m.par.layers(m.Config.Layers)
	for i := len(m.layers) - 1; i >= 0; i-- {
		span := m.st.Range(fmt.Sprintf("backward of layer %d", i))
		of(func() { dx = m.layers[i].backward(p, s.layers[i], in, dx) }, i+1)
		span.End()
		if p.dt != aclnn.Float16 {
			p.finite(dx, "the gradient of what enters layer %d", from+i)
		}
	}
	if !m.first() {
		p.Copy(dIn, dx)
		return
	}
	if p.frozen {
		return
	}
	p.trained.begin(p, embeddingUnit)
	// A tied head has already written its share of the gradient.
	more := m.head.weight == m.embedding || p.accumulate
	p.Do(func() error {
		return m.tp.EmbeddingGrad(p.ctx, p.Stream, &ops.EmbeddingGradArgs{DOut: dx, IDs: in.ids, DWeight: m.embedding.Grad, Accumulate: more})
	})
	if lastMicro {
		p.trained.ready(p, embeddingUnit)
	}
}

// Gradients runs forward and backward on this rank's batch: it computes every parameter's gradient
// of the loss, and returns the loss. The loss is the mean cross-entropy over the counted labels of
// all ranks, plus the load balancing loss of the experts if the configuration asks for it.
func (m *Model) Gradients(ctx context.Context, b Batch) (loss float64, err error) {
	if err := m.checkPlain(b); err != nil {
		return 0, err
	}
	s, err := m.newStep(ctx, b)
	if s != nil {
		defer func() { err = errors.Join(err, s.close()) }()
	}
	if err != nil {
		return 0, err
	}
	if err := s.run(ctx); err != nil {
		return 0, err
	}
	return s.total(ctx)
}

// Logits runs the forward pass and returns the logits, [size, length, vocabulary].
func (m *Model) Logits(ctx context.Context, b Batch) (logits []float32, err error) {
	if err := m.alone("Logits"); err != nil {
		return nil, err
	}
	return m.outputs(ctx, b, false)
}

// Hidden runs the forward pass and returns the normalised states that the head would read, [size,
// length, hidden]. Their mean over the tokens of a text is an embedding of it.
func (m *Model) Hidden(ctx context.Context, b Batch) (states []float32, err error) {
	if err := m.together("Hidden"); err != nil {
		return nil, err
	}
	return m.outputs(ctx, b, true)
}

// outputs runs the forward pass and returns the logits, or what the head would read.
func (m *Model) outputs(ctx context.Context, b Batch, headless bool) (values []float32, err error) {
	if err := m.checkPlain(b); err != nil {
		return nil, err
	}
	p := m.pass(ctx)
	defer func() { err = errors.Join(err, p.Close()) }()
	in, err := m.inputs(p, b)
	if err != nil {
		return nil, err
	}
	in.headless = headless
	s := m.forward(p, in, nil)
	if p.Err() != nil {
		return nil, p.Err()
	}
	out := s.out
	if headless {
		out = s.normed
	}
	values = p.read(out)
	return values, p.Err()
}
