package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// MoEPermuteArgs sorts tokens by expert: Rows holds every token once for each of its experts,
// ordered by expert and, within an expert, by token.
type MoEPermuteArgs struct {
	X       *aclnn.Tensor // [tokens, width]; float32, float16 or bfloat16
	Experts *aclnn.Tensor // [tokens, k], int32, of MoERouting, in [0, experts)
	Rows    *aclnn.Tensor // [tokens·k, width], dtype of X
	// Places is [tokens·k], int32: entry t·k+j is the row of the j-th choice of token t.
	Places *aclnn.Tensor
	// Sums is [experts], int32: the cumulative number of rows up to and including each expert, as
	// Groups{Device: Sums, Cumulative: true} takes it.
	Sums *aclnn.Tensor
}

func (a *MoEPermuteArgs) validate() error {
	var c args
	c.Tensor("X", a.X, floats...)
	c.Tensor("Experts", a.Experts, aclnn.Int32)
	c.Tensor("Sums", a.Sums, aclnn.Int32)
	if !c.OK() {
		return c.Err
	}
	if a.X.Rank() != 2 || a.Experts.Rank() != 2 || a.X.Dim(0) != a.Experts.Dim(0) {
		c.Fail("X is %v and Experts %v; they must be [tokens, width] and [tokens, k]", a.X, a.Experts)
	}
	if a.Sums.Rank() != 1 || a.Sums.Dim(0) < 1 {
		c.Fail("Sums is %v; it must be [experts]", a.Sums)
	}
	c.permuted(a.Rows, a.Places, a.X, a.Experts.Len())
	return c.Err
}

// permuted checks rows sorted by expert and their places.
func (c *args) permuted(rows, places, like *aclnn.Tensor, n int64) {
	if !c.OK() {
		return
	}
	c.Tensor("Rows", rows, like.DType())
	c.Shape("Rows", rows, n, like.Dim(-1))
	c.Tensor("Places", places, aclnn.Int32)
	c.Shape("Places", places, n)
	if c.OK() {
		c.Contiguous("Places", places)
	}
}

// MoEPermuteKey holds the properties by which kernels of MoEPermute are chosen.
type MoEPermuteKey struct {
	X                 aclnn.DType
	Width, Experts, K int64
	Tokens            Extent
	Contiguous        bool // whether all tensors are contiguous
}

func (a *MoEPermuteArgs) key() MoEPermuteKey {
	return MoEPermuteKey{
		X: a.X.DType(), Width: a.X.Dim(1), Experts: a.Sums.Dim(0), K: a.Experts.Dim(1), Tokens: ExtentOf(a.X.Dim(0)),
		Contiguous: contiguous(a.X, a.Experts, a.Rows, a.Sums),
	}
}

// sumsUpTo makes aclnnMoeInitRoutingV2 count the rows up to and including each expert.
const sumsUpTo = 1

func newMoEPermute(reg *Registry) *Op[MoEPermuteArgs, MoEPermuteKey] {
	return op(reg, "moe_permute", (*MoEPermuteArgs).validate, (*MoEPermuteArgs).key,
		Kernel[MoEPermuteArgs, MoEPermuteKey]{
			Name: "MoeInitRoutingV2", Supports: trains[MoEPermuteKey](&aclnn.MoeInitRoutingV2Params{}),
			Run: func(_ context.Context, st *acl.Stream, a *MoEPermuteArgs) error {
				return a.run(st, func(s *steps) {
					rows, sums := s.Target(a.Rows), s.Target(a.Sums)
					launch(s, aclnn.MoeInitRoutingV2, aclnn.MoeInitRoutingV2Params{
						X: s.Contiguous(a.X), ExpertIdx: s.Contiguous(a.Experts), ExpertNumOptional: a.Sums.Dim(0), ExpertTokensCountOrCumsumFlagOptional: sumsUpTo,
						ExpandedXOut: rows, ExpandedRowIdxOut: a.Places, ExpertTokensCountOrCumsumOutOptional: sums,
					})
					s.Finish(a.Rows, rows)
					s.Finish(a.Sums, sums)
				})
			},
		},
		Kernel[MoEPermuteArgs, MoEPermuteKey]{
			Name: "MoeTokenPermute",
			Supports: func(env *Env, _ MoEPermuteKey) error {
				return errors.Join(env.Has(&aclnn.MoeTokenPermuteParams{}), available(&aclnn.MoeComputeExpertTokensParams{}))
			},
			Run: func(_ context.Context, st *acl.Stream, a *MoEPermuteArgs) error {
				return a.run(st, func(s *steps) {
					launch(s, aclnn.MoeTokenPermute, aclnn.MoeTokenPermuteParams{
						Tokens: s.Contiguous(a.X), Indices: s.Contiguous(a.Experts), PermuteTokensOut: a.Rows, SortedIndicesOut: a.Places,
					})
					sorted, _ := s.sort(s.Contiguous(a.Experts).Reshape(-1))
					launch(s, aclnn.MoeComputeExpertTokens, aclnn.MoeComputeExpertTokensParams{SortedExperts: sorted, NumExperts: a.Sums.Dim(0), Out: a.Sums})
				})
			},
		},
		Kernel[MoEPermuteArgs, MoEPermuteKey]{
			Name: "composite",
			Run: func(_ context.Context, st *acl.Stream, a *MoEPermuteArgs) error {
				return a.run(st, func(s *steps) {
					tokens, k, n := a.X.Dim(0), a.Experts.Dim(1), a.Experts.Len()
					sorted, order := s.sort(s.Contiguous(a.Experts).Reshape(-1))
					copies := s.Tensor(a.X.DType(), tokens, k, a.X.Dim(1))
					s.Copy(copies, a.X.Unsqueeze(1))
					s.pick(copies.Reshape(n, -1), order, a.Rows)
					_, places := s.sort(order)
					s.Copy(a.Places, places)
					// The cumulative count of an expert is the number of rows whose expert is not
					// above it.
					ids := s.Tensor(aclnn.Int32, a.Sums.Dim(0), 1)
					launch(s, aclnn.Arange, aclnn.ArangeParams{Start: aclnn.Int(0), End: aclnn.Int(ids.Dim(0)), Step: aclnn.Int(1), Out: ids.Reshape(-1)})
					below := s.Tensor(aclnn.Bool, ids.Dim(0), n)
					launch(s, aclnn.LeTensor, aclnn.LeTensorParams{Self: sorted.Unsqueeze(0), Other: ids, Out: below})
					s.Copy(a.Sums, s.sum(s.float(below), 1).Reshape(-1))
				})
			},
		})
}

// run handles the case without tokens, in which all sums are zero.
func (a *MoEPermuteArgs) run(st *acl.Stream, body func(*steps)) error {
	return compose(st, func(s *steps) {
		if a.Experts.Len() == 0 {
			s.Zero(a.Sums)
			return
		}
		body(s)
	})
}

// exactInts is the number of integers from 0 on that float32 holds exactly.
const exactInts = 1 << 24

// sort sorts a list of integers from 0 to exactInts in ascending order, stably, and also returns
// the original indices. It sorts them as float32, because CANN sorts integers, and a list of one,
// on the slow AI CPU.
func (s *steps) sort(t *aclnn.Tensor) (sorted, order *aclnn.Tensor) {
	order = s.Tensor(aclnn.Int64, t.Len())
	switch {
	case t.Len() > exactInts:
		s.Fail(fmt.Errorf("%w: %d rows; at most %d can be ordered", ErrInvalid, t.Len(), exactInts))
		return t, order
	case t.Len() == 1:
		s.Zero(order)
		return t, order
	}
	values := s.Tensor(aclnn.Float32, t.Len())
	launch(s, aclnn.Sort, aclnn.SortParams{Self: s.float(t), Stable: true, ValuesOut: values, IndicesOut: order})
	return s.Cast(values, t.DType()), order
}

// pick copies rows by their numbers.
func (s *steps) pick(t, rows, out *aclnn.Tensor) {
	launch(s, aclnn.IndexSelect, aclnn.IndexSelectParams{Self: t, Index: rows, Out: out})
}

// MoEPermuteGradArgs describes the gradient of MoEPermute: the gradient of a token is the sum of
// those of its rows.
type MoEPermuteGradArgs struct {
	DRows  *aclnn.Tensor // [tokens·k, width]
	Places *aclnn.Tensor // [tokens·k], int32, of MoEPermute
	DX     *aclnn.Tensor // [tokens, width], dtype of DRows
}

func (a *MoEPermuteGradArgs) validate() error {
	var c args
	c.Tensor("DX", a.DX, floats...)
	c.Tensor("DRows", a.DRows, floats...)
	if !c.OK() {
		return c.Err
	}
	if a.DX.Rank() != 2 || a.DRows.Rank() != 2 || a.DX.Dim(0) > 0 && a.DRows.Dim(0)%a.DX.Dim(0) != 0 {
		c.Fail("DX is %v and DRows %v; they must be [tokens, width] and [tokens·k, width]", a.DX, a.DRows)
		return c.Err
	}
	c.permuted(a.DRows, a.Places, a.DX, a.DRows.Dim(0))
	return c.Err
}

// MoEPermuteGradKey holds the properties by which kernels of MoEPermuteGrad are chosen.
type MoEPermuteGradKey struct {
	DX           aclnn.DType
	Width        int64
	Tokens, Rows Extent
	Contiguous   bool // whether all tensors are contiguous
}

func (a *MoEPermuteGradArgs) key() MoEPermuteGradKey {
	return MoEPermuteGradKey{
		DX: a.DX.DType(), Width: a.DX.Dim(1), Tokens: ExtentOf(a.DX.Dim(0)), Rows: ExtentOf(a.DRows.Dim(0)), Contiguous: contiguous(a.DRows, a.DX),
	}
}

func newMoEPermuteGrad(reg *Registry) *Op[MoEPermuteGradArgs, MoEPermuteGradKey] {
	return op(reg, "moe_permute_grad", (*MoEPermuteGradArgs).validate, (*MoEPermuteGradArgs).key,
		Kernel[MoEPermuteGradArgs, MoEPermuteGradKey]{
			Name: "MoeTokenPermuteGrad", Supports: trains[MoEPermuteGradKey](&aclnn.MoeTokenPermuteGradParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *MoEPermuteGradArgs) error {
				if a.DX.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					launch(s, aclnn.MoeTokenPermuteGrad, aclnn.MoeTokenPermuteGradParams{
						PermutedOutputGrad: s.Contiguous(a.DRows), SortedIndices: a.Places, NumTopk: a.DRows.Dim(0) / a.DX.Dim(0), Out: a.DX,
					})
				})
			},
		},
		Kernel[MoEPermuteGradArgs, MoEPermuteGradKey]{
			Name: "composite",
			Run: func(_ context.Context, st *acl.Stream, a *MoEPermuteGradArgs) error {
				if a.DX.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					s.Copy(a.DX, s.sum(s.gathered(a.DRows, a.Places, a.DX.Dim(0)), 1).Squeeze(1))
				})
			},
		})
}

// gathered returns the rows of each token in float32, [tokens, k, width].
func (s *steps) gathered(rows, places *aclnn.Tensor, tokens int64) *aclnn.Tensor {
	out := s.Like(rows)
	s.pick(rows, places, out)
	return s.float(out).Reshape(tokens, -1, rows.Dim(1))
}
