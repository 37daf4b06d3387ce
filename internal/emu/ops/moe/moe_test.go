package moe

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// exact returns n values in (-1, 1) that a type represents exactly.
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

// precision is the tolerance for a short sum of values of order one.
func precision(d dtype.Type) float64 {
	return map[dtype.Type]float64{dtype.Float32: 1e-5, dtype.Float16: 4e-3, dtype.BFloat16: 3e-2}[d]
}

// choice is a test case of routing: tokens of some width, and the experts of each.
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

// sorted returns the positions of the elements in a stable order by expert.
func sorted(experts []float64) []int {
	order := make([]int, len(experts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(experts[a] - experts[b]) })
	return order
}

func inverse(order []int) []int {
	out := make([]int, len(order))
	for i, o := range order {
		out[o] = i
	}
	return out
}

func TestGating(t *testing.T) {
	for _, shape := range [][]int{{6, 8}, {2, 3, 8}, {1, 1}, {0, 4}} {
		e := shape[len(shape)-1]
		n := 1
		for _, d := range shape[:len(shape)-1] {
			n *= d
		}
		for _, d := range op.FloatTypes {
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
					a := optest.Args{
						"x": optest.Laid(t, d, layout, x, shape...), "k": k,
						"finishedOptional": optest.Laid(t, dtype.Bool, layout, finished, shape[:len(shape)-1]...),
						"yOut":             optest.Laid(t, d, layout, nil, chosen...),
						"expertIdxOut":     optest.Laid(t, dtype.Int32, kerneltest.Contiguous, nil, chosen...),
					}
					check := func(name string) {
						text := fmt.Sprintf("%s %v %v k %d renorm %d", name, d, shape, k, renorm)
						require.InDeltaSlice(t, y, optest.Values(a["yOut"].(*op.Tensor)), precision(d)/4, text)
						require.Equal(t, index, optest.Values(a["expertIdxOut"].(*op.Tensor)), text)
					}
					if renorm == 0 {
						a["rowIdxOut"] = optest.Laid(t, dtype.Int32, kerneltest.Contiguous, nil, chosen...)
						optest.Run(t, "MoeGatingTopKSoftmax", a)
						check("V1")
						require.Equal(t, rows, optest.Values(a["rowIdxOut"].(*op.Tensor)))
						delete(a, "rowIdxOut")
						a["outputSoftmaxResultFlag"] = true
						a["softmaxResultOutOptional"] = optest.Laid(t, dtype.Float32, kerneltest.Contiguous, nil, shape...)
					}
					a["renorm"] = renorm
					optest.Run(t, "MoeGatingTopKSoftmaxV2", a)
					check("V2")
					if renorm == 0 && k > 0 {
						require.InDeltaSlice(t, all, optest.Values(a["softmaxResultOutOptional"].(*op.Tensor)), 1e-6)
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
		for _, d := range op.FloatTypes {
			for _, l := range kerneltest.Layouts {
				x := exact(d, 1, c.tokens*c.width)
				total := c.tokens * c.k
				in := func() optest.Args {
					return optest.Args{
						"x": optest.Laid(t, d, l, x, c.tokens, c.width), "expertIdx": optest.Laid(t, dtype.Int32, l, expert, c.tokens, c.k),
						"expandedRowIdxOut": optest.Laid(t, dtype.Int32, kerneltest.Contiguous, nil, total),
					}
				}
				// The first version is given the row indices, counted by columns, and keeps
				// activeNum tokens.
				a := in()
				rowIdx := make([]float64, total)
				for i := range rowIdx {
					rowIdx[i] = float64(i%c.k*c.tokens + i/c.k)
				}
				kept := max(c.tokens-2, 0)
				a["rowIdx"], a["activeNum"] = optest.Laid(t, dtype.Int32, l, rowIdx, c.tokens, c.k), kept
				a["expandedXOut"] = optest.Laid(t, d, kerneltest.Contiguous, nil, kept*c.k, c.width)
				a["expandedExpertIdxOut"] = optest.Laid(t, dtype.Int32, kerneltest.Contiguous, nil, total)
				optest.Run(t, "MoeInitRouting", a)
				var byExpert, rows []float64
				places := make([]float64, total)
				for i, o := range order {
					byExpert = append(byExpert, expert[o])
					places[int(rowIdx[o])] = float64(i)
					if i < kept*c.k {
						rows = append(rows, optest.Row(x, c.width, o/c.k)...)
					}
				}
				require.Equal(t, byExpert, nilIfEmpty(optest.Values(a["expandedExpertIdxOut"].(*op.Tensor))))
				require.Equal(t, places, optest.Values(a["expandedRowIdxOut"].(*op.Tensor)))
				require.Equal(t, rows, nilIfEmpty(optest.Values(a["expandedXOut"].(*op.Tensor))))

				for _, active := range []int{0, 3} {
					a := in()
					n := total
					if active > 0 {
						n = min(active, total)
					}
					a["activeNumOptional"], a["expertNumOptional"], a["expertTokensCountOrCumsumFlagOptional"] = active, c.experts, 1+active%2
					a["expandedXOut"] = optest.Laid(t, d, kerneltest.Contiguous, nil, n, c.width)
					a["expertTokensCountOrCumsumOutOptional"] = optest.Laid(t, dtype.Int32, kerneltest.Contiguous, nil, c.experts)
					optest.Run(t, "MoeInitRoutingV2", a)
					var rows []float64
					for _, o := range order[:n] {
						rows = append(rows, optest.Row(x, c.width, o/c.k)...)
					}
					require.Equal(t, rows, nilIfEmpty(optest.Values(a["expandedXOut"].(*op.Tensor))))
					require.Equal(t, optest.Floats(inverse(order)), optest.Values(a["expandedRowIdxOut"].(*op.Tensor)))
					counts := make([]float64, c.experts)
					for _, e := range expert {
						counts[int(e)]++
					}
					if active == 0 {
						for i := range c.experts - 1 {
							counts[i+1] += counts[i]
						}
					}
					require.Equal(t, counts, optest.Values(a["expertTokensCountOrCumsumOutOptional"].(*op.Tensor)))
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

// Rows beyond the capacity are dropped, missing rows are zero, and the gradient skips both.
func TestInitRoutingToCapacity(t *testing.T) {
	x := []float64{1, 2, 3, 4, 5, 6}
	expert := []float64{1, 2, 1, 0, 1, 0} // three tokens, two experts each
	a := optest.Args{
		"x": optest.Tensor(t, dtype.Float32, []int64{3, 2}, x...), "expertIdx": optest.Tensor(t, dtype.Int32, []int64{3, 2}, expert...),
		"expertCapacityOptional": 2, "expertNumOptional": 4, "dropPadModeOptional": 1, "expertTokensBeforeCapacityFlagOptional": true,
		"expandedXOut": optest.TensorIn(t, dtype.Float32, kerneltest.Gapped, []int64{4, 2, 2}), "expandedRowIdxOut": optest.Tensor(t, dtype.Int32, []int64{6}),
		"expertTokensBeforeCapacityOutOptional": optest.Tensor(t, dtype.Int32, []int64{4}),
	}
	optest.Run(t, "MoeInitRoutingV2", a)
	require.Equal(t, []float64{3, 4, 5, 6, 1, 2, 3, 4, 1, 2, 0, 0, 0, 0, 0, 0}, optest.Values(a["expandedXOut"].(*op.Tensor)))
	places := a["expandedRowIdxOut"].(*op.Tensor)
	require.Equal(t, []float64{2, 4, 3, 0, -1, 1}, optest.Values(places))
	require.Equal(t, []float64{2, 3, 1, 0}, optest.Values(a["expertTokensBeforeCapacityOutOptional"].(*op.Tensor)))

	grad := optest.TensorIn(t, dtype.Float32, kerneltest.Reversed, []int64{4, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
	out := optest.Tensor(t, dtype.Float32, []int64{3, 2})
	optest.Run(t, "MoeInitRoutingV2Grad", optest.Args{"gradExpandedX": grad, "expandedRowIdx": places, "topK": 2, "dropPadMode": 1, "out": out})
	require.Equal(t, []float64{5 + 9, 6 + 10, 7 + 1, 8 + 2, 3, 4}, optest.Values(out))

	a["expertIdx"] = optest.Tensor(t, dtype.Int32, []int64{3, 2}, 1, 2, 1, 0, 1, 4)
	require.ErrorContains(t, optest.Execute(t, "MoeInitRoutingV2", a), "expertIdx 4 at position 5 is out of range for 4 experts")
}

// Routing to experts and back agrees with the definition, as do its gradients, for every order
// of places and with dropped terms.
func TestFinalizeRouting(t *testing.T) {
	for _, c := range choices {
		expert := c.expertsOf()
		order := sorted(expert)
		places := optest.Floats(inverse(order))
		total := c.tokens * c.k
		columns := make([]float64, total)
		for i := range total {
			columns[i%c.k*c.tokens+i/c.k] = places[i]
		}
		for _, d := range op.FloatTypes {
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
				in := optest.Args{
					"expandedX": optest.Laid(t, d, l, x, total, c.width), "out": optest.Laid(t, d, kerneltest.Contiguous, nil, c.tokens, c.width),
				}
				v1 := in.With(optest.Args{
					"bias": optest.Laid(t, d, l, bias, c.experts, c.width), "scales": optest.Laid(t, d, l, scale, c.tokens, c.k),
					"x1": optest.Laid(t, d, l, add, c.tokens, c.width), "x2Optional": optest.Laid(t, d, l, add, c.tokens, c.width),
					"expandedRowIdx": optest.Laid(t, dtype.Int32, l, columns, total), "expandedExpertIdx": optest.Laid(t, dtype.Int32, l, expert, c.tokens, c.k),
				})
				optest.Run(t, "MoeFinalizeRouting", v1)
				require.InDeltaSlice(t, want, optest.Values(in["out"].(*op.Tensor)), 4*precision(d))
				v2 := in.With(optest.Args{
					"biasOptional": v1["bias"], "scalesOptional": v1["scales"], "expertIdxOptional": v1["expandedExpertIdx"],
					"x1Optional": v1["x1"], "x2Optional": v1["x1"], "expandedRowIdx": optest.Laid(t, dtype.Int32, l, places, total), "dropPadMode": 2,
				})
				optest.Run(t, "MoeFinalizeRoutingV2", v2)
				require.InDeltaSlice(t, want, optest.Values(in["out"].(*op.Tensor)), 4*precision(d))
				optest.Run(t, "MoeFinalizeRoutingV3", v2)
				require.InDeltaSlice(t, want, optest.Values(in["out"].(*op.Tensor)), 4*precision(d))
				optest.Run(t, "MoeFinalizeRoutingV4", v2.With(optest.Args{"k": c.k, "zeroExpertRange": []int64{-1, -1}}))
				require.InDeltaSlice(t, want, optest.Values(in["out"].(*op.Tensor)), 4*precision(d))
				back := optest.Args{
					"gradY": optest.Laid(t, d, l, grad, c.tokens, c.width), "expandedRowIdx": v2["expandedRowIdx"], "expandedXOptional": in["expandedX"],
					"scalesOptional": v1["scales"], "expertIdxOptional": v1["expandedExpertIdx"], "biasOptional": v1["bias"],
					"gradExpandedXOut": optest.Laid(t, d, kerneltest.Contiguous, nil, total, c.width), "gradScalesOut": optest.Laid(t, d, kerneltest.Contiguous, nil, c.tokens, c.k),
				}
				optest.Run(t, "MoeFinalizeRoutingV2Grad", back)
				require.InDeltaSlice(t, gradX, optest.Values(back["gradExpandedXOut"].(*op.Tensor)), precision(d))
				require.InDeltaSlice(t, gradScale, optest.Values(back["gradScalesOut"].(*op.Tensor)), 8*precision(d))
			}
		}
	}
}

// TestFinalizeOwnExperts: with an Ascend950 some experts return nothing, the token, or the token mixed with a vector.
func TestFinalizeOwnExperts(t *testing.T) {
	const tokens, k, width, experts, zero, copied = 5, 3, 7, 9, 3, 5 // 0 to 2 are ordinary, 3 and 4 return nothing, 5 and 6 the token, 7 and 8 mix
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, scaled := range []bool{true, false} {
				var expert []float64
				for i := range tokens * k {
					expert = append(expert, float64((4*i+i/k)%experts))
				}
				x, bias, scale, token, add := exact(d, 1, tokens*k*width), exact(d, 2, experts*width), exact(d, 3, tokens*k), exact(d, 4, tokens*width), exact(d, 5, tokens*width)
				first, second, vector := exact(d, 6, 2*width), exact(d, 7, 2*width), exact(d, 8, 2*width)
				place, want := make([]float64, tokens*k), make([]float64, tokens*width)
				for i := range place {
					place[i] = float64(tokens*k - 1 - i)
				}
				for i, e := range expert {
					s := scale[i]
					if !scaled {
						s = 1
					}
					for j := range width {
						v := x[int(place[i])*width+j]
						switch at := i / k * width; {
						case e >= copied+2:
							c := (int(e)-copied-2)*width + j
							v = first[c]*token[at+j] + second[c]*vector[c]
						case e >= copied:
							v = token[at+j]
						case e >= zero:
							continue
						}
						want[i/k*width+j] += s * (v + bias[int(e)*width+j])
					}
				}
				for i := range want {
					want[i] += 2 * add[i]
				}
				a := optest.Args{
					"expandedX": optest.Laid(t, d, l, x, tokens*k, width), "out": optest.Laid(t, d, kerneltest.Contiguous, nil, tokens, width), "biasOptional": optest.Laid(t, d, l, bias, experts, width),
					"x1Optional": optest.Laid(t, d, l, add, tokens, width), "x2Optional": optest.Laid(t, d, l, add, tokens, width), "expandedRowIdx": optest.Laid(t, dtype.Int32, l, place, tokens*k),
					"expertIdxOptional": optest.Laid(t, dtype.Int32, l, expert, tokens, k), "xOptional": optest.Laid(t, d, l, token, tokens, width), "a1Optional": optest.Laid(t, d, l, first, 2, width),
					"a2Optional": optest.Laid(t, d, l, second, 2, width), "vOptional": optest.Laid(t, d, l, vector, 2, width), "dropPadMode": 2,
					"zeroExpertRange": []int64{zero, copied}, "copyExpertRange": []int64{copied, copied + 2}, "constantExpertRange": []int64{copied + 2, experts},
				}
				names := []string{"MoeFinalizeRoutingV4"}
				if scaled {
					a["scalesOptional"] = optest.Laid(t, d, l, scale, tokens, k)
					names = append(names, "MoeFinalizeRoutingV3")
				}
				for _, name := range names {
					b := a
					if name == "MoeFinalizeRoutingV4" {
						b = a.With(optest.Args{"k": k})
						if scaled {
							_, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend950}, name, a.With(optest.Args{"k": 2}))
							require.ErrorContains(t, err, "k is 2")
						}
					}
					optest.RunOn(t, acceptance.Ascend950, name, b)
					require.InDeltaSlice(t, want, optest.Values(a["out"].(*op.Tensor)), 8*precision(d), "%s %v %v", name, d, l)
					optest.Refused(t, op.TilingRefused, name, b, "other chips ignore them")
					for text, set := range map[string]optest.Args{
						"overlap": {"zeroExpertRange": []int64{4, 6}}, "first expert must be": {"copyExpertRange": []int64{5, 5}}, "there are 9": {"constantExpertRange": []int64{7, 10}},
						"xOptional is null": {"xOptional": nil}, "vOptional is null": {"vOptional": nil}, "a row for each expert of": {"a1Optional": optest.Tensor(t, d, []int64{3, width}, 1)},
					} {
						_, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend950}, name, b.With(set))
						require.ErrorContains(t, err, text)
					}
				}
			}
		}
	}
}

func TestTokenPermute(t *testing.T) {
	for _, c := range choices {
		expert := c.expertsOf()
		order := sorted(expert)
		total := c.tokens * c.k
		for _, d := range append(slices.Clone(op.FloatTypes), dtype.Int8) {
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
					out, places := optest.Laid(t, d, kerneltest.Contiguous, nil, n, c.width), optest.Laid(t, dtype.Int32, kerneltest.Contiguous, nil, total)
					optest.Run(t, "MoeTokenPermute", optest.Args{
						"tokens": optest.Laid(t, d, l, x, c.tokens, c.width), "indices": optest.Laid(t, dtype.Int64, l, expert, c.tokens, c.k),
						"numOutTokens": keep, "permuteTokensOut": out, "sortedIndicesOut": places,
					})
					var rows []float64
					for _, o := range order[:n] {
						rows = append(rows, optest.Row(x, c.width, o/c.k)...)
					}
					require.Equal(t, rows, nilIfEmpty(optest.Values(out)))
					require.Equal(t, optest.Floats(inverse(order)), optest.Values(places))
					if d != dtype.Int8 {
						permuteAndBack(t, c, d, l, n, inverse(order), places)
					}
				}
			}
		}
	}
}

// permuteAndBack checks the operators that take n permuted rows and their places.
func permuteAndBack(t *testing.T, c choice, d dtype.Type, l kerneltest.Layout, n int, at []int, places *op.Tensor) {
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
	permuted, probs := optest.Laid(t, d, l, x, n, c.width), optest.Laid(t, d, l, prob, c.tokens, c.k)
	out := optest.Laid(t, d, kerneltest.Contiguous, nil, c.tokens, c.width)
	optest.Run(t, "MoeTokenPermuteGrad", optest.Args{"permutedOutputGrad": permuted, "sortedIndices": places, "numTopk": c.k, "out": out})
	require.InDeltaSlice(t, sum, optest.Values(out), 4*precision(d))
	optest.Run(t, "MoeTokenUnpermute", optest.Args{"permutedTokens": permuted, "sortedIndices": places, "probsOptional": probs, "out": out})
	require.InDeltaSlice(t, want, optest.Values(out), 4*precision(d))
	outX, outProbs := optest.Laid(t, d, kerneltest.Contiguous, nil, n, c.width), optest.Laid(t, d, kerneltest.Contiguous, nil, c.tokens, c.k)
	optest.Run(t, "MoeTokenUnpermuteGrad", optest.Args{
		"permuteTokens": permuted, "unpermutedTokensGrad": optest.Laid(t, d, l, grad, c.tokens, c.width), "sortedIndices": places,
		"probsOptional": probs, "permutedTokensGradOut": outX, "probsGradOut": outProbs,
	})
	require.InDeltaSlice(t, gradX, optest.Values(outX), precision(d))
	require.InDeltaSlice(t, gradProb, optest.Values(outProbs), 8*precision(d))
}

// Without probabilities every token has one row, and the operators only move rows.
func TestUnpermuteWithoutProbabilities(t *testing.T) {
	x := optest.Tensor(t, dtype.Float32, []int64{3, 2}, 1, 2, 3, 4, 5, 6)
	places, out := optest.Tensor(t, dtype.Int32, []int64{3}, 2, 0, 1), optest.Tensor(t, dtype.Float32, []int64{3, 2})
	optest.Run(t, "MoeTokenUnpermute", optest.Args{"permutedTokens": x, "sortedIndices": places, "out": out})
	require.Equal(t, []float64{5, 6, 1, 2, 3, 4}, optest.Values(out))
	back := optest.Tensor(t, dtype.Float32, []int64{3, 2})
	optest.Run(t, "MoeTokenUnpermuteGrad", optest.Args{"permuteTokens": x, "unpermutedTokensGrad": out, "sortedIndices": places, "permutedTokensGradOut": back})
	require.Equal(t, optest.Values(x), optest.Values(back))

	twice := optest.Tensor(t, dtype.Int32, []int64{3}, 2, 2, 1)
	err := optest.Execute(t, "MoeTokenUnpermuteGrad", optest.Args{"permuteTokens": x, "unpermutedTokensGrad": out, "sortedIndices": twice, "permutedTokensGradOut": back})
	require.ErrorContains(t, err, "place 2 is named twice")
}

// CANN 8.1 has fewer kernels.
func TestUnpermuteOfOlderCANN(t *testing.T) {
	for _, c := range []struct {
		name        string
		rows, probs dtype.Type
		has         bool
	}{
		{"MoeTokenUnpermute", dtype.BFloat16, dtype.Float32, true}, {"MoeTokenUnpermute", dtype.BFloat16, dtype.Float16, false},
		{"MoeTokenUnpermuteGrad", dtype.BFloat16, dtype.BFloat16, true}, {"MoeTokenUnpermuteGrad", dtype.BFloat16, dtype.Float32, false},
		{"MoeTokenUnpermuteGrad", dtype.Float32, dtype.Float16, false},
	} {
		x, probs := optest.Tensor(t, c.rows, []int64{3, 2}, 1), optest.Tensor(t, c.probs, []int64{3, 1}, 1)
		a := optest.Args{"sortedIndices": optest.Tensor(t, dtype.Int32, []int64{3}, 2, 0, 1), "probsOptional": probs}
		if c.name == "MoeTokenUnpermute" {
			a = a.With(optest.Args{"permutedTokens": x, "out": optest.Tensor(t, c.rows, []int64{3, 2})})
		} else {
			a = a.With(optest.Args{"permuteTokens": x, "unpermutedTokensGrad": x, "permutedTokensGradOut": optest.Tensor(t, c.rows, []int64{3, 2}), "probsGradOut": optest.Tensor(t, c.probs, []int64{3, 1})})
		}
		_, err := optest.PrepareIn(t, op.Env{}, c.name, a)
		require.NoError(t, err)
		_, err = optest.PrepareIn(t, op.Env{Older: true}, c.name, a)
		if c.has {
			require.NoError(t, err)
			continue
		}
		var e *op.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, op.NoKernel, e.Code)
	}
}

func TestExpertTokens(t *testing.T) {
	out := optest.Tensor(t, dtype.Int32, []int64{5})
	optest.Run(t, "MoeComputeExpertTokens", optest.Args{"sortedExperts": optest.Tensor(t, dtype.Int32, []int64{6}, 0, 0, 2, 2, 2, 4), "numExperts": 5, "out": out})
	require.Equal(t, []float64{2, 2, 5, 5, 6}, optest.Values(out))
}

func TestExpertRefusals(t *testing.T) {
	f := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.Float32, shape, 1) }
	at := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.Int32, shape, 0) }
	gate := optest.Args{"x": f(3, 4), "k": 2, "yOut": f(3, 2), "expertIdxOut": at(3, 2), "rowIdxOut": at(3, 2)}
	optest.Refused(t, op.NullPointer, "MoeGatingTopKSoftmax", gate.With(optest.Args{"x": nil}), "x is null")
	optest.Refused(t, op.TilingRefused, "MoeGatingTopKSoftmax", gate.With(optest.Args{"k": 5}), "k is 5", "[3,4]")
	optest.Refused(t, op.TilingRefused, "MoeGatingTopKSoftmax", gate.With(optest.Args{"yOut": f(3, 3)}), "[3,2]")
	optest.Refused(t, op.TilingRefused, "MoeGatingTopKSoftmax", gate.With(optest.Args{"x": f(4)}), "2 or 3 dimensions")
	optest.Refused(t, op.InvalidParam, "MoeGatingTopKSoftmax", gate.With(optest.Args{"expertIdxOut": f(3, 2)}), "dtype")
	v2 := gate.With(optest.Args{"renorm": 2})
	delete(v2, "rowIdxOut")
	optest.Refused(t, op.TilingRefused, "MoeGatingTopKSoftmaxV2", v2, "renorm is 2")
	optest.Refused(t, op.NullPointer, "MoeGatingTopKSoftmaxV2", v2.With(optest.Args{"renorm": 0, "outputSoftmaxResultFlag": true}), "softmaxResultOutOptional is null")

	route := optest.Args{"x": f(3, 4), "expertIdx": at(3, 2), "expandedXOut": f(6, 4), "expandedRowIdxOut": at(6)}
	optest.Refused(t, op.TilingRefused, "MoeInitRoutingV2", route.With(optest.Args{"x": f(2, 4)}), "same number of rows")
	optest.Refused(t, op.TilingRefused, "MoeInitRoutingV2", route.With(optest.Args{"activeNumOptional": -1}), "activeNum -1")
	optest.Refused(t, op.TilingRefused, "MoeInitRoutingV2", route.With(optest.Args{"dropPadModeOptional": 1}), "expertCapacity")
	optest.Refused(t, op.TilingRefused, "MoeInitRoutingV2", route.With(optest.Args{"dropPadModeOptional": 2}), "dropPadMode is 2")
	optest.Refused(t, op.TilingRefused, "MoeInitRoutingV2", route.With(optest.Args{"expertTokensCountOrCumsumFlagOptional": 1}), "expertNum is 0")
	optest.Refused(t, op.NullPointer, "MoeInitRoutingV2", route.With(optest.Args{"expertTokensCountOrCumsumFlagOptional": 2, "expertNumOptional": 4}), "is null")
	optest.Refused(t, op.TilingRefused, "MoeInitRoutingV2", route.With(optest.Args{"expandedXOut": f(5, 4)}), "[6,4]")
	optest.Refused(t, op.InvalidParam, "MoeInitRoutingV2", route.With(optest.Args{"expertIdx": f(3, 2)}), "dtype")
	optest.Refused(t, op.TilingRefused, "MoeInitRoutingV2Grad", optest.Args{"gradExpandedX": f(6, 4), "expandedRowIdx": at(6), "topK": 4, "out": f(3, 4)}, "4 places for each row")
	optest.Refused(t, op.TilingRefused, "MoeInitRoutingV2Grad", optest.Args{"gradExpandedX": f(5, 4), "expandedRowIdx": at(6), "topK": 2, "out": f(3, 4)}, "row for each of")

	final := optest.Args{"expandedX": f(6, 4), "expandedRowIdx": at(6), "scalesOptional": f(3, 2), "out": f(3, 4), "dropPadMode": 2}
	optest.Refused(t, op.TilingRefused, "MoeFinalizeRoutingV2", final.With(optest.Args{"dropPadMode": 4}), "dropPadMode is 4")
	optest.Refused(t, op.TilingRefused, "MoeFinalizeRoutingV2", final.With(optest.Args{"x2Optional": f(3, 4)}), "without x1Optional")
	optest.Refused(t, op.TilingRefused, "MoeFinalizeRoutingV2", final.With(optest.Args{"biasOptional": f(4, 4)}), "without expertIdxOptional")
	optest.Refused(t, op.TilingRefused, "MoeFinalizeRoutingV2", final.With(optest.Args{"dropPadMode": 3}), "3 dimensions")
	optest.Refused(t, op.TilingRefused, "MoeFinalizeRoutingV2", final.With(optest.Args{"expandedRowIdx": at(5)}), "one place for each")

	permute := optest.Args{"tokens": f(3, 4), "indices": at(3, 2), "permuteTokensOut": f(6, 4), "sortedIndicesOut": at(6)}
	optest.Refused(t, op.InvalidParam, "MoeTokenPermute", permute.With(optest.Args{"paddedMode": true}), "paddedMode")
	optest.Refused(t, op.InvalidParam, "MoeTokenPermute", permute.With(optest.Args{"numOutTokens": 5}), "[5,4]")
	optest.Refused(t, op.InvalidParam, "MoeTokenPermute", permute.With(optest.Args{"indices": at(2, 2)}), "same number of rows")
	optest.Refused(t, op.NullPointer, "MoeTokenPermute", permute.With(optest.Args{"sortedIndicesOut": nil}), "sortedIndicesOut is null")
	optest.Refused(t, op.InvalidParam, "MoeTokenUnpermute", optest.Args{"permutedTokens": f(6, 4), "sortedIndices": at(6), "out": f(3, 4)}, "[3]")
	optest.Refused(t, op.NullPointer, "MoeTokenUnpermuteGrad", optest.Args{
		"permuteTokens": f(6, 4), "unpermutedTokensGrad": f(3, 4), "sortedIndices": at(6), "probsOptional": f(3, 2), "permutedTokensGradOut": f(6, 4),
	}, "probsGradOut is null")
}
