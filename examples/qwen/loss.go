package qwen

import (
	"context"
	"errors"
)

// Loss runs the forward pass on this rank's batch and returns the mean cross-entropy over the
// counted labels of all ranks, without the load balancing loss of experts and without dropout. All
// ranks call it. It leaves gradients as they are. Models in a pipeline have no Loss yet.
func (m *Model) Loss(ctx context.Context, b Batch) (loss float64, err error) {
	if _, stages := m.par.stage(); stages > 1 {
		return 0, errors.New("qwen: Loss does not run through the stages of a pipeline")
	}
	if err := b.validate(m.Config.VocabSize); err != nil {
		return 0, err
	}
	s, err := m.pieces(ctx, b)
	if s != nil {
		defer func() { err = errors.Join(err, s.close()) }()
	}
	if err != nil {
		return 0, err
	}
	for _, part := range s.batches {
		if err := s.evaluate(ctx, part); err != nil {
			return 0, err
		}
	}
	return s.total(ctx)
}

// evaluate adds the loss of a micro-batch, and frees what its forward pass has made.
func (s *step) evaluate(ctx context.Context, b Batch) (err error) {
	u := &micro{pass: s.m.pass(ctx)}
	defer func() { err = errors.Join(err, u.pass.Close()) }()
	if u.in, err = s.m.inputs(u.pass, b); err != nil {
		return err
	}
	u.state = s.m.forward(u.pass, u.in, nil)
	if u.pass.Err() == nil && u.in.labelled > 0 {
		s.addLoss(u)
	}
	return u.pass.Err()
}
