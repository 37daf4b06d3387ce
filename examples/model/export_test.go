package model

import (
	"context"
	"errors"
)

// Queue queues the step of a Decoder without waiting for it, as Next does.
func (d *Decoder) Queue(ctx context.Context, tokens []int32) error { return d.queue(ctx, tokens) }

// Queue queues a step of a Trainer without waiting for it, as Step does.
func (t *Trainer) Queue(ctx context.Context, b Batch) error { return t.queue(ctx, b) }

// Queue queues a pass without waiting for it, as advance does.
func (s *Steps) Queue(ctx context.Context, pieces []Piece, eager bool) error {
	size, _ := s.size(pieces)
	x := s.graphs[size]
	x.give(pieces)
	if eager {
		return x.launch(ctx)
	}
	return x.graph.Replay(s.g.m.st)
}

// Graphs is the number of captured graphs.
func (d *Decoder) Graphs() int { return len(d.graphs) }

// StateElements is how many elements of float32 weights, and of moments, the optimiser keeps on this rank.
func (o *Optimizer) StateElements() (weights, moments int64) {
	for i, s := range o.store.slots() {
		weights += s.master.Len()
		moments += o.moments[i].average.Len() + o.moments[i].square.Len()
	}
	return weights, moments
}

// ForwardAlone queues the forward pass of a training step and frees it.
func (m *Model) ForwardAlone(ctx context.Context, b Batch) error {
	s, err := m.newStep(ctx, b)
	if err != nil {
		return err
	}
	return errors.Join(stage{step: s}.Forward(ctx, m.st, 0, nil, nil), s.close())
}
