package ops_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/key"
)

func TestGoldenCausalConv(t *testing.T) {
	for _, c := range golden.Cases(t, "causal_conv1d") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			everyKernel(t, func(r *ops.Registry) dispatched { return r.CausalConv() },
				func(r *ops.Registry) dispatched { return r.CausalConvGrad() },
				func(b *opstest.Bench) bool {
					x, w := tensorOf(b, c, "x"), tensorOf(b, c, "w")
					a := ops.CausalConvArgs{X: x, Weight: w, SiLU: c.Bool("silu"), Out: b.Empty(c.DType, x.Shape()...)}
					grad := ops.CausalConvGradArgs{DOut: tensorOf(b, c, "dy"), DX: b.Empty(c.DType, x.Shape()...), DWeight: b.Empty(c.DType, w.Shape()...)}
					if c.Bool("bias") {
						a.Bias, grad.DBias = tensorOf(b, c, "b"), b.Empty(c.DType, w.Dim(0))
					}
					grad.CausalConvArgs = a
					if !opstest.Takes(b.CausalConv(), &a) || !opstest.Takes(b.CausalConvGrad(), &grad) {
						return false
					}
					opstest.Run(b, b.CausalConv(), &a)
					b.Near("y", a.Out, c.Float32("y"), opstest.Tolerance(c.DType))
					opstest.Run(b, b.CausalConvGrad(), &grad)
					b.Near("dx", grad.DX, c.Float32("dx"), opstest.Tolerance(c.DType))
					b.Near("dw", grad.DWeight, c.Float32("dw"), opstest.Tolerance(c.DType))
					if a.Bias != nil {
						b.Near("db", grad.DBias, c.Float32("db"), opstest.Tolerance(c.DType))
					}
					return true
				})
		})
	}
}

// convolution implements the definition in float64; arrays are row-major.
type convolution struct {
	b, t, d, w int
	cu         []int64
	silu       bool
}

func (c convolution) sequences() (bounds [][2]int) {
	if c.cu == nil {
		for i := range c.b {
			bounds = append(bounds, [2]int{i * c.t, (i + 1) * c.t})
		}
	}
	for i := 1; i < len(c.cu); i++ {
		bounds = append(bounds, [2]int{int(c.cu[i-1]), int(c.cu[i])})
	}
	return bounds
}

// input returns x at a token of a sequence; negative tokens read the state [N,D,W].
func (c convolution) input(x, state []float64, n, from, token, channel int) float64 {
	switch {
	case token >= 0:
		return x[(from+token)*c.d+channel]
	case state != nil:
		return state[(n*c.d+channel)*c.w+c.w+token]
	}
	return 0
}

func (c convolution) forward(x, w, bias, state []float64) (y, final []float64) {
	y, final = make([]float64, len(x)), make([]float64, len(c.sequences())*c.d*c.w)
	for n, s := range c.sequences() {
		for ch := range c.d {
			for t := range s[1] - s[0] {
				u := 0.
				if bias != nil {
					u = bias[ch]
				}
				for i := range c.w {
					u += w[ch*c.w+c.w-1-i] * c.input(x, state, n, s[0], t-i, ch)
				}
				if c.silu {
					u /= 1 + math.Exp(-u)
				}
				y[(s[0]+t)*c.d+ch] = u
			}
			for i := range c.w {
				final[(n*c.d+ch)*c.w+i] = c.input(x, state, n, s[0], s[1]-s[0]-c.w+i, ch)
			}
		}
	}
	return y, final
}

// slopes computes the gradient of Σ dy·f(x) by finite differences.
func slopes(x, dy []float64, f func(x []float64) []float64) []float64 {
	const step = 1e-5
	x = append([]float64(nil), x...)
	dx := make([]float64, len(x))
	for i, at := range x {
		x[i] = at + step
		above := f(x)
		x[i] = at - step
		below := f(x)
		x[i] = at
		for j, g := range dy {
			dx[i] += g * (above[j] - below[j]) / (2 * step)
		}
	}
	return dx
}

func TestCausalConv(t *testing.T) {
	for _, c := range []struct {
		convolution
		dt, weight          aclnn.DType
		bias, state, spaced bool
	}{
		{convolution: convolution{b: 1, t: 1, d: 1, w: 1}},
		{convolution: convolution{b: 2, t: 1, d: 3, w: 4, silu: true}, state: true, bias: true},
		{convolution: convolution{b: 1, t: 2, d: 5, w: 4}, state: true, spaced: true},
		{convolution: convolution{b: 2, t: 3, d: 16, w: 3, silu: true}, bias: true},
		{convolution: convolution{b: 1, t: 33, d: 4, w: 2, silu: true}, state: true, bias: true},
		{convolution: convolution{b: 1, t: 16, d: 16, w: 4, silu: true}, spaced: true},
		{convolution: convolution{b: 1, t: 14, d: 3, w: 4, silu: true, cu: []int64{0, 1, 4, 14}}, state: true, bias: true},
		{convolution: convolution{b: 2, t: 9, d: 6, w: 4, silu: true}, dt: aclnn.BFloat16, weight: aclnn.BFloat16, bias: true},
		{convolution: convolution{b: 2, t: 9, d: 6, w: 4}, dt: aclnn.Float16},
		{convolution: convolution{b: 2, t: 9, d: 32, w: 4, silu: true}, dt: aclnn.BFloat16, weight: aclnn.BFloat16, bias: true, spaced: true},
		{convolution: convolution{b: 2, t: 2, d: 16, w: 3}, dt: aclnn.Float16, weight: aclnn.Float16, state: true},
		{convolution: convolution{b: 1, t: 14, d: 16, w: 4, silu: true, cu: []int64{0, 1, 4, 14}}, dt: aclnn.Float16, weight: aclnn.Float16, state: true, bias: true},
		{convolution: convolution{b: 1, t: 14, d: 16, w: 2, silu: true, cu: []int64{0, 2, 14}}, dt: aclnn.BFloat16, weight: aclnn.BFloat16, spaced: true},
		{convolution: convolution{b: 1, t: 7, d: 48, w: 4, silu: true, cu: []int64{0, 3, 7}}, state: true},
		{convolution: convolution{b: 2, t: 0, d: 6, w: 4}, state: true},
		{convolution: convolution{b: 0, t: 3, d: 6, w: 4}, bias: true},
	} {
		t.Run(fmt.Sprintf("%dx%d/%d channels/%d taps/%v/%v", c.b, c.t, c.d, c.w, c.cu, c.dt), func(t *testing.T) {
			everyKernel(t, func(r *ops.Registry) dispatched { return r.CausalConv() },
				func(r *ops.Registry) dispatched { return r.CausalConvGrad() },
				func(b *opstest.Bench) bool {
					in := func(dt aclnn.DType, seed uint64, shape ...int64) (*aclnn.Tensor, []float64) {
						x, v := b.Input(dt, seed, shape...)
						return maybe(b, c.spaced, x), wide(v)
					}
					tokens, taps := []int64{int64(c.b), int64(c.t), int64(c.d)}, []int64{int64(c.d), int64(c.w)}
					x, xs := in(c.dt, 1, tokens...)
					w, ws := in(c.weight, 2, taps...)
					dy, dys := in(c.dt, 3, tokens...)
					a := ops.CausalConvArgs{X: x, Weight: w, SiLU: c.silu, CuSeqLens: c.cu, Out: maybe(b, c.spaced, b.Empty(c.dt, tokens...))}
					grad := ops.CausalConvGradArgs{DOut: dy, DX: b.Empty(c.dt, tokens...), DWeight: b.Empty(aclnn.Float32, taps...)}
					var bias, state []float64
					if c.bias {
						a.Bias, bias = in(c.weight, 4, int64(c.d))
						grad.DBias = b.Empty(aclnn.Float32, int64(c.d))
					}
					if c.state {
						shape := []int64{int64(len(c.sequences())), int64(c.d), int64(c.w)}
						a.InitialState, state = in(c.dt, 5, shape...)
						a.FinalState = b.Empty(c.dt, shape...)
					}
					grad.CausalConvArgs = a
					if !opstest.Takes(b.CausalConv(), &a) || !opstest.Takes(b.CausalConvGrad(), &grad) {
						return false
					}
					ofParameters := aclnn.Float32 // the native operator rounds their gradients once
					if b.CausalConvGrad().Explain(&grad).Kernel == "CausalConv1dBwd" {
						ofParameters = c.weight
					}
					opstest.Run(b, b.CausalConv(), &a)
					opstest.Run(b, b.CausalConvGrad(), &grad)
					y, final := c.forward(xs, ws, bias, state)
					b.Near("y", a.Out, narrow(y), opstest.Tolerance(c.dt))
					if a.FinalState != nil {
						b.Near("final state", a.FinalState, narrow(final), opstest.Tolerance(c.dt))
					}
					with := func(x, w, bias []float64) []float64 { y, _ := c.forward(x, w, bias, state); return y }
					b.Near("dx", grad.DX, narrow(slopes(xs, dys, func(x []float64) []float64 { return with(x, ws, bias) })), opstest.Tolerance(c.dt))
					dw := slopes(ws, dys, func(w []float64) []float64 { return with(xs, w, bias) })
					b.Near("dw", grad.DWeight, narrow(dw), opstest.Tolerance(ofParameters))
					if c.bias {
						b.Near("db", grad.DBias, narrow(slopes(bias, dys, func(bias []float64) []float64 { return with(xs, ws, bias) })), opstest.Tolerance(ofParameters))
					}
					grad.Accumulate = true
					opstest.Run(b, b.CausalConvGrad(), &grad)
					b.Near("twice dw", grad.DWeight, opstest.Convert(dw, func(x float64) float32 { return 2 * float32(x) }), opstest.Tolerance(ofParameters))
					return true
				})
		})
	}
}

// Different taps and a single nonzero input show the order of the taps and that the convolution is
// causal.
func TestCausalConvOrder(t *testing.T) {
	b := opstest.New(t)
	x, w := b.Floats(aclnn.Float32, []float32{0, 1, 0, 0, 0, 0}, 1, 6, 1), b.Floats(aclnn.Float32, []float32{1, 2, 3, 4}, 1, 4)
	a := ops.CausalConvArgs{X: x, Weight: w, Out: b.Empty(aclnn.Float32, 1, 6, 1)}
	opstest.Run(b, b.CausalConv(), &a)
	require.Equal(t, []float32{0, 4, 3, 2, 1, 0}, b.Read(a.Out))
}

// Decoding token by token with the state gives the same result as one run.
func TestCausalConvContinues(t *testing.T) {
	for dt, kernel := range map[aclnn.DType]string{aclnn.Float32: "composite", aclnn.BFloat16: "CausalConv1d"} {
		t.Run(kernel, func(t *testing.T) {
			b := opstest.New(t)
			x, _ := b.Input(dt, 1, 2, 9, 16)
			w, _ := b.Input(dt, 2, 16, 4)
			whole, parts, state := b.Empty(dt, 2, 9, 16), b.Empty(dt, 2, 9, 16), b.Empty(dt, 2, 16, 4)
			opstest.Run(b, b.CausalConv(), &ops.CausalConvArgs{X: x, Weight: w, SiLU: true, Out: whole})
			for from, n := int64(0), int64(2); from < 9; from, n = from+n, 1 {
				a := ops.CausalConvArgs{X: x.Narrow(1, from, n), Weight: w, SiLU: true, Out: parts.Narrow(1, from, n), FinalState: state}
				if from > 0 {
					a.InitialState = state
				}
				require.Equal(t, kernel, b.CausalConv().Explain(&a).Kernel)
				opstest.Run(b, b.CausalConv(), &a)
			}
			require.Equal(t, b.Read(whole), b.Read(parts))
		})
	}
}

// TestCausalConvKernels checks which kernels are chosen, and why not the others.
func TestCausalConvKernels(t *testing.T) {
	b := opstest.New(t)
	for name, c := range map[string]struct {
		dt, weight  aclnn.DType
		d, w        int64
		ahead, back string // the reasons against the native kernels, "" if they are taken
	}{
		"16 bits":      {aclnn.BFloat16, aclnn.BFloat16, 32, 4, "", ""},
		"32 bits":      {aclnn.Float32, aclnn.Float32, 32, 4, "16-bit", ""},
		"two dtypes":   {aclnn.BFloat16, aclnn.Float32, 32, 4, "dtype of its input", "dtype of its input"},
		"odd channels": {aclnn.Float16, aclnn.Float16, 24, 4, "multiples of 16 channels, not 24", "multiples of 16 channels"},
		"many taps":    {aclnn.Float16, aclnn.Float16, 32, 5, "2 to 4 taps, not 5", "2 to 4 taps, not 5"},
	} {
		t.Run(name, func(t *testing.T) {
			a := ops.CausalConvArgs{X: b.Empty(c.dt, 1, 6, c.d), Weight: b.Empty(c.weight, c.d, c.w), SiLU: true, Out: b.Empty(c.dt, 1, 6, c.d)}
			grad := ops.CausalConvGradArgs{CausalConvArgs: a, DOut: a.X, DX: a.Out, DWeight: a.Weight}
			for _, side := range []struct {
				explained      ops.Explanation
				native, reason string
			}{
				{b.CausalConv().Explain(&a), "CausalConv1d", c.ahead}, {b.CausalConvGrad().Explain(&grad), "CausalConv1dBwd", c.back},
			} {
				if side.reason == "" {
					require.Equal(t, side.native, side.explained.Kernel, side.explained)
					continue
				}
				require.Equal(t, "composite", side.explained.Kernel)
				require.ErrorContains(t, errors.New(side.explained.Candidates[0].Reason), side.reason)
			}
		})
	}
}

// TestTiledConvUnderSequenceParallelism checks that a kernel with tiles like those of Triton's fits
// a rank's part of the layer before the exchange but not after it: the sequence is longer, so the
// kernel would take its longest tile, and the composite is chosen.
func TestTiledConvUnderSequenceParallelism(t *testing.T) {
	b := opstest.New(t)
	require.NoError(t, b.CausalConvGrad().Register(ops.Kernel[ops.CausalConvGradArgs, key.CausalConvGrad]{
		Name: "tiled",
		Supports: func(env *ops.Env, k key.CausalConvGrad) error {
			const cores = 48
			tokens := int64(16)
			for per := (k.Tokens.Most() + cores - 1) / cores; tokens < min(per, 64); {
				tokens *= 2
			}
			return ops.ConvGradFits(env, k, tokens, 64)
		},
		Run: func(context.Context, *acl.Stream, *ops.CausalConvGradArgs) error { return errors.New("not to be run") },
	}))
	conv := func(tokens, channels int64) ops.Explanation {
		x, w := b.Empty(aclnn.Float32, 1, tokens, channels), b.Empty(aclnn.Float32, channels, 4)
		return b.CausalConvGrad().Explain(&ops.CausalConvGradArgs{
			CausalConvArgs: ops.CausalConvArgs{X: x, Weight: w, SiLU: true}, DOut: x, DX: x, DWeight: w,
		})
	}
	require.Equal(t, "tiled", conv(1024, 1024).Kernel)
	e := conv(4096, 256)
	require.Equal(t, "CausalConv1dBwd", e.Kernel)
	require.Contains(t, e.Candidates[0].Reason, "C24: a tile of 64 tokens and 64 channels needs 222464 bytes of Unified Buffer, of which there are 176947")
}

func TestCausalConvRefuses(t *testing.T) {
	b := opstest.New(t)
	f := func(shape ...int64) *aclnn.Tensor { return b.Empty(aclnn.Float32, shape...) }
	for text, change := range map[string]func(a *ops.CausalConvArgs){
		"X is nil":                         func(a *ops.CausalConvArgs) { a.X = nil },
		"they must be [B,T,D] and [D,W]":   func(a *ops.CausalConvArgs) { a.Weight = f(4, 3) },
		"Weight is float16":                func(a *ops.CausalConvArgs) { a.Weight = b.Empty(aclnn.Float16, 3, 4) },
		"Bias is float32[4]ND":             func(a *ops.CausalConvArgs) { a.Bias = f(4) },
		"CuSeqLens is [0 3]":               func(a *ops.CausalConvArgs) { a.CuSeqLens = []int64{0, 3} },
		"InitialState is float32[1,3,3]ND": func(a *ops.CausalConvArgs) { a.InitialState = f(1, 3, 3) },
		"FinalState is bfloat16":           func(a *ops.CausalConvArgs) { a.FinalState = b.Empty(aclnn.BFloat16, 1, 3, 4) },
		"Out is float32[1,6,4]ND":          func(a *ops.CausalConvArgs) { a.Out = f(1, 6, 4) },
	} {
		a := ops.CausalConvArgs{X: f(1, 6, 3), Weight: f(3, 4), Out: f(1, 6, 3)}
		change(&a)
		err := b.CausalConv().Run(t.Context(), b.Stream, &a)
		require.ErrorIs(t, err, ops.ErrInvalid, text)
		require.ErrorContains(t, err, text)
	}
	grad := ops.CausalConvGradArgs{CausalConvArgs: ops.CausalConvArgs{X: f(1, 6, 3), Weight: f(3, 4), Bias: f(3)}, DOut: f(1, 6, 3), DX: f(1, 6, 3), DWeight: f(3, 4)}
	require.ErrorContains(t, b.CausalConvGrad().Run(t.Context(), b.Stream, &grad), "both Bias and DBias")
}
