package ops

import (
	"context"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
)

// TensorParallel splits layers over the ranks of a communicator as Megatron does: of a pair
// of projections the first is split by its outputs (ColumnLinear) and the second by its
// inputs (RowLinear), so that one exchange in each direction suffices; embedding and
// cross-entropy are split by the vocabulary.
//
// With sequence parallelism the activations between such pairs are split by rows (tokens)
// too: rank r holds the r-th block of rows, and a gather and a scatter take the place of each
// all-reduce, at the same cost and with 1/n of the memory. The number of rows must be a
// multiple of the ranks.
//
// All ranks of the communicator make the same calls in the same order. Activations are
// matrices [rows, width], contiguous.
type TensorParallel struct {
	reg      *Registry
	comm     Communicator
	sequence bool
}

// NewTensorParallel makes the layers of a rank. comm may be nil for a group of one, in which
// nothing is exchanged. sequence turns sequence parallelism on.
func NewTensorParallel(reg *Registry, comm Communicator, sequence bool) *TensorParallel {
	if comm != nil && comm.Size() == 1 {
		comm = nil
	}
	return &TensorParallel{reg: reg, comm: comm, sequence: sequence && comm != nil}
}

// Size is the number of ranks.
func (p *TensorParallel) Size() int64 {
	if p.comm == nil {
		return 1
	}
	return int64(p.comm.Size())
}

// Rank is this rank's number among them.
func (p *TensorParallel) Rank() int64 {
	if p.comm == nil {
		return 0
	}
	return int64(p.comm.Rank())
}

// ColumnLinear is Linear with the rows of Weight [out/n, in] and Bias [out/n] split: Out is
// this rank's columns [rows, out/n]. X is the same on all ranks [rows, in], or with sequence
// parallelism this rank's rows [rows/n, in], which are gathered.
func (p *TensorParallel) ColumnLinear(ctx context.Context, st *acl.Stream, a *LinearArgs) error {
	if err := p.matrices("column linear", named{"X", a.X}, named{"Out", a.Out}); err != nil {
		return err
	}
	return compose(st, func(s *steps) {
		full := *a
		full.X = p.gather(s, a.X)
		run(ctx, s, p.reg.Linear, &full)
	})
}

// ColumnLinearGrad are the gradients of ColumnLinear: DX is summed over the ranks, and with
// sequence parallelism each keeps its rows. Those of Weight and Bias stay with their rank.
func (p *TensorParallel) ColumnLinearGrad(ctx context.Context, st *acl.Stream, a *LinearGradArgs) error {
	if err := p.matrices("column linear gradient", named{"DOut", a.DOut}, named{"X", a.X}, named{"DX", a.DX}); err != nil {
		return err
	}
	return compose(st, func(s *steps) {
		full := *a
		full.X = p.gather(s, a.X)
		full.DX = p.whole(s, a.DX)
		run(ctx, s, p.reg.LinearGrad, &full)
		p.reduce(s, full.DX, a.DX)
	})
}

// RowLinear is Linear with the columns of Weight [out, in/n] split: X is this rank's columns
// [rows, in/n], as ColumnLinear leaves them. The products are summed over the ranks, and Bias
// [out], the same on all, is added once. Out is the same on all ranks [rows, out], or with
// sequence parallelism this rank's rows of it [rows/n, out].
func (p *TensorParallel) RowLinear(ctx context.Context, st *acl.Stream, a *LinearArgs) error {
	if err := p.matrices("row linear", named{"X", a.X}, named{"Out", a.Out}); err != nil {
		return err
	}
	if p.comm == nil {
		return p.reg.Linear.Run(ctx, st, a)
	}
	return compose(st, func(s *steps) {
		full := *a
		full.Bias, full.Out = nil, p.whole(s, a.Out)
		run(ctx, s, p.reg.Linear, &full)
		p.reduce(s, full.Out, a.Out)
		if a.Bias != nil {
			s.add(a.Out, a.Bias, 1)
		}
	})
}

// RowLinearGrad are the gradients of RowLinear. DOut has the form of Out, and is gathered
// with sequence parallelism; nothing is summed over the ranks. DBias is the same on all.
func (p *TensorParallel) RowLinearGrad(ctx context.Context, st *acl.Stream, a *LinearGradArgs) error {
	if err := p.matrices("row linear gradient", named{"DOut", a.DOut}, named{"X", a.X}, named{"DX", a.DX}); err != nil {
		return err
	}
	return compose(st, func(s *steps) {
		full := *a
		full.DOut = p.gather(s, a.DOut)
		run(ctx, s, p.reg.LinearGrad, &full)
	})
}

// Sequence reports whether rows are split between the layers.
func (p *TensorParallel) Sequence() bool { return p.sequence }

// Gather collects the rows that layers split over the ranks read, x [rows/n, width] of all
// ranks in full [rows, width]; without sequence parallelism both are one tensor and nothing is
// done. Reduce is its gradient.
func (p *TensorParallel) Gather(st *acl.Stream, x, full *aclnn.Tensor) error {
	if !p.sequence {
		return nil
	}
	return p.comm.AllGather(st, x, full)
}

// Reduce sums over the ranks what such layers have made of their shares, full [rows, width]:
// x has this rank's rows of it, or without sequence parallelism is full itself. Gather is its
// gradient.
func (p *TensorParallel) Reduce(st *acl.Stream, full, x *aclnn.Tensor) error {
	switch {
	case p.comm == nil:
		return nil
	case p.sequence:
		return p.comm.ReduceScatter(st, full, x, hccl.Sum)
	}
	return p.comm.AllReduce(st, x, x, hccl.Sum)
}

// Sum adds up over the ranks the gradients of parameters that all have, but that served this
// rank's heads only, such as the norms of queries and keys.
func (p *TensorParallel) Sum(st *acl.Stream, gradients ...*aclnn.Tensor) error {
	if p.comm == nil {
		return nil
	}
	for _, g := range gradients {
		if err := p.comm.AllReduce(st, g, g, hccl.Sum); err != nil {
			return fmt.Errorf("sum of partial gradients: %w", err)
		}
	}
	return nil
}

// SumPartial sums over the ranks the gradients of parameters that every rank has, but that
// saw this rank's rows only: with sequence parallelism those of norms between the split
// layers. Without it they are whole already, and nothing is done.
func (p *TensorParallel) SumPartial(st *acl.Stream, gradients ...*aclnn.Tensor) error {
	if !p.sequence {
		return nil
	}
	return p.Sum(st, gradients...)
}

// run queues an operator as a step.
func run[A any](ctx context.Context, s *steps, o *Op[A], a *A) {
	if s.err == nil {
		s.err = o.Run(ctx, s.st, a)
	}
}

// gather is x of all ranks with sequence parallelism, else x.
func (p *TensorParallel) gather(s *steps, x *aclnn.Tensor) *aclnn.Tensor {
	if !p.sequence {
		return x
	}
	full := p.whole(s, x)
	if s.err == nil {
		s.err = p.Gather(s.st, x, full)
	}
	return full
}

// whole is where the rows of all ranks have room: x itself without sequence parallelism.
func (p *TensorParallel) whole(s *steps, x *aclnn.Tensor) *aclnn.Tensor {
	if x == nil || !p.sequence {
		return x
	}
	return s.tensor(x.DType(), x.Dim(0)*p.Size(), x.Dim(1))
}

// reduce sums what whole has made, and leaves x with all of it or this rank's rows.
func (p *TensorParallel) reduce(s *steps, full, x *aclnn.Tensor) {
	if s.err == nil && x != nil {
		s.err = p.Reduce(s.st, full, x)
	}
}

// named is a tensor with its name for errors.
type named struct {
	name   string
	tensor *aclnn.Tensor
}

// matrices refuses activations that cannot be exchanged; nil ones are for others to judge.
func (p *TensorParallel) matrices(what string, list ...named) error {
	var c check
	for _, t := range list {
		if !c.optional(t.name, t.tensor, floats...) {
			continue
		}
		if t.tensor.Rank() != 2 {
			c.fail("%s is %v; it must be [rows, width]", t.name, t.tensor)
		}
		c.contiguous(t.name, t.tensor)
	}
	if c.err != nil {
		return fmt.Errorf("%s: %w", what, c.err)
	}
	return nil
}
