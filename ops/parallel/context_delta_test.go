package parallel_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/mask"
)

// packings are cumulative lengths of packed sequences in 48 tokens: some ranks begin and end inside of a sequence, some have several, and one sequence
// goes through whole ranks.
var packings = map[string][]int64{"rows": nil, "packed": {0, 5, 7, 24, 41, 48}, "one sequence": {0, 48}, "long": {0, 3, 45, 48}, "at the cuts": {0, 12, 24, 48}}

// The gated delta rule and the convolution of a split sequence give the results and gradients of the whole one.
func TestContextDelta(t *testing.T) {
	const length, hk, hv, dk, dv, width, taps = 48, 2, 4, 6, 5, 7, 4
	for name, cu := range packings {
		for _, dt := range []aclnn.DType{aclnn.Float32, aclnn.BFloat16} {
			rows := int64(2)
			if cu != nil {
				rows = 1
			}
			// values are random, brought into a range by f.
			values := func(dt aclnn.DType, seed uint64, f func(float64) float64, shape ...int64) []float32 {
				out := opstest.Random(dt, seed, opstest.Size(shape))
				for i, x := range out {
					out[i] = float32(f(float64(x)))
				}
				return out
			}
			same := func(x float64) float64 { return x }
			decay := values(aclnn.Float32, 4, func(x float64) float64 { return -0.2 * math.Abs(x) }, rows, length, hv)
			beta := values(aclnn.Float32, 5, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, rows, length, hv)
			q, k := values(dt, 1, same, rows, length, hk, dk), values(dt, 2, same, rows, length, hk, dk)
			v, dOut := values(dt, 3, same, rows, length, hv, dv), values(dt, 6, same, rows, length, hv, dv)
			x, dy := values(dt, 7, same, rows, length, width), values(dt, 8, same, rows, length, width)
			weight := values(dt, 9, same, width, taps)
			delta := func(b *opstest.Bench, r mask.Range) *ops.GatedDeltaGradArgs {
				in := func(dt aclnn.DType, values []float32, rest ...int64) *aclnn.Tensor {
					shape := append([]int64{rows, length}, rest...)
					part := chunksOf(values, shape, 1, []mask.Range{r})
					shape[1] = r.Len()
					return b.Floats(dt, part, shape...)
				}
				g := &ops.GatedDeltaGradArgs{
					GatedDeltaArgs: ops.GatedDeltaArgs{
						Query: in(dt, q, hk, dk), Key: in(dt, k, hk, dk), Value: in(dt, v, hv, dv), Decay: in(aclnn.Float32, decay, hv), Beta: in(aclnn.Float32, beta, hv),
						Scale: ops.ScaleOf(dk), Normalize: true, CuSeqLens: cu, Out: b.Empty(dt, rows, r.Len(), hv, dv),
					},
					DOut: in(dt, dOut, hv, dv),
				}
				like := func(t *aclnn.Tensor) *aclnn.Tensor { return b.Empty(t.DType(), t.Shape()...) }
				g.DQuery, g.DKey, g.DValue, g.DDecay, g.DBeta = like(g.Query), like(g.Key), like(g.Value), like(g.Decay), like(g.Beta)
				return g
			}
			conv := func(b *opstest.Bench, r mask.Range) *ops.CausalConvGradArgs {
				in := func(values []float32) *aclnn.Tensor {
					return b.Floats(dt, chunksOf(values, []int64{rows, length, width}, 1, []mask.Range{r}), rows, r.Len(), width)
				}
				return &ops.CausalConvGradArgs{
					CausalConvArgs: ops.CausalConvArgs{X: in(x), Weight: b.Floats(dt, weight, width, taps), SiLU: true, CuSeqLens: cu, Out: b.Empty(dt, rows, r.Len(), width)},
					DOut:           in(dy), DX: b.Empty(dt, rows, r.Len(), width), DWeight: b.Empty(aclnn.Float32, width, taps),
				}
			}
			names := []string{"out", "dQuery", "dKey", "dValue", "dDecay", "dBeta", "y", "dX"}
			results := func(g *ops.GatedDeltaGradArgs, c *ops.CausalConvGradArgs) []*aclnn.Tensor {
				return []*aclnn.Tensor{g.Out, g.DQuery, g.DKey, g.DValue, g.DDecay, g.DBeta, c.Out, c.DX, c.DWeight}
			}
			t.Run(fmt.Sprint(name, "/", dt), func(t *testing.T) {
				want := whole(t, func(b *opstest.Bench) []*aclnn.Tensor {
					all := mask.Range{To: length}
					g, c := delta(b, all), conv(b, all)
					opstest.Run(b, b.GatedDelta(), &g.GatedDeltaArgs)
					opstest.Run(b, b.GatedDeltaGrad(), g)
					opstest.Run(b, b.CausalConv(), &c.CausalConvArgs)
					opstest.Run(b, b.CausalConvGrad(), c)
					return results(g, c)
				})
				for _, n := range []int64{1, 2, 4, 8} {
					t.Run(fmt.Sprint(n, " ranks"), func(t *testing.T) {
						onRanks(t, int(n), func(r *rank) {
							at := int64(r.comm.Rank())
							mine := mask.Range{From: at * length / n, To: (at + 1) * length / n}
							p, g, c := contextParallel(r, mask.Contiguous), delta(r.Bench, mine), conv(r.Bench, mine)
							states, err := p.DeltaStates(cu, rows, mine.Len())
							require.NoError(r.T, err)
							g.InitialState = r.Empty(aclnn.Float32, states, hv, dk, dv)
							ctx := r.T.Context()
							require.NoError(r.T, p.GatedDelta(ctx, r.Stream, &g.GatedDeltaArgs))
							require.NoError(r.T, p.GatedDeltaGrad(ctx, r.Stream, g))
							require.NoError(r.T, p.CausalConv(ctx, r.Stream, &c.CausalConvArgs))
							require.NoError(r.T, p.CausalConvGrad(ctx, r.Stream, c))
							got := results(g, c)
							for i, name := range names {
								shape := got[i].Shape()
								shape[1] = length
								r.Near(name, got[i], chunksOf(want[i], shape, 1, []mask.Range{mine}), 4*opstest.Tolerance(dt))
							}
							sum := got[len(names)]
							require.NoError(r.T, r.comm.AllReduce(r.Stream, sum, sum, hccl.Sum))
							r.Near("dWeight", sum, want[len(names)], 4*opstest.Tolerance(dt))
						})
					})
				}
			})
		}
	}
}

func TestContextDeltaRefusals(t *testing.T) {
	onRanks(t, 2, func(r *rank) {
		f := func(shape ...int64) *aclnn.Tensor { return r.Empty(aclnn.Float32, shape...) }
		args := func() *ops.GatedDeltaArgs {
			return &ops.GatedDeltaArgs{Query: f(1, 6, 2, 4), Key: f(1, 6, 2, 4), Value: f(1, 6, 2, 4), Decay: f(1, 6, 2), Beta: f(1, 6, 2), Scale: 1, Out: f(1, 6, 2, 4), InitialState: f(1, 2, 4, 4)}
		}
		for text, change := range map[string]func(a *ops.GatedDeltaArgs){
			"InitialState is nil":     func(a *ops.GatedDeltaArgs) { a.InitialState = nil },
			"FinalState is float32":   func(a *ops.GatedDeltaArgs) { a.FinalState = f(1, 2, 4, 4) },
			"it must go from 0 to 12": func(a *ops.GatedDeltaArgs) { a.CuSeqLens = []int64{0, 6} },
			"it must increase":        func(a *ops.GatedDeltaArgs) { a.CuSeqLens = []int64{0, 7, 7, 12} },
			"Scale is 0":              func(a *ops.GatedDeltaArgs) { a.Scale = 0 },
			"they must be [B,T,heads": func(a *ops.GatedDeltaArgs) { a.Query = f(6, 2) },
		} {
			a := args()
			change(a)
			err := contextParallel(r, mask.Contiguous).GatedDelta(r.T.Context(), r.Stream, a)
			require.ErrorIs(r.T, err, ops.ErrInvalid)
			require.ErrorContains(r.T, err, text)
		}
		require.ErrorContains(r.T, contextParallel(r, mask.ZigZag).GatedDelta(r.T.Context(), r.Stream, args()), "use mask.Contiguous")
		g := &ops.GatedDeltaGradArgs{GatedDeltaArgs: *args(), DFinalState: f(1, 2, 4, 4)}
		require.ErrorContains(r.T, contextParallel(r, mask.Contiguous).GatedDeltaGrad(r.T.Context(), r.Stream, g), "both must be nil")
		c := &ops.CausalConvArgs{X: f(1, 2, 3), Weight: f(3, 4), Out: f(1, 2, 3)}
		err := contextParallel(r, mask.Contiguous).CausalConv(r.T.Context(), r.Stream, c)
		require.ErrorIs(r.T, err, ops.ErrInvalid)
		require.ErrorContains(r.T, err, "a rank has 2 tokens, and a convolution with 4 taps reads 3 before each")
	})
}
