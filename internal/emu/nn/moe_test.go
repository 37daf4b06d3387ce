package nn

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// exact gives n values in (-1, 1) that a type holds exactly.
func exact(d dtype.Type, seed, n int) []float64 {
	out := make([]float64, n)
	x := uint64(seed)*0x9E3779B97F4A7C15 + 1
	for i := range out {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		out[i] = kerneltest.Round(d, float64(x>>11)/(1<<52)-1)
	}
	return out
}

// precision is what the result of a short sum of values of order one may be off by.
func precision(d dtype.Type) float64 {
	return map[dtype.Type]float64{dtype.Float32: 1e-5, dtype.Float16: 4e-3, dtype.BFloat16: 3e-2}[d]
}

// choice is a problem of routing: tokens of a width, and experts for each.
type choice struct{ tokens, width, k, experts int }

var choices = []choice{{5, 3, 2, 4}, {1, 1, 1, 1}, {37, 33, 3, 8}, {0, 4, 2, 4}, {70, 1, 8, 16}}

// expertsOf chooses k different experts for each token.
func (c choice) expertsOf() []float64 {
	var out []float64
	for i := range c.tokens {
		for j := range c.k {
			out = append(out, float64((i*i+3*i+j)%c.experts))
		}
	}
	return out
}

// sorted is the stable order of the elements by expert.
func sorted(experts []float64) []int {
	order := make([]int, len(experts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(experts[a] - experts[b]) })
	return order
}

func ints(v []int) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

func inverse(order []int) []int {
	out := make([]int, len(order))
	for i, o := range order {
		out[o] = i
	}
	return out
}

func row(x []float64, width, i int) []float64 { return x[i*width : (i+1)*width] }

// laid makes a tensor with the layout, or an empty one.
func laid(t *testing.T, d dtype.Type, l kerneltest.Layout, v []float64, shape ...int) *Tensor {
	s := make([]int64, len(shape))
	for i, n := range shape {
		s[i] = int64(n)
	}
	return tensorIn(t, d, l, s, v...)
}

func TestGating(t *testing.T) {
	for _, shape := range [][]int{{6, 8}, {2, 3, 8}, {1, 1}, {0, 4}} {
		e := shape[len(shape)-1]
		n := 1
		for _, d := range shape[:len(shape)-1] {
			n *= d
		}
		for _, d := range transformerTypes {
			x := exact(d, 3, n*e)
			for _, k := range []int{0, 1, e} {
				for _, renorm := range []int{0, 1} {
					layout := kerneltest.Layouts[(k+2*renorm)%len(kerneltest.Layouts)]
					y, index, rows, all := gatingReference(x, n, e, k, renorm == 1)
					chosen := append(slices.Clone(shape[:len(shape)-1]), k)
					finished := make([]float64, n)
					for i := range finished {
						if i%3 == 1 {
							finished[i] = 1
							for j := range k {
								index[i*k+j] = float64(e)
							}
						}
					}
					a := args{
						"x": laid(t, d, layout, x, shape...), "k": k,
						"finishedOptional": laid(t, dtype.Bool, layout, finished, shape[:len(shape)-1]...),
						"yOut":             laid(t, d, layout, nil, chosen...),
						"expertIdxOut":     laid(t, dtype.Int32, kerneltest.Contiguous, nil, chosen...),
					}
					check := func(name string) {
						text := fmt.Sprintf("%s %v %v k %d renorm %d", name, d, shape, k, renorm)
						require.InDeltaSlice(t, y, values(a["yOut"].(*Tensor)), precision(d)/4, text)
						require.Equal(t, index, values(a["expertIdxOut"].(*Tensor)), text)
					}
					if renorm == 0 {
						a["rowIdxOut"] = laid(t, dtype.Int32, kerneltest.Contiguous, nil, chosen...)
						run(t, "MoeGatingTopKSoftmax", a)
						check("V1")
						require.Equal(t, rows, values(a["rowIdxOut"].(*Tensor)))
						delete(a, "rowIdxOut")
						a["outputSoftmaxResultFlag"] = true
						a["softmaxResultOutOptional"] = laid(t, dtype.Float32, kerneltest.Contiguous, nil, shape...)
					}
					a["renorm"] = renorm
					run(t, "MoeGatingTopKSoftmaxV2", a)
					check("V2")
					if renorm == 0 && k > 0 {
						require.InDeltaSlice(t, all, values(a["softmaxResultOutOptional"].(*Tensor)), 1e-6)
					}
				}
			}
		}
	}
}

func gatingReference(x []float64, n, e, k int, renorm bool) (y, index, rows, all []float64) {
	all = make([]float64, n*e)
	y, index, rows = make([]float64, n*k), make([]float64, n*k), make([]float64, n*k)
	for i := range n {
		order := make([]int, e)
		sum := 0.0
		for j := range order {
			order[j] = j
			sum += math.Exp(x[i*e+j])
		}
		slices.SortStableFunc(order, func(a, b int) int {
			if x[i*e+a] > x[i*e+b] {
				return -1
			} else if x[i*e+a] < x[i*e+b] {
				return 1
			}
			return 0
		})
		for j := range e {
			all[i*e+j] = math.Exp(x[i*e+j]) / sum
		}
		part := 0.0
		for _, o := range order[:k] {
			part += math.Exp(x[i*e+o])
		}
		for j, o := range order[:k] {
			y[i*k+j], index[i*k+j], rows[i*k+j] = all[i*e+o], float64(o), float64(j*n+i)
			if renorm {
				y[i*k+j] = math.Exp(x[i*e+o]) / part
			}
		}
	}
	return y, index, rows, all
}

func TestInitRouting(t *testing.T) {
	for _, c := range choices {
		expert := c.expertsOf()
		order := sorted(expert)
		for _, d := range transformerTypes {
			for _, l := range kerneltest.Layouts {
				x := exact(d, 1, c.tokens*c.width)
				total := c.tokens * c.k
				in := func() args {
					return args{
						"x": laid(t, d, l, x, c.tokens, c.width), "expertIdx": laid(t, dtype.Int32, l, expert, c.tokens, c.k),
						"expandedRowIdxOut": laid(t, dtype.Int32, kerneltest.Contiguous, nil, total),
					}
				}
				// The first version is told the rows, counted by columns, and keeps activeNum tokens.
				a := in()
				rowIdx := make([]float64, total)
				for i := range rowIdx {
					rowIdx[i] = float64(i%c.k*c.tokens + i/c.k)
				}
				kept := max(c.tokens-2, 0)
				a["rowIdx"], a["activeNum"] = laid(t, dtype.Int32, l, rowIdx, c.tokens, c.k), kept
				a["expandedXOut"] = laid(t, d, kerneltest.Contiguous, nil, kept*c.k, c.width)
				a["expandedExpertIdxOut"] = laid(t, dtype.Int32, kerneltest.Contiguous, nil, total)
				run(t, "MoeInitRouting", a)
				var byExpert, rows []float64
				places := make([]float64, total)
				for i, o := range order {
					byExpert = append(byExpert, expert[o])
					places[int(rowIdx[o])] = float64(i)
					if i < kept*c.k {
						rows = append(rows, row(x, c.width, o/c.k)...)
					}
				}
				require.Equal(t, byExpert, nilIfEmpty(values(a["expandedExpertIdxOut"].(*Tensor))))
				require.Equal(t, places, values(a["expandedRowIdxOut"].(*Tensor)))
				require.Equal(t, rows, nilIfEmpty(values(a["expandedXOut"].(*Tensor))))

				for _, active := range []int{0, 3} {
					a := in()
					n := total
					if active > 0 {
						n = min(active, total)
					}
					a["activeNumOptional"], a["expertNumOptional"], a["expertTokensCountOrCumsumFlagOptional"] = active, c.experts, 1+active%2
					a["expandedXOut"] = laid(t, d, kerneltest.Contiguous, nil, n, c.width)
					a["expertTokensCountOrCumsumOutOptional"] = laid(t, dtype.Int32, kerneltest.Contiguous, nil, c.experts)
					run(t, "MoeInitRoutingV2", a)
					var rows []float64
					for _, o := range order[:n] {
						rows = append(rows, row(x, c.width, o/c.k)...)
					}
					require.Equal(t, rows, nilIfEmpty(values(a["expandedXOut"].(*Tensor))))
					require.Equal(t, ints(inverse(order)), values(a["expandedRowIdxOut"].(*Tensor)))
					counts := make([]float64, c.experts)
					for _, e := range expert {
						counts[int(e)]++
					}
					if active == 0 {
						for i := range c.experts - 1 {
							counts[i+1] += counts[i]
						}
					}
					require.Equal(t, counts, values(a["expertTokensCountOrCumsumOutOptional"].(*Tensor)))
				}
			}
		}
	}
}

func nilIfEmpty(v []float64) []float64 {
	if len(v) == 0 {
		return nil
	}
	return v
}

// Rows beyond the capacity are dropped, missing ones are zero, and the gradient skips both.
func TestInitRoutingToCapacity(t *testing.T) {
	x := []float64{1, 2, 3, 4, 5, 6}
	expert := []float64{1, 2, 1, 0, 1, 0} // three tokens, two experts each
	a := args{
		"x": tensor(t, dtype.Float32, []int64{3, 2}, x...), "expertIdx": tensor(t, dtype.Int32, []int64{3, 2}, expert...),
		"expertCapacityOptional": 2, "expertNumOptional": 4, "dropPadModeOptional": 1, "expertTokensBeforeCapacityFlagOptional": true,
		"expandedXOut": tensorIn(t, dtype.Float32, kerneltest.Gapped, []int64{4, 2, 2}), "expandedRowIdxOut": tensor(t, dtype.Int32, []int64{6}),
		"expertTokensBeforeCapacityOutOptional": tensor(t, dtype.Int32, []int64{4}),
	}
	run(t, "MoeInitRoutingV2", a)
	require.Equal(t, []float64{3, 4, 5, 6, 1, 2, 3, 4, 1, 2, 0, 0, 0, 0, 0, 0}, values(a["expandedXOut"].(*Tensor)))
	places := a["expandedRowIdxOut"].(*Tensor)
	require.Equal(t, []float64{2, 4, 3, 0, -1, 1}, values(places))
	require.Equal(t, []float64{2, 3, 1, 0}, values(a["expertTokensBeforeCapacityOutOptional"].(*Tensor)))

	grad := tensorIn(t, dtype.Float32, kerneltest.Reversed, []int64{4, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
	out := tensor(t, dtype.Float32, []int64{3, 2})
	run(t, "MoeInitRoutingV2Grad", args{"gradExpandedX": grad, "expandedRowIdx": places, "topK": 2, "dropPadMode": 1, "out": out})
	require.Equal(t, []float64{5 + 9, 6 + 10, 7 + 1, 8 + 2, 3, 4}, values(out))

	a["expertIdx"] = tensor(t, dtype.Int32, []int64{3, 2}, 1, 2, 1, 0, 1, 4)
	require.ErrorContains(t, execute(t, "MoeInitRoutingV2", a), "expertIdx 4 at position 5 is out of range for 4 experts")
}

// Routing there and back with its gradients agrees with the definition, in every order of
// places and with terms dropped.
func TestFinalizeRouting(t *testing.T) {
	for _, c := range choices {
		expert := c.expertsOf()
		order := sorted(expert)
		places := ints(inverse(order))
		total := c.tokens * c.k
		columns := make([]float64, total)
		for i := range total {
			columns[i%c.k*c.tokens+i/c.k] = places[i]
		}
		for _, d := range transformerTypes {
			x, bias := exact(d, 1, total*c.width), exact(d, 2, c.experts*c.width)
			scale, add, grad := exact(d, 3, total), exact(d, 4, c.tokens*c.width), exact(d, 5, c.tokens*c.width)
			want, gradX, gradScale := make([]float64, len(add)), make([]float64, len(x)), make([]float64, total)
			for i := range total {
				token, at := i/c.k, int(places[i])
				for j := range c.width {
					term := x[at*c.width+j] + bias[int(expert[i])*c.width+j]
					want[token*c.width+j] += scale[i] * term
					gradX[at*c.width+j] = grad[token*c.width+j] * scale[i]
					gradScale[i] += grad[token*c.width+j] * term
				}
			}
			for i := range want {
				want[i] += 2 * add[i]
			}
			for _, l := range kerneltest.Layouts {
				in := args{
					"expandedX": laid(t, d, l, x, total, c.width), "out": laid(t, d, kerneltest.Contiguous, nil, c.tokens, c.width),
				}
				v1 := with(in, args{
					"bias": laid(t, d, l, bias, c.experts, c.width), "scales": laid(t, d, l, scale, c.tokens, c.k),
					"x1": laid(t, d, l, add, c.tokens, c.width), "x2Optional": laid(t, d, l, add, c.tokens, c.width),
					"expandedRowIdx": laid(t, dtype.Int32, l, columns, total), "expandedExpertIdx": laid(t, dtype.Int32, l, expert, c.tokens, c.k),
				})
				run(t, "MoeFinalizeRouting", v1)
				require.InDeltaSlice(t, want, values(in["out"].(*Tensor)), 4*precision(d))
				v2 := with(in, args{
					"biasOptional": v1["bias"], "scalesOptional": v1["scales"], "expertIdxOptional": v1["expandedExpertIdx"],
					"x1Optional": v1["x1"], "x2Optional": v1["x1"], "expandedRowIdx": laid(t, dtype.Int32, l, places, total), "dropPadMode": 2,
				})
				run(t, "MoeFinalizeRoutingV2", v2)
				require.InDeltaSlice(t, want, values(in["out"].(*Tensor)), 4*precision(d))
				back := args{
					"gradY": laid(t, d, l, grad, c.tokens, c.width), "expandedRowIdx": v2["expandedRowIdx"], "expandedXOptional": in["expandedX"],
					"scalesOptional": v1["scales"], "expertIdxOptional": v1["expandedExpertIdx"], "biasOptional": v1["bias"],
					"gradExpandedXOut": laid(t, d, kerneltest.Contiguous, nil, total, c.width), "gradScalesOut": laid(t, d, kerneltest.Contiguous, nil, c.tokens, c.k),
				}
				run(t, "MoeFinalizeRoutingV2Grad", back)
				require.InDeltaSlice(t, gradX, values(back["gradExpandedXOut"].(*Tensor)), precision(d))
				require.InDeltaSlice(t, gradScale, values(back["gradScalesOut"].(*Tensor)), 8*precision(d))
			}
		}
	}
}

func TestTokenPermute(t *testing.T) {
	for _, c := range choices {
		expert := c.expertsOf()
		order := sorted(expert)
		total := c.tokens * c.k
		for _, d := range append(slices.Clone(transformerTypes), dtype.Int8) {
			x := exact(d, 1, c.tokens*c.width)
			for _, keep := range []int{0, 4, -1} {
				n := total
				switch {
				case keep > 0:
					n = min(keep, total)
				case keep < 0:
					n = max(total+keep, 0)
				}
				for _, l := range kerneltest.Layouts {
					out, places := laid(t, d, kerneltest.Contiguous, nil, n, c.width), laid(t, dtype.Int32, kerneltest.Contiguous, nil, total)
					run(t, "MoeTokenPermute", args{
						"tokens": laid(t, d, l, x, c.tokens, c.width), "indices": laid(t, dtype.Int64, l, expert, c.tokens, c.k),
						"numOutTokens": keep, "permuteTokensOut": out, "sortedIndicesOut": places,
					})
					var rows []float64
					for _, o := range order[:n] {
						rows = append(rows, row(x, c.width, o/c.k)...)
					}
					require.Equal(t, rows, nilIfEmpty(values(out)))
					require.Equal(t, ints(inverse(order)), values(places))
					if d != dtype.Int8 {
						permuteAndBack(t, c, d, l, n, inverse(order), places)
					}
				}
			}
		}
	}
}

// permuteAndBack checks the operators that take n permuted rows and their places.
func permuteAndBack(t *testing.T, c choice, d dtype.Type, l kerneltest.Layout, n int, at []int, places *Tensor) {
	total := c.tokens * c.k
	x, prob, grad := exact(d, 2, n*c.width), exact(d, 3, total), exact(d, 4, c.tokens*c.width)
	sum, want, gradX, gradProb := make([]float64, len(grad)), make([]float64, len(grad)), make([]float64, len(x)), make([]float64, total)
	for i, p := range at {
		if p >= n {
			continue
		}
		for j := range c.width {
			token, from := i/c.k*c.width+j, p*c.width+j
			sum[token] += x[from]
			want[token] += x[from] * prob[i]
			gradX[from] = grad[token] * prob[i]
			gradProb[i] += grad[token] * x[from]
		}
	}
	permuted, probs := laid(t, d, l, x, n, c.width), laid(t, d, l, prob, c.tokens, c.k)
	out := laid(t, d, kerneltest.Contiguous, nil, c.tokens, c.width)
	run(t, "MoeTokenPermuteGrad", args{"permutedOutputGrad": permuted, "sortedIndices": places, "numTopk": c.k, "out": out})
	require.InDeltaSlice(t, sum, values(out), 4*precision(d))
	run(t, "MoeTokenUnpermute", args{"permutedTokens": permuted, "sortedIndices": places, "probsOptional": probs, "out": out})
	require.InDeltaSlice(t, want, values(out), 4*precision(d))
	outX, outProbs := laid(t, d, kerneltest.Contiguous, nil, n, c.width), laid(t, d, kerneltest.Contiguous, nil, c.tokens, c.k)
	run(t, "MoeTokenUnpermuteGrad", args{
		"permuteTokens": permuted, "unpermutedTokensGrad": laid(t, d, l, grad, c.tokens, c.width), "sortedIndices": places,
		"probsOptional": probs, "permutedTokensGradOut": outX, "probsGradOut": outProbs,
	})
	require.InDeltaSlice(t, gradX, values(outX), precision(d))
	require.InDeltaSlice(t, gradProb, values(outProbs), 8*precision(d))
}

// Without probabilities every token has one row, and the operators move rows.
func TestUnpermuteWithoutProbabilities(t *testing.T) {
	x := tensor(t, dtype.Float32, []int64{3, 2}, 1, 2, 3, 4, 5, 6)
	places, out := tensor(t, dtype.Int32, []int64{3}, 2, 0, 1), tensor(t, dtype.Float32, []int64{3, 2})
	run(t, "MoeTokenUnpermute", args{"permutedTokens": x, "sortedIndices": places, "out": out})
	require.Equal(t, []float64{5, 6, 1, 2, 3, 4}, values(out))
	back := tensor(t, dtype.Float32, []int64{3, 2})
	run(t, "MoeTokenUnpermuteGrad", args{"permuteTokens": x, "unpermutedTokensGrad": out, "sortedIndices": places, "permutedTokensGradOut": back})
	require.Equal(t, values(x), values(back))

	twice := tensor(t, dtype.Int32, []int64{3}, 2, 2, 1)
	err := execute(t, "MoeTokenUnpermuteGrad", args{"permuteTokens": x, "unpermutedTokensGrad": out, "sortedIndices": twice, "permutedTokensGradOut": back})
	require.ErrorContains(t, err, "place 2 is named twice")
}

func TestExpertTokens(t *testing.T) {
	out := tensor(t, dtype.Int32, []int64{5})
	run(t, "MoeComputeExpertTokens", args{"sortedExperts": tensor(t, dtype.Int32, []int64{6}, 0, 0, 2, 2, 2, 4), "numExperts": 5, "out": out})
	require.Equal(t, []float64{2, 2, 5, 5, 6}, values(out))
}

func TestExpertRefusals(t *testing.T) {
	f := func(shape ...int64) *Tensor { return tensor(t, dtype.Float32, shape, 1) }
	at := func(shape ...int64) *Tensor { return tensor(t, dtype.Int32, shape, 0) }
	gate := args{"x": f(3, 4), "k": 2, "yOut": f(3, 2), "expertIdxOut": at(3, 2), "rowIdxOut": at(3, 2)}
	refused(t, nullPointer, "MoeGatingTopKSoftmax", with(gate, args{"x": nil}), "x is null")
	refused(t, tilingRefused, "MoeGatingTopKSoftmax", with(gate, args{"k": 5}), "k is 5", "[3,4]")
	refused(t, tilingRefused, "MoeGatingTopKSoftmax", with(gate, args{"yOut": f(3, 3)}), "[3,2]")
	refused(t, tilingRefused, "MoeGatingTopKSoftmax", with(gate, args{"x": f(4)}), "2 or 3 dimensions")
	refused(t, invalidParam, "MoeGatingTopKSoftmax", with(gate, args{"expertIdxOut": f(3, 2)}), "dtype")
	v2 := with(gate, args{"renorm": 2})
	delete(v2, "rowIdxOut")
	refused(t, tilingRefused, "MoeGatingTopKSoftmaxV2", v2, "renorm is 2")
	refused(t, nullPointer, "MoeGatingTopKSoftmaxV2", with(v2, args{"renorm": 0, "outputSoftmaxResultFlag": true}), "softmaxResultOutOptional is null")

	route := args{"x": f(3, 4), "expertIdx": at(3, 2), "expandedXOut": f(6, 4), "expandedRowIdxOut": at(6)}
	refused(t, tilingRefused, "MoeInitRoutingV2", with(route, args{"x": f(2, 4)}), "same number of rows")
	refused(t, tilingRefused, "MoeInitRoutingV2", with(route, args{"activeNumOptional": -1}), "activeNum -1")
	refused(t, tilingRefused, "MoeInitRoutingV2", with(route, args{"dropPadModeOptional": 1}), "expertCapacity")
	refused(t, tilingRefused, "MoeInitRoutingV2", with(route, args{"dropPadModeOptional": 2}), "dropPadMode is 2")
	refused(t, tilingRefused, "MoeInitRoutingV2", with(route, args{"expertTokensCountOrCumsumFlagOptional": 1}), "expertNum is 0")
	refused(t, nullPointer, "MoeInitRoutingV2", with(route, args{"expertTokensCountOrCumsumFlagOptional": 2, "expertNumOptional": 4}), "is null")
	refused(t, tilingRefused, "MoeInitRoutingV2", with(route, args{"expandedXOut": f(5, 4)}), "[6,4]")
	refused(t, invalidParam, "MoeInitRoutingV2", with(route, args{"expertIdx": f(3, 2)}), "dtype")
	refused(t, tilingRefused, "MoeInitRoutingV2Grad", args{"gradExpandedX": f(6, 4), "expandedRowIdx": at(6), "topK": 4, "out": f(3, 4)}, "4 places for each row")
	refused(t, tilingRefused, "MoeInitRoutingV2Grad", args{"gradExpandedX": f(5, 4), "expandedRowIdx": at(6), "topK": 2, "out": f(3, 4)}, "row for each of")

	final := args{"expandedX": f(6, 4), "expandedRowIdx": at(6), "scalesOptional": f(3, 2), "out": f(3, 4), "dropPadMode": 2}
	refused(t, tilingRefused, "MoeFinalizeRoutingV2", with(final, args{"dropPadMode": 4}), "dropPadMode is 4")
	refused(t, tilingRefused, "MoeFinalizeRoutingV2", with(final, args{"x2Optional": f(3, 4)}), "without x1Optional")
	refused(t, tilingRefused, "MoeFinalizeRoutingV2", with(final, args{"biasOptional": f(4, 4)}), "without expertIdxOptional")
	refused(t, tilingRefused, "MoeFinalizeRoutingV2", with(final, args{"dropPadMode": 3}), "3 dimensions")
	refused(t, tilingRefused, "MoeFinalizeRoutingV2", with(final, args{"expandedRowIdx": at(5)}), "one place for each")

	permute := args{"tokens": f(3, 4), "indices": at(3, 2), "permuteTokensOut": f(6, 4), "sortedIndicesOut": at(6)}
	refused(t, invalidParam, "MoeTokenPermute", with(permute, args{"paddedMode": true}), "paddedMode")
	refused(t, invalidParam, "MoeTokenPermute", with(permute, args{"numOutTokens": 5}), "[5,4]")
	refused(t, invalidParam, "MoeTokenPermute", with(permute, args{"indices": at(2, 2)}), "same number of rows")
	refused(t, nullPointer, "MoeTokenPermute", with(permute, args{"sortedIndicesOut": nil}), "sortedIndicesOut is null")
	refused(t, invalidParam, "MoeTokenUnpermute", args{"permutedTokens": f(6, 4), "sortedIndices": at(6), "out": f(3, 4)}, "[3]")
	refused(t, nullPointer, "MoeTokenUnpermuteGrad", args{
		"permuteTokens": f(6, 4), "unpermutedTokensGrad": f(3, 4), "sortedIndices": at(6), "probsOptional": f(3, 2), "permutedTokensGradOut": f(6, 4),
	}, "probsGradOut is null")
}
