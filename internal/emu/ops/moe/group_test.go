package moe

import (
	"fmt"
	"math"
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
						x, bias := exact(d, 3, c.rows*c.experts), exact(d, 4, c.experts)
						y, expert, all := optest.Laid(t, d, l, nil, c.rows, c.k), optest.Laid(t, dtype.Int32, l, nil, c.rows, c.k), optest.Laid(t, dtype.Float32, l, nil, c.rows, c.experts)
						const scale, eps = 2.5, 1e-3
						a := optest.Args{
							"x": optest.Laid(t, d, l, x, c.rows, c.experts), "biasOptional": optest.Laid(t, d, kerneltest.Contiguous, bias, c.experts), "k": c.k, "kGroup": c.kept, "groupCount": c.groups,
							"groupSelectMode": two, "normType": norm, "outFlag": true, "routedScalingFactor": scale, "eps": eps, "yOut": y, "expertIdxOut": expert, "outOut": all,
						}
						optest.Run(t, "MoeGatingTopK", a)
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
}
