package parallel

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/internal/check"
)

// ExpertParallel implements expert parallelism: it assigns the experts of a layer to the ranks of a
// communicator. Of e experts and n ranks, rank r holds the e/n experts from r·e/n on. Rows, which
// each rank has sorted by expert, are sent to the ranks of their experts and back:
//
//	plan, err := p.Plan(ctx, st, sums)              // of MoEPermute
//	err = plan.Dispatch(st, rows, mine)             // mine [plan.Rows(), width]
//	… MoEExperts with plan.Groups() …
//	err = plan.Combine(st, mine, rows)
//
// Combine computes the gradient of Dispatch and vice versa.
//
// With s shards (expert tensor parallelism, --expert-tensor-parallel-size of Megatron-LM) s consecutive ranks
// share e·s/n experts, of which rank r computes shard r%s: a part of the inner features, whose
// columns of gate and up projection and rows of the down projection it holds. Rows then go to all ranks that share
// their expert, and the results of these are summed.
type ExpertParallel struct {
	comm   Communicator
	shards int64
}

// NewExpertParallel makes the exchange of one rank. comm may be nil for a group of one, in which rows are
// only copied. shards divides the number of ranks; with 1 each expert is on one rank.
func NewExpertParallel(comm Communicator, shards int) (*ExpertParallel, error) {
	if comm != nil && comm.Size() == 1 {
		comm = nil
	}
	p := &ExpertParallel{comm: comm, shards: int64(shards)}
	if shards < 1 || p.Size()%p.shards != 0 {
		return nil, check.Invalid("%d ranks share each expert of a group of %d ranks; the number must divide the ranks", shards, p.Size())
	}
	return p, nil
}

// Size returns the number of ranks.
func (p *ExpertParallel) Size() int64 {
	if p == nil || p.comm == nil {
		return 1
	}
	return int64(p.comm.Size())
}

// owners returns the number of groups of ranks that have different experts, and that of this rank.
func (p *ExpertParallel) owners() (groups, own int64) {
	if p == nil || p.comm == nil {
		return 1, 0
	}
	return p.Size() / p.shards, int64(p.comm.Rank()) / p.shards
}

// Experts returns how many of a layer's count experts each rank has, whole or a shard of each.
func (p *ExpertParallel) Experts(count int64) int64 {
	groups, _ := p.owners()
	return count / groups
}

// ExpertPlan describes the exchange of one layer's rows. Close frees it in stream order.
type ExpertPlan struct {
	comm           Communicator
	shards         int64   // ranks that get the same rows
	out, in        []int64 // rows to and from each rank
	sent           int64   // rows of this rank
	rows           int64   // received for this rank's experts
	groups         []int64 // received rows by expert
	order, inverse *aclnn.Tensor
}

// Plan exchanges the number of rows that each rank has for each expert: sums is the [experts] int32
// output of MoEPermute. It waits for the stream, because the host needs the sizes of the blocks to
// be received.
func (p *ExpertParallel) Plan(ctx context.Context, st *acl.Stream, sums *aclnn.Tensor) (*ExpertPlan, error) {
	if err := given("plan of experts", p, st, sums); err != nil {
		return nil, err
	}
	var c check.Args
	c.Tensor("Sums", sums, aclnn.Int32)
	groups, own := p.owners()
	if c.OK() && (sums.Rank() != 1 || sums.Len() == 0 || sums.Len()%groups != 0) {
		c.Fail("Sums is %v; it must be [experts], a multiple of the %d ranks, or groups of ranks, that have different ones", sums, groups)
	}
	if c.Err != nil {
		return nil, fmt.Errorf("plan of experts: %w", c.Err)
	}
	ends := make([]int32, p.Size()*sums.Len())
	err := aclnn.Compose(st, func(s *aclnn.Scope) {
		all := s.Tensor(aclnn.Int32, p.Size(), sums.Len())
		if p.comm == nil {
			s.Copy(all, sums.Unsqueeze(0))
		} else {
			send := s.Contiguous(sums)
			s.Do(func() error { return p.comm.AllGather(st, send, all) })
		}
		s.Do(func() error { return aclnn.CopyFromDevice(ctx, st, ends, all) })
	})
	if err != nil {
		return nil, fmt.Errorf("plan of experts: %w", err)
	}
	plan := &ExpertPlan{comm: p.comm, shards: p.Size() / groups}
	if p.comm == nil { // the rows are in order already
		plan.count(ends, p.Size(), 0, 0)
		return plan, nil
	}
	plan.count(ends, p.Size(), int64(p.comm.Rank()), own)
	if err := plan.upload(ctx, st, sourceOrder(ends, p.Size(), own, int64(len(plan.groups)))); err != nil {
		return nil, errors.Join(fmt.Errorf("plan of experts: %w", err), plan.Close())
	}
	return plan, nil
}

// count computes the numbers of rows from ends [ranks, experts], where the rows of each expert end on
// each rank. own is the number of this rank's block of experts.
func (p *ExpertPlan) count(ends []int32, ranks, rank, own int64) {
	experts := int64(len(ends)) / ranks
	block := experts * p.shards / ranks
	p.groups = make([]int64, block)
	for r := range ranks {
		to, from, list := r/p.shards*block, int64(0), ends[r*experts:][:experts]
		p.out = append(p.out, rowsOf(ends[rank*experts:][:experts], to, to+block))
		for e := range block {
			n := rowsOf(list, own*block+e, own*block+e+1)
			p.groups[e] += n
			from += n
		}
		p.in = append(p.in, from)
	}
	p.sent, p.rows = total(p.out)/p.shards, total(p.in)
}

// rowsOf returns the number of rows of the experts [from, to).
func rowsOf(ends []int32, from, to int64) int64 {
	n := int64(ends[to-1])
	if from > 0 {
		n -= int64(ends[from-1])
	}
	return n
}

// sourceOrder lists, by expert of a block of experts, the numbers of its rows among the received rows, which
// are ordered by source rank.
func sourceOrder(ends []int32, ranks, own, block int64) []int64 {
	experts := int64(len(ends)) / ranks
	next := make([]int64, ranks) // the next row of each rank
	at := int64(0)
	for r := range ranks {
		next[r] = at
		at += rowsOf(ends[r*experts:][:experts], own*block, (own+1)*block)
	}
	order := make([]int64, 0, at)
	for e := range block {
		for r := range ranks {
			for range rowsOf(ends[r*experts:][:experts], own*block+e, own*block+e+1) {
				order = append(order, next[r])
				next[r]++
			}
		}
	}
	return order
}

func (p *ExpertPlan) upload(ctx context.Context, st *acl.Stream, order []int64) (err error) {
	inverse := make([]int64, len(order))
	for i, row := range order {
		inverse[row] = int64(i)
	}
	for _, list := range []struct {
		to     **aclnn.Tensor
		values []int64
	}{{&p.order, order}, {&p.inverse, inverse}} {
		if *list.to, err = aclnn.New(st, aclnn.Int64, p.rows); err != nil {
			return err
		}
		if err := aclnn.CopyToDevice(ctx, st, *list.to, list.values); err != nil {
			return err
		}
	}
	return nil
}

// Rows returns the number of rows that this rank's experts receive from all ranks together.
func (p *ExpertPlan) Rows() int64 {
	if p == nil {
		return 0
	}
	return p.rows
}

// Groups returns the number of rows of each expert of this rank, for the grouped products.
func (p *ExpertPlan) Groups() ops.Groups {
	if p == nil {
		return ops.Groups{}
	}
	return ops.Groups{Host: p.groups}
}

// Dispatch sends rows [n, width], sorted by expert, to the ranks of the experts; out [Rows(),
// width] receives this rank's rows, sorted by expert.
func (p *ExpertPlan) Dispatch(st *acl.Stream, rows, out *aclnn.Tensor) error {
	return p.send(st, "dispatch to experts", rows, out, true, func(s *aclnn.Scope, rows, out *aclnn.Tensor) {
		recv := s.Tensor(rows.DType(), out.Shape()...)
		width := rows.Dim(1)
		p.exchange(s, rows, p.shared(0, width), recv, packed(p.in, width))
		pickRows(s, recv, p.order, out)
	})
}

// Combine sends the rows [Rows(), width] of this rank's experts back to their source ranks; out [n,
// width] receives them in the order of Dispatch's input, or the sum of those of all shards.
func (p *ExpertPlan) Combine(st *acl.Stream, rows, out *aclnn.Tensor) error {
	return p.send(st, "combination of experts", rows, out, false, func(s *aclnn.Scope, rows, out *aclnn.Tensor) {
		send, width := s.Like(rows), rows.Dim(1)
		pickRows(s, rows, p.inverse, send)
		recv := out
		if p.shards > 1 {
			recv = s.Tensor(rows.DType(), p.shards, p.sent, width)
		}
		p.exchange(s, send, packed(p.in, width), recv, p.shared(p.sent, width))
		if p.shards > 1 && out.Len() > 0 {
			aclnn.Launch(s, aclnn.ReduceSum, aclnn.ReduceSumParams{Self: recv, Dims: []int64{0}, Dtype: out.DType(), Out: out})
		}
	})
}

// shared returns the blocks of this rank's rows: those of the ranks that share experts begin so many rows apart.
func (p *ExpertPlan) shared(apart, width int64) hccl.Blocks {
	b := packed(p.out, width)
	at := int64(0) // of a group of ranks
	for r, n := range p.out {
		shard := int64(r) % p.shards
		b.Offsets = append(b.Offsets, (shard*apart+at)*width)
		if shard == p.shards-1 {
			at += n
		}
	}
	return b
}

// packed returns blocks of so many rows, one after another.
func packed(rows []int64, width int64) hccl.Blocks {
	counts := make([]int64, len(rows))
	for i, n := range rows {
		counts[i] = n * width
	}
	return hccl.Packed(counts...)
}

// send checks the shapes of rows and out, then exchanges them.
func (p *ExpertPlan) send(st *acl.Stream, what string, rows, out *aclnn.Tensor, there bool, body func(s *aclnn.Scope, rows, out *aclnn.Tensor)) error {
	if err := given(what, p, st, rows); err != nil {
		return err
	}
	from, to := p.sent, p.rows
	if !there {
		from, to = to, from
	}
	var c check.Args
	c.Tensor("rows", rows, check.Floats...)
	if c.OK() && rows.Rank() != 2 {
		c.Fail("rows is %v; it must be [rows, width]", rows)
	}
	if c.OK() {
		c.Shape("rows", rows, from, rows.Dim(1))
		c.Tensor("out", out, rows.DType())
		c.Shape("out", out, to, rows.Dim(1))
		c.Contiguous("out", out)
	}
	if c.Err != nil {
		return fmt.Errorf("%s: %w", what, c.Err)
	}
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		switch {
		case p.comm != nil:
			body(s, s.Contiguous(rows), out)
		case rows.Len() > 0:
			s.Copy(out, rows)
		}
	})
}

func total(counts []int64) int64 {
	n := int64(0)
	for _, k := range counts {
		n += k
	}
	return n
}

// exchange sends blocks of rows to the ranks.
func (p *ExpertPlan) exchange(s *aclnn.Scope, send *aclnn.Tensor, out hccl.Blocks, recv *aclnn.Tensor, in hccl.Blocks) {
	s.Do(func() error { return p.comm.AllToAllV(s.Stream, send, out, recv, in) })
}

// pickRows copies rows in the given order. It skips empty tensors, which CANN refuses.
func pickRows(s *aclnn.Scope, rows, order, out *aclnn.Tensor) {
	if rows.Len() > 0 {
		aclnn.Launch(s, aclnn.IndexSelect, aclnn.IndexSelectParams{Self: rows, Index: order, Out: out})
	}
}

// Close frees the tensors of the plan in stream order, after the work that is already queued.
func (p *ExpertPlan) Close() error {
	if p == nil {
		return nil
	}
	return errors.Join(p.order.Close(), p.inverse.Close())
}
