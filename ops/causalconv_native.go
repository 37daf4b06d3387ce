package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// nativeConv says whether CausalConv1d of the custom package for linear attention takes the
// arguments.
func nativeConv(env *Env, a *CausalConvArgs) error {
	if !is16(a.X.DType()) {
		return fmt.Errorf("it takes 16-bit types, not %v", a.X.DType())
	}
	return errors.Join(nativeConvForm(env, a), nativeConvFits(env, a), available(&aclnn.CausalConv1dParams{}))
}

// nativeConvGrad is for CausalConv1dBwd, which needs u: from the forward operator in 16 bits,
// and from ordinary operators in float32.
func nativeConvGrad(env *Env, a *CausalConvGradArgs) error {
	err := errors.Join(nativeConvForm(env, &a.CausalConvArgs), nativeConvGradFits(env, a), available(&aclnn.CausalConv1dBwdParams{}))
	if err == nil && is16(a.X.DType()) {
		err = nativeConv(env, &a.CausalConvArgs)
	}
	return err
}

// nativeConvForm refuses what neither operator takes.
func nativeConvForm(env *Env, a *CausalConvArgs) error {
	switch channels, taps := a.X.Dim(2), a.Weight.Dim(1); {
	case a.X.Len() == 0:
		return errors.New("there are no tokens")
	case a.Weight.DType() != a.X.DType():
		return fmt.Errorf("its weights have the dtype of its input, not %v", a.Weight.DType())
	case channels%16 != 0:
		return fmt.Errorf("it takes multiples of 16 channels, not %d", channels)
	case taps < 2 || taps > 4:
		return fmt.Errorf("it takes 2 to 4 taps, not %d", taps)
	}
	return linearAttentionChip(env)
}

// joined is a tensor like X as the operators take it: without gaps, and packed sequences
// without the dimension of their one row.
func (a *CausalConvArgs) joined(s *steps, t *aclnn.Tensor) *aclnn.Tensor {
	if t = s.dense(t); a.CuSeqLens != nil {
		return t.Squeeze(0)
	}
	return t
}

// sequences is N.
func (a *CausalConvArgs) sequences() int64 {
	if a.CuSeqLens != nil {
		return int64(len(a.CuSeqLens)) - 1
	}
	return a.X.Dim(0)
}

// turned is t with its last two dimensions exchanged, without gaps: taps [W,D], states
// [N,W,D].
func (s *steps) turned(t *aclnn.Tensor) *aclnn.Tensor { return s.dense(t.Transpose(-2, -1)) }

// convolveNative launches the forward operator with or without its activation.
func (a *CausalConvArgs) convolveNative(s *steps, silu bool, out *aclnn.Tensor) {
	past := a.Weight.Dim(1) - 1
	// The operator leaves the last inputs in the states that it is given, here scratch.
	states := s.tensor(a.X.DType(), a.sequences(), past, a.X.Dim(2))
	var modes []int64
	if a.InitialState != nil {
		s.store(states, a.InitialState.Narrow(2, 1, past).Transpose(1, 2))
		modes = slices.Repeat([]int64{1}, int(a.sequences()))
	} else {
		s.zero(states)
	}
	p := aclnn.CausalConv1dParams{
		X: a.joined(s, a.X), Weight: s.turned(a.Weight), BiasOptional: a.Bias, ConvStates: states, QueryStartLocOptional: a.CuSeqLens,
		InitialStateModeOptional: modes, PadSlotId: -1, Out: out,
	}
	if silu {
		p.ActivationMode = 1
	}
	launch(s, aclnn.CausalConv1d, p)
}

func runNativeConv(_ context.Context, st *acl.Stream, a *CausalConvArgs) error {
	return compose(st, func(s *steps) {
		out := s.target(a.Out)
		a.convolveNative(s, a.SiLU, a.joined(s, out))
		s.finish(a.Out, out)
		if s.err == nil {
			s.err = a.eachSequence(st, (*window).remember)
		}
	})
}

func runNativeConvGrad(_ context.Context, st *acl.Stream, a *CausalConvGradArgs) error {
	return compose(st, func(s *steps) {
		dt, weight := a.X.DType(), s.turned(a.Weight)
		dx, dw := s.target(a.DX), s.tensor(dt, weight.Shape()...)
		p := aclnn.CausalConv1dBwdParams{
			X: a.joined(s, a.X), Weight: weight, Dy: a.joined(s, a.DOut), QueryStartLocOptional: a.CuSeqLens, InputLayoutOptional: "BSH",
			DxOut: a.joined(s, dx), DwOutOptional: dw,
		}
		if a.CuSeqLens != nil {
			p.InputLayoutOptional = "TND"
		}
		if a.InitialState != nil {
			p.InitialStateOptional = s.turned(a.InitialState)
		}
		if a.DBias != nil {
			p.DbOutOptional = s.tensor(dt, a.X.Dim(2))
		}
		if a.SiLU {
			p.Activation = 1
			u := s.tensor(dt, a.X.Shape()...)
			p.YOptional = a.joined(s, u)
			a.beforeSiLU(s, u, p.YOptional)
		}
		launch(s, aclnn.CausalConv1dBwd, p)
		s.finish(a.DX, dx)
		s.deliver(a.DWeight, dw.Transpose(0, 1), a.Accumulate)
		if a.DBias != nil {
			s.deliver(a.DBias, p.DbOutOptional, a.Accumulate)
		}
	})
}

// beforeSiLU computes what the activation was applied to, [B,T,D]; joined is the same memory.
func (a *CausalConvArgs) beforeSiLU(s *steps, u, joined *aclnn.Tensor) {
	if is16(u.DType()) {
		a.convolveNative(s, false, joined)
		return
	}
	if s.err == nil {
		s.err = a.eachSequence(s.st, func(w *window, s *steps) {
			w.load(s)
			s.store(w.part(u), w.convolve(s))
		})
	}
}
