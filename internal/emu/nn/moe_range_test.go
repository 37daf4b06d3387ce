package nn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// The operators of one rank's experts see a range of the sorted rows.
func TestTokenPermuteRange(t *testing.T) {
	for _, c := range choices {
		expert := c.expertsOf()
		order := sorted(expert)
		total := c.tokens * c.k
		first, end := total/3, total-total/4
		n := end - first
		for _, d := range transformerTypes {
			for _, l := range kerneltest.Layouts {
				x, prob := exact(d, 1, c.tokens*c.width), exact(d, 2, total)
				probs, places := laid(t, d, l, prob, c.tokens, c.k), laid(t, dtype.Int32, l, nil, total)
				rows, rowProbs := laid(t, d, l, nil, n, c.width), laid(t, d, l, nil, n)
				bounds := []int64{int64(first), int64(end)}
				a := args{
					"tokens": laid(t, d, l, x, c.tokens, c.width), "indices": laid(t, dtype.Int32, l, expert, c.tokens, c.k), "probsOptional": probs,
					"rangeOptional": bounds, "permuteTokensOut": rows, "sortedIndicesOut": places, "permuteProbsOut": rowProbs,
				}
				run(t, "MoeTokenPermuteWithEp", a)
				var wantRows, wantProbs []float64
				for _, o := range order[first:end] {
					wantRows, wantProbs = append(wantRows, row(x, c.width, o/c.k)...), append(wantProbs, prob[o])
				}
				require.Equal(t, wantRows, nilIfEmpty(values(rows)))
				require.Equal(t, wantProbs, nilIfEmpty(values(rowProbs)))
				require.Equal(t, ints(inverse(order)), values(places))

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
				given, out, outProb := laid(t, d, l, grad, n, c.width), laid(t, d, l, nil, c.tokens, c.width), laid(t, d, l, nil, c.tokens, c.k)
				run(t, "MoeTokenPermuteWithEpGrad", args{
					"permutedTokensOutputGrad": given, "sortedIndices": places, "permutedProbsOutputGradOptional": laid(t, d, l, gradProb, n), "numTopk": c.k,
					"rangeOptional": bounds, "tokenGradOut": out, "probsGradOut": outProb,
				})
				require.InDeltaSlice(t, sum, values(out), 4*precision(d))
				require.Equal(t, sumProb, values(outProb))
				run(t, "MoeTokenUnpermuteWithEp", args{
					"permutedTokens": given, "sortedIndices": places, "probsOptional": probs, "numTopk": c.k, "rangeOptional": bounds, "out": out,
				})
				require.InDeltaSlice(t, merged, values(out), 4*precision(d))
				run(t, "MoeTokenUnpermuteWithEp", args{"permutedTokens": given, "sortedIndices": places, "numTopk": c.k, "rangeOptional": bounds, "out": out})
				require.InDeltaSlice(t, sum, values(out), 4*precision(d))
				gradRows := laid(t, d, l, nil, n, c.width)
				run(t, "MoeTokenUnpermuteWithEpGrad", args{
					"unpermutedTokensGrad": laid(t, d, l, up, c.tokens, c.width), "sortedIndices": places, "permutedTokensOptional": given, "probsOptional": probs,
					"rangeOptional": bounds, "topkNum": c.k, "permutedTokensGradOut": gradRows, "probsGradOut": outProb,
				})
				require.InDeltaSlice(t, back, values(gradRows), precision(d))
				require.InDeltaSlice(t, backProb, values(outProb), 8*precision(d))

				refused(t, invalidParam, "MoeTokenPermuteWithEp", a.with(args{"rangeOptional": []int64{0, int64(total + 1)}}), "rangeOptional")
				refused(t, invalidParam, "MoeTokenPermuteWithEp", a.with(args{"rangeOptional": []int64{0}}), "rangeOptional")
				refused(t, nullPointer, "MoeTokenPermuteWithEp", a.with(args{"permuteProbsOut": nil}), "permuteProbsOut is null")
			}
		}
	}
	one := tensor(t, dtype.Float32, []int64{1, 1}, 1)
	place := tensor(t, dtype.Int32, []int64{1}, 0)
	refused(t, invalidParam, "MoeTokenUnpermuteWithEp", args{"permutedTokens": one, "sortedIndices": place, "numTopk": 0, "out": one}, "numTopk is 0")
	refused(t, nullPointer, "MoeTokenUnpermuteWithEpGrad", args{
		"unpermutedTokensGrad": one, "sortedIndices": place, "probsOptional": one, "topkNum": 1, "permutedTokensGradOut": one, "probsGradOut": one,
	}, "permutedTokensOptional is null")
}
