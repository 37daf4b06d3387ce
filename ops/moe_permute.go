package ops

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// MoEPermuteArgs brings the tokens of each expert together: Rows holds every token once for
// each of its experts, sorted by expert, and in the order of the tokens for each.
type MoEPermuteArgs struct {
	X       *aclnn.Tensor // [tokens, width]; float32, float16 or bfloat16
	Experts *aclnn.Tensor // [tokens, k], int32, of MoERouting, in [0, experts)
	Rows    *aclnn.Tensor // [tokens·k, width], dtype of X
	// Places is [tokens·k], int32: which row the j-th choice of token t became, at t·k+j.
	Places *aclnn.Tensor
	// Sums is [experts], int32: the number of rows of each expert and of those before, as
	// Groups{Device: Sums, Cumulative: true} takes it.
	Sums *aclnn.Tensor
}

func (a *MoEPermuteArgs) validate() error {
	var c check
	c.tensor("X", a.X, floats...)
	c.tensor("Experts", a.Experts, aclnn.Int32)
	c.tensor("Sums", a.Sums, aclnn.Int32)
	if !c.ok() {
		return c.err
	}
	if a.X.Rank() != 2 || a.Experts.Rank() != 2 || a.X.Dim(0) != a.Experts.Dim(0) {
		c.fail("X is %v and Experts %v; they must be [tokens, width] and [tokens, k]", a.X, a.Experts)
	}
	if a.Sums.Rank() != 1 || a.Sums.Dim(0) < 1 {
		c.fail("Sums is %v; it must be [experts]", a.Sums)
	}
	c.permuted(a.Rows, a.Places, a.X, a.Experts.Len())
	return c.err
}

// permuted checks rows sorted by expert and their places.
func (c *check) permuted(rows, places, like *aclnn.Tensor, n int64) {
	if !c.ok() {
		return
	}
	c.tensor("Rows", rows, like.DType())
	c.shape("Rows", rows, n, like.Dim(-1))
	c.tensor("Places", places, aclnn.Int32)
	c.shape("Places", places, n)
	if c.ok() {
		c.contiguous("Places", places)
	}
}

func newMoEPermute(reg *Registry) *Op[MoEPermuteArgs] {
	return op(reg, "moe_permute", (*MoEPermuteArgs).validate,
		func(a *MoEPermuteArgs) Signature { return dtypeSignature(a.X) },
		Kernel[MoEPermuteArgs]{
			Name: "MoeTokenPermute",
			Supports: func(env *Env, _ *MoEPermuteArgs) error {
				return errors.Join(trainingChip(env, "MoeTokenPermute"), availableAll(&aclnn.MoeTokenPermuteParams{}, &aclnn.MoeComputeExpertTokensParams{}))
			},
			Run: func(_ context.Context, st *acl.Stream, a *MoEPermuteArgs) error {
				return a.run(st, func(s *steps) {
					launch(s, aclnn.MoeTokenPermute, aclnn.MoeTokenPermuteParams{
						Tokens: s.dense(a.X), Indices: s.dense(a.Experts), PermuteTokensOut: a.Rows, SortedIndicesOut: a.Places,
					})
					sorted, _ := s.sort(s.dense(a.Experts).Reshape(-1))
					launch(s, aclnn.MoeComputeExpertTokens, aclnn.MoeComputeExpertTokensParams{SortedExperts: sorted, NumExperts: a.Sums.Dim(0), Out: a.Sums})
				})
			},
		},
		Kernel[MoEPermuteArgs]{
			Name: "composite", Supports: Always[MoEPermuteArgs],
			Run: func(_ context.Context, st *acl.Stream, a *MoEPermuteArgs) error {
				return a.run(st, func(s *steps) {
					tokens, k, n := a.X.Dim(0), a.Experts.Dim(1), a.Experts.Len()
					sorted, order := s.sort(s.dense(a.Experts).Reshape(-1))
					copies := s.tensor(a.X.DType(), tokens, k, a.X.Dim(1))
					s.store(copies, a.X.Unsqueeze(1))
					s.pick(copies.Reshape(n, -1), order, a.Rows)
					_, places := s.sort(order)
					s.store(a.Places, places)
					// The rows of an expert and of those before are those not above it.
					ids := s.tensor(aclnn.Int32, a.Sums.Dim(0), 1)
					launch(s, aclnn.Arange, aclnn.ArangeParams{Start: aclnn.Int(0), End: aclnn.Int(ids.Dim(0)), Step: aclnn.Int(1), Out: ids.Reshape(-1)})
					below := s.tensor(aclnn.Bool, ids.Dim(0), n)
					launch(s, aclnn.LeTensor, aclnn.LeTensorParams{Self: sorted.Unsqueeze(0), Other: ids, Out: below})
					s.store(a.Sums, s.sum(s.float(below), 1).Reshape(-1))
				})
			},
		})
}

// run handles the case without tokens, where every expert has none.
func (a *MoEPermuteArgs) run(st *acl.Stream, body func(*steps)) error {
	return compose(st, func(s *steps) {
		if a.Experts.Len() == 0 {
			s.zero(a.Sums)
			return
		}
		body(s)
	})
}

// sort is a list in ascending order, and where each element was; equal ones keep theirs.
func (s *steps) sort(t *aclnn.Tensor) (sorted, order *aclnn.Tensor) {
	sorted, order = s.tensor(t.DType(), t.Len()), s.tensor(aclnn.Int64, t.Len())
	launch(s, aclnn.Sort, aclnn.SortParams{Self: t, Stable: true, ValuesOut: sorted, IndicesOut: order})
	return sorted, order
}

// pick copies rows by their numbers.
func (s *steps) pick(t, rows, out *aclnn.Tensor) {
	launch(s, aclnn.IndexSelect, aclnn.IndexSelectParams{Self: t, Index: rows, Out: out})
}

// MoEPermuteGradArgs is the gradient of MoEPermute: each token gets the sum of those of its
// rows.
type MoEPermuteGradArgs struct {
	DRows  *aclnn.Tensor // [tokens·k, width]
	Places *aclnn.Tensor // [tokens·k], int32, of MoEPermute
	DX     *aclnn.Tensor // [tokens, width], dtype of DRows
}

func (a *MoEPermuteGradArgs) validate() error {
	var c check
	c.tensor("DX", a.DX, floats...)
	c.tensor("DRows", a.DRows, floats...)
	if !c.ok() {
		return c.err
	}
	if a.DX.Rank() != 2 || a.DRows.Rank() != 2 || a.DX.Dim(0) > 0 && a.DRows.Dim(0)%a.DX.Dim(0) != 0 {
		c.fail("DX is %v and DRows %v; they must be [tokens, width] and [tokens·k, width]", a.DX, a.DRows)
		return c.err
	}
	c.permuted(a.DRows, a.Places, a.DX, a.DRows.Dim(0))
	return c.err
}

func newMoEPermuteGrad(reg *Registry) *Op[MoEPermuteGradArgs] {
	return op(reg, "moe_permute_grad", (*MoEPermuteGradArgs).validate,
		func(a *MoEPermuteGradArgs) Signature { return dtypeSignature(a.DX) },
		Kernel[MoEPermuteGradArgs]{
			Name: "MoeTokenPermuteGrad",
			Supports: func(env *Env, _ *MoEPermuteGradArgs) error {
				return errors.Join(trainingChip(env, "MoeTokenPermuteGrad"), available(&aclnn.MoeTokenPermuteGradParams{}))
			},
			Run: func(_ context.Context, st *acl.Stream, a *MoEPermuteGradArgs) error {
				if a.DX.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					launch(s, aclnn.MoeTokenPermuteGrad, aclnn.MoeTokenPermuteGradParams{
						PermutedOutputGrad: s.dense(a.DRows), SortedIndices: a.Places, NumTopk: a.DRows.Dim(0) / a.DX.Dim(0), Out: a.DX,
					})
				})
			},
		},
		Kernel[MoEPermuteGradArgs]{
			Name: "composite", Supports: Always[MoEPermuteGradArgs],
			Run: func(_ context.Context, st *acl.Stream, a *MoEPermuteGradArgs) error {
				if a.DX.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					s.store(a.DX, s.sum(s.gathered(a.DRows, a.Places, a.DX.Dim(0)), 1).Squeeze(1))
				})
			},
		})
}

// gathered are the rows of each token in float32, [tokens, k, width].
func (s *steps) gathered(rows, places *aclnn.Tensor, tokens int64) *aclnn.Tensor {
	out := s.tensor(rows.DType(), rows.Shape()...)
	s.pick(rows, places, out)
	return s.float(out).Reshape(tokens, -1, rows.Dim(1))
}
