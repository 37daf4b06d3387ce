package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// MoEUnpermuteArgs combines the results of the experts for each token: Out[t] = Σ_j Weights[t,
// j]·Rows[Places[t·k+j]] + Shared[t], summed in float32.
type MoEUnpermuteArgs struct {
	Rows    *aclnn.Tensor // [tokens·k, width], sorted as MoEPermute does; float32, float16 or bfloat16
	Places  *aclnn.Tensor // [tokens·k], int32, of MoEPermute
	Weights *aclnn.Tensor // [tokens, k], any of these dtypes
	Shared  *aclnn.Tensor // like Out: the result of an expert that all tokens pass, whose gradient is DOut; may be nil
	Out     *aclnn.Tensor // [tokens, width], dtype of Rows; must not be Shared
	// Partial says that Rows may have fewer rows. Places behind them have none, and add nothing.
	Partial bool
}

func (a *MoEUnpermuteArgs) validate() error {
	var c args
	c.combination(a.Rows, a.Places, a.Weights, a.Out, "Out", a.Partial)
	if c.OK() && c.Optional("Shared", a.Shared, a.Rows.DType()) {
		c.Like("Shared", a.Shared, "Out", a.Out)
		if c.OK() && a.Out.Len() > 0 && a.Shared.Address() == a.Out.Address() {
			c.Fail("Shared %v is Out", a.Shared)
		}
	}
	return c.Err
}

// combination checks the arguments that MoEUnpermute and its gradient share.
func (c *args) combination(rows, places, weights, out *aclnn.Tensor, name string, partial bool) {
	c.Tensor(name, out, floats...)
	c.Tensor("Weights", weights, floats...)
	if !c.OK() {
		return
	}
	if weights.Rank() != 2 || weights.Dim(1) < 1 {
		c.Fail("Weights is %v; it must be [tokens, k]", weights)
		return
	}
	if out.Rank() != 2 || out.Dim(0) != weights.Dim(0) {
		c.Fail("%s is %v; it must be [%d, width]", name, out, weights.Dim(0))
		return
	}
	c.permuted(rows, places, out, weights.Len(), partial)
}

func (a *MoEUnpermuteArgs) key() key.MoEUnpermute {
	k := unpermuteKey(a.Rows, a.Weights, contiguous(a.Rows, a.Weights, a.Shared, a.Out))
	k.Shared, k.Partial = a.Shared != nil, a.Partial
	return k
}

func (a *MoEUnpermuteGradArgs) key() key.MoEUnpermute {
	k := unpermuteKey(a.Rows, a.Weights, contiguous(a.DOut, a.Rows, a.Weights, a.DRows, a.DWeights))
	k.Partial = a.Partial
	return k
}

func unpermuteKey(rows, weights *aclnn.Tensor, contiguous bool) key.MoEUnpermute {
	return key.MoEUnpermute{
		Rows: rows.DType(), Weights: weights.DType(), Width: rows.Dim(1), K: weights.Dim(1), Tokens: key.ExtentOf(weights.Dim(0)), Contiguous: contiguous,
	}
}

func newMoEUnpermute(reg *Registry) *Op[MoEUnpermuteArgs, key.MoEUnpermute] {
	return op(reg, "moe_unpermute", (*MoEUnpermuteArgs).validate, (*MoEUnpermuteArgs).key,
		Kernel[MoEUnpermuteArgs, key.MoEUnpermute]{
			Name: "MoeTokenUnpermute",
			Supports: func(env *Env, k key.MoEUnpermute) error {
				switch {
				case k.Shared:
					return errors.New("it adds no shared expert")
				case older() && k.Rows == aclnn.BFloat16 && k.Weights == aclnn.Float16:
					return errors.New("CANN 8.1 has no kernel for bfloat16 rows with float16 weights")
				}
				return env.Has(&aclnn.MoeTokenUnpermuteParams{})
			},
			Run: func(_ context.Context, st *acl.Stream, a *MoEUnpermuteArgs) error {
				if a.Out.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					launch(s, aclnn.MoeTokenUnpermute, aclnn.MoeTokenUnpermuteParams{
						PermutedTokens: s.Contiguous(a.Rows), SortedIndices: a.Places, Probs: s.Contiguous(a.Weights), Out: a.Out,
					})
				})
			},
		},
		Kernel[MoEUnpermuteArgs, key.MoEUnpermute]{
			Name: "MoeFinalizeRoutingV2",
			Supports: func(env *Env, k key.MoEUnpermute) error {
				if k.Partial {
					return whole(k.Partial)
				}
				if k.Weights != k.Rows && !(k.Rows == aclnn.BFloat16 && k.Weights == aclnn.Float32) {
					return fmt.Errorf("it has no kernel for %v rows with %v weights", k.Rows, k.Weights)
				}
				return env.Has(&aclnn.MoeFinalizeRoutingV2Params{})
			},
			Run: func(_ context.Context, st *acl.Stream, a *MoEUnpermuteArgs) error {
				if a.Out.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					p := aclnn.MoeFinalizeRoutingV2Params{
						ExpandedX: s.Contiguous(a.Rows), ExpandedRowIdx: a.Places, Scales: s.Contiguous(a.Weights), DropPadMode: aclnn.DropNoneByToken, Out: s.Target(a.Out),
					}
					if a.Shared != nil {
						p.X1 = s.Contiguous(a.Shared)
					}
					launch(s, aclnn.MoeFinalizeRoutingV2, p)
					s.Finish(a.Out, p.Out)
				})
			},
		},
		Kernel[MoEUnpermuteArgs, key.MoEUnpermute]{
			Name: "composite",
			Run: func(_ context.Context, st *acl.Stream, a *MoEUnpermuteArgs) error {
				if a.Out.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					rows := s.mul(s.gathered(a.Rows, a.Places, a.Out.Dim(0), a.Partial), s.float(a.Weights).Unsqueeze(2))
					out := s.sum(rows, 1).Squeeze(1)
					if a.Shared != nil {
						s.add(out, s.float(a.Shared), 1)
					}
					s.Copy(a.Out, out)
				})
			},
		})
}

// MoEUnpermuteGradArgs describes the gradients of MoEUnpermute.
type MoEUnpermuteGradArgs struct {
	DOut     *aclnn.Tensor // [tokens, width]
	Rows     *aclnn.Tensor // [tokens·k, width], as given to MoEUnpermute
	Places   *aclnn.Tensor // [tokens·k], int32
	Weights  *aclnn.Tensor // [tokens, k]
	DRows    *aclnn.Tensor // like Rows
	DWeights *aclnn.Tensor // like Weights
	// Partial says that Rows may have fewer rows. Of places behind them DWeights is 0; rows without a
	// place get no gradient: DRows keeps there what it has.
	Partial bool
}

func (a *MoEUnpermuteGradArgs) validate() error {
	var c args
	c.combination(a.Rows, a.Places, a.Weights, a.DOut, "DOut", a.Partial)
	if !c.OK() {
		return c.Err
	}
	c.Same("DRows", a.DRows, "Rows", a.Rows)
	c.Same("DWeights", a.DWeights, "Weights", a.Weights)
	return c.Err
}

func newMoEUnpermuteGrad(reg *Registry) *Op[MoEUnpermuteGradArgs, key.MoEUnpermute] {
	return op(reg, "moe_unpermute_grad", (*MoEUnpermuteGradArgs).validate, (*MoEUnpermuteGradArgs).key,
		Kernel[MoEUnpermuteGradArgs, key.MoEUnpermute]{
			Name: "MoeTokenUnpermuteGrad",
			Supports: func(env *Env, k key.MoEUnpermute) error {
				if older() && k.Rows != k.Weights {
					return fmt.Errorf("CANN 8.1 has no kernel for %v rows with %v weights", k.Rows, k.Weights)
				}
				return env.Has(&aclnn.MoeTokenUnpermuteGradParams{})
			},
			Run: func(_ context.Context, st *acl.Stream, a *MoEUnpermuteGradArgs) error {
				if a.DOut.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					launch(s, aclnn.MoeTokenUnpermuteGrad, aclnn.MoeTokenUnpermuteGradParams{
						PermuteTokens: s.Contiguous(a.Rows), UnpermutedTokensGrad: s.Contiguous(a.DOut), SortedIndices: a.Places, Probs: s.Contiguous(a.Weights),
						PermutedTokensGradOut: a.DRows, ProbsGradOut: a.DWeights,
					})
				})
			},
		},
		Kernel[MoEUnpermuteGradArgs, key.MoEUnpermute]{
			Name: "composite",
			Run: func(_ context.Context, st *acl.Stream, a *MoEUnpermuteGradArgs) error {
				if a.DOut.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					rows := s.gathered(a.Rows, a.Places, a.DOut.Dim(0), a.Partial)
					dOut := s.float(a.DOut).Unsqueeze(1)
					s.Copy(a.DWeights, s.sum(s.mul(rows, dOut), 2).Squeeze(2))
					spread := s.Tensor(aclnn.Float32, rows.Shape()...)
					s.Copy(spread, dOut)
					s.times(spread, s.float(a.Weights).Unsqueeze(2))
					_, order := s.sort(a.Places)
					sorted := s.Tensor(aclnn.Float32, a.Rows.Shape()...)
					s.pick(spread.Reshape(a.Places.Len(), -1), order.Narrow(0, 0, a.Rows.Dim(0)), sorted)
					s.Copy(a.DRows, sorted)
				})
			},
		})
}
