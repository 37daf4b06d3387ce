package ops

import (
	"context"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
)

// Embedding is Embedding with the vocabulary split: Weight [vocabulary/n, width] are this
// rank's rows, rank r having the r-th block; IDs [rows] are the same on all ranks. Out is the
// same on all [rows, width], or with sequence parallelism this rank's rows [rows/n, width].
// Unlike in Embedding, an id outside the vocabulary gives a row of zeros.
func (p *TensorParallel) Embedding(ctx context.Context, st *acl.Stream, a *EmbeddingArgs) error {
	if p.comm == nil {
		return p.reg.Embedding.Run(ctx, st, a)
	}
	if err := p.shard("vocabulary-parallel embedding", a.Weight, a.IDs, named{"Out", a.Out}); err != nil {
		return err
	}
	return compose(st, func(s *steps) {
		ids, outside := p.local(s, a.IDs, a.Weight.Dim(0))
		full := p.whole(s, a.Out)
		run(ctx, s, p.reg.Embedding, &EmbeddingArgs{Weight: a.Weight, IDs: ids, Out: full})
		s.maskedFill(full, outside.Unsqueeze(1), aclnn.Float(0))
		p.reduce(s, full, a.Out)
	})
}

// EmbeddingGrad is the gradient of Embedding. DOut has the form of Out; DWeight is this
// rank's rows.
func (p *TensorParallel) EmbeddingGrad(ctx context.Context, st *acl.Stream, a *EmbeddingGradArgs) error {
	if p.comm == nil {
		return p.reg.EmbeddingGrad.Run(ctx, st, a)
	}
	if err := p.shard("vocabulary-parallel embedding gradient", a.DWeight, a.IDs, named{"DOut", a.DOut}); err != nil {
		return err
	}
	return compose(st, func(s *steps) {
		ids, outside := p.local(s, a.IDs, a.DWeight.Dim(0))
		dOut := s.tensor(a.DOut.DType(), a.IDs.Dim(0), a.DOut.Dim(1))
		s.store(dOut, p.gather(s, a.DOut))
		s.maskedFill(dOut, outside.Unsqueeze(1), aclnn.Float(0)) // row 0 stands in for foreign ids
		run(ctx, s, p.reg.EmbeddingGrad, &EmbeddingGradArgs{DOut: dOut, IDs: ids, DWeight: a.DWeight, Accumulate: a.Accumulate})
	})
}

// shard checks a part of the vocabulary and the rows that are exchanged.
func (p *TensorParallel) shard(what string, weight, ids *aclnn.Tensor, rows named) error {
	var c check
	c.tensor("the vocabulary's part", weight, floats...)
	c.tensor("IDs", ids, indices...)
	c.tensor(rows.name, rows.tensor, floats...)
	if c.ok() && (weight.Rank() != 2 || weight.Dim(0) == 0) {
		c.fail("the vocabulary's part is %v; it must be [vocabulary/%d, width] with a row at least", weight, p.Size())
	}
	if c.ok() && ids.Rank() != 1 {
		c.fail("IDs is %v; it must be [rows]", ids)
	}
	if c.ok() {
		count := ids.Dim(0)
		if p.sequence {
			if count%p.Size() != 0 {
				c.fail("IDs is %v; with sequence parallelism its rows must be a multiple of the %d ranks", ids, p.Size())
			}
			count /= p.Size()
		}
		c.shape(rows.name, rows.tensor, count, weight.Dim(1))
		c.contiguous(rows.name, rows.tensor)
	}
	if c.err != nil {
		return fmt.Errorf("%s: %w", what, c.err)
	}
	return nil
}

// local turns ids of the vocabulary into rows of this rank's part; where they are outside it,
// into 0.
func (p *TensorParallel) local(s *steps, ids *aclnn.Tensor, rows int64) (local, outside *aclnn.Tensor) {
	n := ids.Dim(0)
	local = p.shifted(s, ids, rows)
	outside, above := s.tensor(aclnn.Bool, n), s.tensor(aclnn.Bool, n)
	launch(s, aclnn.LtScalar, aclnn.LtScalarParams{Self: local, Other: aclnn.Int(0), Out: outside})
	launch(s, aclnn.GeScalar, aclnn.GeScalarParams{Self: local, Other: aclnn.Int(rows), Out: above})
	launch(s, aclnn.InplaceLogicalOr, aclnn.InplaceLogicalOrParams{SelfRef: outside, Other: above})
	s.maskedFill(local, outside, aclnn.Int(0))
	return local, outside
}

// shifted counts ids or labels from this rank's first.
func (p *TensorParallel) shifted(s *steps, ids *aclnn.Tensor, rows int64) *aclnn.Tensor {
	t := s.tensor(aclnn.Int64, ids.Dim(0))
	launch(s, aclnn.Adds, aclnn.AddsParams{Self: s.cast(ids, aclnn.Int64), Other: aclnn.Int(-p.Rank() * rows), Alpha: aclnn.Int(1), Out: t})
	return t
}

// CrossEntropy is CrossEntropy with the classes split: Logits [rows, classes/n] are this
// rank's columns, rank r having the r-th block, as ColumnLinear leaves them; Labels, Loss and
// Count are the same on all ranks. LogProb receives this rank's columns; it is needed for the
// gradient. Three numbers per row are exchanged, in float32. Unlike in CrossEntropy, a label
// outside the classes is taken for one of probability 1.
func (p *TensorParallel) CrossEntropy(ctx context.Context, st *acl.Stream, a *CrossEntropyArgs) error {
	if err := p.classes("vocabulary-parallel cross-entropy", a.validate(), a); err != nil {
		return err
	}
	if p.comm == nil {
		return p.reg.CrossEntropy.Run(ctx, st, a)
	}
	return a.run(st, func(s *steps, logits, labels, logProb *aclnn.Tensor) {
		rows := logits.Dim(0)
		top := s.tensor(aclnn.Float32, rows, 1)
		launch(s, aclnn.Amax, aclnn.AmaxParams{Self: logits, Dim: []int64{1}, KeepDim: true, Out: top})
		p.allReduce(s, top, hccl.Max)
		launch(s, aclnn.Sub, aclnn.SubParams{Self: logits, Other: top, Alpha: aclnn.Float(1), Out: logProb})
		powers := s.tensor(aclnn.Float32, rows, logits.Dim(1))
		launch(s, aclnn.Exp, aclnn.ExpParams{Self: logProb, Out: powers})
		total := s.sum(powers, 1)
		p.allReduce(s, total, hccl.Sum)
		launch(s, aclnn.InplaceLog, aclnn.InplaceLogParams{SelfRef: total})
		s.add(logProb, total, -1)

		here := p.here(s, a, labels, logits.Dim(1))
		s.store(powers, logProb)
		s.maskedFill(powers, s.compare(&here, here.Labels, logits.Dim(1), false), aclnn.Float(0))
		loss := s.sum(powers, 0, 1).Reshape(1)
		p.allReduce(s, loss, hccl.Sum)
		s.scale(loss, -1)
		count := a.Count
		if count == nil {
			count = s.tensor(aclnn.Float32, 1)
		}
		s.count(a, count)
		launch(s, aclnn.Div, aclnn.DivParams{Self: loss, Other: count, Out: a.Loss})
	})
}

// CrossEntropyGrad is the gradient of CrossEntropy: DLogits are this rank's columns. Nothing
// is exchanged.
func (p *TensorParallel) CrossEntropyGrad(ctx context.Context, st *acl.Stream, a *CrossEntropyGradArgs) error {
	if err := p.classes("vocabulary-parallel cross-entropy gradient", a.validate(), &a.CrossEntropyArgs); err != nil {
		return err
	}
	if p.comm == nil {
		return p.reg.CrossEntropyGrad.Run(ctx, st, a)
	}
	return a.run(st, func(s *steps, dLoss, logProb, labels, dLogits *aclnn.Tensor) {
		here := *a
		here.CrossEntropyArgs = p.here(s, &a.CrossEntropyArgs, labels, logProb.Dim(1))
		here.composite(s, dLoss, logProb, here.Labels, dLogits)
	})
}

// here is the arguments with labels counted from this rank's first class.
func (p *TensorParallel) here(s *steps, a *CrossEntropyArgs, labels *aclnn.Tensor, classes int64) CrossEntropyArgs {
	b := *a
	b.Labels = p.shifted(s, labels, classes)
	b.IgnoreIndex -= p.Rank() * classes
	return b
}

func (p *TensorParallel) classes(what string, err error, a *CrossEntropyArgs) error {
	if err == nil && a.Logits.Dim(1) == 0 {
		err = invalid("Logits is %v; each rank must have a class at least", a.Logits)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// allReduce exchanges a small tensor in place.
func (p *TensorParallel) allReduce(s *steps, t *aclnn.Tensor, op hccl.ReduceOp) {
	if s.err == nil {
		s.err = p.comm.AllReduce(s.st, t, t, op)
	}
}
