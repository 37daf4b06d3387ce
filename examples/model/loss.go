package model

import (
	"context"
	"errors"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/ops/autograd"
)

// Loss runs the forward pass on this rank's batch and returns the mean cross-entropy over the
// counted labels of all ranks, without the load balancing loss of experts and without dropout. All
// ranks call it. It leaves gradients as they are.
func (m *Model) Loss(ctx context.Context, b Batch) (loss float64, err error) {
	if err := m.checkPlain(b); err != nil {
		return 0, err
	}
	s, err := m.losses(ctx, b)
	if s != nil {
		defer func() { err = errors.Join(err, s.close()) }()
	}
	if err != nil {
		return 0, err
	}
	return s.total(ctx)
}

// losses runs the forward passes of a batch that was checked.
func (m *Model) losses(ctx context.Context, b Batch) (*step, error) {
	s, err := m.pieces(ctx, b)
	if err != nil {
		return s, err
	}
	rows, err := s.rows()
	if err != nil {
		return s, err
	}
	for _, part := range s.batches {
		for chunk := range m.ends {
			if err := s.evaluate(ctx, part, chunk, rows); err != nil {
				return s, err
			}
		}
	}
	return s, nil
}

// evaluate adds the loss of a micro-batch if the chunk of layers computes it, and frees what the forward pass has made. Each stage of a
// pipeline takes the rows from the one before it and hands them on.
func (s *step) evaluate(ctx context.Context, b Batch, chunk int, rows int64) (err error) {
	m := s.m
	p := m.pass(ctx, autograd.Options{NoGrad: true})
	p.chunk = chunk
	u := &micro{pass: p}
	defer func() { err = errors.Join(err, p.Close()) }()
	if u.in, err = m.inputs(p, b); err != nil {
		return err
	}
	at, ranks := m.par.stage()
	if !m.starts(chunk) {
		p.queue(func(s *aclnn.Scope) {
			x := s.Tensor(m.dt, rows, int64(m.Config.HiddenSize))
			s.Do(func() error { return m.par.Pipeline.Exchange(m.st, hccl.RecvFrom((at+ranks-1)%ranks, x)) })
			u.input = p.Input(x)
		})
	}
	s.chooseLoss(u)
	if u.out = m.forward(p, u.in, u.input); m.finishes(chunk) {
		s.crossEntropy(u)
	} else {
		p.do(func() error { return m.par.Pipeline.Exchange(m.st, hccl.SendTo((at+1)%ranks, u.out.Value)) })
	}
	return p.Err()
}
