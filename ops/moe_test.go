package ops_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
)

// expertLayer is a mixture of experts, put together from the operators.
type expertLayer struct {
	*opstest.Bench
	dt                         aclnn.DType
	tokens, width, inner, k, n int64
	normalize                  bool
	x, router, gateUp, down    *aclnn.Tensor
	weights, experts, probs    *aclnn.Tensor
	rows, places, hidden       *aclnn.Tensor
	active, results            *aclnn.Tensor
	groups                     ops.Groups
}

func (l *expertLayer) forward() (y *aclnn.Tensor) {
	b, total := l.Bench, l.tokens*l.k
	logits := b.Empty(l.dt, l.tokens, l.n)
	opstest.Run(b, b.MatMul(), &ops.MatMulArgs{A: l.x, B: l.router, Out: logits})
	l.weights, l.experts, l.probs = b.Empty(l.dt, l.tokens, l.k), b.Empty(aclnn.Int32, l.tokens, l.k), b.Empty(aclnn.Float32, l.tokens, l.n)
	opstest.Run(b, b.MoERouting(), &ops.MoERoutingArgs{Logits: logits, Normalize: l.normalize, Weights: l.weights, Experts: l.experts, Probs: l.probs})
	l.rows, l.places = b.Empty(l.dt, total, l.width), b.Empty(aclnn.Int32, total)
	sums := b.Empty(aclnn.Int32, l.n)
	opstest.Run(b, b.MoEPermute(), &ops.MoEPermuteArgs{X: l.x, Experts: l.experts, Rows: l.rows, Places: l.places, Sums: sums})
	l.groups = ops.Groups{Device: sums, Cumulative: true}
	l.hidden, l.active, l.results = b.Empty(l.dt, total, 2*l.inner), b.Empty(l.dt, total, l.inner), b.Empty(l.dt, total, l.width)
	args := l.args()
	opstest.Run(b, b.MoEExperts(), &args)
	y = b.Empty(l.dt, l.tokens, l.width)
	opstest.Run(b, b.MoEUnpermute(), &ops.MoEUnpermuteArgs{Rows: l.results, Places: l.places, Weights: l.weights, Out: y})
	return y
}

func (l *expertLayer) args() ops.MoEExpertsArgs {
	return ops.MoEExpertsArgs{Rows: l.rows, GateUp: l.gateUp, Down: l.down, Groups: l.groups, Hidden: l.hidden, Active: l.active, Out: l.results}
}

// backward returns the gradients of the input and of the weights.
func (l *expertLayer) backward(dy, dProbs *aclnn.Tensor) (dx, dRouter, dGateUp, dDown *aclnn.Tensor) {
	b := l.Bench
	dResults, dWeights := b.Empty(l.dt, l.results.Shape()...), b.Empty(l.dt, l.weights.Shape()...)
	opstest.Run(b, b.MoEUnpermuteGrad(), &ops.MoEUnpermuteGradArgs{DOut: dy, Rows: l.results, Places: l.places, Weights: l.weights, DRows: dResults, DWeights: dWeights})
	dRows, dGateUp, dDown := b.Empty(l.dt, l.rows.Shape()...), b.Empty(l.dt, l.gateUp.Shape()...), b.Empty(l.dt, l.down.Shape()...)
	opstest.Run(b, b.MoEExpertsGrad(), &ops.MoEExpertsGradArgs{MoEExpertsArgs: l.args(), DOut: dResults, DRows: dRows, DGateUp: dGateUp, DDown: dDown})
	dx, dRouter = b.Empty(l.dt, l.tokens, l.width), b.Empty(l.dt, l.width, l.n)
	opstest.Run(b, b.MoEPermuteGrad(), &ops.MoEPermuteGradArgs{DRows: dRows, Places: l.places, DX: dx})
	dLogits := b.Empty(l.dt, l.tokens, l.n)
	opstest.Run(b, b.MoERoutingGrad(), &ops.MoERoutingGradArgs{
		DWeights: dWeights, Weights: l.weights, Experts: l.experts, Normalize: l.normalize, Probs: l.probs, DProbs: dProbs, DLogits: dLogits,
	})
	through := b.Empty(l.dt, l.tokens, l.width)
	opstest.Run(b, b.MatMulGrad(), &ops.MatMulGradArgs{DOut: dLogits, A: l.x, B: l.router, DA: through, DB: dRouter})
	require.NoError(b.T, aclnn.InplaceAdd(b.Stream, aclnn.InplaceAddParams{Self: dx, Other: through, Alpha: aclnn.Float(1)}))
	return dx, dRouter, dGateUp, dDown
}

// expertKernels are the kernels to which tests pin the operators of a mixture of experts: none, those
// that come second, and the composite ones.
var expertKernels = map[string]func(r *ops.Registry) []error{
	"first": func(*ops.Registry) []error { return nil },
	"second": func(r *ops.Registry) []error {
		return []error{r.MoEPermute().Pin("MoeTokenPermute"), r.MoEUnpermute().Pin("MoeFinalizeRoutingV2")}
	},
	"composite": func(r *ops.Registry) []error {
		return []error{
			r.MoERouting().Pin("composite"), r.MoEPermute().Pin("composite"), r.MoEPermuteGrad().Pin("composite"),
			r.MoEUnpermute().Pin("composite"), r.MoEUnpermuteGrad().Pin("composite"), r.SwiGLU().Pin("composite"),
		}
	},
}

func TestGoldenMoE(t *testing.T) {
	for _, c := range golden.Cases(t, "moe_swiglu") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			for name, pin := range expertKernels {
				t.Run(name, func(t *testing.T) {
					b := opstest.New(t)
					require.NoError(t, errors.Join(pin(b.Registry)...))
					l := &expertLayer{
						Bench: b, dt: c.DType, tokens: int64(c.Int("T")), width: int64(c.Int("H")), inner: int64(c.Int("I")), k: int64(c.Int("topk")), n: int64(c.Int("E")),
						normalize: true, x: tensorOf(b, c, "x"), router: tensorOf(b, c, "w_router"), gateUp: tensorOf(b, c, "w_gate_up"), down: tensorOf(b, c, "w_down"),
					}
					y := l.forward()
					require.Equal(t, opstest.Convert(c.Int64("topk_idx"), func(v int64) float32 { return float32(v) }), b.Read(l.experts))
					b.Near("weights", l.weights, c.Float32("topk_w"), opstest.Tolerance(c.DType))
					b.Near("y", y, c.Float32("y"), opstest.Tolerance(c.DType))
					dx, dRouter, dGateUp, dDown := l.backward(tensorOf(b, c, "dy"), nil)
					b.Near("dx", dx, c.Float32("dx"), opstest.Tolerance(c.DType))
					b.Near("dw_router", dRouter, c.Float32("dw_router"), opstest.Tolerance(c.DType))
					b.Near("dw_gate_up", dGateUp, c.Float32("dw_gate_up"), opstest.Tolerance(c.DType))
					b.Near("dw_down", dDown, c.Float32("dw_down"), opstest.Tolerance(c.DType))
				})
			}
		})
	}
}

// TestMoEKernelsAgree checks that fused and composite kernels give equal results for every dtype,
// with and without normalised weights and a gradient of the balance, and in odd sizes.
func TestMoEKernelsAgree(t *testing.T) {
	for _, dt := range opstest.FloatTypes {
		for _, size := range []struct{ tokens, width, inner, k, n int64 }{{5, 16, 16, 2, 4}, {1, 8, 3, 1, 1}, {37, 33, 7, 3, 8}, {0, 4, 4, 2, 4}} {
			for _, normalize := range []bool{false, true} {
				t.Run(fmt.Sprint(dt, size, normalize), func(t *testing.T) {
					var first [][]float32
					for name, pin := range expertKernels {
						t.Run(name, func(t *testing.T) {
							b := opstest.New(t)
							require.NoError(t, errors.Join(pin(b.Registry)...))
							l := &expertLayer{Bench: b, dt: dt, tokens: size.tokens, width: size.width, inner: size.inner, k: size.k, n: size.n, normalize: normalize}
							got := l.everything()
							if first == nil {
								first = got
							}
							for i := range got {
								require.NoError(t, golden.CheckRMS(got[i], first[i], 3*opstest.Tolerance(dt)), "result %d", i)
							}
						})
					}
				})
			}
		}
	}
}

// everything computes the layer on random inputs: the result, and the gradients including that of
// the balance.
func (l *expertLayer) everything() (got [][]float32) {
	b := l.Bench
	l.x, _ = b.Input(l.dt, 1, l.tokens, l.width)
	l.router, _ = b.Input(l.dt, 2, l.width, l.n)
	l.gateUp, _ = b.Input(l.dt, 3, l.n, l.width, 2*l.inner)
	l.down, _ = b.Input(l.dt, 4, l.n, l.inner, l.width)
	dy, _ := b.Input(l.dt, 5, l.tokens, l.width)
	got = append(got, b.Read(l.forward()))
	var dProbs *aclnn.Tensor
	if l.tokens > 0 {
		dProbs = b.Empty(aclnn.Float32, l.tokens, l.n)
		opstest.Run(b, b.LoadBalanceGrad(), &ops.LoadBalanceGradArgs{Scale: .5, Experts: l.experts, DProbs: dProbs})
	}
	dx, dRouter, dGateUp, dDown := l.backward(dy, dProbs)
	for _, x := range []*aclnn.Tensor{dx, dRouter, dGateUp, dDown} {
		got = append(got, b.Read(x))
	}
	return got
}

// TestSharedExpert checks the addend of MoEUnpermute, with weights of every dtype.
func TestSharedExpert(t *testing.T) {
	const tokens, k, width = 3, 2, 5
	for _, dt := range opstest.FloatTypes {
		for _, weights := range opstest.FloatTypes {
			b := opstest.New(t)
			rows, r := b.Input(dt, 1, tokens*k, width)
			w, ws := b.Input(weights, 2, tokens, k)
			shared, want := b.Input(dt, 3, tokens, width)
			places := []int32{5, 0, 3, 2, 1, 4}
			for i, p := range places {
				for j := range width {
					want[i/k*width+j] += ws[i] * r[int(p)*width+j]
				}
			}
			a := &ops.MoEUnpermuteArgs{Rows: rows, Places: opstest.Data(b, aclnn.Int32, places, tokens*k), Weights: w, Shared: shared, Out: b.Empty(dt, tokens, width)}
			e := b.MoEUnpermute().Explain(a)
			require.Contains(t, e.String(), "not MoeTokenUnpermute: it adds no shared expert")
			fused := dt == weights || dt == aclnn.BFloat16 && weights == aclnn.Float32
			require.Equal(t, fused, e.Kernel == "MoeFinalizeRoutingV2", "%v", e)
			opstest.Run(b, b.MoEUnpermute(), a)
			b.Near("out", a.Out, want, opstest.Tolerance(dt))
			a.Shared = a.Out
			require.ErrorIs(t, b.MoEUnpermute().Run(t.Context(), b.Stream, a), ops.ErrInvalid)
		}
	}
}

// TestMoERoutingGradient compares with difference quotients of the definition, with a fixed choice
// of experts.
func TestMoERoutingGradient(t *testing.T) {
	const tokens, n, k = 5, 6, 3
	for _, normalize := range []bool{false, true} {
		for _, balanced := range []bool{false, true} {
			t.Run(fmt.Sprint("normalize ", normalize, ", balanced ", balanced), func(t *testing.T) {
				b := opstest.New(t)
				logits, x := b.Input(aclnn.Float32, 1, tokens, n)
				dWeights, dw := b.Input(aclnn.Float32, 2, tokens, k)
				dProbs, dp := b.Input(aclnn.Float32, 3, tokens, n)
				weights, experts, probs := b.Empty(aclnn.Float32, tokens, k), b.Empty(aclnn.Int32, tokens, k), b.Empty(aclnn.Float32, tokens, n)
				opstest.Run(b, b.MoERouting(), &ops.MoERoutingArgs{Logits: logits, Normalize: normalize, Weights: weights, Experts: experts, Probs: probs})
				chosen := b.Read(experts)
				value := func(x []float64) (sum float64) {
					for i := range tokens {
						total, picked := 0.0, 0.0
						for e := range n {
							total += math.Exp(x[i*n+e])
						}
						for j := range k {
							picked += math.Exp(x[i*n+int(chosen[i*k+j])])
						}
						if !normalize {
							picked = total
						}
						for j := range k {
							sum += float64(dw[i*k+j]) * math.Exp(x[i*n+int(chosen[i*k+j])]) / picked
						}
						for e := range n {
							if balanced {
								sum += float64(dp[i*n+e]) * math.Exp(x[i*n+e]) / total
							}
						}
					}
					return sum
				}
				at, want := make([]float64, tokens*n), make([]float32, tokens*n)
				for i, v := range x {
					at[i] = float64(v)
				}
				for i := range at {
					const h = 1e-6
					old := at[i]
					at[i] = old + h
					above := value(at)
					at[i] = old - h
					want[i], at[i] = float32((above-value(at))/(2*h)), old
				}
				args := &ops.MoERoutingGradArgs{DWeights: dWeights, Weights: weights, Experts: experts, Normalize: normalize, Probs: probs, DLogits: b.Empty(aclnn.Float32, tokens, n)}
				if balanced {
					args.DProbs = dProbs
				}
				opstest.Run(b, b.MoERoutingGrad(), args)
				b.Near("dlogits", args.DLogits, want, 1e-5)
			})
		}
	}
}

// TestLoadBalance compares loss and gradient with their definition.
func TestLoadBalance(t *testing.T) {
	b := opstest.New(t)
	const tokens, n, k = 7, 5, 2
	logits, values := b.Input(aclnn.Float32, 1, tokens, n)
	weights, experts, probs := b.Empty(aclnn.Float32, tokens, k), b.Empty(aclnn.Int32, tokens, k), b.Empty(aclnn.Float32, tokens, n)
	opstest.Run(b, b.MoERouting(), &ops.MoERoutingArgs{Logits: logits, Weights: weights, Experts: experts, Probs: probs})
	loss, dProbs := b.Empty(aclnn.Float32, 1), b.Empty(aclnn.Float32, tokens, n)
	opstest.Run(b, b.LoadBalance(), &ops.LoadBalanceArgs{Probs: probs, Experts: experts, Loss: loss})
	opstest.Run(b, b.LoadBalanceGrad(), &ops.LoadBalanceGradArgs{Scale: 3, Experts: experts, DProbs: dProbs})

	var counts, means [n]float64
	for _, e := range b.Read(experts) {
		counts[int(e)]++
	}
	for i := range tokens {
		sum := 0.0
		for e := range n {
			sum += math.Exp(float64(values[i*n+e]))
		}
		for e := range n {
			means[e] += math.Exp(float64(values[i*n+e])) / sum / tokens
		}
	}
	want, gradient := 0.0, make([]float32, tokens*n)
	for e := range n {
		want += n * counts[e] / tokens * means[e]
		for i := range tokens {
			gradient[i*n+e] = float32(3 * n * counts[e] / tokens / tokens)
		}
	}
	require.InDelta(t, want, b.Read(loss)[0], 1e-5)
	b.Near("dprobs", dProbs, gradient, 1e-6)
}

// TestMoEExpertsRefuseBeforeLaunching checks that invalid arguments of the last product are refused
// before the first is launched.
func TestMoEExpertsRefuseBeforeLaunching(t *testing.T) {
	b := opstest.New(t)
	f := func(shape ...int64) *aclnn.Tensor { return b.Empty(aclnn.Float32, shape...) }
	zeros := f(6, 8)
	require.NoError(t, aclnn.InplaceZero(b.Stream, aclnn.InplaceZeroParams{Self: zeros}))
	args := ops.MoEExpertsArgs{
		Rows: f(6, 4), GateUp: f(2, 4, 8), Down: f(2, 4, 5), Groups: ops.Groups{Host: []int64{2, 4}}, Hidden: zeros, Active: f(6, 4), Out: f(6, 4),
	}
	require.ErrorIs(t, b.MoEExperts().Run(t.Context(), b.Stream, &args), ops.ErrInvalid)
	require.Equal(t, make([]float32, 48), b.Read(zeros))
	args.Down = f(2, 4, 4)
	dDown := f(2, 4, 4)
	require.NoError(t, aclnn.InplaceZero(b.Stream, aclnn.InplaceZeroParams{Self: dDown}))
	require.ErrorIs(t, b.MoEExpertsGrad().Run(t.Context(), b.Stream, &ops.MoEExpertsGradArgs{
		MoEExpertsArgs: args, DOut: f(6, 4), DRows: f(6, 4), DGateUp: f(2, 4, 7), DDown: dDown,
	}), ops.ErrInvalid)
	require.Equal(t, make([]float32, 32), b.Read(dDown))
}

// TestMoERefusals checks that each bad argument is refused with nothing launched.
func TestMoERefusals(t *testing.T) {
	b := opstest.New(t)
	f := func(shape ...int64) *aclnn.Tensor { return b.Empty(aclnn.Float32, shape...) }
	ids := func(shape ...int64) *aclnn.Tensor { return b.Empty(aclnn.Int32, shape...) }
	ctx := t.Context()
	for name, err := range map[string]error{
		"more choices than experts": b.MoERouting().Run(ctx, b.Stream, &ops.MoERoutingArgs{Logits: f(3, 2), Weights: f(3, 4), Experts: ids(3, 4)}),
		"experts of int64":          b.MoERouting().Run(ctx, b.Stream, &ops.MoERoutingArgs{Logits: f(3, 4), Weights: f(3, 2), Experts: b.Empty(aclnn.Int64, 3, 2)}),
		"no probabilities":          b.MoERoutingGrad().Run(ctx, b.Stream, &ops.MoERoutingGradArgs{DWeights: f(3, 2), Weights: f(3, 2), Experts: ids(3, 2), DLogits: f(3, 4)}),
		"rows too few":              b.MoEPermute().Run(ctx, b.Stream, &ops.MoEPermuteArgs{X: f(3, 4), Experts: ids(3, 2), Rows: f(5, 4), Places: ids(6), Sums: ids(4)}),
		"places too few":            b.MoEUnpermute().Run(ctx, b.Stream, &ops.MoEUnpermuteArgs{Rows: f(6, 4), Places: ids(5), Weights: f(3, 2), Out: f(3, 4)}),
		"tokens missing":            b.MoEUnpermute().Run(ctx, b.Stream, &ops.MoEUnpermuteArgs{Rows: f(6, 4), Places: ids(6), Weights: f(3, 2), Out: f(2, 4)}),
		"loss of no token":          b.LoadBalance().Run(ctx, b.Stream, &ops.LoadBalanceArgs{Probs: f(0, 4), Experts: ids(0, 2), Loss: f(1)}),
	} {
		require.ErrorIs(t, err, ops.ErrInvalid, name)
	}
}

// TestMoEPermuteCounts: every kernel counts the rows of each expert as well as it sums them up.
func TestMoEPermuteCounts(t *testing.T) {
	const tokens, k, n, width = 9, 2, 5, 16
	ids := make([]int32, 0, tokens*k)
	want := make([]int64, n)
	for i := range tokens {
		for _, e := range []int{i % n, (i*i + 1) % n} {
			ids = append(ids, int32(e))
			want[e]++
		}
	}
	var rows []float32
	for _, kernel := range []string{"MoeInitRoutingV3", "MoeInitRoutingV2", "MoeTokenPermute", "composite"} {
		b := opstest.New(t)
		x, _ := b.Input(aclnn.BFloat16, 1, tokens, width)
		experts, counts := b.Empty(aclnn.Int32, tokens, k), b.Empty(aclnn.Int64, n)
		require.NoError(t, aclnn.CopyToDevice(t.Context(), b.Stream, experts, ids))
		a := &ops.MoEPermuteArgs{X: x, Experts: experts, Rows: b.Empty(aclnn.BFloat16, tokens*k, width), Places: b.Empty(aclnn.Int32, tokens*k), Counts: counts}
		if rows == nil {
			require.Equal(t, kernel, b.MoEPermute().Explain(a).Kernel)
		}
		require.NoError(t, b.MoEPermute().Pin(kernel))
		opstest.Run(b, b.MoEPermute(), a)
		require.Empty(t, b.MoEPermute().Explain(a).AICPU)
		got := make([]int64, n)
		require.NoError(t, aclnn.CopyFromDevice(t.Context(), b.Stream, got, counts))
		require.Equal(t, want, got, kernel)
		if rows == nil {
			rows = b.Read(a.Rows)
		}
		require.Equal(t, rows, b.Read(a.Rows), kernel)
		a.Sums = b.Empty(aclnn.Int32, n)
		require.ErrorContains(t, b.MoEPermute().Run(t.Context(), b.Stream, a), "one is computed")
		a.Counts = nil
		require.NoError(t, b.MoEPermute().Unpin())
		require.Equal(t, "MoeInitRoutingV2", b.MoEPermute().Explain(a).Kernel)
	}
}
