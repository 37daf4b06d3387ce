package communication

import (
	"fmt"
	"math"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// expertGridTest is a grid of ranks e*tp + t with numbers of experts, of tokens of a rank for each
// expert, and widths.
type expertGridTest struct {
	ep, tp, experts, tokens, in, out int64
	byWidth                          bool
}

func (g expertGridTest) args(shardType string) optest.Args {
	kind := 1
	if g.byWidth {
		kind = 0
	}
	return optest.Args{"groupEp": "ep", "groupTp": "tp", "epWorldSize": g.ep, "tpWorldSize": g.tp, shardType: kind}
}

// The test has all tokens of ep rank e, [all experts, tokens, in]; each rank of tp holds a part.
func TestAlltoAllAllGatherBatchMatMul(t *testing.T) {
	for _, d := range op.HalfTypes {
		for _, g := range []expertGridTest{{2, 3, 2, 6, 3, 5, false}, {3, 2, 1, 2, 4, 3, true}, {1, 1, 2, 2, 3, 2, true}} {
			for _, withBias := range []bool{false, true} {
				l := kerneltest.Layouts[g.ep%int64(len(kerneltest.Layouts))]
				all := make([][]float64, g.ep)
				for e := range all {
					all[e] = optest.Normal(uint64(e), d, g.ep*g.experts*g.tokens*g.in)
				}
				size := int(g.ep * g.tp)
				ys, full, before, wants, wantFull, wantProduct := make([]*op.Tensor, size), make([]*op.Tensor, size), make([]*op.Tensor, size), make([][]float64, size), make([][]float64, size), make([][]float64, size)
				optest.OnGroups(t, "AlltoAllAllGatherBatchMatMul", size, func(r int) optest.Args {
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
					w := optest.Filled(t, uint64(50+r), d, l, []int64{g.experts, g.in, g.out})
					bias := make([]float64, g.experts*g.out)
					a := g.args("xShardType").With(optest.Args{"x": optest.TensorIn(t, d, l, []int64{g.ep * g.experts, tokens, width}, own...), "weight": w})
					if withBias {
						b := d
						if d == dtype.BFloat16 {
							b = dtype.Float32
						}
						x := optest.Filled(t, uint64(70+r), b, kerneltest.Contiguous, []int64{g.experts, g.out})
						a["biasOptional"], bias = x, optest.Values(x)
					}
					for i := range g.experts {
						var rows []float64
						for source := range g.ep {
							at := (e*g.experts + i) * g.tokens * g.in
							rows = append(rows, all[source][at:at+g.tokens*g.in]...)
						}
						wantFull[r] = append(wantFull[r], rows...)
						y := optest.Times(rows, optest.Values(w)[i*g.in*g.out:(i+1)*g.in*g.out], g.in)
						optest.Add(y, bias[i*g.out:(i+1)*g.out])
						wantProduct[r] = append(wantProduct[r], y...)
						for _, v := range y {
							wants[r] = append(wants[r], v/(1+math.Exp(-v)))
						}
					}
					shape := []int64{g.experts, g.ep * g.tokens, g.out}
					ys[r], full[r], before[r] = optest.TensorIn(t, d, l, shape), optest.TensorIn(t, d, l, []int64{g.experts, g.ep * g.tokens, g.in}), optest.TensorIn(t, d, l, shape)
					return a.With(optest.Args{"actType": 2, "y1Out": ys[r], "y2OutOptional": full[r], "y3OutOptional": before[r]})
				}, g.group)
				for r := range size {
					what := fmt.Sprintf("%v %v bias %v rank %d", d, g, withBias, r)
					optest.CloseTo(t, "y2 of "+what, wantFull[r], optest.Values(full[r]), 0)
					optest.CloseTo(t, "y3 of "+what, wantProduct[r], optest.Values(before[r]), 2*optest.ResultLimit(d))
					optest.CloseTo(t, "y1 of "+what, wants[r], optest.Values(ys[r]), 4*optest.ResultLimit(d))
				}
			}
		}
	}
}

func TestBatchMatMulReduceScatterAlltoAll(t *testing.T) {
	for _, d := range op.HalfTypes {
		for _, g := range []expertGridTest{{2, 3, 2, 6, 3, 5, false}, {3, 2, 1, 2, 4, 6, true}, {1, 1, 2, 2, 3, 2, true}} {
			l := kerneltest.Layouts[g.ep%int64(len(kerneltest.Layouts))]
			size := int(g.ep * g.tp)
			// For each ep rank: [experts, ep*tokens, out], summed over tp.
			sums, outs := make([][]float64, g.ep), make([]*op.Tensor, size)
			for e := range sums {
				sums[e] = make([]float64, g.experts*g.ep*g.tokens*g.out)
			}
			tokens, width := g.tokens/g.tp, g.out
			if g.byWidth {
				tokens, width = g.tokens, g.out/g.tp
			}
			biases := make([][]float64, size)
			optest.OnGroups(t, "BatchMatMulReduceScatterAlltoAll", size, func(r int) optest.Args {
				e := int64(r) / g.tp
				x, w := optest.Filled(t, uint64(r), d, l, []int64{g.experts, g.ep * g.tokens, g.in}), optest.Filled(t, uint64(50+r), d, l, []int64{g.experts, g.in, g.out})
				n := g.ep * g.tokens
				for i := range g.experts {
					optest.Add(sums[e][i*n*g.out:(i+1)*n*g.out], optest.Times(optest.Values(x)[i*n*g.in:(i+1)*n*g.in], optest.Values(w)[i*g.in*g.out:(i+1)*g.in*g.out], g.in))
				}
				b := d
				if d == dtype.BFloat16 {
					b = dtype.Float32
				}
				bias := optest.Filled(t, uint64(70+r), b, l, []int64{g.experts, 1, width})
				biases[r] = optest.Values(bias)
				outs[r] = optest.TensorIn(t, d, l, []int64{g.ep * g.experts, tokens, width})
				return g.args("yShardType").With(optest.Args{"x": x, "weight": w, "biasOptional": bias, "out": outs[r]})
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
				optest.CloseTo(t, fmt.Sprintf("%v %v rank %d", d, g, r), want, optest.Values(outs[r]), 4*optest.ResultLimit(d))
			}
		}
	}
}

func TestFusedExpertsRefuse(t *testing.T) {
	d := dtype.Float16
	x := func(s ...int64) *op.Tensor { return optest.Tensor(t, d, s, 1) }
	gather := optest.Args{"groupEp": "ep", "groupTp": "tp", "epWorldSize": 1, "tpWorldSize": 1, "x": x(2, 3, 4), "weight": x(2, 4, 5), "y1Out": x(2, 3, 5)}
	optest.Run(t, "AlltoAllAllGatherBatchMatMul", gather)
	for text, set := range map[string]optest.Args{
		"epWorldSize is 2": {"epWorldSize": 2}, "both": {"groupTp": "ep"}, "xShardType 2": {"xShardType": 2}, "actType 5": {"actType": 5},
		"without an activation": {"y3OutOptional": x(2, 3, 5)}, "3 experts": {"x": x(3, 3, 4)}, "is empty": {"x": x(2, 0, 4)}, "dimensions": {"weight": x(4, 5)},
		"biasOptional": {"biasOptional": x(5)}, "shapes differ": {"y2OutOptional": x(2, 4, 3)},
	} {
		optest.Refused(t, op.InvalidParam, "AlltoAllAllGatherBatchMatMul", gather.With(set), text)
	}
	optest.Refused(t, op.NullPointer, "AlltoAllAllGatherBatchMatMul", gather.With(optest.Args{"groupTp": nil}), "groupTp is null")
	scatter := optest.Args{"groupEp": "ep", "groupTp": "tp", "epWorldSize": 1, "tpWorldSize": 1, "x": x(2, 3, 4), "weight": x(2, 4, 5), "out": x(2, 3, 5)}
	optest.Run(t, "BatchMatMulReduceScatterAlltoAll", scatter)
	optest.Refused(t, op.InvalidParam, "BatchMatMulReduceScatterAlltoAll", scatter.With(optest.Args{"out": x(2, 3, 4)}), "the tokens of all experts")
	optest.Refused(t, op.NullPointer, "BatchMatMulReduceScatterAlltoAll", scatter.With(optest.Args{"weight": nil}), "weight is null")
}

// group returns the communicator of a named group for a rank.
func (g expertGridTest) group(name string, rank int) op.Communicator {
	return optest.Grid(g.ep, g.tp, name, rank)
}
