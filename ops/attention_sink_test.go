package ops_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/mask"
)

// sinkProblem is causal attention with sinks of packed sequences, on the host in float64: [tokens, heads, dim].
type sinkProblem struct {
	lengths                []int
	heads, kv, dim, window int
	q, k, v, dout, sinks   []float32
	out, dq, dk, dv, ds    []float32
}

func newSinkProblem(dt aclnn.DType, window int, lengths ...int) *sinkProblem {
	p := &sinkProblem{lengths: lengths, heads: 4, kv: 2, dim: 16, window: window, sinks: []float32{-30, 0.5, 2, 40}}
	tokens := 0
	for _, n := range lengths {
		tokens += n
	}
	make := func(seed uint64, heads int) []float32 { return opstest.Random(dt, seed, int64(tokens*heads*p.dim)) }
	p.q, p.k, p.v, p.dout = make(1, p.heads), make(2, p.kv), make(3, p.kv), make(4, p.heads)
	p.compute()
	return p
}

const sinkScale = 0.25

// compute follows the definition: a softmax over the keys and the sink.
func (p *sinkProblem) compute() {
	out, dq, dk, dv, ds := make([]float64, len(p.q)), make([]float64, len(p.q)), make([]float64, len(p.k)), make([]float64, len(p.v)), make([]float64, p.heads)
	first := 0
	for _, n := range p.lengths {
		for i := range n {
			for h := range p.heads {
				at := func(token int) int { return ((first+token)*p.kv + h/(p.heads/p.kv)) * p.dim }
				row := ((first+i)*p.heads + h) * p.dim
				total, weights := math.Exp(float64(p.sinks[h])), map[int]float64{}
				for j := max(0, i-p.window+1); j <= i; j++ {
					score := 0.0
					for f := range p.dim {
						score += float64(p.q[row+f]) * float64(p.k[at(j)+f])
					}
					weights[j] = math.Exp(sinkScale * score)
					total += weights[j]
				}
				delta := 0.0
				for j, w := range weights {
					for f := range p.dim {
						out[row+f] += w / total * float64(p.v[at(j)+f])
						delta += w / total * float64(p.v[at(j)+f]) * float64(p.dout[row+f])
						dv[at(j)+f] += w / total * float64(p.dout[row+f])
					}
				}
				ds[h] -= math.Exp(float64(p.sinks[h])) / total * delta
				for j, w := range weights {
					d := -delta
					for f := range p.dim {
						d += float64(p.v[at(j)+f]) * float64(p.dout[row+f])
					}
					for f := range p.dim {
						dq[row+f] += sinkScale * w / total * d * float64(p.k[at(j)+f])
						dk[at(j)+f] += sinkScale * w / total * d * float64(p.q[row+f])
					}
				}
			}
		}
		first += n
	}
	narrow := func(x []float64) []float32 { return opstest.Convert(x, func(v float64) float32 { return float32(v) }) }
	p.out, p.dq, p.dk, p.dv, p.ds = narrow(out), narrow(dq), narrow(dk), narrow(dv), narrow(ds)
}

// TestAttentionSinks compares result and gradients of every kernel and layout with the definition. The sinks are between nearly
// none and nearly all of a row.
func TestAttentionSinks(t *testing.T) {
	const tokens = 9
	for _, dt := range opstest.FloatTypes {
		for _, layout := range []ops.Layout{ops.BSND, ops.BNSD, ops.BSH, ops.SBH, ops.TND} {
			for _, window := range []int{tokens, 3} {
				kernels := [][2]string{{"composite", "composite"}, {"FlashAttentionScore", "FlashAttentionScoreGrad"}, {"FlashAttentionScoreV3", "FlashAttentionScoreGradV3"}, {"composite", "FlashAttentionScoreGradV3"}, {"", ""}}
				if layout == ops.TND {
					kernels = [][2]string{{"composite", "composite"}, {"FlashAttentionVarLenScore", "FlashAttentionUnpaddingScoreGrad"}, {"FlashAttentionVarLenScoreV5", "FlashAttentionUnpaddingScoreGradV5"}, {"", ""}}
				}
				for _, kernel := range kernels {
					t.Run(fmt.Sprint(dt, layout, " window ", window, " ", kernel), func(t *testing.T) {
						b := opstest.New(t)
						lengths := []int{tokens}
						if layout == ops.TND {
							lengths = []int{4, 5}
						}
						p := newSinkProblem(dt, window, lengths...)
						if kernel[0] != "" {
							require.NoError(t, b.Attention().Pin(kernel[0]))
							require.NoError(t, b.AttentionGrad().Pin(kernel[1]))
						}
						in := func(values []float32, heads int) *aclnn.Tensor {
							x := b.Floats(dt, values, 1, tokens, int64(heads), 16)
							switch layout {
							case ops.BNSD:
								return b.Copied(x.Transpose(1, 2))
							case ops.BSH:
								return x.Reshape(1, tokens, -1)
							case ops.SBH:
								return x.Reshape(tokens, 1, -1)
							case ops.TND:
								return x.Reshape(tokens, int64(heads), 16)
							}
							return x
						}
						like := func(x *aclnn.Tensor) *aclnn.Tensor { return b.Empty(dt, x.Shape()...) }
						a := ops.AttentionGradArgs{
							AttentionArgs: ops.AttentionArgs{
								Query: in(p.q, 4), Key: in(p.k, 2), Value: in(p.v, 2), Layout: layout, Heads: 4, Scale: sinkScale, Sinks: b.Floats(aclnn.Float32, p.sinks, 4),
								SoftmaxMax: b.Empty(aclnn.Float32, 1, 4, tokens, 8), SoftmaxSum: b.Empty(aclnn.Float32, 1, 4, tokens, 8),
							},
							DOut: in(p.dout, 4), DSinks: b.Empty(aclnn.Float32, 4),
						}
						a.Mask = mask.Band{Pre: int64(window) - 1}
						if layout == ops.TND {
							a.Mask = mask.Varlen{CuQueries: []int64{4, 9}, Within: a.Mask}
							a.SoftmaxMax, a.SoftmaxSum = b.Empty(aclnn.Float32, tokens, 4, 8), b.Empty(aclnn.Float32, tokens, 4, 8)
						}
						a.Out, a.DQuery, a.DKey, a.DValue = like(a.Query), like(a.Query), like(a.Key), like(a.Value)
						opstest.Run(b, b.Attention(), &a.AttentionArgs)
						opstest.Run(b, b.AttentionGrad(), &a)
						tolerance := 2 * opstest.Tolerance(dt)
						values := func(x *aclnn.Tensor) *aclnn.Tensor {
							if layout == ops.BNSD {
								return b.Copied(x.Transpose(1, 2))
							}
							return x
						}
						b.Near("out", values(a.Out), p.out, tolerance)
						b.Near("dquery", values(a.DQuery), p.dq, tolerance)
						b.Near("dkey", values(a.DKey), p.dk, tolerance)
						b.Near("dvalue", values(a.DValue), p.dv, tolerance)
						b.Near("dsinks", a.DSinks, p.ds, tolerance)
						without := a.AttentionArgs
						without.SoftmaxMax, without.SoftmaxSum, without.Out = nil, nil, like(a.Out)
						opstest.Run(b, b.Attention(), &without)
						require.Equal(t, b.Read(a.Out), b.Read(without.Out), "without statistics")
					})
				}
			}
		}
	}
}

// TestAttentionSinksHideAll: a row that sees no key stays zero and gives its sink no gradient.
func TestAttentionSinksHideAll(t *testing.T) {
	for _, kernel := range []string{"composite", "FlashAttentionScore", "FlashAttentionScoreV3"} {
		b := opstest.New(t)
		require.NoError(t, b.Attention().Pin(kernel))
		x, _ := b.Input(aclnn.Float32, 1, 1, 2, 2, 16)
		a := ops.AttentionGradArgs{
			AttentionArgs: ops.AttentionArgs{
				Query: x, Key: x, Value: x, Layout: ops.BSND, Scale: sinkScale, Sinks: b.Floats(aclnn.Float32, []float32{1, 2}, 2), Out: b.Empty(aclnn.Float32, 1, 2, 2, 16),
				Mask:       mask.Dense{Tensor: opstest.Data(b, aclnn.Uint8, []byte{1, 1, 1, 1}, 1, 1, 2, 2), Meaning: mask.Hidden},
				SoftmaxMax: b.Empty(aclnn.Float32, 1, 2, 2, 8), SoftmaxSum: b.Empty(aclnn.Float32, 1, 2, 2, 8),
			},
			DOut: x, DQuery: b.Empty(aclnn.Float32, 1, 2, 2, 16), DKey: b.Empty(aclnn.Float32, 1, 2, 2, 16), DValue: b.Empty(aclnn.Float32, 1, 2, 2, 16), DSinks: b.Empty(aclnn.Float32, 2),
		}
		opstest.Run(b, b.Attention(), &a.AttentionArgs)
		opstest.Run(b, b.AttentionGrad(), &a)
		for _, r := range []*aclnn.Tensor{a.Out, a.DQuery, a.DKey, a.DValue, a.DSinks} {
			require.Equal(t, make([]float32, r.Len()), b.Read(r), kernel)
		}
	}
}

// TestAttentionSinksRefusals: sinks are one number for each head.
func TestAttentionSinksRefusals(t *testing.T) {
	b := opstest.New(t)
	x := b.Empty(aclnn.Float32, 1, 3, 2, 16)
	a := ops.AttentionArgs{Query: x, Key: x, Value: x, Layout: ops.BSND, Scale: 1, Out: x, Sinks: b.Empty(aclnn.Float32, 3)}
	require.ErrorContains(t, b.Attention().Check(&a), "Sinks is float32[3]")
	a.Sinks = b.Empty(aclnn.BFloat16, 2)
	require.ErrorContains(t, b.Attention().Check(&a), "Sinks is bfloat16[2]")
	a.Sinks = nil
	g := ops.AttentionGradArgs{AttentionArgs: a, DOut: x, DQuery: x, DKey: x, DValue: x, DSinks: b.Empty(aclnn.Float32, 2)}
	g.SoftmaxMax, g.SoftmaxSum = b.Empty(aclnn.Float32, 1, 2, 3, 8), b.Empty(aclnn.Float32, 1, 2, 3, 8)
	require.ErrorContains(t, b.AttentionGrad().Check(&g), "without Sinks")
	stats := b.Empty(aclnn.Float32, 1, 2, 3, 8)
	require.ErrorContains(t, b.AttentionSink().Check(&ops.AttentionSinkArgs{Out: b.Empty(aclnn.Float32, 3, 16), SoftmaxMax: stats, SoftmaxSum: stats, Sinks: b.Empty(aclnn.Float32, 2)}), "Out is")
	require.ErrorContains(t, b.AttentionSink().Check(&ops.AttentionSinkArgs{Out: b.Empty(aclnn.Float32, 1, 2, 4, 16), SoftmaxMax: stats, SoftmaxSum: stats, Sinks: b.Empty(aclnn.Float32, 2)}), "SoftmaxMax is")
}
