package ops_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
)

func TestGoldenGatedDelta(t *testing.T) {
	for _, c := range golden.Cases(t, "gated_delta_rule") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			everyKernel(t, func(r *ops.Registry) dispatched { return r.GatedDelta() },
				func(r *ops.Registry) dispatched { return r.GatedDeltaGrad() },
				func(b *opstest.Bench) bool {
					q, v, g := tensorOf(b, c, "q"), tensorOf(b, c, "v"), tensorOf(b, c, "g")
					a := ops.GatedDeltaArgs{
						Query: q, Key: tensorOf(b, c, "k"), Value: v, Decay: g, Beta: tensorOf(b, c, "beta"), Scale: c.Float("scale"),
						Normalize: c.Bool("l2norm_qk"), Out: b.Empty(c.DType, v.Shape()...), FinalState: b.Empty(aclnn.Float32, shapeOf(c, "sT")...),
					}
					if c.Bool("init") {
						a.InitialState = tensorOf(b, c, "s0")
					}
					grad := ops.GatedDeltaGradArgs{
						GatedDeltaArgs: a, DOut: tensorOf(b, c, "do"), DFinalState: tensorOf(b, c, "dsT"),
						DQuery: b.Empty(c.DType, q.Shape()...), DKey: b.Empty(c.DType, q.Shape()...), DValue: b.Empty(c.DType, v.Shape()...),
						DDecay: b.Empty(aclnn.Float32, g.Shape()...), DBeta: b.Empty(a.Beta.DType(), g.Shape()...),
						DInitialState: b.Empty(aclnn.Float32, a.FinalState.Shape()...),
					}
					if !opstest.Takes(b.GatedDelta(), &a) || !opstest.Takes(b.GatedDeltaGrad(), &grad) {
						return false
					}
					opstest.Run(b, b.GatedDelta(), &a)
					b.Near("o", a.Out, c.Float32("o"), opstest.Tolerance(c.DType))
					b.Near("sT", a.FinalState, c.Float32("sT"), opstest.Tolerance(c.DType))
					opstest.Run(b, b.GatedDeltaGrad(), &grad)
					for name, got := range map[string]*aclnn.Tensor{"dq": grad.DQuery, "dk": grad.DKey, "dv": grad.DValue, "dg": grad.DDecay, "dbeta": grad.DBeta} {
						b.Near(name, got, c.Float32(name), opstest.Tolerance(c.DType))
					}
					if c.Bool("init") {
						b.Near("ds0", grad.DInitialState, c.Float32("ds0"), opstest.Tolerance(c.DType))
					}
					return true
				})
		})
	}
}

// native is the kernel that runs the chunk operators of the custom package.
const native = "ChunkGatedDeltaRule"

// decode is the kernel that runs the recurrent operator of the custom package.
const decode = "RecurrentGatedDeltaRule"

// TestGatedDelta compares with the definition for lengths around the chunk, groups of heads, packed
// sequences, states, strided tensors, 16-bit types, and decay that underflows.
func TestGatedDelta(t *testing.T) {
	for _, c := range []struct {
		d        delta
		dt, gate aclnn.DType // of queries, and of beta; the zero value is float32
		states   bool
		spaced   bool
		decay    float64 // scales the decay
	}{
		{d: delta{b: 1, t: 1, hk: 1, hv: 1, dk: 1, dv: 1}},
		{d: delta{b: 2, t: 1, hk: 2, hv: 4, dk: 5, dv: 3, normalize: true}, states: true},
		{d: delta{b: 1, t: 63, hk: 1, hv: 2, dk: 8, dv: 12}, states: true},
		{d: delta{b: 3, t: 64, hk: 3, hv: 3, dk: 16, dv: 8, normalize: true}, spaced: true},
		{d: delta{b: 1, t: 65, hk: 2, hv: 8, dk: 7, dv: 9, normalize: true}, states: true, spaced: true},
		{d: delta{b: 2, t: 200, hk: 1, hv: 1, dk: 24, dv: 24, normalize: true}, states: true, decay: 30},
		{d: delta{b: 1, t: 133, hk: 2, hv: 4, dk: 16, dv: 8, normalize: true, cu: []int64{0, 1, 4, 68, 133}}, states: true},
		{d: delta{b: 1, t: 9, hk: 1, hv: 1, dk: 4, dv: 4, cu: []int64{0, 9}}, spaced: true},
		{d: delta{b: 2, t: 70, hk: 1, hv: 2, dk: 16, dv: 16, normalize: true}, dt: aclnn.BFloat16, states: true},
		{d: delta{b: 1, t: 70, hk: 2, hv: 2, dk: 16, dv: 16, normalize: true}, dt: aclnn.Float16, gate: aclnn.Float16},
		{d: delta{b: 1, t: 150, hk: 1, hv: 2, dk: 128, dv: 128, normalize: true}, dt: aclnn.BFloat16},
		{d: delta{b: 1, t: 133, hk: 2, hv: 2, dk: 128, dv: 256, normalize: true, cu: []int64{0, 1, 4, 68, 133}}, dt: aclnn.Float16, spaced: true},
		{d: delta{b: 2, t: 1, hk: 2, hv: 4, dk: 16, dv: 8, normalize: true}, dt: aclnn.BFloat16, states: true},
		{d: delta{b: 3, t: 8, hk: 1, hv: 2, dk: 5, dv: 12, normalize: true}, dt: aclnn.BFloat16, gate: aclnn.BFloat16, states: true, spaced: true},
		{d: delta{b: 1, t: 3, hk: 2, hv: 2, dk: 8, dv: 8}, dt: aclnn.BFloat16},
		{d: delta{b: 2, t: 0, hk: 1, hv: 2, dk: 4, dv: 4}, states: true},
		{d: delta{b: 0, t: 5, hk: 1, hv: 2, dk: 4, dv: 4}},
	} {
		t.Run(fmt.Sprintf("%dx%d/%d heads on %d/%dx%d/%v/%v", c.d.b, c.d.t, c.d.hv, c.d.hk, c.d.dk, c.d.dv, c.d.cu, c.dt), func(t *testing.T) {
			var reference *delta // the same for all kernels
			everyKernel(t, func(r *ops.Registry) dispatched { return r.GatedDelta() },
				func(r *ops.Registry) dispatched { return r.GatedDeltaGrad() },
				func(b *opstest.Bench) bool {
					d, dt, gate := c.d, c.dt, c.gate
					d.scale = 1 / math.Sqrt(float64(d.dk))
					key, value, gates, state := d.shapes()
					in := func(dt aclnn.DType, seed uint64, change func(float64) float64, shape []int64) (*aclnn.Tensor, []float64) {
						v := opstest.Convert(opstest.Random(dt, seed, opstest.Size(shape)), func(x float32) float32 { return float32(change(float64(x))) })
						x := b.Floats(dt, v, shape...)
						return maybe(b, c.spaced, x), wide(b.Read(x))
					}
					same := func(x float64) float64 { return x }
					shrink := func(x float64) float64 { return x / 2 }
					strength := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
					forget := func(x float64) float64 { return -max(c.decay, 1) * math.Log1p(math.Exp(x)) / 8 }
					a := ops.GatedDeltaArgs{Scale: d.scale, Normalize: d.normalize, CuSeqLens: d.cu}
					a.Query, d.q = in(dt, 1, shrink, key)
					a.Key, d.k = in(dt, 2, shrink, key)
					a.Value, d.v = in(dt, 3, same, value)
					a.Decay, d.g = in(aclnn.Float32, 4, forget, gates)
					a.Beta, d.beta = in(gate, 5, strength, gates)
					grad := ops.GatedDeltaGradArgs{}
					grad.DOut, d.do = in(dt, 6, same, value)
					d.dsT = make([]float64, opstest.Size(state))
					if c.states {
						a.InitialState, d.s0 = in(aclnn.Float32, 7, same, state)
						grad.DFinalState, d.dsT = in(aclnn.Float32, 8, same, state)
						a.FinalState, grad.DInitialState = maybe(b, c.spaced, b.Empty(aclnn.Float32, state...)), b.Empty(aclnn.Float32, state...)
					}
					a.Out = maybe(b, c.spaced, b.Empty(dt, value...))
					grad.GatedDeltaArgs = a
					grad.DQuery, grad.DKey = maybe(b, c.spaced, b.Empty(dt, key...)), b.Empty(dt, key...)
					grad.DValue = maybe(b, c.spaced, b.Empty(dt, value...))
					grad.DDecay, grad.DBeta = b.Empty(aclnn.Float32, gates...), maybe(b, c.spaced, b.Empty(gate, gates...))
					if !opstest.Takes(b.GatedDelta(), &a) || !opstest.Takes(b.GatedDeltaGrad(), &grad) {
						return false
					}
					opstest.Run(b, b.GatedDelta(), &a)
					opstest.Run(b, b.GatedDeltaGrad(), &grad)
					if reference == nil {
						d.compute()
						reference = &d
					}
					d = *reference
					for _, r := range []struct {
						name string
						got  *aclnn.Tensor
						want []float64
					}{
						{"out", a.Out, d.o}, {"final state", a.FinalState, d.sT}, {"dq", grad.DQuery, d.dq}, {"dk", grad.DKey, d.dkey},
						{"dv", grad.DValue, d.dval}, {"decay", grad.DDecay, d.dg}, {"beta", grad.DBeta, d.db}, {"initial state", grad.DInitialState, d.ds0},
					} {
						limit := opstest.Tolerance(dt)
						if k := b.GatedDelta().Explain(&a).Kernel; k == native || k == decode || b.GatedDeltaGrad().Explain(&grad).Kernel == native {
							limit = 2e-2 // what it keeps between its operators is rounded to 16 bits
						}
						if r.got != nil {
							b.Near(r.name, r.got, narrow(r.want), limit)
						}
					}
					return true
				})
		})
	}
}

// A state handed from one run to the next continues the sequence, in place.
func TestGatedDeltaContinues(t *testing.T) {
	b := opstest.New(t)
	q, _ := b.Input(aclnn.Float32, 1, 1, 90, 1, 8)
	k, _ := b.Input(aclnn.Float32, 2, 1, 90, 1, 8)
	v, _ := b.Input(aclnn.Float32, 3, 1, 90, 2, 4)
	gates, _ := b.Input(aclnn.Float32, 4, 1, 90, 2)
	beta, decay := b.Empty(aclnn.Float32, 1, 90, 2), b.Empty(aclnn.Float32, 1, 90, 2)
	require.NoError(t, aclnn.Sigmoid(b.Stream, aclnn.SigmoidParams{Self: gates, Out: beta}))
	require.NoError(t, aclnn.Muls(b.Stream, aclnn.MulsParams{Self: beta, Other: aclnn.Float(-0.2), Out: decay}))
	whole, parts := b.Empty(aclnn.Float32, 1, 90, 2, 4), b.Empty(aclnn.Float32, 1, 90, 2, 4)
	end, state := b.Empty(aclnn.Float32, 1, 2, 8, 4), b.Empty(aclnn.Float32, 1, 2, 8, 4)
	a := ops.GatedDeltaArgs{Query: q, Key: k, Value: v, Decay: decay, Beta: beta, Scale: 0.5, Normalize: true, Out: whole, FinalState: end}
	opstest.Run(b, b.GatedDelta(), &a)
	for from, n := int64(0), int64(80); from < 90; from, n = from+n, 1 { // a prompt, then token by token
		part := func(t *aclnn.Tensor) *aclnn.Tensor { return t.Narrow(1, from, n) }
		step := ops.GatedDeltaArgs{
			Query: part(q), Key: part(k), Value: part(v), Decay: part(decay), Beta: part(beta), Scale: 0.5, Normalize: true,
			Out: part(parts), FinalState: state,
		}
		if from > 0 {
			step.InitialState = state
			require.Equal(t, "recurrence", b.GatedDelta().Explain(&step).Kernel)
		}
		opstest.Run(b, b.GatedDelta(), &step)
	}
	b.Near("outputs", parts, b.Read(whole), 1e-6)
	b.Near("final state", state, b.Read(end), 1e-6)
}

func TestGatedDeltaRefuses(t *testing.T) {
	b := opstest.New(t)
	f := func(shape ...int64) *aclnn.Tensor { return b.Empty(aclnn.Float32, shape...) }
	for text, change := range map[string]func(a *ops.GatedDeltaArgs){
		"Query is nil":                     func(a *ops.GatedDeltaArgs) { a.Query = nil },
		"Key is bfloat16":                  func(a *ops.GatedDeltaArgs) { a.Key = b.Empty(aclnn.BFloat16, 1, 6, 2, 8) },
		"Decay is bfloat16":                func(a *ops.GatedDeltaArgs) { a.Decay = b.Empty(aclnn.BFloat16, 1, 6, 4) },
		"must be [B,T,heads,dimension]":    func(a *ops.GatedDeltaArgs) { a.Value = f(6, 4, 8) },
		"3 value heads and 2 key heads":    func(a *ops.GatedDeltaArgs) { a.Value = f(1, 6, 3, 8) },
		"dimensions must be positive":      func(a *ops.GatedDeltaArgs) { a.Value = f(1, 6, 4, 0) },
		"Beta is float32[1,6,2]ND":         func(a *ops.GatedDeltaArgs) { a.Beta = f(1, 6, 2) },
		"InitialState is float32[2,4,8,8]": func(a *ops.GatedDeltaArgs) { a.InitialState = f(2, 4, 8, 8) },
		"FinalState is float32[1,4,8,8]": func(a *ops.GatedDeltaArgs) {
			a.CuSeqLens, a.FinalState = []int64{0, 2, 6}, f(1, 4, 8, 8)
		},
		"it must go from 0 to 6": func(a *ops.GatedDeltaArgs) { a.CuSeqLens = []int64{1, 6} },
		"CuSeqLens is [0 5]":     func(a *ops.GatedDeltaArgs) { a.CuSeqLens = []int64{0, 5} },
		"it must increase":       func(a *ops.GatedDeltaArgs) { a.CuSeqLens = []int64{0, 3, 3, 6} },
		"share one row": func(a *ops.GatedDeltaArgs) {
			a.Query, a.Key, a.Value, a.Decay, a.Beta, a.CuSeqLens = f(2, 6, 2, 8), f(2, 6, 2, 8), f(2, 6, 4, 8), f(2, 6, 4), f(2, 6, 4), []int64{0, 6}
		},
		"Out is float32[1,6,4,7]ND": func(a *ops.GatedDeltaArgs) { a.Out = f(1, 6, 4, 7) },
	} {
		a := ops.GatedDeltaArgs{Query: f(1, 6, 2, 8), Key: f(1, 6, 2, 8), Value: f(1, 6, 4, 8), Decay: f(1, 6, 4), Beta: f(1, 6, 4), Out: f(1, 6, 4, 8), Scale: 1}
		change(&a)
		err := b.GatedDelta().Run(t.Context(), b.Stream, &a)
		require.ErrorIs(t, err, ops.ErrInvalid, text)
		require.ErrorContains(t, err, text)
	}
	grad := ops.GatedDeltaGradArgs{GatedDeltaArgs: ops.GatedDeltaArgs{
		Query: f(1, 6, 2, 8), Key: f(1, 6, 2, 8), Value: f(1, 6, 4, 8), Decay: f(1, 6, 4), Beta: f(1, 6, 4), Scale: 1,
	}}
	require.ErrorContains(t, b.GatedDeltaGrad().Run(t.Context(), b.Stream, &grad), "DOut is nil")
}
