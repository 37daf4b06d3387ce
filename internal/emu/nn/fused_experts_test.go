package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// expertGridTest is a grid of ranks, e*tp + t, with experts, tokens of a rank for each, and widths.
type expertGridTest struct {
	ep, tp, experts, tokens, in, out int64
	byWidth                          bool
}

func (g expertGridTest) group(group string, rank int) Communicator {
	e, p := rank/int(g.tp), rank%int(g.tp)
	if group == "ep" {
		return Communicator{Handle: uint64(100 + p), Rank: e, Size: int(g.ep)}
	}
	return Communicator{Handle: uint64(200 + e), Rank: p, Size: int(g.tp)}
}

func (g expertGridTest) args(shardType string) args {
	kind := 1
	if g.byWidth {
		kind = 0
	}
	return args{"groupEp": "ep", "groupTp": "tp", "epWorldSize": g.ep, "tpWorldSize": g.tp, shardType: kind}
}

// All tokens of rank e of ep, [all experts, tokens, in], are known; a rank of tp holds a part.
func TestAlltoAllAllGatherBatchMatMul(t *testing.T) {
	for _, d := range pairTypes {
		for _, g := range []expertGridTest{{2, 3, 2, 6, 3, 5, false}, {3, 2, 1, 2, 4, 3, true}, {1, 1, 2, 2, 3, 2, true}} {
			for _, withBias := range []bool{false, true} {
				l := kerneltest.Layouts[g.ep%int64(len(kerneltest.Layouts))]
				all := make([][]float64, g.ep)
				for e := range all {
					all[e] = normal(uint64(e), d, g.ep*g.experts*g.tokens*g.in)
				}
				size := int(g.ep * g.tp)
				ys, full, before, wants, wantFull, wantProduct := make([]*Tensor, size), make([]*Tensor, size), make([]*Tensor, size), make([][]float64, size), make([][]float64, size), make([][]float64, size)
				choir(t, "AlltoAllAllGatherBatchMatMul", size, func(r int) args {
					e, p := int64(r)/g.tp, int64(r)%g.tp
					tokens, first, width, column := g.tokens/g.tp, p*g.tokens/g.tp, g.in, int64(0)
					if g.byWidth {
						tokens, first, width, column = g.tokens, 0, g.in/g.tp, p*g.in/g.tp
					}
					var own []float64
					for i := range g.ep * g.experts {
						for k := range tokens {
							at := (i*g.tokens+first+k)*g.in + column
							own = append(own, all[e][at:at+width]...)
						}
					}
					w := filled(t, uint64(50+r), d, l, []int64{g.experts, g.in, g.out})
					bias := make([]float64, g.experts*g.out)
					a := g.args("xShardType").with(args{"x": tensorIn(t, d, l, []int64{g.ep * g.experts, tokens, width}, own...), "weight": w})
					if withBias {
						b := d
						if d == dtype.BFloat16 {
							b = dtype.Float32
						}
						x := filled(t, uint64(70+r), b, kerneltest.Contiguous, []int64{g.experts, g.out})
						a["biasOptional"], bias = x, values(x)
					}
					for i := range g.experts {
						var rows []float64
						for source := range g.ep {
							at := (e*g.experts + i) * g.tokens * g.in
							rows = append(rows, all[source][at:at+g.tokens*g.in]...)
						}
						wantFull[r] = append(wantFull[r], rows...)
						y := matrixProduct(rows, values(w)[i*g.in*g.out:(i+1)*g.in*g.out], g.ep*g.tokens, g.in, g.out)
						add(y, bias[i*g.out:(i+1)*g.out])
						wantProduct[r] = append(wantProduct[r], y...)
						for _, v := range y {
							wants[r] = append(wants[r], v/(1+math.Exp(-v)))
						}
					}
					shape := []int64{g.experts, g.ep * g.tokens, g.out}
					ys[r], full[r], before[r] = tensorIn(t, d, l, shape), tensorIn(t, d, l, []int64{g.experts, g.ep * g.tokens, g.in}), tensorIn(t, d, l, shape)
					return a.with(args{"actType": 2, "y1Out": ys[r], "y2OutOptional": full[r], "y3OutOptional": before[r]})
				}, g.group)
				for r := range size {
					what := fmt.Sprintf("%v %v bias %v rank %d", d, g, withBias, r)
					closeTo(t, "y2 of "+what, wantFull[r], values(full[r]), 0)
					closeTo(t, "y3 of "+what, wantProduct[r], values(before[r]), 2*resultLimit(d))
					closeTo(t, "y1 of "+what, wants[r], values(ys[r]), 4*resultLimit(d))
				}
			}
		}
	}
}

func TestBatchMatMulReduceScatterAlltoAll(t *testing.T) {
	for _, d := range pairTypes {
		for _, g := range []expertGridTest{{2, 3, 2, 6, 3, 5, false}, {3, 2, 1, 2, 4, 6, true}, {1, 1, 2, 2, 3, 2, true}} {
			l := kerneltest.Layouts[g.ep%int64(len(kerneltest.Layouts))]
			size := int(g.ep * g.tp)
			// Of each rank of ep: [experts, ep*tokens, out], summed over tp.
			sums, outs := make([][]float64, g.ep), make([]*Tensor, size)
			for e := range sums {
				sums[e] = make([]float64, g.experts*g.ep*g.tokens*g.out)
			}
			tokens, width := g.tokens/g.tp, g.out
			if g.byWidth {
				tokens, width = g.tokens, g.out/g.tp
			}
			biases := make([][]float64, size)
			choir(t, "BatchMatMulReduceScatterAlltoAll", size, func(r int) args {
				e := int64(r) / g.tp
				x, w := filled(t, uint64(r), d, l, []int64{g.experts, g.ep * g.tokens, g.in}), filled(t, uint64(50+r), d, l, []int64{g.experts, g.in, g.out})
				n := g.ep * g.tokens
				for i := range g.experts {
					add(sums[e][i*n*g.out:(i+1)*n*g.out], matrixProduct(values(x)[i*n*g.in:(i+1)*n*g.in], values(w)[i*g.in*g.out:(i+1)*g.in*g.out], n, g.in, g.out))
				}
				b := d
				if d == dtype.BFloat16 {
					b = dtype.Float32
				}
				bias := filled(t, uint64(70+r), b, l, []int64{g.experts, 1, width})
				biases[r] = values(bias)
				outs[r] = tensorIn(t, d, l, []int64{g.ep * g.experts, tokens, width})
				return g.args("yShardType").with(args{"x": x, "weight": w, "biasOptional": bias, "out": outs[r]})
			}, g.group)
			for r := range size {
				e, p := int64(r)/g.tp, int64(r)%g.tp
				var want []float64
				for source := range g.ep {
					for i := range g.experts {
						for k := range tokens {
							for j := range width {
								row, column := e*g.tokens+p*tokens+k, j
								if g.byWidth {
									row, column = e*g.tokens+k, p*width+j
								}
								want = append(want, sums[source][(i*g.ep*g.tokens+row)*g.out+column]+biases[source*g.tp+p][i*width+j])
							}
						}
					}
				}
				closeTo(t, fmt.Sprintf("%v %v rank %d", d, g, r), want, values(outs[r]), 4*resultLimit(d))
			}
		}
	}
}

func TestFusedExpertsRefuse(t *testing.T) {
	d := dtype.Float16
	x := func(s ...int64) *Tensor { return tensor(t, d, s, 1) }
	gather := args{"groupEp": "ep", "groupTp": "tp", "epWorldSize": 1, "tpWorldSize": 1, "x": x(2, 3, 4), "weight": x(2, 4, 5), "y1Out": x(2, 3, 5)}
	run(t, "AlltoAllAllGatherBatchMatMul", gather)
	for text, set := range map[string]args{
		"epWorldSize is 2": {"epWorldSize": 2}, "both": {"groupTp": "ep"}, "xShardType 2": {"xShardType": 2}, "actType 5": {"actType": 5},
		"without an activation": {"y3OutOptional": x(2, 3, 5)}, "3 experts": {"x": x(3, 3, 4)}, "is empty": {"x": x(2, 0, 4)}, "dimensions": {"weight": x(4, 5)},
		"biasOptional": {"biasOptional": x(5)}, "shapes differ": {"y2OutOptional": x(2, 4, 3)},
	} {
		refused(t, invalidParam, "AlltoAllAllGatherBatchMatMul", gather.with(set), text)
	}
	refused(t, nullPointer, "AlltoAllAllGatherBatchMatMul", gather.with(args{"groupTp": nil}), "groupTp is null")
	scatter := args{"groupEp": "ep", "groupTp": "tp", "epWorldSize": 1, "tpWorldSize": 1, "x": x(2, 3, 4), "weight": x(2, 4, 5), "out": x(2, 3, 5)}
	run(t, "BatchMatMulReduceScatterAlltoAll", scatter)
	refused(t, invalidParam, "BatchMatMulReduceScatterAlltoAll", scatter.with(args{"out": x(2, 3, 4)}), "the tokens of all experts")
	refused(t, nullPointer, "BatchMatMulReduceScatterAlltoAll", scatter.with(args{"weight": nil}), "weight is null")
}
