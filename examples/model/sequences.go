package model

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/autograd"
)

var errSequences = fmt.Errorf("model: a batch with Numbers, and every batch of a model with Config.Score, is for SequenceValues and SequenceGradients: %w", acl.ErrInvalidArgument)

// SequenceValues runs the forward pass on this rank's batch and returns a value for each of total sequences of all ranks, by Batch.Numbers: the
// sum of the log-probabilities of its counted labels, or with Config.Score the score of the token that has a counted label. All ranks call it. It leaves
// gradients as they are; there is no dropout.
func (m *Model) SequenceValues(ctx context.Context, b Batch, total int) (values []float64, err error) {
	if err := m.checkSequences(b, total); err != nil {
		return nil, err
	}
	m.factors = slices.Repeat([]float64{m.sign()}, total)
	defer func() { m.factors = nil }()
	s, err := m.losses(ctx, b)
	if s != nil {
		defer func() { err = errors.Join(err, s.close()) }()
	}
	if err != nil {
		return nil, err
	}
	values, err = s.totals(ctx)
	if err != nil {
		return nil, err
	}
	return values[:total], nil
}

// SequenceGradients runs forward and backward on this rank's batch: it computes every parameter's gradient of the sum of the values that SequenceValues
// returns, each times its factor, plus the load balancing loss of the experts if the configuration asks for it (not with Config.Score), which it
// returns. All ranks give the same factors: the derivatives of a loss of several sequences, such as a preference's, by their values.
func (m *Model) SequenceGradients(ctx context.Context, b Batch, factors []float64) (balance float64, err error) {
	if err := m.checkSequences(b, len(factors)); err != nil {
		return 0, err
	}
	m.factors = make([]float64, len(factors))
	for i, f := range factors {
		m.factors[i] = m.sign() * f
	}
	defer func() { m.factors = nil }()
	losses, _, err := m.gradients(ctx, b)
	if err != nil {
		return 0, err
	}
	return losses[len(factors)], nil
}

// sign turns cross-entropies into log-probabilities, and leaves scores as they are.
func (m *Model) sign() float64 {
	if m.Config.Score {
		return 1
	}
	return -1
}

func (m *Model) checkSequences(b Batch, total int) error {
	if err := b.validate(m.Config.VocabSize); err != nil {
		return err
	}
	if m.multi != nil || b.Adapters != nil || b.Targets != 0 {
		return fmt.Errorf("model: values of sequences have no means over Targets, and no adapters of UseEach: %w", acl.ErrInvalidArgument)
	}
	if len(b.Numbers) != b.samples() {
		return fmt.Errorf("model: a batch of %d sequences has %d Numbers: %w", b.samples(), len(b.Numbers), acl.ErrInvalidArgument)
	}
	for i, n := range b.Numbers {
		if n < 0 || n >= total || i > 0 && n <= b.Numbers[i-1] {
			return fmt.Errorf("model: Numbers are %v; they must increase, from 0 to %d: %w", b.Numbers, total-1, acl.ErrInvalidArgument)
		}
		from, to := b.sample(i)
		if c := counted(b.Labels[from:to]); m.Config.Score && c != 1 {
			return fmt.Errorf("model: sequence %d has %d counted labels; a score is of the one token that has one: %w", n, c, acl.ErrInvalidArgument)
		}
	}
	return nil
}

// scores computes the scores of a micro-batch and adds them to the step's. It returns the variable that the gradients come from, or x if no token of this
// rank has a score.
func (s *step) scores(u *micro, x *autograd.Var) *autograd.Var {
	m, p, total := s.m, u.pass, x
	for _, part := range u.in.parts {
		for i, label := range u.in.targets[part.first:][:part.rows] {
			if label < 0 || p.Err() != nil {
				continue
			}
			score := p.Cast(p.Reshape(m.head.forward(p, p.Narrow(x, 0, part.first+int64(i), 1)), 1), aclnn.Float32)
			p.finite(score, "the score")
			weight := s.weight(part.number, 1)
			s.add(score, part.number, weight)
			if score = p.Scale(score, weight); total == x {
				total = score
			} else {
				total = p.Add(total, score)
			}
		}
	}
	u.in.trains = total != x
	return total
}
