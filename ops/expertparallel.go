package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
)

// ExpertParallel deals the experts of a layer to the ranks of a communicator: of n ranks and
// e experts, rank r has the experts from r·e/n on. Rows, permuted by expert on each rank, go to
// the ranks of their experts and come back:
//
//	plan, err := p.Plan(ctx, st, sums)              // of MoEPermute
//	err = plan.Dispatch(st, rows, mine)             // mine [plan.Rows(), width]
//	… MoEExperts with plan.Groups() …
//	err = plan.Combine(st, mine, rows)
//
// The gradient of Dispatch is Combine, and the other way round.
type ExpertParallel struct{ comm Communicator }

// NewExpertParallel makes the exchange of a rank. comm may be nil for a group of one, which
// needs no plan.
func NewExpertParallel(comm Communicator) *ExpertParallel {
	if comm != nil && comm.Size() == 1 {
		comm = nil
	}
	return &ExpertParallel{comm: comm}
}

// Size is the number of ranks.
func (p *ExpertParallel) Size() int64 {
	if p.comm == nil {
		return 1
	}
	return int64(p.comm.Size())
}

// ExpertPlan is the exchange of one layer's rows. Close frees it, in stream order.
type ExpertPlan struct {
	comm           Communicator
	out, in        []int64 // rows to and from each rank
	rows           int64   // that this rank's experts get
	groups         []int64 // of them, by expert
	order, inverse *aclnn.Tensor
}

// Plan reads how many rows each rank has for each expert: sums [experts] of MoEPermute,
// int32. It waits for the stream, for the sizes of what comes are not known before.
func (p *ExpertParallel) Plan(ctx context.Context, st *acl.Stream, sums *aclnn.Tensor) (*ExpertPlan, error) {
	var c check
	c.tensor("Sums", sums, aclnn.Int32)
	if c.ok() && (sums.Rank() != 1 || sums.Len() == 0 || sums.Len()%p.Size() != 0) {
		c.fail("Sums is %v; it must be [experts], a multiple of the %d ranks", sums, p.Size())
	}
	if c.err != nil {
		return nil, fmt.Errorf("plan of experts: %w", c.err)
	}
	ends := make([]int32, p.Size()*sums.Len())
	err := compose(st, func(s *steps) {
		all := s.tensor(aclnn.Int32, p.Size(), sums.Len())
		switch {
		case s.err != nil:
		case p.comm == nil:
			s.store(all, sums.Unsqueeze(0))
		default:
			s.err = p.comm.AllGather(st, s.dense(sums), all)
		}
		if s.err == nil {
			s.err = aclnn.CopyFromDevice(ctx, st, ends, all)
		}
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

// planExperts divides the rows, given where those of each expert end on each rank,
// [ranks, experts].
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

// rowsOf is how many rows the experts [from, to) have.
func rowsOf(ends []int32, from, to int64) int64 {
	n := int64(ends[to-1])
	if from > 0 {
		n -= int64(ends[from-1])
	}
	return n
}

// sourceOrder lists, by expert of this rank, which of the rows that come rank after rank are
// its own.
func sourceOrder(ends []int32, ranks, rank int64) []int64 {
	experts := int64(len(ends)) / ranks
	block := experts / ranks
	next := make([]int64, ranks) // the first row of each rank that is not taken yet
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

// Rows is how many rows this rank's experts get, from all ranks together.
func (p *ExpertPlan) Rows() int64 { return p.rows }

// Groups deals them to the experts, for the grouped products.
func (p *ExpertPlan) Groups() Groups { return Groups{Host: p.groups} }

// Dispatch sends rows [n, width], sorted by expert, to the ranks of the experts; out
// [Rows(), width] receives this rank's, sorted by expert.
func (p *ExpertPlan) Dispatch(st *acl.Stream, rows, out *aclnn.Tensor) error {
	return p.move(st, "dispatch to experts", rows, out, p.out, p.in, func(s *steps, rows, out *aclnn.Tensor) {
		recv := s.tensor(rows.DType(), out.Shape()...)
		p.exchange(s, rows, p.out, recv, p.in)
		pickRows(s, recv, p.order, out)
	})
}

// Combine sends rows [Rows(), width] of this rank's experts back to where they came from; out
// [n, width] receives them in the order that Dispatch had.
func (p *ExpertPlan) Combine(st *acl.Stream, rows, out *aclnn.Tensor) error {
	return p.move(st, "combination of experts", rows, out, p.in, p.out, func(s *steps, rows, out *aclnn.Tensor) {
		send := s.tensor(rows.DType(), rows.Shape()...)
		pickRows(s, rows, p.inverse, send)
		p.exchange(s, send, p.in, out, p.out)
	})
}

// move checks tensors with as many rows as the ranks exchange.
func (p *ExpertPlan) move(st *acl.Stream, what string, rows, out *aclnn.Tensor, from, to []int64, body func(s *steps, rows, out *aclnn.Tensor)) error {
	var c check
	c.tensor("rows", rows, floats...)
	if c.ok() && rows.Rank() != 2 {
		c.fail("rows is %v; it must be [rows, width]", rows)
	}
	if c.ok() {
		c.shape("rows", rows, total(from), rows.Dim(1))
		c.tensor("out", out, rows.DType())
		c.shape("out", out, total(to), rows.Dim(1))
		c.contiguous("out", out)
	}
	if c.err != nil {
		return fmt.Errorf("%s: %w", what, c.err)
	}
	return compose(st, func(s *steps) {
		switch {
		case p.comm != nil:
			body(s, s.dense(rows), out)
		case rows.Len() > 0:
			s.store(out, rows)
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

// exchange sends rows to the ranks; counts are rows.
func (p *ExpertPlan) exchange(s *steps, send *aclnn.Tensor, out []int64, recv *aclnn.Tensor, in []int64) {
	if s.err != nil {
		return
	}
	width := send.Dim(1)
	elements := func(rows []int64) hccl.Blocks {
		counts := make([]int64, len(rows))
		for i, n := range rows {
			counts[i] = n * width
		}
		return hccl.Packed(counts...)
	}
	s.err = p.comm.AllToAllV(s.st, send, elements(out), recv, elements(in))
}

// pickRows leaves out empty work, which CANN refuses.
func pickRows(s *steps, rows, order, out *aclnn.Tensor) {
	if rows.Len() > 0 {
		s.pick(rows, order, out)
	}
}

// Close frees what the plan holds; work that is queued still uses it.
func (p *ExpertPlan) Close() error { return errors.Join(p.order.Close(), p.inverse.Close()) }
