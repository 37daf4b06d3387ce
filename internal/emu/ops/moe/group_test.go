package moe

import (
	"cmp"
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

// TestGroupGating compares with a choice that considers one expert at a time.
func TestGroupGating(t *testing.T) {
	for _, c := range []struct{ rows, experts, groups, kept, k int }{{5, 8, 4, 2, 3}, {1, 1, 1, 1, 1}, {7, 12, 3, 1, 4}, {0, 4, 2, 1, 1}, {3, 16, 1, 1, 16}, {4, 6, 6, 4, 2}} {
		for _, d := range op.FloatTypes {
			for _, l := range kerneltest.Layouts {
				for norm := range 2 {
					for two := range 2 {
						what := fmt.Sprintf("%v %v %v norm %d two %d", c, d, l, norm, two)
						if two == 1 && c.experts == c.groups {
							continue // refused below
						}
						x, bias := exact(d, 3, c.rows*c.experts), exact(d, 4, c.experts)
						y, expert, all := optest.Laid(t, d, l, nil, c.rows, c.k), optest.Laid(t, dtype.Int32, l, nil, c.rows, c.k), optest.Laid(t, dtype.Float32, l, nil, c.rows, c.experts)
						const scale, eps = 2.5, 1e-3
						a := optest.Args{
							"x": optest.Laid(t, d, l, x, c.rows, c.experts), "biasOptional": optest.Laid(t, d, kerneltest.Contiguous, bias, c.experts), "k": c.k, "kGroup": c.kept, "groupCount": c.groups,
							"groupSelectMode": two, "normType": norm, "outFlag": true, "routedScalingFactor": scale, "eps": eps, "yOut": y, "expertIdxOut": expert, "outOut": all,
						}
						optest.Run(t, "MoeGatingTopK", a)
						again := optest.Laid(t, dtype.Int32, l, nil, c.rows, c.k)
						optest.Run(t, "MoeGatingTopKV2", a.With(optest.Args{"expertIdxOut": again}))
						require.Equal(t, optest.Values(expert), optest.Values(again), what)
						var wantY, wantExpert, wantAll []float64
						for r := range c.rows {
							score := make([]float64, c.experts)
							sum := 0.0
							for e := range score {
								v := x[r*c.experts+e]
								score[e] = math.Exp(v)
								if norm == 1 {
									score[e] = 1 / (1 + math.Exp(-v))
								}
								sum += score[e]
							}
							for e := range score {
								if norm == 0 {
									score[e] /= sum
								}
							}
							wantAll = append(wantAll, score...)
							biased := func(e int) float64 { return score[e] + bias[e] }
							size := c.experts / c.groups
							worth := make([]float64, c.groups)
							for g := range worth {
								best, second := math.Inf(-1), math.Inf(-1)
								for e := g * size; e < (g+1)*size; e++ {
									if v := biased(e); v > best {
										best, second = v, best
									} else if v > second {
										second = v
									}
								}
								worth[g] = best
								if two == 1 && size > 1 {
									worth[g] += second
								}
							}
							open := make([]bool, c.experts)
							for range c.kept {
								best := -1
								for g, w := range worth {
									if !math.IsInf(w, -1) && (best < 0 || w > worth[best]) {
										best = g
									}
								}
								worth[best] = math.Inf(-1)
								for e := best * size; e < (best+1)*size; e++ {
									open[e] = true
								}
							}
							total := 0.0
							var chosen []float64
							for range c.k {
								best := -1
								for e := range open {
									if open[e] && (best < 0 || biased(e) > biased(best)) {
										best = e
									}
								}
								open[best] = false
								wantExpert, chosen = append(wantExpert, float64(best)), append(chosen, score[best])
								total += score[best]
							}
							for _, v := range chosen {
								if norm == 1 {
									v /= total + eps
								}
								wantY = append(wantY, v*scale)
							}
						}
						require.Equal(t, wantExpert, nilIfEmpty(optest.Values(expert)), what)
						optest.CloseTo(t, what, wantY, nilIfEmpty(optest.Values(y)), 2*optest.ResultLimit(d))
						optest.CloseTo(t, what, wantAll, nilIfEmpty(optest.Values(all)), optest.ResultLimit(dtype.Float32))
						optest.Refused(t, op.TilingRefused, "MoeGatingTopK", a.With(optest.Args{"k": c.experts/c.groups*c.kept + 1}), "k is")
						optest.Refused(t, op.TilingRefused, "MoeGatingTopK", a.With(optest.Args{"kGroup": c.groups + 1}), "kGroup is")
						optest.Refused(t, op.TilingRefused, "MoeGatingTopK", a.With(optest.Args{"normType": 2}), "normType is 2")
						optest.Refused(t, op.TilingRefused, "MoeGatingTopK", a.With(optest.Args{"renorm": 1}), "renorm is 1")
						optest.Refused(t, op.TilingRefused, "MoeGatingTopK", a.With(optest.Args{"groupCount": 0}), "groupCount 0")
						optest.Refused(t, op.NullPointer, "MoeGatingTopK", a.With(optest.Args{"outOut": nil}), "outOut is null")
					}
				}
			}
		}
	}
	wide := func(experts int64, set optest.Args) optest.Args {
		return optest.Args{
			"x": optest.Tensor(t, dtype.Float32, []int64{1, experts}, 1), "k": 1, "yOut": optest.Tensor(t, dtype.Float32, []int64{1, 1}), "expertIdxOut": optest.Tensor(t, dtype.Int32, []int64{1, 1}),
			"outOut": optest.Tensor(t, dtype.Float32, []int64{1, experts}), "groupSelectMode": 1,
		}.With(set)
	}
	for _, name := range []string{"MoeGatingTopK", "MoeGatingTopKV2"} {
		optest.Refused(t, op.TilingRefused, name, wide(6, optest.Args{"groupCount": 6, "kGroup": 2}), "6 groups of 1")
		optest.Refused(t, op.TilingRefused, name, wide(256, optest.Args{"groupCount": 128, "kGroup": 2}), "padded to multiples of 32 that is 4096")
		optest.Run(t, name, wide(256, optest.Args{"groupCount": 128, "kGroup": 128}))
	}
}

func TestNullsBeforeGroups(t *testing.T) {
	one := optest.Tensor(t, dtype.Int32, []int64{1}, 1)
	optest.NullsBeforeGroups(t, map[string]optest.Args{
		"DistributeBarrier":        {"xRef": one, "group": "g", "worldSize": 1},
		"MoeDistributeBufferReset": {"elasticInfo": one, "groupEp": "g", "epWorldSize": 1},
	})
}

// TestGatingByTable: the experts come from a table, by the token of each row; the scores give only the weights.
func TestGatingByTable(t *testing.T) {
	const experts, k, words = 7, 3, 5
	table := []float64{0, 1, 2, 6, 4, 2, 3, 0, 5, 1, 5, 4, 2, 2, 6}
	for _, rows := range []int64{1, 4, 9} {
		for _, d := range op.FloatTypes {
			for i, l := range kerneltest.Layouts {
				for _, c := range []struct{ norm, renorm int }{{0, 0}, {0, 1}, {1, 0}} {
					ids := make([]float64, rows)
					for r := range ids {
						ids[r] = float64((3*r + 1) % words)
					}
					x := exact(d, 3, int(rows*experts))
					y, expert, all := optest.Laid(t, d, l, nil, int(rows), k), optest.Laid(t, dtype.Int32, l, nil, int(rows), k), optest.Tensor(t, dtype.Float32, []int64{rows, experts})
					const scale, eps = 1.5, 1e-2
					whole := op.IndexTypes[i%len(op.IndexTypes)]
					a := optest.Args{
						"x": optest.Laid(t, d, l, x, int(rows), experts), "inputIdsOptional": optest.Laid(t, whole, l, ids, int(rows)), "tid2eidOptional": optest.Laid(t, dtype.Int64, l, table, words, k),
						"k": k, "kGroup": 1, "groupCount": 1, "normType": c.norm, "renorm": c.renorm, "routedScalingFactor": scale, "eps": eps, "yOut": y, "expertIdxOut": expert, "outOut": all,
					}
					optest.Run(t, "MoeGatingTopKV2", a)
					var wantY, wantExpert []float64
					for r, id := range ids {
						score, total := scoresOf(x[r*experts:][:experts], c.norm), 0.0
						of := table[int(id)*k:][:k]
						for _, e := range of {
							total += score[int(e)]
						}
						if c.norm == 0 && c.renorm == 0 {
							total = 1 - eps
						}
						for _, e := range of {
							wantY = append(wantY, score[int(e)]/(total+eps)*scale)
						}
						wantExpert = append(wantExpert, of...)
					}
					what := fmt.Sprintf("%d rows %v %v %+v", rows, d, l, c)
					require.Equal(t, wantExpert, optest.Values(expert), what)
					optest.CloseTo(t, what, wantY, optest.Values(y), 2*optest.ResultLimit(d))
					optest.Refused(t, op.TilingRefused, "MoeGatingTopKV2", a.With(optest.Args{"inputIdsOptional": nil}), "one is null")
					optest.Refused(t, op.TilingRefused, "MoeGatingTopKV2", a.With(optest.Args{"tid2eidOptional": optest.Tensor(t, dtype.Int64, []int64{words, 2}, 1)}), "k experts for each token")
					optest.Refused(t, op.TilingRefused, "MoeGatingTopKV2", a.With(optest.Args{"inputIdsOptional": optest.Tensor(t, dtype.Int32, []int64{rows + 1}, 1)}), "a token for each row")
					optest.Refused(t, op.TilingRefused, "MoeGatingTopKV2", a.With(optest.Args{"renorm": 2}), "renorm is 2")
					optest.Refused(t, op.NullPointer, "MoeGatingTopKV2", a.With(optest.Args{"outOut": nil}), "outOut is null")
					err := optest.Execute(t, "MoeGatingTopKV2", a.With(optest.Args{"inputIdsOptional": optest.Tensor(t, dtype.Int32, []int64{rows}, words)}))
					require.ErrorContains(t, err, "holds token 5 at place 0")
				}
			}
		}
	}
}

// scoresOf returns the softmax (norm 0) or the sigmoids (1) of a row.
func scoresOf(x []float64, norm int) []float64 {
	out, sum := make([]float64, len(x)), 0.0
	for i, v := range x {
		out[i] = math.Exp(v)
		if norm == 1 {
			out[i] = 1 / (1 + math.Exp(-v))
		}
		sum += out[i]
	}
	for i := range out {
		if norm == 0 {
			out[i] /= sum
		}
	}
	return out
}

// TestFusedTopk compares with the definition of the kernel: experts of other groups compete with a score of 0.
func TestFusedTopk(t *testing.T) {
	for _, c := range []struct{ rows, experts, groups, kept, best, k int }{{5, 8, 4, 2, 2, 3}, {1, 1, 1, 1, 1, 1}, {7, 12, 3, 1, 4, 4}, {3, 15, 5, 4, 1, 15}, {4, 6, 6, 4, 1, 2}} {
		for _, d := range op.FloatTypes {
			for _, l := range kerneltest.Layouts {
				for _, norm := range []bool{false, true} {
					for _, low := range []float64{0, -2} { // with -2 the scores of kept groups are negative
						x, bias := exact(d, 3, c.rows*c.experts), exact(d, 4, c.experts)
						for i := range bias {
							bias[i] = low + float64(i*7%16)/64 // so different that rounding does not decide between groups
						}
						y, expert := optest.Laid(t, dtype.Float32, l, nil, c.rows, c.k), optest.Laid(t, dtype.Int32, l, nil, c.rows, c.k)
						a := optest.Args{
							"x": optest.Laid(t, d, l, x, c.rows, c.experts), "addNum": optest.Laid(t, d, l, bias, c.experts), "groupNum": c.groups, "groupTopk": c.kept, "topN": c.best, "topK": c.k,
							"isNorm": norm, "scale": 2.5, "y": y, "indices": expert,
						}
						counts, table := make([]float64, c.experts), make([]float64, c.experts*3)
						for e := range counts {
							counts[e] = float64(e % 4)
						}
						for i := range table {
							table[i] = float64(100 + i)
						}
						if norm {
							a["enableExpertMapping"], a["mappingNum"], a["mappingTable"] = true, optest.Laid(t, dtype.Int32, l, counts, c.experts), optest.Laid(t, dtype.Int32, l, table, c.experts, 3)
						}
						optest.Run(t, "MoeFusedTopk", a)
						var wantY, wantExpert []float64
						for r := range c.rows {
							score := scoresOf(x[r*c.experts:][:c.experts], 1)
							biased, size := make([]float64, c.experts), c.experts/c.groups
							for e := range biased {
								biased[e] = float64(float32(score[e]) + float32(bias[e]))
							}
							worth := make([]float64, c.groups)
							for g := range worth {
								of := slices.Sorted(slices.Values(biased[g*size:][:size]))
								for i := range c.best { // in float32, since equal sums are ordered by group
									worth[g] = float64(float32(worth[g]) + float32(of[size-1-i]))
								}
							}
							rank := make([]int, c.groups)
							for g := range rank {
								rank[g] = g
							}
							slices.SortStableFunc(rank, func(a, b int) int { return cmp.Compare(worth[b], worth[a]) })
							for _, g := range rank[c.kept:] {
								clear(biased[g*size:][:size])
							}
							place := make([]int, c.experts)
							for e := range place {
								place[e] = e
							}
							slices.SortStableFunc(place, func(a, b int) int { return cmp.Compare(biased[b], biased[a]) })
							total := 0.0
							for _, e := range place[:c.k] {
								total += score[e]
							}
							for _, e := range place[:c.k] {
								if wantExpert = append(wantExpert, float64(e)); norm {
									wantExpert[len(wantExpert)-1] = table[e*3+r%max(e%4, 1)]
									wantY = append(wantY, score[e]/total*2.5)
									continue
								}
								wantY = append(wantY, score[e])
							}
						}
						what := fmt.Sprintf("%v %v %v %v %v", c, d, l, norm, low)
						require.Equal(t, wantExpert, optest.Values(expert), what)
						optest.CloseTo(t, what, wantY, optest.Values(y), optest.ResultLimit(dtype.Float32))
						for text, set := range map[string]optest.Args{
							"they must be above 0": {"topN": 0}, "groupTopk is": {"groupTopk": c.groups + 1}, "topK choices": {"indices": optest.Tensor(t, dtype.Int32, []int64{int64(c.rows), int64(c.k) + 1})}, "groupNum is": {"groupNum": c.experts + 1},
							"activateType is 1": {"activateType": 1}, "one for each expert": {"addNum": optest.Tensor(t, d, []int64{int64(c.experts) + 1}, 1)}, "dtypes differ": {"addNum": optest.Tensor(t, dtype.Int32, []int64{int64(c.experts)}, 1)},
						} {
							optest.Refused(t, op.InvalidParam, "MoeFusedTopk", a.With(set), text)
						}
						optest.Refused(t, op.NullPointer, "MoeFusedTopk", a.With(optest.Args{"enableExpertMapping": true, "mappingNum": nil}), "mappingNum is null")
					}
				}
			}
		}
	}
}
