package ops

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// nativeDelta returns why the chunk operators of the custom package for linear attention cannot
// take the arguments, or nil.
func nativeDelta(env *Env, k key.GatedDelta) error {
	limit := func(format string, args ...any) error {
		return &Refusal{Rule: "C18", Reason: fmt.Sprintf(format, args...), Remedy: "use the composite"}
	}
	switch {
	case !is16(k.DType):
		return limit("its operators take 16-bit types, not %v", k.DType)
	case k.KeyDim != 128:
		return limit("keys have %d features; its operators take 128", k.KeyDim)
	case k.ValueDim != 128 && k.ValueDim != 256:
		return limit("values have %d features; its operators take 128 or 256", k.ValueDim)
	case k.Tokens.Most() == 0:
		return errors.New("there are no tokens")
	case k.Length.Most() == 1:
		return errSingleToken
	}
	return errors.Join(linearAttentionChip(env), availableAll(&aclnn.ChunkLocalCumsumParams{}, &aclnn.RecomputeWUFwdParams{},
		&aclnn.ChunkGatedDeltaRuleFwdHParams{}, &aclnn.ChunkFwdOParams{}))
}

// linearAttentionChip refuses chips that the custom package is not built for, and those that are not known.
func linearAttentionChip(env *Env) error {
	if err := env.known(); err != nil {
		return &Refusal{Rule: "C19", Reason: err.Error(), Remedy: "use the composite"}
	}
	for _, prefix := range []string{"", "Ascend910B", "Ascend910_93", "Ascend950"} {
		if env.SoC == prefix || prefix != "" && strings.HasPrefix(env.SoC, prefix) {
			return nil
		}
	}
	return &Refusal{
		Rule: "C19", Reason: env.SoC + " has no operators for linear attention; Atlas A2, A3 and Ascend 950 do", Remedy: "use the composite",
	}
}

func nativeDeltaGrad(env *Env, k key.GatedDeltaGrad) error {
	if k.DFinalState || k.DInitialState {
		return &Refusal{Rule: "C17", Reason: "its operators ignore gradients of states", Remedy: "use the composite"}
	}
	return errors.Join(nativeDelta(env, k.GatedDelta), availableAll(&aclnn.ChunkBwdDvLocalParams{},
		&aclnn.ChunkGatedDeltaRuleBwdDhuParams{}, &aclnn.ChunkBwdDqkwgParams{}, &aclnn.PrepareWyReprBwdParams{}))
}

// nativeDeltaState holds the tensors that the native operators share. All are head-major,
// [B,H,T,·], and in the dtype of Query except for the float32 gates.
type nativeDeltaState struct {
	*GatedDeltaArgs
	b, hk, hv, t, dk, dv int64
	n                    int64 // number of chunks
	chunks, blocks       []int64
	q, k, v              *aclnn.Tensor
	q32, k32             *aclnn.Tensor // normalised, float32
	qUnit, kUnit         *aclnn.Tensor
	beta, sums           *aclnn.Tensor // [B,Hv,T]
	inverse              *aclnn.Tensor // of the system of each chunk, [B,Hv,T,64]
	w, u, h, corrected   *aclnn.Tensor
}

// cumsumBlock is the number of tokens that ChunkLocalCumsum processes at once. Its list of places
// counts in these blocks, not in chunks.
const cumsumBlock = 1 << 17 / deltaChunk

// chunkPlaces lists the pairs (sequence, part within the sequence) for parts of the given length.
func chunkPlaces(cu []int64, length int64) []int64 {
	var list []int64
	for i := 1; i < len(cu); i++ {
		for p := range (cu[i] - cu[i-1] + length - 1) / length {
			list = append(list, int64(i-1), p)
		}
	}
	return list
}

// headMajor copies t, [B,T,H,…], to a contiguous [B,H,T,…].
func (s *steps) headMajor(dt aclnn.DType, t *aclnn.Tensor) *aclnn.Tensor {
	view := t.Transpose(1, 2)
	out := s.Tensor(dt, view.Shape()...)
	s.Copy(out, view)
	return out
}

// native runs the forward operators up to the states.
func (a *GatedDeltaArgs) native(s *steps, final *aclnn.Tensor) *nativeDeltaState {
	dt := a.Query.DType()
	x := &nativeDeltaState{
		GatedDeltaArgs: a, b: a.Query.Dim(0), hk: a.Query.Dim(2), hv: a.Value.Dim(2), t: a.Query.Dim(1), dk: a.Query.Dim(3), dv: a.Value.Dim(3),
		chunks: chunkPlaces(a.CuSeqLens, deltaChunk), blocks: chunkPlaces(a.CuSeqLens, cumsumBlock),
	}
	x.n = int64(len(x.chunks)) / 2
	if a.CuSeqLens == nil {
		x.n = (x.t + deltaChunk - 1) / deltaChunk
	}
	x.q32, x.k32, x.v = s.headMajor(aclnn.Float32, a.Query), s.headMajor(aclnn.Float32, a.Key), s.headMajor(dt, a.Value)
	if a.Normalize {
		x.qUnit, x.kUnit = s.unit(x.q32), s.unit(x.k32)
	}
	x.q, x.k = s.Cast(x.q32, dt), s.Cast(x.k32, dt)
	x.beta, x.sums = s.headMajor(aclnn.Float32, a.Beta), s.Tensor(aclnn.Float32, x.b, x.hv, x.t)
	x.cumsum(s, s.headMajor(aclnn.Float32, a.Decay), x.sums, false)
	x.inverse = s.Tensor(dt, x.b, x.hv, x.t, deltaChunk)
	x.invert(s)
	x.w, x.u = s.Tensor(dt, x.b, x.hv, x.t, x.dk), s.Tensor(dt, x.b, x.hv, x.t, x.dv)
	launch(s, aclnn.RecomputeWUFwd, aclnn.RecomputeWUFwdParams{
		K: x.k, V: x.v, Beta: x.beta, A: x.inverse, G: x.sums, CuSeqlens: a.CuSeqLens, ChunkIndices: x.chunks, ChunkSize: deltaChunk,
		WOut: x.w, UOut: x.u,
	})
	x.h, x.corrected = s.Tensor(dt, x.b, x.hv, x.n, x.dk, x.dv), s.Tensor(dt, x.b, x.hv, x.t, x.dv)
	launch(s, aclnn.ChunkGatedDeltaRuleFwdH, aclnn.ChunkGatedDeltaRuleFwdHParams{
		K: x.k, W: x.w, U: x.u, G: x.sums, InitialState: a.InitialState, OutputFinalState: final != nil, ChunkSize: deltaChunk,
		CuSeqlens: a.CuSeqLens, ChunkIndices: x.chunks, HOut: x.h, VNewOut: x.corrected, FinalStateOut: final,
	})
	return x
}

func (x *nativeDeltaState) cumsum(s *steps, g, out *aclnn.Tensor, reverse bool) {
	launch(s, aclnn.ChunkLocalCumsum, aclnn.ChunkLocalCumsumParams{
		G: g, CuSeqlens: x.CuSeqLens, ChunkIndicesOut: x.blocks, ChunkSize: deltaChunk, Reverse: reverse, Scale: 1, HeadFirst: true, Out: out,
	})
}

// invert computes the inverses with ordinary operators, because the headers of the package declare
// no operator for it.
func (x *nativeDeltaState) invert(s *steps) {
	s.Zero(x.inverse)
	s.Do(func() error { return x.eachSequence(s.Stream, x.invertOf) })
}

// invertOf computes the inverses for one batch of sequences.
func (x *nativeDeltaState) invertOf(d *deltaSequence, s *steps) {
	c, _ := d.system(s)
	rows := c.inverse.Reshape(d.b, d.hk*d.group, d.n*d.c, d.c).Narrow(2, 0, d.tokens)
	s.Copy(x.inverse.Narrow(2, d.from, d.tokens).Narrow(3, 0, d.c), rows)
}

func runNativeDelta(_ context.Context, st *acl.Stream, a *GatedDeltaArgs) error {
	return compose(st, func(s *steps) {
		x := a.native(s, a.FinalState)
		out := s.Tensor(a.Out.DType(), x.v.Shape()...)
		launch(s, aclnn.ChunkFwdO, aclnn.ChunkFwdOParams{
			Q: x.q, K: x.k, V: x.corrected, H: x.h, G: x.sums, CuSeqlens: a.CuSeqLens, ChunkOffsets: x.chunks, Scale: a.Scale,
			ChunkSize: deltaChunk, OOut: out,
		})
		s.Copy(a.Out, out.Transpose(1, 2))
	})
}

func runNativeDeltaGrad(_ context.Context, st *acl.Stream, a *GatedDeltaGradArgs) error {
	return compose(st, func(s *steps) {
		dt := a.Query.DType()
		x := a.native(s, nil)
		dOut := s.headMajor(dt, a.DOut)
		local, dh, dCorrected := s.Like(x.v), s.Like(x.h), s.Like(x.v)
		launch(s, aclnn.ChunkBwdDvLocal, aclnn.ChunkBwdDvLocalParams{
			Q: x.q, K: x.k, DO: dOut, G: x.sums, CuSeqlens: a.CuSeqLens, ChunkIndices: x.chunks, Scale: a.Scale, ChunkSize: deltaChunk, Out: local,
		})
		launch(s, aclnn.ChunkGatedDeltaRuleBwdDhu, aclnn.ChunkGatedDeltaRuleBwdDhuParams{
			Q: x.q, K: x.k, W: x.w, DO: dOut, Dv: local, G: x.sums, CuSeqlens: a.CuSeqLens, ChunkIndices: x.chunks,
			Scale: a.Scale, ChunkSize: deltaChunk, DhOut: dh, Dv2Out: dCorrected,
		})
		dq, dk, dw, dSums := s.Like(x.q), s.Like(x.k), s.Like(x.w), s.Like(x.sums)
		launch(s, aclnn.ChunkBwdDqkwg, aclnn.ChunkBwdDqkwgParams{
			Q: x.q, K: x.k, V: x.corrected, G: x.sums, H: x.h, Dox: dOut, Dh: dh, Dv: dCorrected, CuSeqlens: a.CuSeqLens,
			ChunkIndices: x.chunks, Scale: float32(a.Scale), ChunkSize: deltaChunk, DqOut: dq, DkOut: dk, DwOut: dw, DgOut: dSums,
		})
		dk2, dv, dBeta, dSums2 := s.Like(x.k), s.Like(x.v), s.Like(x.beta), s.Like(x.sums)
		launch(s, aclnn.PrepareWyReprBwd, aclnn.PrepareWyReprBwdParams{
			K: x.k, V: x.v, Beta: x.beta, A: x.inverse, Dw: dw, Du: dCorrected, G: x.sums, CuSeqlens: a.CuSeqLens,
			ChunkIndices: x.chunks, ChunkSize: deltaChunk, DkOut: dk2, DvOut: dv, DbetaOut: dBeta, DgOut: dSums2,
		})
		s.add(dSums, dSums2, 1)
		dDecay := s.Like(dSums)
		x.cumsum(s, dSums, dDecay, true)
		s.Copy(a.DDecay, dDecay.Transpose(1, 2))
		s.Copy(a.DBeta, dBeta.Transpose(1, 2))
		s.Copy(a.DValue, dv.Transpose(1, 2))
		wideQ, wideK := s.Tensor(aclnn.Float32, dq.Shape()...), s.Tensor(aclnn.Float32, dk.Shape()...)
		s.Copy(wideQ, dq)
		s.Copy(wideK, dk)
		s.add(wideK, s.float(dk2), 1)
		if a.Normalize {
			s.unitGrad(wideQ, x.q32, x.qUnit)
			s.unitGrad(wideK, x.k32, x.kUnit)
		}
		s.Copy(a.DQuery, wideQ.Transpose(1, 2))
		s.Copy(a.DKey, wideK.Transpose(1, 2))
	})
}
