package moe

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// The operators of one rank's experts process a range of the sorted rows.
func TestTokenPermuteRange(t *testing.T) {
	for _, c := range choices {
		expert := c.expertsOf()
		order := sorted(expert)
		total := c.tokens * c.k
		first, end := total/3, total-total/4
		n := end - first
		for _, d := range op.FloatTypes {
			for _, l := range kerneltest.Layouts {
				x, prob := exact(d, 1, c.tokens*c.width), exact(d, 2, total)
				probs, places := optest.Laid(t, d, l, prob, c.tokens, c.k), optest.Laid(t, dtype.Int32, l, nil, total)
				rows, rowProbs := optest.Laid(t, d, l, nil, n, c.width), optest.Laid(t, d, l, nil, n)
				bounds := []int64{int64(first), int64(end)}
				a := optest.Args{
					"tokens": optest.Laid(t, d, l, x, c.tokens, c.width), "indices": optest.Laid(t, dtype.Int32, l, expert, c.tokens, c.k), "probsOptional": probs,
					"rangeOptional": bounds, "permuteTokensOut": rows, "sortedIndicesOut": places, "permuteProbsOut": rowProbs,
				}
				optest.Run(t, "MoeTokenPermuteWithEp", a)
				var wantRows, wantProbs []float64
				for _, o := range order[first:end] {
					wantRows, wantProbs = append(wantRows, optest.Row(x, c.width, o/c.k)...), append(wantProbs, prob[o])
				}
				require.Equal(t, wantRows, nilIfEmpty(optest.Values(rows)))
				require.Equal(t, wantProbs, nilIfEmpty(optest.Values(rowProbs)))
				require.Equal(t, optest.Floats(inverse(order)), optest.Values(places))

				grad, gradProb := exact(d, 3, n*c.width), exact(d, 4, n)
				sum, sumProb, merged := make([]float64, len(x)), make([]float64, total), make([]float64, len(x))
				back, backProb, up := make([]float64, n*c.width), make([]float64, total), exact(d, 5, len(x))
				for i, o := range order[first:end] {
					sumProb[o] = gradProb[i]
					for j := range c.width {
						at := o/c.k*c.width + j
						sum[at] += grad[i*c.width+j]
						merged[at] += grad[i*c.width+j] * prob[o]
						back[i*c.width+j] = up[at] * prob[o]
						backProb[o] += up[at] * grad[i*c.width+j]
					}
				}
				given, out, outProb := optest.Laid(t, d, l, grad, n, c.width), optest.Laid(t, d, l, nil, c.tokens, c.width), optest.Laid(t, d, l, nil, c.tokens, c.k)
				optest.Run(t, "MoeTokenPermuteWithEpGrad", optest.Args{
					"permutedTokensOutputGrad": given, "sortedIndices": places, "permutedProbsOutputGradOptional": optest.Laid(t, d, l, gradProb, n), "numTopk": c.k,
					"rangeOptional": bounds, "tokenGradOut": out, "probsGradOut": outProb,
				})
				require.InDeltaSlice(t, sum, optest.Values(out), 4*precision(d))
				require.Equal(t, sumProb, optest.Values(outProb))
				optest.Run(t, "MoeTokenUnpermuteWithEp", optest.Args{
					"permutedTokens": given, "sortedIndices": places, "probsOptional": probs, "numTopk": c.k, "rangeOptional": bounds, "out": out,
				})
				require.InDeltaSlice(t, merged, optest.Values(out), 4*precision(d))
				optest.Run(t, "MoeTokenUnpermuteWithEp", optest.Args{"permutedTokens": given, "sortedIndices": places, "numTopk": c.k, "rangeOptional": bounds, "out": out})
				require.InDeltaSlice(t, sum, optest.Values(out), 4*precision(d))
				gradRows := optest.Laid(t, d, l, nil, n, c.width)
				optest.Run(t, "MoeTokenUnpermuteWithEpGrad", optest.Args{
					"unpermutedTokensGrad": optest.Laid(t, d, l, up, c.tokens, c.width), "sortedIndices": places, "permutedTokensOptional": given, "probsOptional": probs,
					"rangeOptional": bounds, "topkNum": c.k, "permutedTokensGradOut": gradRows, "probsGradOut": outProb,
				})
				require.InDeltaSlice(t, back, optest.Values(gradRows), precision(d))
				require.InDeltaSlice(t, backProb, optest.Values(outProb), 8*precision(d))

				optest.Refused(t, op.InvalidParam, "MoeTokenPermuteWithEp", a.With(optest.Args{"rangeOptional": []int64{0, int64(total + 1)}}), "rangeOptional")
				optest.Refused(t, op.InvalidParam, "MoeTokenPermuteWithEp", a.With(optest.Args{"rangeOptional": []int64{0}}), "rangeOptional")
				optest.Refused(t, op.NullPointer, "MoeTokenPermuteWithEp", a.With(optest.Args{"permuteProbsOut": nil}), "permuteProbsOut is null")
			}
		}
	}
	one := optest.Tensor(t, dtype.Float32, []int64{1, 1}, 1)
	place := optest.Tensor(t, dtype.Int32, []int64{1}, 0)
	optest.Refused(t, op.InvalidParam, "MoeTokenUnpermuteWithEp", optest.Args{"permutedTokens": one, "sortedIndices": place, "numTopk": 0, "out": one}, "numTopk is 0")
	optest.Refused(t, op.NullPointer, "MoeTokenUnpermuteWithEpGrad", optest.Args{
		"unpermutedTokensGrad": one, "sortedIndices": place, "probsOptional": one, "topkNum": 1, "permutedTokensGradOut": one, "probsGradOut": one,
	}, "permutedTokensOptional is null")
}
