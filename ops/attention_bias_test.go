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

// biasProblem has two sequences of different lengths, which may be packed. The reference is the
// attention of each sequence by itself.
type biasProblem struct {
	*opstest.Bench
	queries, keys []int64
	a             ops.AttentionGradArgs
}

const (
	biasHeads, biasKeyHeads, biasDim = 4, 2, 8
)

func newBiasProblem(b *opstest.Bench) *biasProblem {
	p := &biasProblem{Bench: b, queries: []int64{3, 5}, keys: []int64{4, 5}}
	make3 := func(seed uint64, tokens, heads int64) *aclnn.Tensor {
		x, _ := b.Input(aclnn.Float32, seed, tokens, heads, biasDim)
		return x
	}
	p.a = ops.AttentionGradArgs{
		AttentionArgs: ops.AttentionArgs{
			Query: make3(1, 8, biasHeads), Key: make3(2, 9, biasKeyHeads), Value: make3(3, 9, biasKeyHeads), Layout: ops.TND, Scale: 0.3,
			Mask: mask.Varlen{CuQueries: []int64{3, 8}, CuKeys: []int64{4, 9}, Within: mask.Causal{Anchor: mask.BottomRight}},
			Out:  make3(5, 8, biasHeads), SoftmaxMax: b.Empty(aclnn.Float32, 8, biasHeads, 8), SoftmaxSum: b.Empty(aclnn.Float32, 8, biasHeads, 8),
		},
		DOut: make3(4, 8, biasHeads), DQuery: make3(6, 8, biasHeads), DKey: make3(7, 9, biasKeyHeads), DValue: make3(8, 9, biasKeyHeads),
	}
	return p
}

// sequence returns one sequence in layout BNSD with its bias.
func (p *biasProblem) sequence(i int, bias []float32) *ops.AttentionGradArgs {
	q, k := p.queries[i], p.keys[i]
	part := func(t *aclnn.Tensor, from []int64, n int64) *aclnn.Tensor {
		return p.Copied(t.Narrow(0, int64(i)*from[0], n).Transpose(0, 1).Unsqueeze(0))
	}
	return &ops.AttentionGradArgs{
		AttentionArgs: ops.AttentionArgs{
			Query: part(p.a.Query, p.queries, q), Key: part(p.a.Key, p.keys, k), Value: part(p.a.Value, p.keys, k), Layout: ops.BNSD, Scale: p.a.Scale,
			Mask: mask.Causal{Anchor: mask.BottomRight}, Out: p.Empty(aclnn.Float32, 1, biasHeads, q, biasDim),
			Bias: p.Floats(aclnn.Float32, bias, 1, biasHeads, int64(len(bias))/biasHeads/k, k), BiasKind: p.a.BiasKind,
			SoftmaxMax: p.Empty(aclnn.Float32, 1, biasHeads, q, 8), SoftmaxSum: p.Empty(aclnn.Float32, 1, biasHeads, q, 8),
		},
		DOut: part(p.a.DOut, p.queries, q), DQuery: p.Empty(aclnn.Float32, 1, biasHeads, q, biasDim),
		DKey: p.Empty(aclnn.Float32, 1, biasKeyHeads, k, biasDim), DValue: p.Empty(aclnn.Float32, 1, biasKeyHeads, k, biasDim),
	}
}

// agree compares the packed results with those of the single sequences under the given biases.
func (p *biasProblem) agree(biases [][]float32) {
	for i, bias := range biases {
		want := p.sequence(i, bias)
		opstest.Run(p.Bench, p.Attention(), &want.AttentionArgs)
		opstest.Run(p.Bench, p.AttentionGrad(), want)
		for name, pair := range map[string][2]*aclnn.Tensor{
			"out": {p.a.Out, want.Out}, "dq": {p.a.DQuery, want.DQuery}, "dk": {p.a.DKey, want.DKey}, "dv": {p.a.DValue, want.DValue},
		} {
			n := pair[1].Dim(2)
			got := pair[0].Narrow(0, int64(i)*(pair[0].Dim(0)-n), n).Transpose(0, 1).Unsqueeze(0)
			p.Near(fmt.Sprint(name, " of sequence ", i), got, p.Read(pair[1]), 1e-5)
		}
	}
}

// TestPackedBias checks for every kernel that a bias of packed sequences, with an element per score
// or a row per head, gives the results of the single sequences.
func TestPackedBias(t *testing.T) {
	for _, kind := range []ops.BiasKind{ops.BiasAfterScale, ops.BiasBeforeScale} {
		for _, full := range []bool{true, false} {
			t.Run(fmt.Sprint("kind ", kind, ", element per score ", full), func(t *testing.T) {
				everyKernel(t, attention, attentionGrad, func(b *opstest.Bench) bool {
					p := newBiasProblem(b)
					var all []float32
					var biases [][]float32
					for i, k := range p.keys {
						n := biasHeads * k
						if full {
							n *= p.queries[i]
						}
						biases = append(biases, opstest.Random(aclnn.Float32, uint64(10+i), n))
						all = append(all, biases[i]...)
					}
					p.a.BiasKind, p.a.Bias = kind, b.Floats(aclnn.Float32, all, int64(len(all)))
					if !opstest.Takes(b.Attention(), &p.a.AttentionArgs) || !opstest.Takes(b.AttentionGrad(), &p.a) {
						return false
					}
					opstest.Run(b, b.Attention(), &p.a.AttentionArgs)
					opstest.Run(b, b.AttentionGrad(), &p.a)
					require.NoError(t, b.Attention().Unpin())
					require.NoError(t, b.AttentionGrad().Unpin())
					p.agree(biases)
					return true
				})
			})
		}
	}
}

// TestSlopes checks that slopes, per head or per sequence and head, with positions that do not
// start at zero, are equivalent to the bias that they define.
func TestSlopes(t *testing.T) {
	for kind, distance := range map[ops.BiasKind]func(float64) float64{
		ops.BiasDistance: math.Abs, ops.BiasRootDistance: func(d float64) float64 { return math.Sqrt(math.Abs(d)) },
	} {
		for _, perSequence := range []bool{false, true} {
			t.Run(fmt.Sprint("kind ", kind, ", per sequence ", perSequence), func(t *testing.T) {
				b := opstest.New(t)
				p := newBiasProblem(b)
				items := int64(1)
				if perSequence {
					items = 2
				}
				slopes := opstest.Random(aclnn.Float32, 20, items*biasHeads)
				p.a.BiasKind, p.a.QueryStart, p.a.KeyStart = kind, 3, 7
				p.a.Bias = b.Floats(aclnn.Float32, slopes, items, biasHeads)
				if !perSequence {
					p.a.Bias = p.a.Bias.Reshape(biasHeads)
				}
				opstest.Run(b, b.Attention(), &p.a.AttentionArgs)
				opstest.Run(b, b.AttentionGrad(), &p.a)
				require.Equal(t, "FlashAttentionVarLenScoreV2", b.Attention().Explain(&p.a.AttentionArgs).Kernel)
				require.Equal(t, "FlashAttentionUnpaddingScoreGradV2", b.AttentionGrad().Explain(&p.a).Kernel)
				var biases [][]float32
				for s := range p.keys {
					var bias []float32
					for h := range biasHeads {
						slope := slopes[(int64(s)*biasHeads+int64(h))%int64(len(slopes))]
						for i := range p.queries[s] {
							for j := range p.keys[s] {
								bias = append(bias, -slope*float32(distance(float64(7+j-3-i))))
							}
						}
					}
					biases = append(biases, bias)
				}
				p.a.BiasKind = ops.BiasAfterScale // of the reference
				p.agree(biases)

				// The same without packing, for the sequence that is as long as its keys.
				want := p.sequence(1, biases[1])
				opstest.Run(b, b.Attention(), &want.AttentionArgs)
				got := p.sequence(1, biases[1])
				got.BiasKind, got.QueryStart, got.KeyStart = kind, 3, 7
				got.Bias = b.Floats(aclnn.Float32, slopes[int64(len(slopes))-biasHeads:], biasHeads)
				opstest.Run(b, b.Attention(), &got.AttentionArgs)
				require.Equal(t, "FlashAttentionScoreV2", b.Attention().Explain(&got.AttentionArgs).Kernel)
				b.Near("without packing", got.Out, b.Read(want.Out), 1e-5)
			})
		}
	}
}

// TestBiasRefused checks that biases that do not fit packed sequences, and positions without
// slopes, are refused.
func TestBiasRefused(t *testing.T) {
	b := opstest.New(t)
	f := func(shape ...int64) *aclnn.Tensor { return b.Empty(aclnn.Float32, shape...) }
	for text, change := range map[string]func(a *ops.AttentionArgs){
		"for packed sequences it must be [148], an element per score, or [36], a row of each head": func(a *ops.AttentionArgs) { a.Bias = f(1, 4, 8, 9) },
		"Bias is float32[149]ND": func(a *ops.AttentionArgs) { a.Bias = f(149) },
		"it must be contiguous":  func(a *ops.AttentionArgs) { a.Bias = f(148, 2).Select(1, 0) },
		"slopes must be [4] or [2,4]": func(a *ops.AttentionArgs) {
			a.Bias, a.BiasKind = f(1, 4), ops.BiasDistance
		},
		"only slopes count distances": func(a *ops.AttentionArgs) { a.KeyStart = 1 },
	} {
		p := newBiasProblem(b)
		change(&p.a.AttentionArgs)
		err := b.Attention().Run(t.Context(), b.Stream, &p.a.AttentionArgs)
		require.ErrorIs(t, err, ops.ErrInvalid, text)
		require.ErrorContains(t, err, text)
	}
}
