package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// MoeInitRoutingV3 against sorting by hand: plain and by the extremes of rows, with all
// experts and some.
func TestInitRoutingV3(t *testing.T) {
	for _, d := range transformerTypes {
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
									x, out := laid(t, d, l, v, p.tokens, p.width), laid(t, d, l, nil, total, p.width)
									smooth, rows := exact(dtype.Float32, 2, active*p.width), exact(dtype.Float32, 3, p.tokens)
									places, scales := laid(t, dtype.Int32, l, nil, total), laid(t, dtype.Float32, l, nil, total)
									counts := laid(t, dtype.Int64, l, nil, active)
									if kind == 2 {
										counts = laid(t, dtype.Int64, l, nil, p.experts, 2)
									}
									set := args{
										"x": x, "expertIdx": laid(t, dtype.Int32, l, experts, p.tokens, p.k), "activeNum": total, "expertNum": p.experts, "expertTokensNumType": kind,
										"expertTokensNumFlag": true, "quantMode": quant, "activeExpertRangeOptional": []int64{int64(first), int64(p.experts)}, "rowIdxType": gathers,
										"expandedXOut": out, "expandedRowIdxOut": places, "expertTokensCountOrCumsumOut": counts, "expandedScaleOut": scales,
									}
									if quant == 1 {
										out = laid(t, dtype.Int8, l, nil, total, p.width)
										set["expandedXOut"] = out
									}
									switch {
									case scaled && quant == 1:
										set["scaleOptional"] = laid(t, dtype.Float32, l, smooth, active, p.width)
									case scaled:
										set["scaleOptional"] = laid(t, dtype.Float32, l, rows, p.tokens)
									}
									run(t, "MoeInitRoutingV3", set)
									gotOut, gotScales := values(out), values(scales)
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
										token, got := row(v, p.width, o/p.k), row(gotOut, p.width, at)
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
										assert.Equal(t, wantAt, values(places), what)
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
									assert.Equal(t, want, values(counts), what)
								}
							}
						}
					}
				}
			}
		}
	}
}

// The forms that quantise give the rows of the forms that do not, quantised.
func TestInitRoutingQuant(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, p := range choices {
				if p.tokens == 0 {
					continue
				}
				total, v := p.tokens*p.k, exact(d, 1, p.tokens*p.width)
				base := func() args {
					return args{"x": laid(t, d, l, v, p.tokens, p.width), "expertIdx": laid(t, dtype.Int32, l, p.expertsOf(), p.tokens, p.k), "expandedRowIdxOut": laid(t, dtype.Int32, l, nil, total)}
				}
				plain := laid(t, d, l, nil, total, p.width)
				set := base()
				set["expandedXOut"] = plain
				run(t, "MoeInitRoutingV2", set)
				const scale, offset = 50, 3
				static := func(what string, out *Tensor) {
					got := values(out)
					for i, x := range values(plain) {
						assert.InDelta(t, min(max(x*scale+offset, -128), 127), got[i], 0.51, what)
					}
				}
				out := laid(t, dtype.Int8, l, nil, total, p.width)
				set = base()
				set["expandedXOut"], set["scale"], set["offset"], set["activeNum"] = out, 50.0, 3.0, p.tokens
				var rows []float64
				for i := range p.tokens {
					for j := range p.k {
						rows = append(rows, float64(j*p.tokens+i))
					}
				}
				set["rowIdx"], set["expandedExpertIdxOut"] = laid(t, dtype.Int32, l, rows, p.tokens, p.k), laid(t, dtype.Int32, l, nil, total)
				run(t, "MoeInitRoutingQuant", set)
				static(fmt.Sprintf("%v %v %+v", d, l, p), out)

				set = base()
				out = laid(t, dtype.Int8, l, nil, total, p.width)
				one := func(v float64) *Tensor { return tensorIn(t, dtype.Float32, l, []int64{1}, v) }
				set["expandedXOut"], set["scaleOptional"], set["offsetOptional"] = out, one(scale), one(offset)
				run(t, "MoeInitRoutingQuantV2", set)
				static(fmt.Sprintf("V2 %v %v %+v", d, l, p), out)

				for _, perExpert := range []bool{false, true} {
					set = base()
					n := 1
					if perExpert {
						n = p.experts
					}
					smooth := exact(dtype.Float32, 2, n*p.width)
					out, scales := laid(t, dtype.Int8, l, nil, total, p.width), laid(t, dtype.Float32, l, nil, total)
					set["expandedXOut"], set["quantMode"], set["expertNum"], set["dynamicQuantScaleOutOptional"] = out, 1, p.experts, scales
					set["scaleOptional"] = laid(t, dtype.Float32, l, smooth, n, p.width)
					run(t, "MoeInitRoutingQuantV2", set)
					experts, gotOut, gotScales := p.expertsOf(), values(out), values(scales)
					for i, o := range sorted(experts) {
						e := 0
						if perExpert {
							e = int(experts[o])
						}
						most := 0.0
						for j, x := range row(v, p.width, o/p.k) {
							most = max(most, math.Abs(x*smooth[e*p.width+j]))
						}
						assert.InEpsilon(t, most/127, gotScales[i], 1e-5)
						for j, x := range row(v, p.width, o/p.k) {
							assert.InDelta(t, x*smooth[e*p.width+j]/(most/127), gotOut[i*p.width+j], 0.51)
						}
					}
				}
			}
		}
	}
}

func TestInitRoutingV3Refuses(t *testing.T) {
	f := dtype.Float32
	for _, c := range []struct {
		set  args
		code int32
		text string
	}{
		{args{"activeNum": 3}, tilingRefused, "activeNum is 3"}, {args{"dropPadMode": 1}, tilingRefused, "dropPadMode is 1"},
		{args{"expertTokensNumType": 0}, tilingRefused, "expertTokensNumType is 0"}, {args{"quantMode": 0}, tilingRefused, "quantMode is 0"},
		{args{"expertTokensNumFlag": false}, tilingRefused, "only true"}, {args{"rowIdxType": 2}, tilingRefused, "rowIdxType is 2"},
		{args{"activeExpertRangeOptional": []int64{1, 9}}, tilingRefused, "[1,9]"},
		{args{"expertIdx": tensor(t, dtype.Int64, []int64{2, 2}, 1)}, invalidParam, "expertIdx int64"},
		{args{"expandedScaleOut": nil}, nullPointer, "expandedScaleOut is null"},
	} {
		a := args{
			"x": tensor(t, f, []int64{2, 3}, 1), "expertIdx": tensor(t, dtype.Int32, []int64{2, 2}, 1), "activeNum": 4, "expertNum": 4, "expertTokensNumType": 1, "expertTokensNumFlag": true,
			"quantMode": -1, "expandedXOut": tensor(t, f, []int64{4, 3}), "expandedRowIdxOut": tensor(t, dtype.Int32, []int64{4}),
			"expertTokensCountOrCumsumOut": tensor(t, dtype.Int64, []int64{4}), "expandedScaleOut": tensor(t, f, []int64{4}),
		}
		for k, v := range c.set {
			a[k] = v
		}
		refused(t, c.code, "MoeInitRoutingV3", a, c.text)
	}
}

func TestUpdateExpert(t *testing.T) {
	f := dtype.Float32
	for _, whole := range indexTypes {
		for _, l := range kerneltest.Layouts {
			ids, table := tensorIn(t, whole, l, []int64{3, 2}, 0, 1, 2, 0, 1, 1), tensorIn(t, dtype.Int32, l, []int64{3, 4}, 1, 7, 0, 0, 2, 3, 4, 0, 3, 8, 9, 5)
			out, mask := tensorIn(t, whole, l, []int64{3, 2}), tensorIn(t, dtype.Bool, l, []int64{3, 2})
			set := args{"expertIds": ids, "eplbTable": table, "worldSize": 4, "localRankId": 3, "balancedExpertIds": out}
			run(t, "MoeUpdateExpert", set)
			assert.Equal(t, []float64{7, 4, 9, 7, 4, 4}, values(out), "by rank, %v", l)
			set["balanceMode"], set["balancedActiveMask"] = 1, mask
			set["expertScalesOptional"], set["pruningThresholdOptional"] = tensorIn(t, f, l, []int64{3, 2}, 0.75, 0.25, 0.5, 0.5, 0.9, 0.1), tensorIn(t, f, l, []int64{2}, 0.1, 0.25)
			set["activeMaskOptional"] = tensorIn(t, dtype.Bool, l, []int64{3}, 1, 0, 1)
			run(t, "MoeUpdateExpert", set)
			assert.Equal(t, []float64{7, 3, 9, 7, 3, 3}, values(out), "by token, %v", l)
			assert.Equal(t, []float64{1, 1, 0, 0, 1, 0}, values(mask), "%v", l)
			set["pruningThresholdOptional"] = nil
			refused(t, tilingRefused, "MoeUpdateExpert", set, "together")
			set["pruningThresholdOptional"], set["balanceMode"] = tensor(t, f, []int64{2}, 1), 2
			refused(t, tilingRefused, "MoeUpdateExpert", set, "balanceMode is 2")
			set["balanceMode"], set["eplbTable"] = 1, tensor(t, dtype.Int32, []int64{3, 2}, 2, 0)
			assert.ErrorContains(t, execute(t, "MoeUpdateExpert", set), "expert 0 has 2 instances")
		}
	}
}
