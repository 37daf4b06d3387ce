package parallel

import (
	"context"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/internal/check"
	"github.com/goascend/cann/ops/internal/labels"
)

// Embedding is Registry.Embedding with the vocabulary split: Weight [vocabulary/n, width] holds
// this rank's rows, rank r having the r-th block. IDs [rows] are the same on all ranks. Out is
// [rows, width] and the same on all ranks; with sequence parallelism it is this rank's rows
// [rows/n, width]. Unlike in Registry.Embedding, an id outside the vocabulary gives a row of zeros.
func (p *TensorParallel) Embedding(ctx context.Context, st *acl.Stream, a *ops.EmbeddingArgs) error {
	if err := given("vocabulary-parallel embedding", p, st, a); err != nil {
		return err
	}
	if p.comm == nil {
		return p.reg.Embedding().Run(ctx, st, a)
	}
	if err := p.shard("vocabulary-parallel embedding", a.Weight, a.IDs, named{"Out", a.Out}); err != nil {
		return err
	}
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		ids, outside := p.local(s, a.IDs, a.Weight.Dim(0))
		full := p.whole(s, a.Out)
		ops.Queue(ctx, s, p.reg.Embedding(), &ops.EmbeddingArgs{Weight: a.Weight, IDs: ids, Out: full})
		labels.Fill(s, full, outside.Unsqueeze(1), aclnn.Float(0))
		p.reduce(s, full, a.Out)
	})
}

// EmbeddingGrad computes the gradient of Embedding. DOut has the shape of Out; DWeight holds this
// rank's rows.
func (p *TensorParallel) EmbeddingGrad(ctx context.Context, st *acl.Stream, a *ops.EmbeddingGradArgs) error {
	if err := given("vocabulary-parallel embedding gradient", p, st, a); err != nil {
		return err
	}
	if p.comm == nil {
		return p.reg.EmbeddingGrad().Run(ctx, st, a)
	}
	if err := p.shard("vocabulary-parallel embedding gradient", a.DWeight, a.IDs, named{"DOut", a.DOut}); err != nil {
		return err
	}
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		ids, outside := p.local(s, a.IDs, a.DWeight.Dim(0))
		dOut := s.Tensor(a.DOut.DType(), a.IDs.Dim(0), a.DOut.Dim(1))
		s.Copy(dOut, p.gather(s, a.DOut))
		labels.Fill(s, dOut, outside.Unsqueeze(1), aclnn.Float(0)) // foreign ids share row 0
		ops.Queue(ctx, s, p.reg.EmbeddingGrad(), &ops.EmbeddingGradArgs{DOut: dOut, IDs: ids, DWeight: a.DWeight, Accumulate: a.Accumulate})
	})
}

// shard checks this rank's part of the vocabulary and the rows that are exchanged.
func (p *TensorParallel) shard(what string, weight, ids *aclnn.Tensor, rows named) error {
	var c check.Args
	c.Tensor("the vocabulary's part", weight, check.Floats...)
	c.Tensor("IDs", ids, check.Indices...)
	c.Tensor(rows.name, rows.tensor, check.Floats...)
	if c.OK() && (weight.Rank() != 2 || weight.Dim(0) == 0) {
		c.Fail("the vocabulary's part is %v; it must be [vocabulary/%d, width] with a row at least", weight, p.Size())
	}
	if c.OK() && ids.Rank() != 1 {
		c.Fail("IDs is %v; it must be [rows]", ids)
	}
	if c.OK() {
		count := ids.Dim(0)
		if p.sequence {
			if count%p.Size() != 0 {
				c.Fail("IDs is %v; with sequence parallelism its rows must be a multiple of the %d ranks", ids, p.Size())
			}
			count /= p.Size()
		}
		c.Shape(rows.name, rows.tensor, count, weight.Dim(1))
		c.Contiguous(rows.name, rows.tensor)
	}
	if c.Err != nil {
		return fmt.Errorf("%s: %w", what, c.Err)
	}
	return nil
}

// local converts vocabulary ids to row numbers of this rank's part. Ids outside the part become 0
// and are marked in outside.
func (p *TensorParallel) local(s *aclnn.Scope, ids *aclnn.Tensor, rows int64) (local, outside *aclnn.Tensor) {
	n := ids.Dim(0)
	local = p.shifted(s, ids, rows)
	outside, above := s.Tensor(aclnn.Bool, n), s.Tensor(aclnn.Bool, n)
	aclnn.Launch(s, aclnn.LtScalar, aclnn.LtScalarParams{Self: local, Other: aclnn.Int(0), Out: outside})
	aclnn.Launch(s, aclnn.GeScalar, aclnn.GeScalarParams{Self: local, Other: aclnn.Int(rows), Out: above})
	aclnn.Launch(s, aclnn.InplaceLogicalOr, aclnn.InplaceLogicalOrParams{Self: outside, Other: above})
	local = s.Cast(local, aclnn.Int32) // CANN fills int64 on the slow AI CPU
	labels.Fill(s, local, outside, aclnn.Int(0))
	return local, outside
}

// shifted subtracts the number of this rank's first row from ids or labels.
func (p *TensorParallel) shifted(s *aclnn.Scope, ids *aclnn.Tensor, rows int64) *aclnn.Tensor {
	t := s.Tensor(aclnn.Int64, ids.Dim(0))
	aclnn.Launch(s, aclnn.Adds, aclnn.AddsParams{Self: s.Cast(ids, aclnn.Int64), Other: aclnn.Int(-p.Rank() * rows), Alpha: aclnn.Int(1), Out: t})
	return t
}

// CrossEntropy is Registry.CrossEntropy with the classes split: Logits [rows, classes/n] are this
// rank's columns, rank r having the r-th block, as ColumnLinear computes them. Labels, Loss and
// Count are the same on all ranks. LogProb receives this rank's columns; the gradient needs it. The
// ranks exchange three float32 numbers per row. Unlike in Registry.CrossEntropy, a label outside
// the classes counts as one with probability 1.
func (p *TensorParallel) CrossEntropy(ctx context.Context, st *acl.Stream, a *ops.CrossEntropyArgs) error {
	if err := given("vocabulary-parallel cross-entropy", p, st, a); err != nil {
		return err
	}
	if err := p.classes("vocabulary-parallel cross-entropy", p.reg.CrossEntropy().Check(a), a); err != nil {
		return err
	}
	if p.comm == nil || a.Logits.Dim(0) == 0 { // without rows there is nothing to exchange
		return p.reg.CrossEntropy().Run(ctx, st, a)
	}
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		rows, classes := a.Logits.Dim(0), a.Logits.Dim(1)
		logits, logProb := float(s, a.Logits), a.LogProb
		if logProb == nil || logProb.DType() != aclnn.Float32 {
			logProb = s.Tensor(aclnn.Float32, rows, classes)
		}
		top := s.Tensor(aclnn.Float32, rows, 1)
		aclnn.Launch(s, aclnn.Amax, aclnn.AmaxParams{Self: logits, Dim: []int64{1}, KeepDim: true, Out: top})
		p.allReduce(s, top, hccl.Max)
		aclnn.Launch(s, aclnn.Sub, aclnn.SubParams{Self: logits, Other: top, Alpha: aclnn.Float(1), Out: logProb})
		powers := s.Tensor(aclnn.Float32, rows, classes)
		aclnn.Launch(s, aclnn.Exp, aclnn.ExpParams{Self: logProb, Out: powers})
		total := s.Tensor(aclnn.Float32, rows, 1)
		aclnn.Launch(s, aclnn.ReduceSum, aclnn.ReduceSumParams{Self: powers, Dims: []int64{1}, KeepDims: true, Dtype: aclnn.Float32, Out: total})
		p.allReduce(s, total, hccl.Sum)
		aclnn.Launch(s, aclnn.InplaceLog, aclnn.InplaceLogParams{Self: total})
		add(s, logProb, total, -1)

		s.Copy(powers, logProb)
		ids := p.shifted(s, a.Labels, classes)
		labels.Fill(s, powers, labels.Match(s, ids, p.ignored(a, classes), classes, false), aclnn.Float(0))
		loss := s.Tensor(aclnn.Float32, 1, 1)
		aclnn.Launch(s, aclnn.ReduceSum, aclnn.ReduceSumParams{Self: powers, Dims: []int64{0, 1}, KeepDims: true, Dtype: aclnn.Float32, Out: loss})
		loss = loss.Reshape(1)
		p.allReduce(s, loss, hccl.Sum)
		scale(s, loss, -1)
		count := a.Count
		if count == nil {
			count = s.Tensor(aclnn.Float32, 1)
		}
		labels.Count(s, a.Labels, a.Ignored(), count)
		aclnn.Launch(s, aclnn.Div, aclnn.DivParams{Self: loss, Other: count, Out: a.Loss})
		if a.LogProb != nil {
			s.Finish(a.LogProb, logProb)
		}
	})
}

// CrossEntropyGrad computes this rank's columns of the gradient of CrossEntropy, DLogits. Nothing
// is exchanged.
func (p *TensorParallel) CrossEntropyGrad(ctx context.Context, st *acl.Stream, a *ops.CrossEntropyGradArgs) error {
	if err := given("vocabulary-parallel cross-entropy gradient", p, st, a); err != nil {
		return err
	}
	if err := p.classes("vocabulary-parallel cross-entropy gradient", p.reg.CrossEntropyGrad().Check(a), &a.CrossEntropyArgs); err != nil {
		return err
	}
	if p.comm == nil || a.Logits.Len() == 0 {
		return p.reg.CrossEntropyGrad().Run(ctx, st, a)
	}
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		classes := a.Logits.Dim(1)
		dLoss, dLogits := a.DLoss, a.DLogits
		if dLoss == nil {
			dLoss = s.Tensor(aclnn.Float32, 1)
			s.Fill(dLoss, aclnn.Float(1))
		}
		if dLogits.DType() != aclnn.Float32 {
			dLogits = s.Tensor(aclnn.Float32, a.Logits.Dim(0), classes)
		}
		ids := p.shifted(s, a.Labels, classes)
		labels.Gradient(s, dLoss.Squeeze(0), float(s, a.LogProb), ids, p.ignored(&a.CrossEntropyArgs, classes), dLogits)
		s.Finish(a.DLogits, dLogits)
	})
}

// ignored returns the ignored label relative to this rank's first class, as shifted does for
// labels.
func (p *TensorParallel) ignored(a *ops.CrossEntropyArgs, classes int64) int64 {
	return a.Ignored() - p.Rank()*classes
}

func (p *TensorParallel) classes(what string, err error, a *ops.CrossEntropyArgs) error {
	if err == nil && a.Logits.Dim(1) == 0 {
		err = check.Invalid("Logits is %v; each rank must have a class at least", a.Logits)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// allReduce combines a small tensor over the ranks in place.
func (p *TensorParallel) allReduce(s *aclnn.Scope, t *aclnn.Tensor, op hccl.ReduceOp) {
	s.Do(func() error { return p.comm.AllReduce(s.Stream, t, t, op) })
}
