package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// Limits of RecurrentGatedDeltaRule of the custom package for linear attention.
const (
	decodeTokens    = 8 // per sequence
	decodeHeads     = 256
	decodeDimension = 256
)

// nativeDecode returns why RecurrentGatedDeltaRule cannot take the arguments, or nil. It is meant
// for decoding, where a step has few tokens.
func nativeDecode(env *Env, k key.GatedDelta) error {
	limit := func(format string, args ...any) error {
		return &Refusal{Rule: "C22", Reason: fmt.Sprintf(format, args...), Remedy: "use the chunk operators or the composite"}
	}
	switch {
	case k.DType != aclnn.BFloat16:
		return limit("it takes bfloat16, not %v", k.DType)
	case k.Tokens.Most() == 0:
		return errors.New("there are no tokens")
	case k.Packed:
		return limit("it is for rows of one length, not for packed sequences")
	case k.Length.Most() > decodeTokens:
		return limit("it takes at most %d tokens of a sequence", decodeTokens)
	case k.ValueHeads > decodeHeads || k.KeyDim > decodeDimension || k.ValueDim > decodeDimension:
		return limit("it takes at most %d value heads of %d features", decodeHeads, decodeDimension)
	}
	return errors.Join(linearAttentionChip(env), available(&aclnn.RecurrentGatedDeltaRuleParams{}))
}

// runNativeDecode gives the state of every token a row, as the operator requires: a sequence starts
// from the state in the row of its first token and leaves its final state in the row of its last
// token.
func runNativeDecode(_ context.Context, st *acl.Stream, a *GatedDeltaArgs) error {
	return compose(st, func(s *steps) {
		b, t, hk, dk := a.Query.Dim(0), a.Query.Dim(1), a.Query.Dim(2), a.Query.Dim(3)
		hv, dv, tokens, dt := a.Value.Dim(2), a.Value.Dim(3), b*t, a.Query.DType()
		rows := func(x *aclnn.Tensor) *aclnn.Tensor {
			out := s.Tensor(dt, tokens, hk, dk)
			wide := s.Tensor(aclnn.Float32, x.Shape()...)
			s.Copy(wide, x)
			if a.Normalize {
				s.unit(wide)
			}
			s.Copy(out, wide.Reshape(tokens, hk, dk))
			return out
		}
		beta := s.Tensor(dt, b, t, hv)
		s.Copy(beta, a.Beta)
		// The operator's state is [V,K], that of the arguments [K,V].
		states := s.Tensor(aclnn.Float32, tokens, hv, dv, dk)
		first := states.Unflatten(0, b, t).Select(1, 0).Transpose(-2, -1)
		if a.InitialState != nil {
			s.Copy(first, a.InitialState)
		} else {
			s.Fill(first, aclnn.Float(0))
		}
		decay := s.Tensor(aclnn.Float32, b, t, hv)
		s.Copy(decay, a.Decay)
		out := s.Target(a.Out)
		accepted := s.Tensor(aclnn.Int32, b)
		s.Fill(accepted, aclnn.Int(1))
		launch(s, aclnn.RecurrentGatedDeltaRule, aclnn.RecurrentGatedDeltaRuleParams{
			Query: rows(a.Query), Key: rows(a.Key), Value: s.Contiguous(a.Value).Reshape(tokens, hv, dv), Beta: beta.Reshape(tokens, hv),
			State: states, ActualSeqLengths: s.multiples(b+1, t), SsmStateIndices: s.multiples(tokens, 1), G: decay.Reshape(tokens, hv), NumAcceptedTokens: accepted,
			ScaleValue: float32(a.Scale), Out: out.Reshape(tokens, hv, dv),
		})
		s.Finish(a.Out, out)
		if a.FinalState != nil {
			s.Copy(a.FinalState, states.Unflatten(0, b, t).Select(1, t-1).Transpose(-2, -1))
		}
	})
}

// multiples makes an int32 tensor with the first n multiples of step, from 0 on.
func (s *steps) multiples(n, step int64) *aclnn.Tensor {
	out := s.Tensor(aclnn.Int32, n)
	launch(s, aclnn.Arange, aclnn.ArangeParams{Start: aclnn.Int(0), End: aclnn.Int(n * step), Step: aclnn.Int(step), Out: out})
	return out
}
