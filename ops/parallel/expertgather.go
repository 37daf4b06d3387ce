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

// Experts over gathered tokens: in place of Plan, each rank gathers the tokens of all ranks with their choices, takes those of its experts (Own), and the results are
// summed over the ranks (Reduce). Nothing of it depends on how many rows an expert gets, so that the host does not wait, and a graph can capture it. A rank receives
// ranks-1 times its tokens each way, whatever the routing, where Dispatch receives about k·(ranks-1)/ranks times as many.

// Gather joins x [tokens, n] of all ranks in full [ranks·tokens, n], by rank. All ranks have equally many tokens. Reduce computes its gradient.
func (p *ExpertParallel) Gather(st *acl.Stream, x, full *aclnn.Tensor) error {
	return p.join(st, "gather of tokens", x, full, func() error { return p.comm.AllGather(st, x, full) })
}

// Reduce sums full [ranks·tokens, n] over the ranks, each of which has the results of its own experts or shards of experts, and stores this rank's tokens in x [tokens, n]. Gather computes
// its gradient.
func (p *ExpertParallel) Reduce(st *acl.Stream, full, x *aclnn.Tensor) error {
	return p.join(st, "sum of tokens", x, full, func() error { return p.comm.ReduceScatter(st, full, x, hccl.Sum) })
}

// join checks tensors and exchanges them; in a group of one they must be the same.
func (p *ExpertParallel) join(st *acl.Stream, what string, x, full *aclnn.Tensor, exchange func() error) error {
	if err := given(what, p, st, x); err != nil {
		return err
	}
	var c check.Args
	c.Tensor("x", x, append([]aclnn.DType{aclnn.Int32}, check.Floats...)...)
	if c.OK() && (x.Rank() != 2 || x.Dim(0) < 1) {
		c.Fail("x is %v; it must be [tokens, n], with tokens", x)
	}
	if c.OK() {
		c.Tensor("full", full, x.DType())
		c.Shape("full", full, p.Size()*x.Dim(0), x.Dim(1))
	}
	if c.OK() {
		c.Contiguous("x", x)
		c.Contiguous("full", full)
	}
	if c.OK() && p.comm == nil && x.Address() != full.Address() {
		c.Fail("x %v and full %v must be the same tensor in a group of one", x, full)
	}
	if c.Err != nil {
		return fmt.Errorf("%s: %w", what, c.Err)
	}
	if p.comm == nil {
		return nil
	}
	return exchange()
}

// OwnRowsArgs describes the choice of the rows of this rank's experts among tokens that all ranks have: Rows holds a token once for each of its experts that are of
// this rank, ordered by expert and, within an expert, by token.
type OwnRowsArgs struct {
	X       *aclnn.Tensor // [tokens, width], contiguous; float32, float16 or bfloat16
	Experts *aclnn.Tensor // [tokens, k], int32, contiguous, of MoERouting: numbers among the experts of all ranks
	Count   int64         // the experts of all ranks
	// Rows is [room, width], for tokens·k rows at most. What lies behind the rows of this rank's experts has no meaning.
	Rows *aclnn.Tensor
	// Places is [tokens·k], int32: entry t·k+j is the row of the j-th choice of token t, and tokens·k if it has none, for Partial of MoEUnpermute and of the gradients.
	Places *aclnn.Tensor
	// Ends is [experts of this rank], int32, where the rows of each expert end, as Groups{Device: Ends, Cumulative: true} takes them.
	Ends *aclnn.Tensor
	// Excess is [1], int32: the number of rows for which there was no room, if that is more than it holds already; results then lack these rows. It may be nil where
	// Rows has room for all rows that can be, tokens·min(k, experts of this rank).
	Excess *aclnn.Tensor
}

func (p *ExpertParallel) checkOwn(a *OwnRowsArgs) error {
	var c check.Args
	c.Tensor("X", a.X, check.Floats...)
	c.Tensor("Experts", a.Experts, aclnn.Int32)
	c.Tensor("Ends", a.Ends, aclnn.Int32)
	c.Tensor("Places", a.Places, aclnn.Int32)
	if c.OK() && (a.X.Rank() != 2 || a.Experts.Rank() != 2 || a.X.Dim(0) != a.Experts.Dim(0) || a.Experts.Len() == 0) {
		c.Fail("X is %v and Experts %v; they must be [tokens, width] and [tokens, k], with tokens", a.X, a.Experts)
	}
	if groups, _ := p.owners(); c.OK() && (a.Count < 1 || a.Count%groups != 0) {
		c.Fail("Count is %d; it must be a positive multiple of the %d ranks, or groups of ranks, that have different experts", a.Count, groups)
	}
	if c.OK() {
		c.Shape("Ends", a.Ends, p.Experts(a.Count))
		c.Shape("Places", a.Places, a.Experts.Len())
		c.Tensor("Rows", a.Rows, a.X.DType())
	}
	if c.OK() {
		room, most := a.Rows.Dim(0), a.X.Dim(0)*min(a.Experts.Dim(1), a.Ends.Len())
		switch {
		case a.Rows.Rank() != 2 || a.Rows.Dim(1) != a.X.Dim(1) || room < 1 || room > a.Experts.Len():
			c.Fail("Rows is %v; it must be [room, %d], of 1 to %d rows", a.Rows, a.X.Dim(1), a.Experts.Len())
		case a.Excess == nil && room < most:
			c.Fail("Rows is %v and %d rows can come; Excess must say how many found no room", a.Rows, most)
		case a.Excess != nil && (a.Excess.Err() != nil || a.Excess.DType() != aclnn.Int32 || a.Excess.Len() != 1):
			c.Fail("Excess is %v; it must be [1], int32", a.Excess)
		}
	}
	for _, t := range []named{{"X", a.X}, {"Experts", a.Experts}, {"Rows", a.Rows}, {"Places", a.Places}, {"Ends", a.Ends}} {
		if c.OK() {
			c.Contiguous(t.name, t.tensor)
		}
	}
	return c.Err
}

// Own takes the rows of this rank's experts, with the kernel of MoEPermute that reg chooses.
func (p *ExpertParallel) Own(ctx context.Context, st *acl.Stream, reg *ops.Registry, a *OwnRowsArgs) error {
	const what = "rows of own experts"
	err := given(what, p, st, a)
	if err == nil {
		err = given(what, reg, st, a)
	}
	if err != nil {
		return err
	}
	if err := p.checkOwn(a); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	err = aclnn.Compose(st, func(s *aclnn.Scope) {
		sums := s.Tensor(aclnn.Int32, a.Count)
		ops.Queue(ctx, s, reg.MoEPermute(), &ops.MoEPermuteArgs{
			X: a.X, Experts: p.ownFirst(s, a), Rows: a.Rows, Places: a.Places, Sums: sums, Partial: true,
		})
		own, room := a.Ends.Len(), a.Rows.Dim(0)
		sums = sums.Narrow(0, 0, own)
		aclnn.Launch(s, aclnn.ClampMax, aclnn.ClampMaxParams{Self: sums, ClipValueMax: aclnn.Int(room), Out: a.Ends})
		if a.Excess != nil {
			over := s.Tensor(aclnn.Int32, 1)
			aclnn.Launch(s, aclnn.Adds, aclnn.AddsParams{Self: sums.Narrow(0, own-1, 1), Other: aclnn.Int(-room), Alpha: aclnn.Int(1), Out: over})
			excess := a.Excess.Reshape(1)
			aclnn.Launch(s, aclnn.Maximum, aclnn.MaximumParams{Self: excess, Other: over, Out: excess})
		}
		others := s.Tensor(aclnn.Bool, a.Places.Len())
		aclnn.Launch(s, aclnn.GeTensor, aclnn.GeTensorParams{Self: a.Places, Other: a.Ends.Narrow(0, own-1, 1), Out: others})
		aclnn.Launch(s, aclnn.InplaceMaskedFillScalar, aclnn.InplaceMaskedFillScalarParams{Self: a.Places, Mask: others, Value: aclnn.Int(a.Places.Len())})
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// ownFirst numbers the experts anew so that those of this rank come first.
func (p *ExpertParallel) ownFirst(s *aclnn.Scope, a *OwnRowsArgs) *aclnn.Tensor {
	_, own := p.owners()
	if own == 0 {
		return a.Experts
	}
	first := own * a.Ends.Len()
	shifted, wrapped := s.Like(a.Experts), s.Like(a.Experts)
	aclnn.Launch(s, aclnn.Adds, aclnn.AddsParams{Self: a.Experts, Other: aclnn.Int(a.Count - first), Alpha: aclnn.Int(1), Out: shifted})
	aclnn.Launch(s, aclnn.FmodScalar, aclnn.FmodScalarParams{Self: shifted, Other: aclnn.Int(a.Count), Out: wrapped})
	return wrapped
}
