package parallel

import (
	"context"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/internal/check"
	"github.com/goascend/cann/ops/mask"
)

// This file splits the layers of a gated delta net by position. Such a layer reads earlier tokens through a state, and a convolution
// through a few tokens. Ranks hold contiguous parts of the sequence, so mask.ZigZag is refused.

// GatedDelta runs the gated delta rule on this rank's positions. The tensors hold only these, while CuSeqLens, if it is given, describes the whole row of packed
// sequences. Sequences start from zero states. InitialState, [N,Hv,K,V] for the N pieces of sequences that DeltaStates counts, must be given and
// receives the state before this rank's tokens, which GatedDeltaGrad reads; FinalState must be nil.
//
// What the tokens of a rank do to a state S is linear in S, S ↦ A·S + B. Each rank computes its A and B beside the others, all ranks gather them, and each
// combines those before it. That takes the rule three times: for B, for A by starting from the identity, and for the result.
func (p *ContextParallel) GatedDelta(ctx context.Context, st *acl.Stream, a *ops.GatedDeltaArgs) error {
	const what = "context-parallel gated delta rule"
	if err := given(what, p, st, a); err != nil {
		return err
	}
	d, err := p.cutDelta(a)
	if err == nil && a.FinalState != nil {
		err = check.Invalid("FinalState is %v; it must be nil", a.FinalState)
	}
	if err == nil {
		err = p.reg.GatedDelta().Check(&d.a)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		s.Zero(a.InitialState)
		if p.comm == nil {
			ops.Queue(ctx, s, p.reg.GatedDelta(), &d.a)
			return
		}
		carry := d.carry(s)
		if d.rank < d.ranks-1 {
			b := d.a
			b.InitialState, b.Out, b.FinalState = nil, s.Like(a.Out), s.Like(a.InitialState)
			ops.Queue(ctx, s, p.reg.GatedDelta(), &b)
			s.Copy(carry.Narrow(3, 0, d.values), b.FinalState.Narrow(0, d.pieces-d.rows, d.rows))
			d.transition(ctx, s, carry)
		}
		all := d.gather(s, carry)
		state := s.Tensor(aclnn.Float32, d.rows, d.heads, d.keys, d.values)
		s.Zero(state)
		for rank := range d.ranks {
			if rank < d.rank {
				state = d.step(ctx, s, all.Select(0, int64(rank)), state, false)
			}
		}
		if d.continues {
			s.Copy(a.InitialState.Narrow(0, 0, d.rows), state)
		}
		ops.Queue(ctx, s, p.reg.GatedDelta(), &d.a)
	})
}

// GatedDeltaGrad computes the gradients of GatedDelta for this rank's positions. InitialState is what GatedDelta wrote there; DFinalState and DInitialState
// must be nil.
func (p *ContextParallel) GatedDeltaGrad(ctx context.Context, st *acl.Stream, a *ops.GatedDeltaGradArgs) error {
	const what = "context-parallel gradient of the gated delta rule"
	if err := given(what, p, st, a); err != nil {
		return err
	}
	d, err := p.cutDelta(&a.GatedDeltaArgs)
	if err == nil && (a.DFinalState != nil || a.DInitialState != nil) {
		err = check.Invalid("DFinalState is %v and DInitialState %v; both must be nil", a.DFinalState, a.DInitialState)
	}
	local := *a
	local.GatedDeltaArgs = d.a
	if err == nil {
		err = p.reg.GatedDeltaGrad().Check(&local)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		if p.comm == nil {
			ops.Queue(ctx, s, p.reg.GatedDeltaGrad(), &local)
			return
		}
		// The gradient of a rank's first state is linear in that of its last one: A transposed, times it, and C, the part that comes
		// through the rank's own outputs.
		carry := d.carry(s)
		if d.continues {
			local.DInitialState = s.Like(a.InitialState)
			ops.Queue(ctx, s, p.reg.GatedDeltaGrad(), &local)
			s.Copy(carry.Narrow(3, 0, d.values), local.DInitialState.Narrow(0, 0, d.rows))
			if d.rank < d.ranks-1 {
				d.transition(ctx, s, carry)
			}
		}
		all := d.gather(s, carry)
		if d.continues && d.rank == d.ranks-1 {
			return // nothing follows, so these were the gradients
		}
		grad := s.Tensor(aclnn.Float32, d.rows, d.heads, d.keys, d.values)
		s.Zero(grad)
		for rank := d.ranks - 1; rank > d.rank; rank-- {
			grad = d.step(ctx, s, all.Select(0, int64(rank)), grad, true)
		}
		local.DInitialState, local.DFinalState = nil, s.Like(a.InitialState)
		s.Zero(local.DFinalState)
		s.Copy(local.DFinalState.Narrow(0, d.pieces-d.rows, d.rows), grad)
		ops.Queue(ctx, s, p.reg.GatedDeltaGrad(), &local)
	})
}

// DeltaStates returns the number of states that GatedDelta has on this rank for rows with tokens tokens here: one for each row, or with cu, the cumulative
// lengths of the sequences packed into the one row of the whole sequence, one for each piece of a sequence.
func (p *ContextParallel) DeltaStates(cu []int64, rows, tokens int64) (int64, error) {
	if p == nil {
		return 0, fmt.Errorf("context parallelism: %w", check.Invalid("the layer was not made"))
	}
	c, err := p.contiguous(cu, rows, tokens)
	return c.pieces, err
}

// contiguousCut is this rank's part of a sequence, or of a row of packed sequences.
type contiguousCut struct {
	rank, ranks int
	rows        int64
	local       []int64 // CuSeqLens of this rank's pieces; nil if each row is one sequence
	pieces      int64
	continues   bool  // whether the first piece began on an earlier rank
	before      int64 // how many of its tokens earlier ranks have
}

// contiguous cuts a sequence.
func (p *ContextParallel) contiguous(cu []int64, rows, tokens int64) (contiguousCut, error) {
	c := contiguousCut{ranks: 1, rows: rows, local: cu, pieces: rows}
	if cu != nil {
		c.pieces = int64(len(cu)) - 1
	}
	if p.comm == nil {
		return c, nil
	}
	c.rank, c.ranks = p.comm.Rank(), p.comm.Size()
	mine := mask.Range{From: int64(c.rank) * tokens, To: int64(c.rank+1) * tokens}
	length := int64(c.ranks) * tokens
	switch {
	case p.split != mask.Contiguous:
		return c, check.Invalid("positions are shared zig-zag; a state goes from one rank to the next, so use mask.Contiguous")
	case tokens == 0:
		return c, check.Invalid("there are no tokens")
	case cu == nil:
		c.continues, c.before = c.rank > 0, mine.From
		return c, nil
	case len(cu) < 2 || cu[0] != 0 || cu[len(cu)-1] != length:
		return c, check.Invalid("CuSeqLens is %v; it must go from 0 to %d, the number of tokens of all ranks", cu, length)
	}
	c.local = []int64{0}
	for i := 1; i < len(cu); i++ {
		if cu[i] <= cu[i-1] {
			return c, check.Invalid("CuSeqLens is %v; it must increase, as every sequence has tokens", cu)
		}
		from, to := max(cu[i-1], mine.From), min(cu[i], mine.To)
		if from >= to {
			continue
		}
		if len(c.local) == 1 {
			c.continues, c.before = cu[i-1] < mine.From, mine.From-cu[i-1]
		}
		c.local = append(c.local, to-mine.From)
	}
	c.pieces = int64(len(c.local)) - 1
	return c, nil
}

// deltaCut is a gated delta rule cut into this rank's part.
type deltaCut struct {
	contiguousCut
	p                   *ContextParallel
	a                   ops.GatedDeltaArgs // with this rank's pieces
	heads, keys, values int64              // Hv, K and V
}

func (p *ContextParallel) cutDelta(a *ops.GatedDeltaArgs) (d deltaCut, err error) {
	var c check.Args
	c.Tensor("Query", a.Query, check.Floats...)
	c.Tensor("Value", a.Value, check.Floats...)
	if c.OK() && (a.Query.Rank() != 4 || a.Value.Rank() != 4) {
		c.Fail("Query is %v and Value %v; they must be [B,T,heads,dimension]", a.Query, a.Value)
	}
	if c.OK() && a.InitialState == nil {
		c.Fail("InitialState is nil; it receives the state before this rank's tokens")
	}
	if !c.OK() {
		return d, c.Err
	}
	d = deltaCut{p: p, a: *a, heads: a.Value.Dim(2), keys: a.Query.Dim(3), values: a.Value.Dim(3)}
	d.contiguousCut, err = p.contiguous(a.CuSeqLens, a.Query.Dim(0), a.Query.Dim(1))
	d.a.CuSeqLens = d.local
	return d, err
}

// carry makes the tensor [rows,Hv,K,V+K] in which a rank passes on B, or C, and A, all zeros.
func (d *deltaCut) carry(s *aclnn.Scope) *aclnn.Tensor {
	t := s.Tensor(aclnn.Float32, d.rows, d.heads, d.keys, d.values+d.keys)
	s.Zero(t)
	return t
}

// gather joins what all ranks pass on.
func (d *deltaCut) gather(s *aclnn.Scope, carry *aclnn.Tensor) *aclnn.Tensor {
	all := s.Tensor(aclnn.Float32, append([]int64{int64(d.ranks)}, carry.Shape()...)...)
	s.Do(func() error { return d.p.comm.AllGather(s.Stream, carry, all) })
	return all
}

// transition computes A, the state that the rank's tokens make of the identity when they write nothing. Only if one sequence goes through the
// whole rank does a state reach its end; else A is 0.
func (d *deltaCut) transition(ctx context.Context, s *aclnn.Scope, carry *aclnn.Tensor) {
	if !d.continues || d.pieces != d.rows {
		return
	}
	a := d.a
	shape := a.Value.Shape()
	shape[3] = d.keys
	a.Value, a.Out = s.Tensor(a.Value.DType(), shape...), s.Tensor(a.Value.DType(), shape...)
	s.Zero(a.Value)
	a.InitialState = s.Tensor(aclnn.Float32, d.rows, d.heads, d.keys, d.keys)
	s.Zero(a.InitialState)
	s.Fill(a.InitialState.Reshape(d.rows, d.heads, d.keys*d.keys).Slice(2, 0, d.keys*d.keys, d.keys+1), aclnn.Float(1))
	a.FinalState = s.Like(a.InitialState)
	ops.Queue(ctx, s, d.p.reg.GatedDelta(), &a)
	s.Copy(carry.Narrow(3, d.values, d.keys), a.FinalState)
}

// step returns A·x + B, or with back Aᵀ·x + C, of one rank.
func (d *deltaCut) step(ctx context.Context, s *aclnn.Scope, carry, x *aclnn.Tensor, back bool) *aclnn.Tensor {
	through := s.Contiguous(carry.Narrow(3, d.values, d.keys)).Reshape(-1, d.keys, d.keys)
	if back {
		through = through.Transpose(1, 2)
	}
	out := s.Tensor(aclnn.Float32, d.rows*d.heads, d.keys, d.values)
	ops.Queue(ctx, s, d.p.reg.MatMul(), &ops.MatMulArgs{A: through, B: x.Reshape(-1, d.keys, d.values), Out: out})
	out = out.Reshape(d.rows, d.heads, d.keys, d.values)
	add(s, out, carry.Narrow(3, 0, d.values), 1)
	return out
}

// CausalConv runs the causal convolution on this rank's positions: X and Out hold only these, while CuSeqLens, if it is given, describes the whole
// row of packed sequences. The last tokens of the rank before come over. Sequences start from zeros; the states must be nil. A rank needs at least as many tokens as the
// convolution reads before one.
func (p *ContextParallel) CausalConv(ctx context.Context, st *acl.Stream, a *ops.CausalConvArgs) error {
	const what = "context-parallel causal convolution"
	if err := given(what, p, st, a); err != nil {
		return err
	}
	h, err := p.cutConv(a)
	if err == nil {
		err = p.reg.CausalConv().Check(&h.a)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		b := h.a
		b.X = h.extended(s, a.X)
		b.CuSeqLens = h.shifted()
		if h.tokens > 0 {
			b.Out = s.Tensor(a.Out.DType(), b.X.Shape()...)
		}
		ops.Queue(ctx, s, p.reg.CausalConv(), &b)
		if h.tokens > 0 {
			s.Copy(a.Out, b.Out.Narrow(1, h.tokens, a.X.Dim(1)))
		}
	})
}

// CausalConvGrad computes the gradients of CausalConv for this rank's positions; those of the weights are of these positions alone.
func (p *ContextParallel) CausalConvGrad(ctx context.Context, st *acl.Stream, a *ops.CausalConvGradArgs) error {
	const what = "context-parallel gradient of the causal convolution"
	if err := given(what, p, st, a); err != nil {
		return err
	}
	h, err := p.cutConv(&a.CausalConvArgs)
	local := *a
	local.CausalConvArgs = h.a
	if err == nil {
		err = p.reg.CausalConvGrad().Check(&local)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		b := local
		b.X, b.Out = h.extended(s, a.X), nil
		b.CuSeqLens = h.shifted()
		if h.tokens > 0 { // the tokens that came over have no outputs here
			b.DOut, b.DX = s.Tensor(a.DOut.DType(), b.X.Shape()...), s.Tensor(a.DX.DType(), b.X.Shape()...)
			s.Zero(b.DOut)
			s.Copy(b.DOut.Narrow(1, h.tokens, a.X.Dim(1)), a.DOut)
		}
		ops.Queue(ctx, s, p.reg.CausalConvGrad(), &b)
		if p.comm == nil || h.reach == 0 {
			return
		}
		home, ours := s.Tensor(a.DX.DType(), a.X.Dim(0), h.reach, a.X.Dim(2)), s.Tensor(a.DX.DType(), a.X.Dim(0), h.reach, a.X.Dim(2))
		s.Zero(home)
		if h.tokens > 0 {
			s.Copy(home.Narrow(1, h.reach-h.tokens, h.tokens), b.DX.Narrow(1, 0, h.tokens))
			s.Copy(a.DX, b.DX.Narrow(1, h.tokens, a.X.Dim(1)))
		}
		var messages []hccl.Message
		if h.rank > 0 {
			messages = append(messages, hccl.SendTo(h.rank-1, home))
		}
		if h.rank < h.ranks-1 {
			messages = append(messages, hccl.RecvFrom(h.rank+1, ours))
		}
		s.Do(func() error { return p.comm.Exchange(st, messages...) })
		if h.rank < h.ranks-1 {
			add(s, a.DX.Narrow(1, a.X.Dim(1)-h.reach, h.reach), ours, 1)
		}
	})
}

// convCut is a causal convolution cut into this rank's part.
type convCut struct {
	contiguousCut
	p      *ContextParallel
	a      ops.CausalConvArgs // with this rank's pieces
	reach  int64              // tokens that the convolution reads before one
	tokens int64              // of the sequence that began earlier, which this rank needs
}

func (p *ContextParallel) cutConv(a *ops.CausalConvArgs) (h convCut, err error) {
	var c check.Args
	c.Tensor("X", a.X, check.Floats...)
	c.Tensor("Weight", a.Weight, check.Floats...)
	if c.OK() && (a.X.Rank() != 3 || a.Weight.Rank() != 2) {
		c.Fail("X is %v and Weight %v; they must be [B,T,D] and [D,W]", a.X, a.Weight)
	}
	if c.OK() && (a.InitialState != nil || a.FinalState != nil) {
		c.Fail("InitialState is %v and FinalState %v; both must be nil", a.InitialState, a.FinalState)
	}
	if !c.OK() {
		return h, c.Err
	}
	h = convCut{p: p, a: *a, reach: a.Weight.Dim(1) - 1}
	if h.contiguousCut, err = p.contiguous(a.CuSeqLens, a.X.Dim(0), a.X.Dim(1)); err != nil {
		return h, err
	}
	if h.ranks > 1 && a.X.Dim(1) < h.reach {
		return h, check.Invalid("a rank has %d tokens, and a convolution with %d taps reads %d before each; use fewer ranks", a.X.Dim(1), h.reach+1, h.reach)
	}
	h.a.CuSeqLens = h.local
	if h.continues {
		h.tokens = min(h.before, h.reach)
	}
	return h, nil
}

// extended returns x behind the tokens that this rank needs of the rank before.
func (h *convCut) extended(s *aclnn.Scope, x *aclnn.Tensor) *aclnn.Tensor {
	if h.ranks == 1 || h.reach == 0 {
		return x
	}
	tail := s.Contiguous(x.Narrow(1, x.Dim(1)-h.reach, h.reach))
	came := s.Like(tail)
	var messages []hccl.Message
	if h.rank < h.ranks-1 {
		messages = append(messages, hccl.SendTo(h.rank+1, tail))
	}
	if h.rank > 0 {
		messages = append(messages, hccl.RecvFrom(h.rank-1, came))
	}
	s.Do(func() error { return h.p.comm.Exchange(s.Stream, messages...) })
	if h.tokens == 0 {
		return x
	}
	out := s.Tensor(x.DType(), x.Dim(0), h.tokens+x.Dim(1), x.Dim(2))
	s.Copy(out.Narrow(1, 0, h.tokens), came.Narrow(1, h.reach-h.tokens, h.tokens))
	s.Copy(out.Narrow(1, h.tokens, x.Dim(1)), x)
	return out
}

// shifted returns the cumulative lengths of the extended pieces.
func (h *convCut) shifted() []int64 {
	if h.local == nil {
		return nil
	}
	cu := []int64{0}
	for _, end := range h.local[1:] {
		cu = append(cu, end+h.tokens)
	}
	return cu
}
