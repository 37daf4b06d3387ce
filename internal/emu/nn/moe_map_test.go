package nn

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// routes are problems of routing by a map: a map of tokens and experts that gives every token
// k experts, and for padding a number of rows per expert.
var routes = []struct{ tokens, experts, k, capacity, width int }{{5, 4, 2, 3, 3}, {1, 1, 1, 1, 1}, {37, 8, 3, 20, 17}, {0, 3, 0, 0, 4}, {6, 3, 3, 1, 2}}

func TestRoutingMap(t *testing.T) {
	for i, r := range routes {
		for _, d := range transformerTypes {
			for _, padded := range []bool{false, true} {
				for _, withProbs := range []bool{false, true} {
					l := kerneltest.Layouts[(i+len(d.String()))%len(kerneltest.Layouts)]
					what := fmt.Sprintf("%v %v %v padded %v probs %v", r, d, l, padded, withProbs)
					chosen := make([]float64, r.tokens*r.experts)
					for i := range r.tokens {
						for j := range r.k {
							chosen[i*r.experts+(i*i+j)%r.experts] = 1
						}
					}
					// The definition: rows by expert, then token.
					var token, expert []int
					for e := range r.experts {
						n := 0
						for _, want := range []float64{1, 0} {
							for i := range r.tokens {
								if chosen[i*r.experts+e] == want && (padded && n < r.capacity || !padded && want == 1) {
									token, expert = append(token, i), append(expert, e)
									n++
								}
							}
						}
					}
					rows := len(token)
					x, probs := exact(d, 1, r.tokens*r.width), exact(d, 2, r.tokens*r.experts)
					var wantRows, wantProbs []float64
					for i := range rows {
						wantRows = append(wantRows, row(x, r.width, token[i])...)
						wantProbs = append(wantProbs, probs[token[i]*r.experts+expert[i]])
					}
					places := token
					if !padded {
						asFloat := ints(token)
						places = sorted(asFloat)
					}
					routing := laid(t, mapTypes[i%2], l, chosen, r.tokens, r.experts)
					a := args{
						"tokens": laid(t, d, l, x, r.tokens, r.width), "routingMap": routing, "numOutTokens": rows, "dropAndPad": padded,
						"permuteTokensOut": laid(t, d, l, nil, rows, r.width), "sortedIndicesOut": laid(t, dtype.Int32, l, nil, rows),
					}
					if withProbs {
						a["probsOptional"], a["permuteProbsOutOptional"] = laid(t, d, l, probs, r.tokens, r.experts), laid(t, d, l, nil, rows)
					}
					run(t, "MoeTokenPermuteWithRoutingMap", a)
					require.Equal(t, ints(places), append([]float64{}, values(a["sortedIndicesOut"].(*Tensor))...), what)
					closeTo(t, what, wantRows, values(a["permuteTokensOut"].(*Tensor)), 0)
					if withProbs {
						closeTo(t, what, wantProbs, values(a["permuteProbsOutOptional"].(*Tensor)), 0)
					}
					checkMapGrad(t, what, d, l, r.tokens, r.experts, r.width, padded, withProbs, routing, places, token, expert)
					checkMapUnpermute(t, what, d, l, r.tokens, r.experts, r.width, padded, withProbs, routing, probs, places, token, expert, wantProbs)
				}
			}
		}
	}
}

func checkMapGrad(t *testing.T, what string, d dtype.Type, l kerneltest.Layout, tokens, experts, width int, padded, withProbs bool, routing *Tensor, places, token, expert []int) {
	if tokens == 0 {
		return
	}
	rows := len(token)
	grad, gradProbs := exact(d, 3, rows*width), exact(d, 4, rows)
	want, wantProbs := make([]float64, tokens*width), make([]float64, tokens*experts)
	for i := range rows {
		for j := range width {
			want[token[i]*width+j] += grad[i*width+j]
		}
		wantProbs[token[i]*experts+expert[i]] = gradProbs[i]
	}
	a := args{
		"permutedTokenOutputGrad": laid(t, d, l, grad, rows, width), "sortedIndices": laid(t, dtype.Int32, l, ints(places), rows),
		"routingMapOptional": routing, "numExperts": experts, "tokensNum": tokens, "dropAndPad": padded, "tokensGradOut": laid(t, d, l, nil, tokens, width),
	}
	if withProbs {
		a["permutedProbsOutputGradOptional"], a["probsGradOutOptional"] = laid(t, d, l, gradProbs, rows), laid(t, d, l, nil, tokens, experts)
	}
	run(t, "MoeTokenPermuteWithRoutingMapGrad", a)
	closeTo(t, what, want, values(a["tokensGradOut"].(*Tensor)), 2*precision(d))
	if withProbs {
		closeTo(t, what, wantProbs, values(a["probsGradOutOptional"].(*Tensor)), 0)
	}
}

func checkMapUnpermute(t *testing.T, what string, d dtype.Type, l kerneltest.Layout, tokens, experts, width int, padded, withProbs bool, routing *Tensor, probs []float64, places, token, expert []int, rowProbs []float64) {
	rows := len(token)
	x, want := exact(d, 5, rows*width), make([]float64, tokens*width)
	for i := range rows {
		for j := range width {
			weight := 1.0
			if withProbs {
				weight = rowProbs[i]
			}
			want[token[i]*width+j] += weight * x[i*width+j]
		}
	}
	a := args{
		"permutedTokens": laid(t, d, l, x, rows, width), "sortedIndices": laid(t, dtype.Int32, l, ints(places), rows), "paddedMode": padded,
		"restoreShapeOptional": []int64{int64(tokens), int64(width)}, "unpermutedTokens": laid(t, d, l, nil, tokens, width), "routingMapOptional": routing,
	}
	if padded {
		a["outIndex"], a["permuteTokenId"] = laid(t, dtype.Int32, l, nil, rows), laid(t, dtype.Int32, l, nil, rows)
	}
	if withProbs {
		a["probsOptional"], a["permuteProbs"] = laid(t, d, l, probs, tokens, experts), laid(t, d, l, nil, rows)
	}
	run(t, "MoeTokenUnpermuteWithRoutingMap", a)
	closeTo(t, what, want, values(a["unpermutedTokens"].(*Tensor)), 2*precision(d))
	if withProbs {
		closeTo(t, what, rowProbs, values(a["permuteProbs"].(*Tensor)), 0)
	}
	if tokens > 0 {
		checkMapUnpermuteGrad(t, what, d, l, tokens, experts, width, padded, withProbs, routing, x, probs, token, expert, rowProbs)
	}
	if padded && rows > 0 {
		order := sorted(ints(token))
		ids := make([]int, rows)
		for i, o := range order {
			ids[i] = token[o]
		}
		require.Equal(t, ints(order), values(a["outIndex"].(*Tensor)), what)
		require.Equal(t, ints(ids), values(a["permuteTokenId"].(*Tensor)), what)
	}
}

func checkMapUnpermuteGrad(t *testing.T, what string, d dtype.Type, l kerneltest.Layout, tokens, experts, width int, padded, withProbs bool, routing *Tensor, x, probs []float64, token, expert []int, rowProbs []float64) {
	rows := len(token)
	grad, want := exact(d, 6, tokens*width), make([]float64, rows*width)
	index, ids := sorted(ints(token)), make([]int, rows)
	for i, o := range index {
		ids[i] = token[o]
	}
	dots := make([]float64, rows)
	for i := range rows {
		for j := range width {
			g := grad[token[i]*width+j]
			dots[i] += g * x[i*width+j]
			want[i*width+j] = g
			if withProbs {
				want[i*width+j] *= rowProbs[i]
			}
		}
	}
	out := laid(t, d, l, nil, rows, width)
	a := args{
		"unpermutedTokensGrad": laid(t, d, l, grad, tokens, width), "outIndex": laid(t, dtype.Int32, l, ints(index), rows), "permuteTokenId": laid(t, dtype.Int32, l, ints(ids), rows),
		"routingMapOptional": routing, "dropAndPad": padded, "permutedTokensGradOut": out,
	}
	dprobs := laid(t, d, l, nil, tokens, experts)
	if withProbs {
		a["permutedTokensOptional"], a["probsOptional"], a["probsGradOutOptional"] = laid(t, d, l, x, rows, width), laid(t, d, l, probs, tokens, experts), dprobs
	}
	run(t, "MoeTokenUnpermuteWithRoutingMapGrad", a)
	closeTo(t, what, want, values(out), precision(d))
	if !withProbs {
		return
	}
	wantProbs := make([]float64, tokens*experts)
	for i, dot := range dots {
		wantProbs[token[i]*experts+expert[i]] = dot
	}
	closeTo(t, "probabilities of "+what, wantProbs, values(dprobs), 8*precision(d))
	refused(t, nullPointer, "MoeTokenUnpermuteWithRoutingMapGrad", a.with(args{"permutedTokensOptional": nil}), "permutedTokensOptional is null")
	refused(t, nullPointer, "MoeTokenUnpermuteWithRoutingMapGrad", a.with(args{"routingMapOptional": nil}), "routingMapOptional is null")
	if rows > 1 {
		twice := slices.Repeat([]float64{0}, rows)
		require.ErrorContains(t, execute(t, "MoeTokenUnpermuteWithRoutingMapGrad", a.with(args{"outIndex": laid(t, dtype.Int32, l, twice, rows)})), "named twice")
	}
}

func TestRoutingMapRefuses(t *testing.T) {
	f := dtype.Float32
	base := func() args {
		return args{
			"tokens": tensor(t, f, []int64{3, 2}, 1), "routingMap": tensor(t, dtype.Bool, []int64{3, 2}, 1, 0), "numOutTokens": 3,
			"permuteTokensOut": tensor(t, f, []int64{3, 2}), "sortedIndicesOut": tensor(t, dtype.Int32, []int64{3}),
		}
	}
	for _, c := range []struct {
		set  args
		code int32
		text string
	}{
		{args{"routingMap": nil}, nullPointer, "routingMap is null"},
		{args{"numOutTokens": 7}, invalidParam, "numOutTokens is 7"},
		{args{"numOutTokens": -1}, invalidParam, "numOutTokens is -1"},
		{args{"numOutTokens": 6}, invalidParam, "sortedIndicesOut"},
		{args{"routingMap": tensor(t, f, []int64{3, 2}, 1)}, invalidParam, "dtype"},
		{args{"routingMap": tensor(t, dtype.Bool, []int64{6}, 1)}, invalidParam, "dimensions"},
		{args{"tokens": tensor(t, f, []int64{4, 2}, 1)}, invalidParam, "a row for each token"},
		{args{"probsOptional": tensor(t, f, []int64{3, 2}, 1)}, nullPointer, "permuteProbsOutOptional is null"},
		{args{"sortedIndicesOut": tensor(t, dtype.Int64, []int64{3})}, invalidParam, "dtype"},
	} {
		a := base()
		for k, v := range c.set {
			a[k] = v
		}
		refused(t, c.code, "MoeTokenPermuteWithRoutingMap", a, c.text)
	}
	a := base()
	a["routingMap"] = tensor(t, dtype.Bool, []int64{3, 2}, 1, 1, 1, 0, 1, 0)
	require.ErrorContains(t, execute(t, "MoeTokenPermuteWithRoutingMap", a), "chooses 2 experts for token 0")

	grad := args{
		"permutedTokenOutputGrad": tensor(t, f, []int64{3, 2}, 1), "sortedIndices": tensor(t, dtype.Int32, []int64{3}, 0, 1, 3),
		"numExperts": 2, "tokensNum": 3, "tokensGradOut": tensor(t, f, []int64{3, 2}),
	}
	require.ErrorContains(t, execute(t, "MoeTokenPermuteWithRoutingMapGrad", grad), "place 3 at position 2")
	grad["tokensNum"] = 0
	refused(t, invalidParam, "MoeTokenPermuteWithRoutingMapGrad", grad, "tokensNum is 0")
	grad["tokensNum"], grad["permutedProbsOutputGradOptional"], grad["probsGradOutOptional"] = 3, tensor(t, f, []int64{3}, 1), tensor(t, f, []int64{3, 2})
	refused(t, nullPointer, "MoeTokenPermuteWithRoutingMapGrad", grad, "routingMapOptional is null")

	back := args{
		"permutedTokens": tensor(t, f, []int64{3, 2}, 1), "sortedIndices": tensor(t, dtype.Int32, []int64{3}, 0, 1, 2),
		"unpermutedTokens": tensor(t, f, []int64{3, 2}), "paddedMode": true,
	}
	refused(t, nullPointer, "MoeTokenUnpermuteWithRoutingMap", back, "restoreShapeOptional is null")
	back["restoreShapeOptional"] = []int64{3, 2}
	refused(t, nullPointer, "MoeTokenUnpermuteWithRoutingMap", back, "paddedMode writes them")
	back["restoreShapeOptional"] = []int64{3, 3}
	refused(t, invalidParam, "MoeTokenUnpermuteWithRoutingMap", back, "restoreShapeOptional")
}
