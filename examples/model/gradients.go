package model

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/ops/autograd"
)

// reading runs a part of the forward pass while the given units of weights are open. In its backward pass they are open too, unless
// the part says that its gradient reads no weights, and have gradients; those of the first unit are then complete.
func (p *pass) reading(w section, units ...int) {
	open := func() {
		for _, u := range units {
			p.store.open(p, u)
		}
	}
	closed := func() {
		for _, u := range units {
			p.store.close(p, u)
		}
	}
	var span acl.Range
	p.Around(autograd.Hooks{
		BeforeForward: func() error {
			span = p.Stream().Range("forward of " + w.name)
			open()
			return nil
		},
		AfterForward: func() error {
			closed()
			span.End()
			return nil
		},
		BeforeBackward: func() error {
			span = p.Stream().Range("backward of " + w.name)
			if !w.lookup {
				open()
			}
			for _, u := range units {
				if p.Err() == nil {
					p.trained.begin(p, u)
				}
			}
			return nil
		},
		AfterBackward: func() error {
			p.finiteGradients(units[0])
			if p.lastMicro {
				p.trained.ready(p, units[0])
			}
			if !w.lookup {
				closed()
			}
			span.End()
			return nil
		},
	}, w.forward)
}

// section is a part of a forward pass.
type section struct {
	name    string
	forward func()
	lookup  bool // its gradient reads no weights
}

// forward runs the stage's layers; x is the output of the previous stage, nil in the first. It returns the input of the next stage,
// or of the last one the logits, or without a head what the head would read; after an error a variable without a value.
func (m *Model) forward(p *pass, in *inputs, x *autograd.Var) *autograd.Var {
	if m.first() {
		x = &autograd.Var{}
		p.reading(section{"the embedding", func() { x = m.embed(p, in) }, true}, embeddingUnit)
		p.finite(x, "the embedding of the tokens")
	}
	from, _ := m.par.layers(m.Config.Layers)
	var y *autograd.Var // of the residual stream x + y
	for i, l := range m.layers {
		at := from + i
		x = p.finiteGradient(x, "the gradient of what enters layer %d", at)
		p.reading(section{name: fmt.Sprint("layer ", at), forward: func() { x, y = p.layer(l, fmt.Sprint("layer ", at), x, y, in.layer(i)) }}, i+1)
		p.finite(x, "layer %d, after its attention or delta net", at)
		p.finite(y, "layer %d, its feed-forward part", at)
		if p.Err() != nil {
			return x
		}
	}
	switch {
	case m.last():
		out := &autograd.Var{}
		p.reading(section{name: "the head", forward: func() { out = p.Block("head", func() *autograd.Var { return m.output(p, in, x, y) }) }}, m.headUnits()...)
		p.finite(out, "the logits")
		return out
	case y != nil:
		return p.Add(x, y)
	}
	return x
}

// layer runs a layer, frees what it has read, and keeps the routing of its experts if that has a loss.
func (p *pass) layer(l layer, name string, x, y *autograd.Var, in *inputs) (_, _ *autograd.Var) {
	var routing *autograd.Routing
	results := p.Blocks(name, func() []*autograd.Var {
		first, second, r := l.forward(p, x, y, in)
		if results := []*autograd.Var{first, second}; r == nil || !p.balanced {
			return results
		} else {
			routing = r
			return append(results, r.Vars()...)
		}
	})
	if routing != nil {
		p.routings = append(p.routings, *routing)
	}
	p.Free(x, y)
	return results[0], results[1]
}

// output is the part after the layers.
func (m *Model) output(p *pass, in *inputs, x, y *autograd.Var) *autograd.Var {
	_, normed := m.finalNorm.after(p, in.newest(p, x), in.newest(p, y))
	if normed = p.enter(normed); in.headless {
		return normed
	}
	return m.head.forward(p, normed)
}

// headUnits returns the units that the head reads, including the embedding if it is tied.
func (m *Model) headUnits() []int {
	if m.embedding != nil && m.head.weight == m.embedding {
		return []int{m.headUnit(), embeddingUnit}
	}
	return []int{m.headUnit()}
}

// embed looks up the tokens: [tokens, hidden], or with sequence parallelism this rank's rows.
func (m *Model) embed(p *pass, in *inputs) *autograd.Var {
	return p.ParallelEmbedding(m.tp, m.embedding.Var, p.Input(in.ids))
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
	p := m.pass(ctx, autograd.Options{NoGrad: true})
	defer func() { err = errors.Join(err, p.Close()) }()
	in, err := m.inputs(p, b)
	if err != nil {
		return nil, err
	}
	in.headless = headless
	values = p.read(m.forward(p, in, nil).Value)
	return values, p.Err()
}
