package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// nativeConv returns why CausalConv1d of the custom package for linear attention cannot take the
// arguments, or nil.
func nativeConv(env *Env, k key.CausalConv) error {
	if !is16(k.X) {
		return fmt.Errorf("it takes 16-bit types, not %v", k.X)
	}
	return errors.Join(nativeConvForm(env, k), nativeConvFits(env, k.Channels), available(&aclnn.CausalConv1dParams{}))
}

// nativeConvGrad is nativeConv for CausalConv1dBwd. That operator needs u, which comes from the
// forward operator in 16 bits and from ordinary operators in float32.
func nativeConvGrad(env *Env, k key.CausalConvGrad) error {
	err := errors.Join(nativeConvForm(env, k.CausalConv), nativeConvGradFits(env, k), available(&aclnn.CausalConv1dBwdParams{}))
	if err == nil && is16(k.X) {
		err = nativeConv(env, k.CausalConv)
	}
	return err
}

// nativeConvForm refuses what neither operator accepts.
func nativeConvForm(env *Env, k key.CausalConv) error {
	switch {
	case k.Tokens.Most() == 0 || k.Channels == 0:
		return errors.New("there are no tokens")
	case k.Weight != k.X:
		return fmt.Errorf("its weights have the dtype of its input, not %v", k.Weight)
	case k.Channels%16 != 0:
		return fmt.Errorf("it takes multiples of 16 channels, not %d", k.Channels)
	case k.Taps < 2 || k.Taps > 4:
		return fmt.Errorf("it takes 2 to 4 taps, not %d", k.Taps)
	}
	return linearAttentionChip(env)
}

// joined converts a tensor like X to the form that the operators take: contiguous, and without the
// batch dimension if sequences are packed.
func (a *CausalConvArgs) joined(s *steps, t *aclnn.Tensor) *aclnn.Tensor {
	if t = s.Contiguous(t); a.CuSeqLens != nil {
		return t.Squeeze(0)
	}
	return t
}

// sequences returns N.
func (a *CausalConvArgs) sequences() int64 {
	if a.CuSeqLens != nil {
		return int64(len(a.CuSeqLens)) - 1
	}
	return a.X.Dim(0)
}

// transposed returns a contiguous tensor with the last two dimensions of t exchanged: taps become
// [W,D], states [N,W,D].
func (s *steps) transposed(t *aclnn.Tensor) *aclnn.Tensor { return s.Contiguous(t.Transpose(-2, -1)) }

// convolveNative launches the forward operator with or without its activation.
func (a *CausalConvArgs) convolveNative(s *steps, silu bool, out *aclnn.Tensor) {
	past := a.Weight.Dim(1) - 1
	// The operator overwrites the states with the last inputs, so they are scratch here.
	states := s.Tensor(a.X.DType(), a.sequences(), past, a.X.Dim(2))
	var modes []int64
	if a.InitialState != nil {
		s.Copy(states, a.InitialState.Narrow(2, 1, past).Transpose(1, 2))
		modes = slices.Repeat([]int64{1}, int(a.sequences()))
	} else {
		s.Zero(states)
	}
	p := aclnn.CausalConv1dParams{
		X: a.joined(s, a.X), Weight: s.transposed(a.Weight), Bias: a.Bias, ConvStates: states, QueryStartLoc: a.CuSeqLens,
		InitialStateMode: modes, PadSlotId: -1, Out: out,
	}
	if silu {
		p.ActivationMode = 1
	}
	launch(s, aclnn.CausalConv1d, p)
}

func runNativeConv(_ context.Context, st *acl.Stream, a *CausalConvArgs) error {
	return compose(st, func(s *steps) {
		out := s.Target(a.Out)
		a.convolveNative(s, a.SiLU, a.joined(s, out))
		s.Finish(a.Out, out)
		s.Do(func() error { return a.eachSequence(st, (*window).remember) })
	})
}

func runNativeConvGrad(_ context.Context, st *acl.Stream, a *CausalConvGradArgs) error {
	return compose(st, func(s *steps) {
		dt, weight := a.X.DType(), s.transposed(a.Weight)
		dx, dw := s.Target(a.DX), s.Tensor(dt, weight.Shape()...)
		p := aclnn.CausalConv1dBwdParams{
			X: a.joined(s, a.X), Weight: weight, Dy: a.joined(s, a.DOut), QueryStartLoc: a.CuSeqLens, InputLayout: aclnn.LayoutBSH,
			DxOut: a.joined(s, dx), DwOut: dw,
		}
		if a.CuSeqLens != nil {
			p.InputLayout = aclnn.LayoutTND
		}
		if a.InitialState != nil {
			p.InitialState = s.transposed(a.InitialState)
		}
		if a.DBias != nil {
			p.DbOut = s.Tensor(dt, a.X.Dim(2))
		}
		if a.SiLU {
			p.Activation = 1
			u := s.Tensor(dt, a.X.Shape()...)
			p.Y = a.joined(s, u)
			a.beforeSiLU(s, u, p.Y)
		}
		launch(s, aclnn.CausalConv1dBwd, p)
		s.Finish(a.DX, dx)
		s.deliver(a.DWeight, dw.Transpose(0, 1), a.Accumulate)
		if a.DBias != nil {
			s.deliver(a.DBias, p.DbOut, a.Accumulate)
		}
	})
}

// beforeSiLU computes the input of the activation, [B,T,D]; joined is a view of the same memory.
func (a *CausalConvArgs) beforeSiLU(s *steps, u, joined *aclnn.Tensor) {
	if is16(u.DType()) {
		a.convolveNative(s, false, joined)
		return
	}
	s.Do(func() error {
		return a.eachSequence(s.Stream, func(w *window, s *steps) {
			w.load(s)
			s.Copy(w.part(u), w.convolve(s))
		})
	})
}
