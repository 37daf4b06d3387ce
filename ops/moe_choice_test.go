package ops_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
)

// choices are ways to choose experts, with the kernels that take them in float32.
var choices = map[string]struct {
	a       ops.MoERoutingArgs
	bias    bool
	kernels []string
}{
	"softmax":                 {a: ops.MoERoutingArgs{}, kernels: []string{"MoeGatingTopKSoftmaxV2", "MoeGatingTopK", "composite"}},
	"softmax, scaled":         {a: ops.MoERoutingArgs{Scale: 16, Normalize: true}, kernels: []string{"MoeGatingTopKSoftmaxV2", "composite"}},
	"DeepSeek V2":             {a: ops.MoERoutingArgs{Groups: 4, TopGroups: 2, GroupBest: 1, Scale: 2.5}, kernels: []string{"MoeGatingTopK", "composite"}},
	"sigmoid":                 {a: ops.MoERoutingArgs{Score: ops.SigmoidScore}, kernels: []string{"composite"}},
	"sigmoid, one group":      {a: ops.MoERoutingArgs{Score: ops.SigmoidScore, Normalize: true, Groups: 1, TopGroups: 1, GroupBest: 2}, bias: true, kernels: []string{"MoeGatingTopK", "composite"}},
	"DeepSeek V3":             {a: ops.MoERoutingArgs{Score: ops.SigmoidScore, Normalize: true, Groups: 4, TopGroups: 2, GroupBest: 2, Scale: 2.5}, bias: true, kernels: []string{"MoeGatingTopK", "composite"}},
	"sigmoid, not normalised": {a: ops.MoERoutingArgs{Score: ops.SigmoidScore, Groups: 2, TopGroups: 1, GroupBest: 3, Scale: 0.5}, bias: true, kernels: []string{"composite"}},
}

// weighted computes the weights of given experts of a token from its logits, and all scores.
func weighted(a ops.MoERoutingArgs, logits []float64, chosen []int) (weights, scores []float64) {
	total := 0.0
	for _, x := range logits {
		total += math.Exp(x)
	}
	for _, x := range logits {
		if a.Score == ops.SigmoidScore {
			scores = append(scores, 1/(1+math.Exp(-x)))
		} else {
			scores = append(scores, math.Exp(x)/total)
		}
	}
	sum := 1.0
	if a.Normalize {
		sum = 0
		for _, e := range chosen {
			sum += scores[e]
		}
	}
	for _, e := range chosen {
		weights = append(weights, scores[e]/sum*cmp.Or(a.Scale, 1))
	}
	return weights, scores
}

// chosenOf returns the best k experts for scores with the bias.
func chosenOf(a ops.MoERoutingArgs, scores, bias []float64, k int) []int {
	worth := slices.Clone(scores)
	for i, b := range bias {
		worth[i] += b
	}
	descending := func(of []float64) []int {
		order := make([]int, len(of))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(of[y], of[x]) })
		return order
	}
	if a.Groups > 0 {
		size := len(worth) / int(a.Groups)
		groups := make([]float64, a.Groups)
		for g := range groups {
			own := slices.Clone(worth[g*size:][:size])
			slices.Sort(own)
			for i := range int(a.GroupBest) {
				groups[g] += own[size-1-i]
			}
		}
		for _, g := range descending(groups)[a.TopGroups:] {
			for i := range size {
				worth[g*size+i] = math.Inf(-1)
			}
		}
	}
	return descending(worth)[:k]
}

// TestMoERoutingChoices compares choice, weights, scores and gradient of every kernel with their definition in float64.
func TestMoERoutingChoices(t *testing.T) {
	const n, k = 12, 3
	for name, c := range choices {
		for _, tokens := range []int64{1, 5, 33} {
			for _, kernel := range c.kernels {
				t.Run(fmt.Sprintf("%s, %d tokens, %s", name, tokens, kernel), func(t *testing.T) {
					b := opstest.New(t)
					require.NoError(t, b.MoERouting().Pin(kernel))
					logits, x := b.Input(aclnn.Float32, 1, tokens, n)
					dWeights, dw := b.Input(aclnn.Float32, 2, tokens, k)
					dProbs, dp := b.Input(aclnn.Float32, 3, tokens, n)
					a := c.a
					var bias []float64
					if c.bias {
						values := opstest.Random(aclnn.Float32, 4, n)
						for i := range values {
							values[i] = values[i]/8 - 0.3 // scores are still apart, and some sums below 0
							bias = append(bias, float64(values[i]))
						}
						a.Bias = b.Floats(aclnn.Float32, values, n)
					}
					a.Logits, a.Weights, a.Experts, a.Probs = logits, b.Empty(aclnn.Float32, tokens, k), b.Empty(aclnn.Int32, tokens, k), b.Empty(aclnn.Float32, tokens, n)
					opstest.Run(b, b.MoERouting(), &a)
					got := b.Read(a.Experts)
					var weights, scores, gradient []float32
					for i := range tokens {
						row := make([]float64, n)
						for e := range row {
							row[e] = float64(x[int(i)*n+e])
						}
						_, s := weighted(a, row, nil)
						chosen := chosenOf(a, s, bias, k)
						for j, e := range chosen {
							require.Equal(t, float32(e), got[int(i)*k+j], "token %d, choice %d", i, j)
						}
						w, _ := weighted(a, row, chosen)
						weights = append(weights, opstest.Convert(w, func(v float64) float32 { return float32(v) })...)
						scores = append(scores, opstest.Convert(s, func(v float64) float32 { return float32(v) })...)
						value := func() (sum float64) {
							w, s := weighted(a, row, chosen)
							for j := range w {
								sum += w[j] * float64(dw[int(i)*k+j])
							}
							for e := range s {
								sum += s[e] * float64(dp[int(i)*n+e])
							}
							return sum
						}
						for e := range row {
							const h = 1e-6
							old := row[e]
							row[e] = old + h
							above := value()
							row[e] = old - h
							gradient, row[e] = append(gradient, float32((above-value())/(2*h))), old
						}
					}
					b.Near("weights", a.Weights, weights, 1e-6)
					b.Near("scores", a.Probs, scores, 1e-6)
					g := &ops.MoERoutingGradArgs{
						DWeights: dWeights, Weights: a.Weights, Experts: a.Experts, Score: a.Score, Normalize: a.Normalize, Scale: a.Scale, Probs: a.Probs, DProbs: dProbs,
						DLogits: b.Empty(aclnn.Float32, tokens, n),
					}
					opstest.Run(b, b.MoERoutingGrad(), g)
					b.Near("dlogits", g.DLogits, gradient, 1e-5)
				})
			}
		}
	}
}

// TestMoERoutingKernelsRefuse: each kernel names what it cannot compute.
func TestMoERoutingKernelsRefuse(t *testing.T) {
	b := opstest.New(t)
	f := func(dt aclnn.DType, shape ...int64) *aclnn.Tensor { return b.Empty(dt, shape...) }
	args := func(dt aclnn.DType, experts int64, a ops.MoERoutingArgs) *ops.MoERoutingArgs {
		a.Logits, a.Weights, a.Experts = f(dt, 4, experts), f(dt, 4, 2), b.Empty(aclnn.Int32, 4, 2)
		return &a
	}
	for why, a := range map[string]*ops.MoERoutingArgs{
		"MoeGatingTopKSoftmaxV2: it chooses by a softmax alone": args(aclnn.Float32, 8, ops.MoERoutingArgs{Score: ops.SigmoidScore, Normalize: true}),
		"MoeGatingTopK: it normalises weights of a sigmoid":     args(aclnn.Float32, 8, ops.MoERoutingArgs{Score: ops.SigmoidScore}),
		"MoeGatingTopK: its bias has the dtype of the logits":   args(aclnn.BFloat16, 8, ops.MoERoutingArgs{Bias: f(aclnn.Float32, 8)}),
		"MoeGatingTopK: it ranks groups by":                     args(aclnn.Float32, 8, ops.MoERoutingArgs{Groups: 2, TopGroups: 1, GroupBest: 3}),
		"MoeGatingTopK: 4096 experts are more than 2048":        args(aclnn.Float32, 4096, ops.MoERoutingArgs{Score: ops.SigmoidScore, Normalize: true}),
	} {
		require.Contains(t, b.MoERouting().Explain(a).String(), why)
	}
	for what, a := range map[string]*ops.MoERoutingArgs{
		"Score is 2":     args(aclnn.Float32, 8, ops.MoERoutingArgs{Score: 2}),
		"Scale is -1":    args(aclnn.Float32, 8, ops.MoERoutingArgs{Scale: -1}),
		"Groups is 3":    args(aclnn.Float32, 8, ops.MoERoutingArgs{Groups: 3, TopGroups: 1, GroupBest: 1}),
		"TopGroups is 1": args(aclnn.Float32, 8, ops.MoERoutingArgs{Groups: 8, TopGroups: 1, GroupBest: 1}),
		"GroupBest is 0": args(aclnn.Float32, 8, ops.MoERoutingArgs{Groups: 2, TopGroups: 1}),
		"GroupBest is 5": args(aclnn.Float32, 8, ops.MoERoutingArgs{Groups: 2, TopGroups: 1, GroupBest: 5}),
		"Bias":           args(aclnn.Float32, 8, ops.MoERoutingArgs{Bias: f(aclnn.Float32, 7)}),
	} {
		err := b.MoERouting().Check(a)
		require.ErrorIs(t, err, ops.ErrInvalid)
		require.ErrorContains(t, err, what)
	}
}
