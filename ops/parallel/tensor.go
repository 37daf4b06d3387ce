package parallel

import (
	"context"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/internal/check"
)

// TensorParallel implements tensor parallelism as in Megatron: of a pair of projections the first is split
// by its outputs (ColumnLinear) and the second by its inputs (RowLinear), so that one exchange in
// each direction suffices; embedding and cross-entropy are split by the vocabulary.
//
// With sequence parallelism the activations between such pairs are also split by rows (tokens):
// rank r holds the r-th block of rows, and a gather and a reduce-scatter replace each all-reduce,
// at the same communication cost and with 1/n of the memory. The number of rows must be a multiple
// of the number of ranks.
//
// All ranks of the communicator make the same calls in the same order. Activations are contiguous
// matrices [rows, width].
type TensorParallel struct {
	reg      *ops.Registry
	comm     Communicator
	sequence bool
}

// NewTensorParallel makes the tensor-parallel layers of one rank. comm may be nil for a group of one, in
// which nothing is exchanged. sequence turns sequence parallelism on.
func NewTensorParallel(reg *ops.Registry, comm Communicator, sequence bool) *TensorParallel {
	if comm != nil && comm.Size() == 1 {
		comm = nil
	}
	return &TensorParallel{reg: reg, comm: comm, sequence: sequence && comm != nil}
}

// Size returns the number of ranks.
func (p *TensorParallel) Size() int64 {
	if p == nil || p.comm == nil {
		return 1
	}
	return int64(p.comm.Size())
}

// Rank returns the number of this rank in the group.
func (p *TensorParallel) Rank() int64 {
	if p == nil || p.comm == nil {
		return 0
	}
	return int64(p.comm.Rank())
}

// ColumnLinear is Registry.Linear with the rows of Weight [out/n, in] and Bias [out/n] split: Out
// holds this rank's columns, [rows, out/n]. X is [rows, in] and the same on all ranks; with
// sequence parallelism it is this rank's rows [rows/n, in], which are gathered. CutColumns makes the
// rank's part of a weight, also of one that holds several projections.
func (p *TensorParallel) ColumnLinear(ctx context.Context, st *acl.Stream, a *ops.LinearArgs) error {
	if err := given("column linear", p, st, a); err != nil {
		return err
	}
	if err := p.matrices("column linear", named{"X", a.X}, named{"Out", a.Out}); err != nil {
		return err
	}
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		full := *a
		full.X = p.gather(s, a.X)
		ops.Queue(ctx, s, p.reg.Linear(), &full)
	})
}

// CutColumns returns this rank's rows of a weight that ColumnLinear splits, or Embedding or CrossEntropy by the
// vocabulary, [out, in] in whole, or of a bias, [out]: a tensor of the scope, [out/n, in] or [out/n]. rows are those
// of the projections that lie in whole one below the other: one number for a plain weight, inner and inner for [gate;
// up] in front of SwiGLU, the sizes of query, key and value for a weight of all three. A rank gets its block of each
// of them, in this order, so that its output has the same halves as the whole one. A block of whole itself would give
// one rank the gate and another the up projection, and nothing would show it; so rows must be given.
func (p *TensorParallel) CutColumns(s *aclnn.Scope, whole *aclnn.Tensor, rows ...int64) *aclnn.Tensor {
	return p.cut("cut of columns", s, whole, 0, rows)
}

// CutRows returns this rank's columns of a weight [out, in] that RowLinear splits: a tensor of the scope, [out, in/n].
// The bias of RowLinear stays whole.
func (p *TensorParallel) CutRows(s *aclnn.Scope, whole *aclnn.Tensor) *aclnn.Tensor {
	return p.cut("cut of rows", s, whole, 1, []int64{whole.Dim(1)})
}

// cut joins this rank's block of each part of whole along an axis.
func (p *TensorParallel) cut(name string, s *aclnn.Scope, whole *aclnn.Tensor, axis int, sizes []int64) *aclnn.Tensor {
	if s == nil || s.Err() != nil {
		return nil
	}
	if err := given(name, p, s.Stream, p); err != nil {
		s.Fail(err)
		return nil
	}
	ranks, sum := p.Size(), int64(0)
	var c check.Args
	c.Tensor("whole", whole, check.Floats...)
	if c.OK() && whole.Rank() != 2 && (axis == 1 || whole.Rank() != 1) {
		c.Fail("whole is %v; it must be a weight [out, in], or the bias [out] of a column-parallel layer", whole)
	}
	for _, n := range sizes {
		if n < 1 || n%ranks != 0 {
			c.Fail("a projection has size %d; each of %v must be a positive multiple of the %d ranks", n, sizes, ranks)
		}
		sum += n
	}
	if c.OK() && sum != whole.Dim(axis) {
		c.Fail("the projections have %v rows, %d together, and whole is %v; name the rows of each projection that lies in it", sizes, sum, whole)
	}
	if c.Err != nil {
		s.Fail(fmt.Errorf("%s: %w", name, c.Err))
		return nil
	}
	shape := whole.Shape()
	shape[axis] /= ranks
	part := s.Tensor(whole.DType(), shape...)
	from, to := int64(0), int64(0)
	for _, n := range sizes {
		s.Copy(part.Narrow(axis, to, n/ranks), whole.Narrow(axis, from+p.Rank()*(n/ranks), n/ranks))
		from, to = from+n, to+n/ranks
	}
	return part
}

// ColumnLinearGrad computes the gradients of ColumnLinear. DX is summed over the ranks, and with
// sequence parallelism each rank keeps its rows. DWeight and DBias are those of this rank's part.
func (p *TensorParallel) ColumnLinearGrad(ctx context.Context, st *acl.Stream, a *ops.LinearGradArgs) error {
	if err := given("column linear gradient", p, st, a); err != nil {
		return err
	}
	if err := p.matrices("column linear gradient", named{"DOut", a.DOut}, named{"X", a.X}, named{"DX", a.DX}); err != nil {
		return err
	}
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		full := *a
		full.X = p.gather(s, a.X)
		full.DX = p.whole(s, a.DX)
		ops.Queue(ctx, s, p.reg.LinearGrad(), &full)
		p.reduce(s, full.DX, a.DX)
	})
}

// RowLinear is Registry.Linear with the columns of Weight [out, in/n] split: X holds this rank's
// columns [rows, in/n], as ColumnLinear computes them. The products are summed over the ranks; Bias
// [out], the same on all ranks, is added once. Out is [rows, out] and the same on all ranks; with
// sequence parallelism it is this rank's rows [rows/n, out].
func (p *TensorParallel) RowLinear(ctx context.Context, st *acl.Stream, a *ops.LinearArgs) error {
	if err := given("row linear", p, st, a); err != nil {
		return err
	}
	if err := p.matrices("row linear", named{"X", a.X}, named{"Out", a.Out}); err != nil {
		return err
	}
	if p.comm == nil {
		return p.reg.Linear().Run(ctx, st, a)
	}
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		full := *a
		full.Bias, full.Out = nil, p.whole(s, a.Out)
		ops.Queue(ctx, s, p.reg.Linear(), &full)
		p.reduce(s, full.Out, a.Out)
		if a.Bias != nil {
			add(s, a.Out, a.Bias, 1)
		}
	})
}

// RowLinearGrad computes the gradients of RowLinear. DOut has the shape of Out and is gathered with
// sequence parallelism; nothing is summed over the ranks. DBias is the same on all ranks.
func (p *TensorParallel) RowLinearGrad(ctx context.Context, st *acl.Stream, a *ops.LinearGradArgs) error {
	if err := given("row linear gradient", p, st, a); err != nil {
		return err
	}
	if err := p.matrices("row linear gradient", named{"DOut", a.DOut}, named{"X", a.X}, named{"DX", a.DX}); err != nil {
		return err
	}
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		full := *a
		full.DOut = p.gather(s, a.DOut)
		ops.Queue(ctx, s, p.reg.LinearGrad(), &full)
	})
}

// Sequence reports whether sequence parallelism is on.
func (p *TensorParallel) Sequence() bool { return p != nil && p.sequence }

// Gather gathers x [rows/n, width] of all ranks into full [rows, width], the input of layers that
// are split over the ranks. Without sequence parallelism x and full are the same tensor and nothing
// is done. Reduce computes its gradient.
func (p *TensorParallel) Gather(st *acl.Stream, x, full *aclnn.Tensor) error {
	if err := given("gather of rows", p, st, x); err != nil {
		return err
	}
	if !p.sequence {
		return nil
	}
	return p.comm.AllGather(st, x, full)
}

// Reduce sums full [rows, width], the partial output of layers split over the ranks, over the ranks
// and stores this rank's rows in x. Without sequence parallelism x is like full, and may be full itself; it receives
// the whole sum. Gather computes its gradient.
func (p *TensorParallel) Reduce(st *acl.Stream, full, x *aclnn.Tensor) error {
	if err := given("sum of rows", p, st, x); err != nil {
		return err
	}
	switch {
	case p.comm == nil:
		return nil
	case p.sequence:
		return p.comm.ReduceScatter(st, full, x, hccl.Sum)
	}
	return p.comm.AllReduce(st, full, x, hccl.Sum)
}

// Sum adds up over the ranks the gradients of parameters that all ranks hold but apply only to
// their own heads, such as the norms of queries and keys.
func (p *TensorParallel) Sum(st *acl.Stream, gradients ...*aclnn.Tensor) error {
	if err := given("sum of gradients", p, st, p); err != nil {
		return err
	}
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

// SumPartial adds up over the ranks the gradients of parameters that all ranks hold but apply only
// to their own rows, such as norms between the split layers with sequence parallelism. Without
// sequence parallelism these gradients are complete and nothing is done.
func (p *TensorParallel) SumPartial(st *acl.Stream, gradients ...*aclnn.Tensor) error {
	if err := given("sum of partial gradients", p, st, p); err != nil {
		return err
	}
	if !p.sequence {
		return nil
	}
	return p.Sum(st, gradients...)
}

// gather returns the rows of all ranks with sequence parallelism, otherwise x itself.
func (p *TensorParallel) gather(s *aclnn.Scope, x *aclnn.Tensor) *aclnn.Tensor {
	if !p.sequence {
		return x
	}
	full := p.whole(s, x)
	s.Do(func() error { return p.Gather(s.Stream, x, full) })
	return full
}

// whole allocates a tensor for the rows of all ranks; without sequence parallelism it returns x
// itself.
func (p *TensorParallel) whole(s *aclnn.Scope, x *aclnn.Tensor) *aclnn.Tensor {
	if x == nil || !p.sequence {
		return x
	}
	return s.Tensor(x.DType(), x.Dim(0)*p.Size(), x.Dim(1))
}

// reduce sums full, a tensor made by whole, over the ranks and leaves this rank's rows, or all rows
// without sequence parallelism, in x.
func (p *TensorParallel) reduce(s *aclnn.Scope, full, x *aclnn.Tensor) {
	if x != nil {
		s.Do(func() error { return p.Reduce(s.Stream, full, x) })
	}
}

// named is a tensor with its name for error messages.
type named struct {
	name   string
	tensor *aclnn.Tensor
}

// matrices refuses activations that cannot be exchanged. It skips nil tensors, which other checks
// refuse.
func (p *TensorParallel) matrices(what string, list ...named) error {
	var c check.Args
	for _, t := range list {
		if !c.Optional(t.name, t.tensor, check.Floats...) {
			continue
		}
		if t.tensor.Rank() != 2 {
			c.Fail("%s is %v; it must be [rows, width]", t.name, t.tensor)
		}
		c.Contiguous(t.name, t.tensor)
	}
	if c.Err != nil {
		return fmt.Errorf("%s: %w", what, c.Err)
	}
	return nil
}
