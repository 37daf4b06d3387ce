package model

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/half"
	"github.com/goascend/cann/ops/autograd"
)

// reading runs a part of the forward pass while its units of weights are open. In its backward pass they are open too, unless
// the part says that its gradient reads no weights, and have gradients; those of the first unit are then complete.
func (p *pass) reading(w section) {
	var span acl.Range
	p.Around(autograd.Hooks{
		BeforeForward: func() error {
			span = p.Stream().Range("forward of " + w.name)
			p.store.open(p, w.units, w.next)
			return nil
		},
		AfterForward: func() error {
			p.store.close(p, w.units)
			span.End()
			return nil
		},
		BeforeBackward: func() error {
			span = p.Stream().Range("backward of " + w.name)
			if !w.lookup {
				p.store.open(p, w.units, w.previous)
			}
			for _, u := range w.units {
				if p.Err() == nil {
					p.trained.begin(p, u)
				}
			}
			return nil
		},
		AfterBackward: func() error {
			if !w.lookup {
				p.store.close(p, w.units)
			}
			span.End()
			return nil
		},
		Complete: func() error {
			p.finiteGradients(w.units[0])
			if p.complete {
				p.trained.ready(p, w.units[0])
			}
			return nil
		},
	}, w.forward)
}

// section is a part of a forward pass.
type section struct {
	name     string
	units    []int
	next     []int // units of what the forward pass reads after it, if any
	previous []int // units of what the backward pass reads after it
	lookup   bool  // its gradient reads no weights
	forward  func()
}

// forward runs the layers of a chunk; x is the output of the previous stage, nil in the first. It returns the input of the next stage,
// or of the last one the logits, the loss of in.loss, or without a head what the head would read; after an error a variable without a value.
func (m *Model) forward(p *pass, in *inputs, x *autograd.Var) *autograd.Var {
	from, to := m.chunk(p.chunk)
	if m.starts(p.chunk) {
		x = &autograd.Var{}
		p.reading(section{name: "the embedding", units: []int{embeddingUnit}, next: []int{layerUnit(from)}, lookup: true, forward: func() { x = m.embed(p, in) }})
		p.finite(x, "the embedding of the tokens")
	}
	s := stream{x: x}
	for i, n := from, m.group(); i < to && p.Err() == nil; i += n {
		s = m.grouped(p, in, s, i, min(i+n, to))
	}
	p.routings = s.routings
	y := s.y
	if x = s.x; p.Err() != nil {
		return x
	}
	switch {
	case m.finishes(p.chunk):
		out := &autograd.Var{}
		head := section{name: "the head", units: m.headUnits(), forward: func() { out = p.Block("head", func() *autograd.Var { return m.output(p, in, x, y) }) }}
		if p.Records() { // the backward pass begins with it
			head.next = head.units
		}
		head.previous = []int{layerUnit(to - 1 - (to-1-from)%m.group())}
		p.reading(head)
		p.finite(out, "the logits")
		return out
	case y != nil:
		return p.Add(x, y)
	}
	return x
}

// stream is the residual stream x + y between layers, of which y may be nil, and the routings of the experts so far, if these have a loss.
type stream struct {
	x, y     *autograd.Var
	routings []autograd.Routing
}

// within runs a part of the layers as a block, or as a checkpoint, and frees what it has read.
func (p *pass) within(name string, checkpoint bool, before stream, body func() stream) (after stream) {
	run := p.Blocks
	if checkpoint {
		run = p.Checkpoints
	}
	results := run(name, func() []*autograd.Var {
		s := body()
		if after.x == nil { // the first time, and not when it is recomputed
			after = s
		}
		results := []*autograd.Var{s.x, s.y}
		for _, r := range s.routings[len(before.routings):] {
			results = append(results, r.Vars()...)
		}
		return results
	})
	after.x, after.y = results[0], results[1]
	p.Free(before.x, before.y)
	return after
}

// grouped runs the layers from a number to another one, which are recomputed together if they are several.
func (m *Model) grouped(p *pass, in *inputs, s stream, from, to int) stream {
	all := func() stream {
		now := s
		for i := from; i < to && p.Err() == nil; i++ {
			now = m.layer(p, in, now, i)
		}
		return now
	}
	if to-from == 1 {
		return all()
	}
	return p.within(fmt.Sprintf("layers %d to %d", from, to-1), true, s, all)
}

// layer runs a layer of this stage.
func (m *Model) layer(p *pass, in *inputs, s stream, i int) (after stream) {
	at := m.layers[i].number
	s.x = p.finiteGradient(s.x, "the gradient of what enters layer %d", at)
	name := fmt.Sprint("layer ", at)
	after = stream{x: &autograd.Var{}, y: &autograd.Var{}}
	next, previous := m.neighbours(p, i)
	p.reading(section{name: name, units: []int{layerUnit(i)}, next: next, previous: previous, forward: func() {
		after = p.within(name, p.recompute == RecomputeBlock || p.recompute == RecomputeFull, s, func() stream {
			x, y, routing := m.layers[i].forward(p, s.x, s.y, in.layer(i))
			now := stream{x, y, s.routings}
			if routing != nil && p.balanced {
				now.routings = append(slices.Clip(now.routings), *routing)
			}
			return now
		})
	}})
	p.finite(after.x, "layer %d, after its attention or delta net", at)
	p.finite(after.y, "layer %d, its feed-forward part", at)
	return after
}

// neighbours returns the units that are read after those of a layer: next in the forward pass, and previous in the backward pass, which computes groups of layers again.
func (m *Model) neighbours(p *pass, i int) (next, previous []int) {
	from, to := m.chunk(p.chunk)
	n := m.group()
	first := i - (i-from)%n
	switch {
	case p.backward && i == min(first+n, to)-1: // of a group that is computed again
		next = []int{layerUnit(i)}
	case i+1 < to:
		next = []int{layerUnit(i + 1)}
	case m.finishes(p.chunk):
		next = m.headUnits()
	}
	switch {
	case i > first:
		previous = []int{layerUnit(i - 1)}
	case first > from:
		previous = []int{layerUnit(first - n)}
	}
	return next, previous
}

// output is the part after the layers.
func (m *Model) output(p *pass, in *inputs, x, y *autograd.Var) *autograd.Var {
	var normed *autograd.Var
	if in.kept != nil {
		_, normed = m.finalNorm.after(p, x, y)
		p.do(func() error { return aclnn.Copy(p.Stream(), in.kept, normed.Value) })
		normed = in.newest(p, normed)
	} else {
		_, normed = m.finalNorm.after(p, in.newest(p, x), in.newest(p, y))
	}
	if !m.Config.Score { // whose head is whole on every rank
		normed = p.enter(normed)
	}
	switch {
	case in.headless:
		return normed
	case in.loss != nil:
		return in.loss(normed)
	}
	if m.tables.dense.weight != nil {
		normed = p.Tanh(m.tables.dense.forward(p, normed))
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
	x := p.ParallelEmbedding(m.tp, m.embedding.Var, p.Input(in.ids))
	switch {
	case m.Config.Encoder():
		return m.embedEncoder(p, in, x)
	case !m.Config.family().gemma:
		return x
	}
	scale := float32(math.Sqrt(float64(m.Config.HiddenSize)))
	switch m.dt { // the factor has the dtype of the weights
	case aclnn.BFloat16:
		scale = half.BFloat16FromFloat32(scale).Float32()
	case aclnn.Float16:
		scale = half.Float16FromFloat32(scale).Float32()
	}
	return p.scaled(x, float64(scale))
}

// Gradients runs forward and backward on this rank's batch: it computes every parameter's gradient
// of the loss, and returns the loss. The loss is the mean cross-entropy over the counted labels of
// all ranks, plus the load balancing loss of the experts if the configuration asks for it.
func (m *Model) Gradients(ctx context.Context, b Batch) (loss float64, err error) {
	if err := m.checkPlain(b); err != nil {
		return 0, err
	}
	losses, _, err := m.gradients(ctx, b)
	if err != nil {
		return 0, err
	}
	return losses[0], nil
}

// gradients computes the gradients of a batch, if need be twice, and returns the losses over all ranks and how many labels they are of, by portion.number.
func (m *Model) gradients(ctx context.Context, b Batch) (losses []float64, targets []int, err error) {
	losses, targets, again, err := m.attempt(ctx, b, m.par.ExpertCapacity)
	if again && err == nil {
		losses, targets, _, err = m.attempt(ctx, b, 0)
	}
	return losses, targets, err
}

// attempt is gradients with room for a multiple of the rows of a balanced routing. again reports that experts got more.
func (m *Model) attempt(ctx context.Context, b Batch, capacity float64) (losses []float64, targets []int, again bool, err error) {
	s, err := m.newStep(ctx, b)
	if s != nil {
		defer func() { err = errors.Join(err, s.close()) }()
	}
	if err != nil {
		return nil, nil, false, err
	}
	s.gather(capacity)
	if err := s.run(ctx); err != nil {
		return nil, nil, false, err
	}
	losses, err = s.totals(ctx)
	return losses, s.targets, err == nil && s.again(), err
}

// Logits runs the forward pass and returns the logits, [size, length, vocabulary].
func (m *Model) Logits(ctx context.Context, b Batch) (logits []float32, err error) {
	if err := m.alone("Logits"); err != nil {
		return nil, err
	}
	return m.outputs(ctx, b, false)
}

// Hidden runs the forward pass and returns the normalised states that the head would read, [size,
// length, hidden]. Their mean over the tokens of a text, the first or the last of them is an embedding of it. Padding, behind Batch.Lengths, has states
// without a meaning.
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
	if m.Config.Encoder() && !headless {
		return nil, errEncoder
	}
	return m.read(ctx, b, headless)
}

// read is outputs of a batch that was checked.
func (m *Model) read(ctx context.Context, b Batch, headless bool) (values []float32, err error) {
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
