package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// Limits of RecurrentGatedDeltaRule of the custom package for linear attention.
const (
	decodeTokens    = 8 // of a sequence
	decodeHeads     = 256
	decodeDimension = 256
)

// nativeDecode says whether RecurrentGatedDeltaRule takes the arguments: it is for the few
// tokens of a step of decoding.
func nativeDecode(env *Env, a *GatedDeltaArgs) error {
	limit := func(format string, args ...any) error {
		return &Refusal{Rule: "C22", Reason: fmt.Sprintf(format, args...), Remedy: "use the chunk operators or the composite"}
	}
	switch hv, dk, dv := a.Value.Dim(2), a.Query.Dim(3), a.Value.Dim(3); {
	case a.Query.DType() != aclnn.BFloat16:
		return limit("it takes bfloat16, not %v", a.Query.DType())
	case a.Query.Dim(0)*a.Query.Dim(1) == 0:
		return errors.New("there are no tokens")
	case a.CuSeqLens != nil:
		return limit("it is for rows of one length, not for packed sequences")
	case a.Query.Dim(1) > decodeTokens:
		return limit("it takes at most %d tokens of a sequence", decodeTokens)
	case hv > decodeHeads || dk > decodeDimension || dv > decodeDimension:
		return limit("it takes at most %d value heads of %d features", decodeHeads, decodeDimension)
	}
	return errors.Join(linearAttentionChip(env), available(&aclnn.RecurrentGatedDeltaRuleParams{}))
}

// runNativeDecode gives every token a row for its state, as the operator wants it: a sequence
// begins with the state in the row of its first token and ends with that of its last one.
func runNativeDecode(_ context.Context, st *acl.Stream, a *GatedDeltaArgs) error {
	return compose(st, func(s *steps) {
		b, t, hk, dk := a.Query.Dim(0), a.Query.Dim(1), a.Query.Dim(2), a.Query.Dim(3)
		hv, dv, tokens, dt := a.Value.Dim(2), a.Value.Dim(3), b*t, a.Query.DType()
		rows := func(x *aclnn.Tensor) *aclnn.Tensor {
			out := s.tensor(dt, tokens, hk, dk)
			wide := s.tensor(aclnn.Float32, x.Shape()...)
			s.store(wide, x)
			if a.Normalize {
				s.unit(wide)
			}
			s.store(out, wide.Reshape(tokens, hk, dk))
			return out
		}
		beta := s.tensor(dt, b, t, hv)
		s.store(beta, a.Beta)
		// The state is [V,K] here, and [K,V] in the arguments.
		states := s.tensor(aclnn.Float32, tokens, hv, dv, dk)
		first := states.Unflatten(0, b, t).Select(1, 0).Transpose(-2, -1)
		if a.InitialState != nil {
			s.store(first, a.InitialState)
		} else {
			s.fill(first, aclnn.Float(0))
		}
		decay := s.tensor(aclnn.Float32, b, t, hv)
		s.store(decay, a.Decay)
		out := s.target(a.Out)
		accepted := s.tensor(aclnn.Int32, b)
		s.fill(accepted, aclnn.Int(1))
		launch(s, aclnn.RecurrentGatedDeltaRule, aclnn.RecurrentGatedDeltaRuleParams{
			Query: rows(a.Query), Key: rows(a.Key), Value: s.dense(a.Value).Reshape(tokens, hv, dv), Beta: beta.Reshape(tokens, hv),
			StateRef: states, ActualSeqLengths: s.multiples(b+1, t), SsmStateIndices: s.multiples(tokens, 1), G: decay.Reshape(tokens, hv), NumAcceptedTokens: accepted,
			ScaleValue: float32(a.Scale), Out: out.Reshape(tokens, hv, dv),
		})
		s.finish(a.Out, out)
		if a.FinalState != nil {
			s.store(a.FinalState, states.Unflatten(0, b, t).Select(1, t-1).Transpose(-2, -1))
		}
	})
}

// multiples are the first n of a number, from 0 on, int32.
func (s *steps) multiples(n, step int64) *aclnn.Tensor {
	out := s.tensor(aclnn.Int32, n)
	launch(s, aclnn.Arange, aclnn.ArangeParams{Start: aclnn.Int(0), End: aclnn.Int(n * step), Step: aclnn.Int(step), Out: out})
	return out
}
