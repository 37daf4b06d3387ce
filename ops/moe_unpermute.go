package ops

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// MoEUnpermuteArgs brings the results of the experts back to the tokens:
// Out[t] = Σ_j Weights[t, j]·Rows[Places[t·k+j]], summed in float32.
type MoEUnpermuteArgs struct {
	Rows    *aclnn.Tensor // [tokens·k, width], sorted as MoEPermute does; float32, float16 or bfloat16
	Places  *aclnn.Tensor // [tokens·k], int32, of MoEPermute
	Weights *aclnn.Tensor // [tokens, k], any of these dtypes
	Out     *aclnn.Tensor // [tokens, width], dtype of Rows
}

func (a *MoEUnpermuteArgs) validate() error {
	var c check
	c.combination(a.Rows, a.Places, a.Weights, a.Out, "Out")
	return c.err
}

// combination checks what MoEUnpermute and its gradient share.
func (c *check) combination(rows, places, weights, out *aclnn.Tensor, name string) {
	c.tensor(name, out, floats...)
	c.tensor("Weights", weights, floats...)
	if !c.ok() {
		return
	}
	if weights.Rank() != 2 || weights.Dim(1) < 1 {
		c.fail("Weights is %v; it must be [tokens, k]", weights)
		return
	}
	if out.Rank() != 2 || out.Dim(0) != weights.Dim(0) {
		c.fail("%s is %v; it must be [%d, width]", name, out, weights.Dim(0))
		return
	}
	c.permuted(rows, places, out, weights.Len())
}

func newMoEUnpermute(reg *Registry) *Op[MoEUnpermuteArgs] {
	return op(reg, "moe_unpermute", (*MoEUnpermuteArgs).validate,
		func(a *MoEUnpermuteArgs) Signature { return dtypeSignature(a.Rows, a.Weights) },
		Kernel[MoEUnpermuteArgs]{
			Name: "MoeTokenUnpermute",
			Supports: func(env *Env, _ *MoEUnpermuteArgs) error {
				return errors.Join(trainingChip(env, "MoeTokenUnpermute"), available(&aclnn.MoeTokenUnpermuteParams{}))
			},
			Run: func(_ context.Context, st *acl.Stream, a *MoEUnpermuteArgs) error {
				if a.Out.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					launch(s, aclnn.MoeTokenUnpermute, aclnn.MoeTokenUnpermuteParams{
						PermutedTokens: s.dense(a.Rows), SortedIndices: a.Places, ProbsOptional: s.dense(a.Weights), Out: a.Out,
					})
				})
			},
		},
		Kernel[MoEUnpermuteArgs]{
			Name: "composite", Supports: Always[MoEUnpermuteArgs],
			Run: func(_ context.Context, st *acl.Stream, a *MoEUnpermuteArgs) error {
				if a.Out.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					rows := s.mul(s.gathered(a.Rows, a.Places, a.Out.Dim(0)), s.float(a.Weights).Unsqueeze(2))
					s.store(a.Out, s.sum(rows, 1).Squeeze(1))
				})
			},
		})
}

// MoEUnpermuteGradArgs are the gradients of MoEUnpermute.
type MoEUnpermuteGradArgs struct {
	DOut     *aclnn.Tensor // [tokens, width]
	Rows     *aclnn.Tensor // [tokens·k, width], as given to MoEUnpermute
	Places   *aclnn.Tensor // [tokens·k], int32
	Weights  *aclnn.Tensor // [tokens, k]
	DRows    *aclnn.Tensor // like Rows
	DWeights *aclnn.Tensor // like Weights
}

func (a *MoEUnpermuteGradArgs) validate() error {
	var c check
	c.combination(a.Rows, a.Places, a.Weights, a.DOut, "DOut")
	if !c.ok() {
		return c.err
	}
	c.tensor("DRows", a.DRows, a.Rows.DType())
	c.like("DRows", a.DRows, "Rows", a.Rows)
	c.tensor("DWeights", a.DWeights, a.Weights.DType())
	c.like("DWeights", a.DWeights, "Weights", a.Weights)
	return c.err
}

func newMoEUnpermuteGrad(reg *Registry) *Op[MoEUnpermuteGradArgs] {
	return op(reg, "moe_unpermute_grad", (*MoEUnpermuteGradArgs).validate,
		func(a *MoEUnpermuteGradArgs) Signature { return dtypeSignature(a.Rows, a.Weights) },
		Kernel[MoEUnpermuteGradArgs]{
			Name: "MoeTokenUnpermuteGrad",
			Supports: func(env *Env, _ *MoEUnpermuteGradArgs) error {
				return errors.Join(trainingChip(env, "MoeTokenUnpermuteGrad"), available(&aclnn.MoeTokenUnpermuteGradParams{}))
			},
			Run: func(_ context.Context, st *acl.Stream, a *MoEUnpermuteGradArgs) error {
				if a.DOut.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					launch(s, aclnn.MoeTokenUnpermuteGrad, aclnn.MoeTokenUnpermuteGradParams{
						PermuteTokens: s.dense(a.Rows), UnpermutedTokensGrad: s.dense(a.DOut), SortedIndices: a.Places, ProbsOptional: s.dense(a.Weights),
						PermutedTokensGradOut: a.DRows, ProbsGradOut: a.DWeights,
					})
				})
			},
		},
		Kernel[MoEUnpermuteGradArgs]{
			Name: "composite", Supports: Always[MoEUnpermuteGradArgs],
			Run: func(_ context.Context, st *acl.Stream, a *MoEUnpermuteGradArgs) error {
				if a.DOut.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					rows := s.gathered(a.Rows, a.Places, a.DOut.Dim(0))
					dOut := s.float(a.DOut).Unsqueeze(1)
					s.store(a.DWeights, s.sum(s.mul(rows, dOut), 2).Squeeze(2))
					spread := s.tensor(aclnn.Float32, rows.Shape()...)
					s.store(spread, dOut)
					s.times(spread, s.float(a.Weights).Unsqueeze(2))
					_, order := s.sort(a.Places)
					sorted := s.tensor(aclnn.Float32, a.Rows.Shape()...)
					s.pick(spread.Reshape(a.Rows.Dim(0), -1), order, sorted)
					s.store(a.DRows, sorted)
				})
			},
		})
}
