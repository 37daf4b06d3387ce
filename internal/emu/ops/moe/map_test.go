package moe

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// routes are test cases of routing by a map: a map that gives every token k experts, and, for
// padding, the number of rows per expert.
var routes = []struct{ tokens, experts, k, capacity, width int }{{5, 4, 2, 3, 3}, {1, 1, 1, 1, 1}, {37, 8, 3, 20, 17}, {0, 3, 0, 0, 4}, {6, 3, 3, 1, 2}}

func TestRoutingMap(t *testing.T) {
	for i, r := range routes {
		for _, d := range op.FloatTypes {
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
					// By definition rows are sorted by expert, then by token.
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
						wantRows = append(wantRows, optest.Row(x, r.width, token[i])...)
						wantProbs = append(wantProbs, probs[token[i]*r.experts+expert[i]])
					}
					places := token
					if !padded {
						asFloat := optest.Floats(token)
						places = sorted(asFloat)
					}
					routing := optest.Laid(t, mapTypes[i%2], l, chosen, r.tokens, r.experts)
					a := optest.Args{
						"tokens": optest.Laid(t, d, l, x, r.tokens, r.width), "routingMap": routing, "numOutTokens": rows, "dropAndPad": padded,
						"permuteTokensOut": optest.Laid(t, d, l, nil, rows, r.width), "sortedIndicesOut": optest.Laid(t, dtype.Int32, l, nil, rows),
					}
					if withProbs {
						a["probsOptional"], a["permuteProbsOutOptional"] = optest.Laid(t, d, l, probs, r.tokens, r.experts), optest.Laid(t, d, l, nil, rows)
					}
					optest.Run(t, "MoeTokenPermuteWithRoutingMap", a)
					require.Equal(t, optest.Floats(places), append([]float64{}, optest.Values(a["sortedIndicesOut"].(*op.Tensor))...), what)
					optest.CloseTo(t, what, wantRows, optest.Values(a["permuteTokensOut"].(*op.Tensor)), 0)
					if withProbs {
						optest.CloseTo(t, what, wantProbs, optest.Values(a["permuteProbsOutOptional"].(*op.Tensor)), 0)
					}
					checkMapGrad(t, what, d, l, r.tokens, r.experts, r.width, padded, withProbs, routing, places, token, expert)
					checkMapUnpermute(t, what, d, l, r.tokens, r.experts, r.width, padded, withProbs, routing, probs, places, token, expert, wantProbs)
				}
			}
		}
	}
}

func checkMapGrad(t *testing.T, what string, d dtype.Type, l kerneltest.Layout, tokens, experts, width int, padded, withProbs bool, routing *op.Tensor, places, token, expert []int) {
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
	a := optest.Args{
		"permutedTokenOutputGrad": optest.Laid(t, d, l, grad, rows, width), "sortedIndices": optest.Laid(t, dtype.Int32, l, optest.Floats(places), rows),
		"routingMapOptional": routing, "numExperts": experts, "tokensNum": tokens, "dropAndPad": padded, "tokensGradOut": optest.Laid(t, d, l, nil, tokens, width),
	}
	if withProbs {
		a["permutedProbsOutputGradOptional"], a["probsGradOutOptional"] = optest.Laid(t, d, l, gradProbs, rows), optest.Laid(t, d, l, nil, tokens, experts)
	}
	optest.Run(t, "MoeTokenPermuteWithRoutingMapGrad", a)
	optest.CloseTo(t, what, want, optest.Values(a["tokensGradOut"].(*op.Tensor)), 2*precision(d))
	if withProbs {
		optest.CloseTo(t, what, wantProbs, optest.Values(a["probsGradOutOptional"].(*op.Tensor)), 0)
	}
}

func checkMapUnpermute(t *testing.T, what string, d dtype.Type, l kerneltest.Layout, tokens, experts, width int, padded, withProbs bool, routing *op.Tensor, probs []float64, places, token, expert []int, rowProbs []float64) {
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
	a := optest.Args{
		"permutedTokens": optest.Laid(t, d, l, x, rows, width), "sortedIndices": optest.Laid(t, dtype.Int32, l, optest.Floats(places), rows), "paddedMode": padded,
		"restoreShapeOptional": []int64{int64(tokens), int64(width)}, "unpermutedTokens": optest.Laid(t, d, l, nil, tokens, width), "routingMapOptional": routing,
	}
	if padded {
		a["outIndex"], a["permuteTokenId"] = optest.Laid(t, dtype.Int32, l, nil, rows), optest.Laid(t, dtype.Int32, l, nil, rows)
	}
	if withProbs {
		a["probsOptional"], a["permuteProbs"] = optest.Laid(t, d, l, probs, tokens, experts), optest.Laid(t, d, l, nil, rows)
	}
	optest.Run(t, "MoeTokenUnpermuteWithRoutingMap", a)
	optest.CloseTo(t, what, want, optest.Values(a["unpermutedTokens"].(*op.Tensor)), 2*precision(d))
	if withProbs {
		wantProbs := rowProbs
		if !padded { // CANN's kernel selects by the map in the order of memory: by token, then by expert
			wantProbs = nil
			for _, row := range sorted(optest.Floats(token)) {
				wantProbs = append(wantProbs, rowProbs[row])
			}
		}
		optest.CloseTo(t, what, wantProbs, optest.Values(a["permuteProbs"].(*op.Tensor)), 0)
	}
	if tokens > 0 {
		checkMapUnpermuteGrad(t, what, d, l, tokens, experts, width, padded, withProbs, routing, x, probs, token, expert, rowProbs)
	}
	if padded && rows > 0 {
		order := sorted(optest.Floats(token))
		ids := make([]int, rows)
		for i, o := range order {
			ids[i] = token[o]
		}
		require.Equal(t, optest.Floats(order), optest.Values(a["outIndex"].(*op.Tensor)), what)
		require.Equal(t, optest.Floats(ids), optest.Values(a["permuteTokenId"].(*op.Tensor)), what)
	}
}

func checkMapUnpermuteGrad(t *testing.T, what string, d dtype.Type, l kerneltest.Layout, tokens, experts, width int, padded, withProbs bool, routing *op.Tensor, x, probs []float64, token, expert []int, rowProbs []float64) {
	rows := len(token)
	grad, want := exact(d, 6, tokens*width), make([]float64, rows*width)
	index, ids := sorted(optest.Floats(token)), make([]int, rows)
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
	out := optest.Laid(t, d, l, nil, rows, width)
	a := optest.Args{
		"unpermutedTokensGrad": optest.Laid(t, d, l, grad, tokens, width), "outIndex": optest.Laid(t, dtype.Int32, l, optest.Floats(index), rows), "permuteTokenId": optest.Laid(t, dtype.Int32, l, optest.Floats(ids), rows),
		"routingMapOptional": routing, "dropAndPad": padded, "permutedTokensGradOut": out,
	}
	dprobs := optest.Laid(t, d, l, nil, tokens, experts)
	if withProbs {
		a["permutedTokensOptional"], a["probsOptional"], a["probsGradOutOptional"] = optest.Laid(t, d, l, x, rows, width), optest.Laid(t, d, l, probs, tokens, experts), dprobs
	}
	optest.Run(t, "MoeTokenUnpermuteWithRoutingMapGrad", a)
	optest.CloseTo(t, what, want, optest.Values(out), precision(d))
	if !withProbs {
		return
	}
	wantProbs := make([]float64, tokens*experts)
	for i, dot := range dots {
		wantProbs[token[i]*experts+expert[i]] = dot
	}
	optest.CloseTo(t, "probabilities of "+what, wantProbs, optest.Values(dprobs), 8*precision(d))
	optest.Refused(t, op.NullPointer, "MoeTokenUnpermuteWithRoutingMapGrad", a.With(optest.Args{"permutedTokensOptional": nil}), "permutedTokensOptional is null")
	optest.Refused(t, op.NullPointer, "MoeTokenUnpermuteWithRoutingMapGrad", a.With(optest.Args{"routingMapOptional": nil}), "routingMapOptional is null")
	if rows > 1 {
		twice := slices.Repeat([]float64{0}, rows)
		require.ErrorContains(t, optest.Execute(t, "MoeTokenUnpermuteWithRoutingMapGrad", a.With(optest.Args{"outIndex": optest.Laid(t, dtype.Int32, l, twice, rows)})), "named twice")
	}
}

func TestRoutingMapRefuses(t *testing.T) {
	f := dtype.Float32
	base := func() optest.Args {
		return optest.Args{
			"tokens": optest.Tensor(t, f, []int64{3, 2}, 1), "routingMap": optest.Tensor(t, dtype.Bool, []int64{3, 2}, 1, 0), "numOutTokens": 3,
			"permuteTokensOut": optest.Tensor(t, f, []int64{3, 2}), "sortedIndicesOut": optest.Tensor(t, dtype.Int32, []int64{3}),
		}
	}
	for _, c := range []struct {
		set  optest.Args
		code int32
		text string
	}{
		{optest.Args{"routingMap": nil}, op.NullPointer, "routingMap is null"},
		{optest.Args{"numOutTokens": 7}, op.InvalidParam, "numOutTokens is 7"},
		{optest.Args{"numOutTokens": -1}, op.InvalidParam, "numOutTokens is -1"},
		{optest.Args{"numOutTokens": 6}, op.InvalidParam, "sortedIndicesOut"},
		{optest.Args{"routingMap": optest.Tensor(t, f, []int64{3, 2}, 1)}, op.InvalidParam, "dtype"},
		{optest.Args{"routingMap": optest.Tensor(t, dtype.Bool, []int64{6}, 1)}, op.InvalidParam, "dimensions"},
		{optest.Args{"tokens": optest.Tensor(t, f, []int64{4, 2}, 1)}, op.InvalidParam, "a row for each token"},
		{optest.Args{"probsOptional": optest.Tensor(t, f, []int64{3, 2}, 1)}, op.NullPointer, "permuteProbsOutOptional is null"},
		{optest.Args{"sortedIndicesOut": optest.Tensor(t, dtype.Int64, []int64{3})}, op.InvalidParam, "dtype"},
	} {
		a := base()
		for k, v := range c.set {
			a[k] = v
		}
		optest.Refused(t, c.code, "MoeTokenPermuteWithRoutingMap", a, c.text)
	}
	a := base()
	a["routingMap"] = optest.Tensor(t, dtype.Bool, []int64{3, 2}, 1, 1, 1, 0, 1, 0)
	require.ErrorContains(t, optest.Execute(t, "MoeTokenPermuteWithRoutingMap", a), "chooses 2 experts for token 0")

	grad := optest.Args{
		"permutedTokenOutputGrad": optest.Tensor(t, f, []int64{3, 2}, 1), "sortedIndices": optest.Tensor(t, dtype.Int32, []int64{3}, 0, 1, 3),
		"numExperts": 2, "tokensNum": 3, "tokensGradOut": optest.Tensor(t, f, []int64{3, 2}),
	}
	require.ErrorContains(t, optest.Execute(t, "MoeTokenPermuteWithRoutingMapGrad", grad), "place 3 at position 2")
	grad["tokensNum"] = 0
	optest.Refused(t, op.InvalidParam, "MoeTokenPermuteWithRoutingMapGrad", grad, "tokensNum is 0")
	grad["tokensNum"], grad["permutedProbsOutputGradOptional"], grad["probsGradOutOptional"] = 3, optest.Tensor(t, f, []int64{3}, 1), optest.Tensor(t, f, []int64{3, 2})
	optest.Refused(t, op.NullPointer, "MoeTokenPermuteWithRoutingMapGrad", grad, "routingMapOptional is null")

	back := optest.Args{
		"permutedTokens": optest.Tensor(t, f, []int64{3, 2}, 1), "sortedIndices": optest.Tensor(t, dtype.Int32, []int64{3}, 0, 1, 2),
		"unpermutedTokens": optest.Tensor(t, f, []int64{3, 2}), "paddedMode": true,
	}
	optest.Refused(t, op.NullPointer, "MoeTokenUnpermuteWithRoutingMap", back, "restoreShapeOptional is null")
	back["restoreShapeOptional"] = []int64{3, 2}
	optest.Refused(t, op.NullPointer, "MoeTokenUnpermuteWithRoutingMap", back, "paddedMode writes them")
	back["restoreShapeOptional"] = []int64{3, 3}
	optest.Refused(t, op.InvalidParam, "MoeTokenUnpermuteWithRoutingMap", back, "restoreShapeOptional")
	back["restoreShapeOptional"], back["probsOptional"] = []int64{3, 2}, optest.Tensor(t, f, []int64{}, 1)
	optest.Refused(t, op.InvalidParam, "MoeTokenUnpermuteWithRoutingMap", back, "dimensions")
}

// A token may use fewer places than it has: its other places hold -1.
func TestRoutingMapUnusedPlaces(t *testing.T) {
	f := dtype.Float32
	base := func() optest.Args {
		return optest.Args{
			"permutedTokens": optest.Tensor(t, f, []int64{4, 2}, 1, 2, 10, 20, 100, 200, 7, 7), "sortedIndices": optest.Tensor(t, dtype.Int32, []int64{4}, 2, 0, -1, 1),
			"unpermutedTokens": optest.Tensor(t, f, []int64{2, 2}), "restoreShapeOptional": []int64{2, 2}, "paddedMode": false,
		}
	}
	for name, c := range map[string]struct {
		set  optest.Args
		want []float64
	}{
		"without probabilities": {nil, []float64{101, 202, 10, 20}},
		"with probabilities": {optest.Args{
			"probsOptional": optest.Tensor(t, f, []int64{2, 2}, 3, 2, 0.5, 4), "routingMapOptional": optest.Tensor(t, dtype.Bool, []int64{2, 2}, 1, 1, 1, 1), "permuteProbs": optest.Tensor(t, f, []int64{4}),
		}, []float64{302, 604, 40, 80}},
		"the number of tokens from the probabilities": {optest.Args{
			"probsOptional": optest.Tensor(t, f, []int64{2, 2}, 1, 1, 1, 1), "routingMapOptional": optest.Tensor(t, dtype.Bool, []int64{2, 2}, 1, 1, 1, 1), "restoreShapeOptional": nil,
		}, []float64{101, 202, 10, 20}},
		"a probability of 0 hides its row": {optest.Args{
			"permutedTokens": optest.Tensor(t, f, []int64{4, 2}, 1, 2, 10, 20, math.NaN(), math.Inf(1), 7, 7),
			"probsOptional":  optest.Tensor(t, f, []int64{2, 2}, 0, 2, 1, 1), "routingMapOptional": optest.Tensor(t, dtype.Bool, []int64{2, 2}, 1, 1, 1, 1),
		}, []float64{2, 4, 10, 20}},
	} {
		a := base().With(c.set)
		optest.Run(t, "MoeTokenUnpermuteWithRoutingMap", a)
		optest.CloseTo(t, name, c.want, optest.Values(a["unpermutedTokens"].(*op.Tensor)), 0)
		if probs, ok := a["permuteProbs"].(*op.Tensor); ok {
			optest.CloseTo(t, name, []float64{3, 2, 0.5, 4}, optest.Values(probs), 0)
		}
	}
	shifted := base().With(optest.Args{"probsOptional": optest.Tensor(t, f, []int64{2, 2}, 1, 1, 1, 1), "routingMapOptional": optest.Tensor(t, dtype.Bool, []int64{2, 2}, 1, 1, 0, 1)})
	require.ErrorContains(t, optest.Execute(t, "MoeTokenUnpermuteWithRoutingMap", shifted), "chooses 1 experts for token 1, and sortedIndices has 2 places")
	require.ErrorContains(t, optest.Execute(t, "MoeTokenUnpermuteWithRoutingMap", base().With(optest.Args{"sortedIndices": optest.Tensor(t, dtype.Int32, []int64{4}, 2, 0, -2, 1)})), "place -2 at position 2")

	grad := optest.Args{
		"permutedTokenOutputGrad": optest.Tensor(t, f, []int64{4, 2}, 1, 2, 10, 20, 100, 200, 7, 7), "sortedIndices": optest.Tensor(t, dtype.Int32, []int64{4}, 2, 0, -1, 1),
		"permutedProbsOutputGradOptional": optest.Tensor(t, f, []int64{4}, 5, 6, 8, 9), "routingMapOptional": optest.Tensor(t, dtype.Bool, []int64{2, 2}, 1, 1, 0, 1),
		"numExperts": 2, "tokensNum": 2, "dropAndPad": false, "tokensGradOut": optest.Tensor(t, f, []int64{2, 2}), "probsGradOutOptional": optest.Tensor(t, f, []int64{2, 2}),
	}
	optest.Run(t, "MoeTokenPermuteWithRoutingMapGrad", grad)
	optest.CloseTo(t, "gradient of tokens", []float64{101, 202, 10, 20}, optest.Values(grad["tokensGradOut"].(*op.Tensor)), 0)
	optest.CloseTo(t, "gradient of probabilities", []float64{5, 6, 0, 8}, optest.Values(grad["probsGradOutOptional"].(*op.Tensor)), 0) // by expert, then by token
}
