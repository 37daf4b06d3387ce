package ops_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
)

// gatedNorm implements the definition in float64.
func gatedNorm(x, gate, weight []float64, epsilon float64) []float64 {
	y, h := make([]float64, len(x)), len(weight)
	for r := 0; r < len(x); r += h {
		square := 0.
		for i := range h {
			square += x[r+i] * x[r+i]
		}
		for i := range h {
			y[r+i] = x[r+i] / math.Sqrt(square/float64(h)+epsilon) * weight[i] * gate[r+i] / (1 + math.Exp(-gate[r+i]))
		}
	}
	return y
}

func TestGatedNorm(t *testing.T) {
	const epsilon = 1e-5
	rows(t, func(t *testing.T, dt aclnn.DType, shape []int64, spaced bool) {
		if opstest.Size(shape) > 1000 {
			t.Skip("differences of a large tensor take long and show nothing more")
		}
		b := opstest.New(t)
		h := shape[len(shape)-1]
		in := func(seed uint64, shape ...int64) (*aclnn.Tensor, []float64) {
			x, v := b.Input(dt, seed, shape...)
			return maybe(b, spaced, x), wide(v)
		}
		x, xs := in(1, shape...)
		gate, gates := in(2, shape...)
		dy, dys := in(3, shape...)
		w, ws := b.Input(dt, 4, h)
		stat := append([]int64(nil), shape...)
		stat[len(stat)-1] = 1
		a := ops.GatedNormArgs{X: x, Gate: gate, Weight: w, Epsilon: epsilon, Out: maybe(b, spaced, b.Empty(dt, shape...)), RStd: b.Empty(aclnn.Float32, stat...)}
		opstest.Run(b, b.GatedNorm(), &a)
		b.Near("y", a.Out, narrow(gatedNorm(xs, gates, wide(ws), epsilon)), 2*opstest.Tolerance(dt))
		grad := ops.GatedNormGradArgs{
			DOut: dy, X: x, Gate: gate, RStd: a.RStd, Weight: w,
			DX: maybe(b, spaced, b.Empty(dt, shape...)), DGate: b.Empty(dt, shape...), DWeight: b.Empty(aclnn.Float32, h),
		}
		opstest.Run(b, b.GatedNormGrad(), &grad)
		of := wide(ws)
		dx := slopes(xs, dys, func(x []float64) []float64 { return gatedNorm(x, gates, of, epsilon) })
		if h > 1 { // of one element only the sign is left, and its gradient is rounding
			b.Near("dx", grad.DX, narrow(dx), 4*opstest.Tolerance(dt))
		}
		b.Near("dgate", grad.DGate, narrow(slopes(gates, dys, func(g []float64) []float64 { return gatedNorm(xs, g, of, epsilon) })), 2*opstest.Tolerance(dt))
		b.Near("dw", grad.DWeight, narrow(slopes(of, dys, func(w []float64) []float64 { return gatedNorm(xs, gates, w, epsilon) })), 2*opstest.Tolerance(dt))
	})
	b := opstest.New(t)
	f := func(shape ...int64) *aclnn.Tensor { return b.Empty(aclnn.Float32, shape...) }
	err := b.GatedNorm().Run(t.Context(), b.Stream, &ops.GatedNormArgs{X: f(2, 3), Gate: f(2, 4), Weight: f(3), Out: f(2, 3), Epsilon: 1e-6})
	require.ErrorIs(t, err, ops.ErrInvalid)
	require.ErrorContains(t, err, "Gate is float32[2,4]ND")
	err = b.GatedNormGrad().Run(t.Context(), b.Stream, &ops.GatedNormGradArgs{DOut: f(2, 3), X: f(2, 3), RStd: f(2, 1), Weight: f(3), DX: f(2, 3), DWeight: f(3), Gate: f(2, 3)})
	require.ErrorContains(t, err, "DGate is nil")
}

func TestDeltaGate(t *testing.T) {
	softplus := func(x float64) float64 { return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }
	rows(t, func(t *testing.T, dt aclnn.DType, shape []int64, spaced bool) {
		if opstest.Size(shape) > 1000 {
			t.Skip("differences of a large tensor take long and show nothing more")
		}
		b := opstest.New(t)
		h := shape[len(shape)-1]
		in := func(dt aclnn.DType, seed uint64, shape ...int64) (*aclnn.Tensor, []float64) {
			x, v := b.Input(dt, seed, shape...)
			return maybe(b, spaced, x), wide(v)
		}
		x, xs := in(dt, 1, shape...)
		y, ys := in(dt, 2, shape...)
		rate, rates := in(aclnn.Float32, 3, h)
		bias, biases := in(dt, 4, h)
		a := ops.DeltaGateArgs{A: x, B: y, ALog: rate, DTBias: bias, Decay: maybe(b, spaced, b.Empty(aclnn.Float32, shape...)), Beta: b.Empty(dt, shape...)}
		opstest.Run(b, b.DeltaGate(), &a)
		decay := func(x, rate, bias []float64) []float64 {
			g := make([]float64, len(x))
			for i := range x {
				g[i] = -math.Exp(rate[i%int(h)]) * softplus(x[i]+bias[i%int(h)])
			}
			return g
		}
		beta := func(x []float64) []float64 {
			return opstest.Convert(x, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) })
		}
		b.Near("decay", a.Decay, narrow(decay(xs, rates, biases)), 1e-5)
		b.Near("beta", a.Beta, narrow(beta(ys)), opstest.Tolerance(dt))
		grad := ops.DeltaGateGradArgs{
			DeltaGateArgs: a, DA: maybe(b, spaced, b.Empty(dt, shape...)), DB: b.Empty(dt, shape...), DALog: b.Empty(aclnn.Float32, h), DDTBias: b.Empty(aclnn.Float32, h),
		}
		var dDecay, dBeta []float64
		grad.DDecay, dDecay = in(aclnn.Float32, 5, shape...)
		grad.DBeta, dBeta = in(dt, 6, shape...)
		opstest.Run(b, b.DeltaGateGrad(), &grad)
		b.Near("da", grad.DA, narrow(slopes(xs, dDecay, func(x []float64) []float64 { return decay(x, rates, biases) })), opstest.Tolerance(dt))
		b.Near("db", grad.DB, narrow(slopes(ys, dBeta, beta)), 3*opstest.Tolerance(dt))
		b.Near("dALog", grad.DALog, narrow(slopes(rates, dDecay, func(r []float64) []float64 { return decay(xs, r, biases) })), 1e-5)
		b.Near("dDTBias", grad.DDTBias, narrow(slopes(biases, dDecay, func(v []float64) []float64 { return decay(xs, rates, v) })), 1e-5)
	})
	b := opstest.New(t)
	f := func(shape ...int64) *aclnn.Tensor { return b.Empty(aclnn.Float32, shape...) }
	a := ops.DeltaGateArgs{A: f(2, 3), B: f(2, 3), ALog: f(2), DTBias: f(3), Decay: f(2, 3), Beta: f(2, 3)}
	err := b.DeltaGate().Run(t.Context(), b.Stream, &a)
	require.ErrorIs(t, err, ops.ErrInvalid)
	require.ErrorContains(t, err, "ALog is float32[2]ND; its shape must be [3]")
}
