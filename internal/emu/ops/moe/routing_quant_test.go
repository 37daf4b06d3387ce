package moe

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// MoeInitRoutingV3 is compared with a manual sort, unquantised and with dynamic quantisation,
// for all experts and for a range of them.
func TestInitRoutingV3(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, p := range choices {
				for _, first := range []int{0, p.experts / 2} {
					for _, gathers := range []int{0, 1} {
						for _, kind := range []int{1, 2} {
							for _, quant := range []int{-1, 1} {
								for _, scaled := range []bool{false, true} {
									what := fmt.Sprintf("%v %v %+v from %d index %d counts %d quant %d scaled %v", d, l, p, first, gathers, kind, quant, scaled)
									total, active := p.tokens*p.k, p.experts-first
									experts := p.expertsOf()
									v := exact(d, 1, p.tokens*p.width)
									x, out := optest.Laid(t, d, l, v, p.tokens, p.width), optest.Laid(t, d, l, nil, total, p.width)
									smooth, rows := exact(dtype.Float32, 2, active*p.width), exact(dtype.Float32, 3, p.tokens)
									places, scales := optest.Laid(t, dtype.Int32, l, nil, total), optest.Laid(t, dtype.Float32, l, nil, total)
									counts := optest.Laid(t, dtype.Int64, l, nil, active)
									if kind == 2 {
										counts = optest.Laid(t, dtype.Int64, l, nil, p.experts, 2)
									}
									set := optest.Args{
										"x": x, "expertIdx": optest.Laid(t, dtype.Int32, l, experts, p.tokens, p.k), "activeNum": total, "expertNum": p.experts, "expertTokensNumType": kind,
										"expertTokensNumFlag": true, "quantMode": quant, "activeExpertRangeOptional": []int64{int64(first), int64(p.experts)}, "rowIdxType": gathers,
										"expandedXOut": out, "expandedRowIdxOut": places, "expertTokensCountOrCumsumOut": counts, "expandedScaleOut": scales,
									}
									if quant == 1 {
										out = optest.Laid(t, dtype.Int8, l, nil, total, p.width)
										set["expandedXOut"] = out
									}
									switch {
									case scaled && quant == 1:
										set["scaleOptional"] = optest.Laid(t, dtype.Float32, l, smooth, active, p.width)
									case scaled:
										set["scaleOptional"] = optest.Laid(t, dtype.Float32, l, rows, p.tokens)
									}
									optest.Run(t, "MoeInitRoutingV3", set)
									gotOut, gotScales := optest.Values(out), optest.Values(scales)
									number, at, wantAt := make([]float64, p.experts), 0, make([]float64, total)
									for i := range wantAt {
										wantAt[i] = -1
									}
									for _, o := range sorted(experts) {
										e := int(experts[o])
										if e < first {
											continue
										}
										number[e]++
										if gathers == 0 {
											wantAt[o] = float64(at)
										} else {
											wantAt[at] = float64(o)
										}
										token, got := optest.Row(v, p.width, o/p.k), optest.Row(gotOut, p.width, at)
										if quant < 0 {
											assert.Equal(t, token, got, what)
											if scaled {
												assert.Equal(t, rows[o/p.k], gotScales[at], what)
											}
										} else {
											most := 0.0
											for j, y := range token {
												if scaled {
													y *= smooth[(e-first)*p.width+j]
												}
												most = max(most, math.Abs(y))
											}
											assert.InEpsilon(t, most/127, gotScales[at], 1e-5, what)
											for j, y := range token {
												if scaled {
													y *= smooth[(e-first)*p.width+j]
												}
												assert.InDelta(t, y/(most/127), got[j], 0.51, what)
											}
										}
										at++
									}
									if total > 0 {
										assert.Equal(t, wantAt, optest.Values(places), what)
									}
									want := number[first:]
									if kind == 2 {
										want = nil
										for e, n := range number {
											if n > 0 {
												want = append(want, float64(e), n)
											}
										}
										want = append(want, make([]float64, 2*p.experts-len(want))...)
									}
									assert.Equal(t, want, optest.Values(counts), what)
								}
							}
						}
					}
				}
			}
		}
	}
}

// The quantising versions give the quantised rows of the other versions.
func TestInitRoutingQuant(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, p := range choices {
				if p.tokens == 0 {
					continue
				}
				total, v := p.tokens*p.k, exact(d, 1, p.tokens*p.width)
				base := func() optest.Args {
					return optest.Args{"x": optest.Laid(t, d, l, v, p.tokens, p.width), "expertIdx": optest.Laid(t, dtype.Int32, l, p.expertsOf(), p.tokens, p.k), "expandedRowIdxOut": optest.Laid(t, dtype.Int32, l, nil, total)}
				}
				plain := optest.Laid(t, d, l, nil, total, p.width)
				set := base()
				set["expandedXOut"] = plain
				optest.Run(t, "MoeInitRoutingV2", set)
				const scale, offset = 50, 3
				static := func(what string, out *op.Tensor) {
					got := optest.Values(out)
					for i, x := range optest.Values(plain) {
						assert.InDelta(t, min(max(x*scale+offset, -128), 127), got[i], 0.51, what)
					}
				}
				out := optest.Laid(t, dtype.Int8, l, nil, total, p.width)
				set = base()
				set["expandedXOut"], set["scale"], set["offset"], set["activeNum"] = out, 50.0, 3.0, p.tokens
				var rows []float64
				for i := range p.tokens {
					for j := range p.k {
						rows = append(rows, float64(j*p.tokens+i))
					}
				}
				set["rowIdx"], set["expandedExpertIdxOut"] = optest.Laid(t, dtype.Int32, l, rows, p.tokens, p.k), optest.Laid(t, dtype.Int32, l, nil, total)
				optest.Run(t, "MoeInitRoutingQuant", set)
				static(fmt.Sprintf("%v %v %+v", d, l, p), out)

				set = base()
				out = optest.Laid(t, dtype.Int8, l, nil, total, p.width)
				one := func(v float64) *op.Tensor { return optest.TensorIn(t, dtype.Float32, l, []int64{1}, v) }
				set["expandedXOut"], set["scaleOptional"], set["offsetOptional"] = out, one(scale), one(offset)
				optest.Run(t, "MoeInitRoutingQuantV2", set)
				static(fmt.Sprintf("V2 %v %v %+v", d, l, p), out)

				for _, perExpert := range []bool{false, true} {
					set = base()
					n := 1
					if perExpert {
						n = p.experts
					}
					smooth := exact(dtype.Float32, 2, n*p.width)
					out, scales := optest.Laid(t, dtype.Int8, l, nil, total, p.width), optest.Laid(t, dtype.Float32, l, nil, total)
					set["expandedXOut"], set["quantMode"], set["expertNum"], set["dynamicQuantScaleOutOptional"] = out, 1, p.experts, scales
					set["scaleOptional"] = optest.Laid(t, dtype.Float32, l, smooth, n, p.width)
					optest.Run(t, "MoeInitRoutingQuantV2", set)
					experts, gotOut, gotScales := p.expertsOf(), optest.Values(out), optest.Values(scales)
					for i, o := range sorted(experts) {
						e := 0
						if perExpert {
							e = int(experts[o])
						}
						most := 0.0
						for j, x := range optest.Row(v, p.width, o/p.k) {
							most = max(most, math.Abs(x*smooth[e*p.width+j]))
						}
						assert.InEpsilon(t, most/127, gotScales[i], 1e-5)
						for j, x := range optest.Row(v, p.width, o/p.k) {
							assert.InDelta(t, x*smooth[e*p.width+j]/(most/127), gotOut[i*p.width+j], 0.51)
						}
					}
				}
			}
		}
	}
}

// MoeInitRoutingQuantV2 quantises rows to int4 as well, with 7 as the largest.
func TestInitRoutingToInt4(t *testing.T) {
	const tokens, width, experts = 5, 6, 3
	expert := []float64{2, 0, 1, 2, 0, 1, 1, 0, 2, 1}
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, active := range []int{0, 7} {
				for _, smooth := range [][]float64{nil, {.5, 1, 2, 3, .25, 1}} {
					kept := len(expert)
					if active > 0 {
						kept = active
					}
					v := exact(d, 1, tokens*width)
					out, scales := optest.Int4(t, int64(kept), width), optest.Laid(t, dtype.Float32, l, nil, kept)
					a := optest.Args{
						"x": optest.Laid(t, d, l, v, tokens, width), "expertIdx": optest.Laid(t, dtype.Int32, l, expert, tokens, 2), "activeNum": active, "expertNum": experts, "quantMode": 1,
						"expandedXOut": out, "expandedRowIdxOut": optest.Laid(t, dtype.Int32, l, nil, len(expert)), "dynamicQuantScaleOutOptional": scales,
					}
					if smooth != nil {
						a["scaleOptional"] = optest.Laid(t, dtype.Float32, l, smooth, 1, width)
					}
					optest.Run(t, "MoeInitRoutingQuantV2", a)
					var rows []float64
					for _, o := range sorted(expert)[:kept] {
						rows = append(rows, optest.Row(v, width, o/2)...)
					}
					optest.ExtremesTo(t, fmt.Sprintf("%v %v active %d", d, l, active), 7, rows, smooth, optest.LoadInt4(out), optest.Values(scales))
					for text, set := range map[string]optest.Args{
						"one row": {"scaleOptional": optest.Tensor(t, dtype.Float32, []int64{experts, width}, 1)}, "quantMode 1, dropPadMode 0": {"dropPadMode": 1, "expertCapacity": 1},
						"even length": {"x": optest.Tensor(t, d, []int64{tokens, 3}, 1), "expandedXOut": optest.Int4(t, int64(kept)*2, 3)},
					} {
						optest.Refused(t, op.TilingRefused, "MoeInitRoutingQuantV2", a.With(set), text)
					}
					optest.Refused(t, op.TilingRefused, "MoeInitRoutingQuantV2", a.With(optest.Args{"quantMode": 0}), "needs quantMode 1")
				}
			}
		}
	}
}

func TestInitRoutingV3Refuses(t *testing.T) {
	f := dtype.Float32
	for _, c := range []struct {
		set  optest.Args
		code int32
		text string
	}{
		{optest.Args{"activeNum": 3}, op.TilingRefused, "activeNum is 3"}, {optest.Args{"dropPadMode": 1}, op.TilingRefused, "dropPadMode is 1"},
		{optest.Args{"expertTokensNumType": 0}, op.TilingRefused, "expertTokensNumType is 0"}, {optest.Args{"quantMode": 0}, op.TilingRefused, "quantMode is 0"},
		{optest.Args{"expertTokensNumFlag": false}, op.TilingRefused, "only true"}, {optest.Args{"rowIdxType": 2}, op.TilingRefused, "rowIdxType is 2"},
		{optest.Args{"activeExpertRangeOptional": []int64{1, 9}}, op.TilingRefused, "[1,9]"},
		{optest.Args{"expertIdx": optest.Tensor(t, dtype.Int64, []int64{2, 2}, 1)}, op.InvalidParam, "expertIdx int64"},
		{optest.Args{"expandedScaleOut": nil}, op.NullPointer, "expandedScaleOut is null"},
	} {
		a := optest.Args{
			"x": optest.Tensor(t, f, []int64{2, 3}, 1), "expertIdx": optest.Tensor(t, dtype.Int32, []int64{2, 2}, 1), "activeNum": 4, "expertNum": 4, "expertTokensNumType": 1, "expertTokensNumFlag": true,
			"quantMode": -1, "expandedXOut": optest.Tensor(t, f, []int64{4, 3}), "expandedRowIdxOut": optest.Tensor(t, dtype.Int32, []int64{4}),
			"expertTokensCountOrCumsumOut": optest.Tensor(t, dtype.Int64, []int64{4}), "expandedScaleOut": optest.Tensor(t, f, []int64{4}),
		}
		for k, v := range c.set {
			a[k] = v
		}
		optest.Refused(t, c.code, "MoeInitRoutingV3", a, c.text)
	}
}

func TestUpdateExpert(t *testing.T) {
	f := dtype.Float32
	for _, whole := range op.IndexTypes {
		for _, l := range kerneltest.Layouts {
			ids, table := optest.TensorIn(t, whole, l, []int64{3, 2}, 0, 1, 2, 0, 1, 1), optest.TensorIn(t, dtype.Int32, l, []int64{3, 4}, 1, 7, 0, 0, 2, 3, 4, 0, 3, 8, 9, 5)
			out, mask := optest.TensorIn(t, whole, l, []int64{3, 2}), optest.TensorIn(t, dtype.Bool, l, []int64{3, 2})
			set := optest.Args{"expertIds": ids, "eplbTable": table, "worldSize": 4, "localRankId": 3, "balancedExpertIds": out}
			optest.Run(t, "MoeUpdateExpert", set)
			assert.Equal(t, []float64{7, 4, 9, 7, 4, 4}, optest.Values(out), "by rank, %v", l)
			set["balanceMode"], set["balancedActiveMask"] = 1, mask
			set["expertScalesOptional"], set["pruningThresholdOptional"] = optest.TensorIn(t, f, l, []int64{3, 2}, 0.75, 0.25, 0.5, 0.5, 0.9, 0.1), optest.TensorIn(t, f, l, []int64{2}, 0.1, 0.25)
			set["activeMaskOptional"] = optest.TensorIn(t, dtype.Bool, l, []int64{3}, 1, 0, 1)
			optest.Run(t, "MoeUpdateExpert", set)
			assert.Equal(t, []float64{7, 3, 9, 7, 3, 3}, optest.Values(out), "by token, %v", l)
			assert.Equal(t, []float64{1, 1, 0, 0, 1, 0}, optest.Values(mask), "%v", l)
			set["pruningThresholdOptional"] = nil
			optest.Refused(t, op.TilingRefused, "MoeUpdateExpert", set, "together")
			set["pruningThresholdOptional"], set["balanceMode"] = optest.Tensor(t, f, []int64{2}, 1), 2
			optest.Refused(t, op.TilingRefused, "MoeUpdateExpert", set, "balanceMode is 2")
			set["balanceMode"], set["eplbTable"] = 1, optest.Tensor(t, dtype.Int32, []int64{3, 2}, 2, 0)
			assert.ErrorContains(t, optest.Execute(t, "MoeUpdateExpert", set), "expert 0 has 2 instances")
		}
	}
}
