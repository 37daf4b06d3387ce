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
type ExpertParallel struct{ comm Communicator }

// NewExpertParallel makes the exchange of one rank. comm may be nil for a group of one, in which rows are
// only copied.
func NewExpertParallel(comm Communicator) *ExpertParallel {
	if comm != nil && comm.Size() == 1 {
		comm = nil
	}
	return &ExpertParallel{comm: comm}
}

// Size returns the number of ranks.
func (p *ExpertParallel) Size() int64 {
	if p == nil || p.comm == nil {
		return 1
	}
	return int64(p.comm.Size())
}

// ExpertPlan describes the exchange of one layer's rows. Close frees it in stream order.
type ExpertPlan struct {
	comm           Communicator
	out, in        []int64 // rows to and from each rank
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
	if c.OK() && (sums.Rank() != 1 || sums.Len() == 0 || sums.Len()%p.Size() != 0) {
		c.Fail("Sums is %v; it must be [experts], a multiple of the %d ranks", sums, p.Size())
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
	rank := int64(0)
	if p.comm != nil {
		rank = int64(p.comm.Rank())
	}
	plan := planExperts(ends, p.Size(), rank)
	plan.comm = p.comm
	if p.comm == nil { // the rows are in order already
		return plan, nil
	}
	if err := plan.upload(ctx, st, sourceOrder(ends, p.Size(), rank)); err != nil {
		return nil, errors.Join(fmt.Errorf("plan of experts: %w", err), plan.Close())
	}
	return plan, nil
}

// planExperts computes the plan from ends [ranks, experts], where the rows of each expert end on
// each rank.
func planExperts(ends []int32, ranks, rank int64) *ExpertPlan {
	experts := int64(len(ends)) / ranks
	block := experts / ranks
	plan := &ExpertPlan{out: make([]int64, ranks), in: make([]int64, ranks), groups: make([]int64, block)}
	for r := range ranks {
		plan.out[r] = rowsOf(ends[rank*experts:][:experts], r*block, (r+1)*block)
		list := ends[r*experts:][:experts]
		for e := range block {
			n := rowsOf(list, rank*block+e, rank*block+e+1)
			plan.groups[e] += n
			plan.in[r] += n
		}
		plan.rows += plan.in[r]
	}
	return plan
}

// rowsOf returns the number of rows of the experts [from, to).
func rowsOf(ends []int32, from, to int64) int64 {
	n := int64(ends[to-1])
	if from > 0 {
		n -= int64(ends[from-1])
	}
	return n
}

// sourceOrder lists, by expert of this rank, the numbers of its rows among the received rows, which
// are ordered by source rank.
func sourceOrder(ends []int32, ranks, rank int64) []int64 {
	experts := int64(len(ends)) / ranks
	block := experts / ranks
	next := make([]int64, ranks) // the next row of each rank
	at := int64(0)
	for r := range ranks {
		next[r] = at
		at += rowsOf(ends[r*experts:][:experts], rank*block, (rank+1)*block)
	}
	order := make([]int64, 0, at)
	for e := range block {
		for r := range ranks {
			for range rowsOf(ends[r*experts:][:experts], rank*block+e, rank*block+e+1) {
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
		p.exchange(s, rows, p.out, recv, p.in)
		pickRows(s, recv, p.order, out)
	})
}

// Combine sends the rows [Rows(), width] of this rank's experts back to their source ranks; out [n,
// width] receives them in the order of Dispatch's input.
func (p *ExpertPlan) Combine(st *acl.Stream, rows, out *aclnn.Tensor) error {
	return p.send(st, "combination of experts", rows, out, false, func(s *aclnn.Scope, rows, out *aclnn.Tensor) {
		send := s.Like(rows)
		pickRows(s, rows, p.inverse, send)
		p.exchange(s, send, p.in, out, p.out)
	})
}

// send checks the shapes of rows and out, then exchanges them.
func (p *ExpertPlan) send(st *acl.Stream, what string, rows, out *aclnn.Tensor, there bool, body func(s *aclnn.Scope, rows, out *aclnn.Tensor)) error {
	if err := given(what, p, st, rows); err != nil {
		return err
	}
	from, to := p.out, p.in
	if !there {
		from, to = p.in, p.out
	}
	var c check.Args
	c.Tensor("rows", rows, check.Floats...)
	if c.OK() && rows.Rank() != 2 {
		c.Fail("rows is %v; it must be [rows, width]", rows)
	}
	if c.OK() {
		c.Shape("rows", rows, total(from), rows.Dim(1))
		c.Tensor("out", out, rows.DType())
		c.Shape("out", out, total(to), rows.Dim(1))
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

// exchange sends blocks of rows to the ranks; out and in count rows.
func (p *ExpertPlan) exchange(s *aclnn.Scope, send *aclnn.Tensor, out []int64, recv *aclnn.Tensor, in []int64) {
	width := send.Dim(1)
	elements := func(rows []int64) hccl.Blocks {
		counts := make([]int64, len(rows))
		for i, n := range rows {
			counts[i] = n * width
		}
		return hccl.Packed(counts...)
	}
	s.Do(func() error { return p.comm.AllToAllV(s.Stream, send, elements(out), recv, elements(in)) })
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
