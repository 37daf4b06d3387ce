package communication

import (
	"fmt"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// TestGroupedAllReduce compares with products of each group in float64, summed over ranks.
func TestGroupedAllReduce(t *testing.T) {
	for _, d := range op.HalfTypes {
		for split := range 4 {
			for _, size := range []int{1, 2, 4} {
				for _, biased := range []bool{false, true} {
					for _, rows := range [][]int64{{5}, {3, 1, 7}, {0, 17, 2, 4}} {
						what := fmt.Sprint(d, split, size, biased, rows)
						groups := int64(len(rows))
						inner := func(i int64) int64 { // with one tensor all groups have as many columns
							if split == 1 || split == 3 {
								return 13
							}
							return 9 + 4*i
						}
						columns := func(i int64) int64 {
							if split >= 2 {
								return 6
							}
							return 5 + i
						}
						want := make([][]float64, groups)
						for i := range groups {
							want[i] = make([]float64, rows[i]*columns(i))
						}
						outs := make([][]*op.Tensor, size)
						optest.OnRanks(t, "GroupedMatMulAllReduce", size, func(r int) optest.Args {
							var x, w, b, y []*op.Tensor
							var ends []int64
							seed, total := uint64(100*r), op.Total(rows)
							if split == 1 || split == 3 {
								x = []*op.Tensor{optest.Filled(t, seed, d, kerneltest.Contiguous, []int64{total, inner(0)})}
							}
							for i := range groups {
								seed += 3
								ends = append(ends, op.Total(rows[:i+1]))
								w = append(w, optest.Filled(t, seed+1, d, kerneltest.Contiguous, []int64{inner(i), columns(i)}))
								if split == 0 || split == 2 {
									shape := []int64{rows[i], inner(i)}
									if split == 0 && i%2 == 1 {
										shape = []int64{1, rows[i], inner(i)}
									}
									x = append(x, optest.Filled(t, seed+2, d, kerneltest.Contiguous, shape))
								}
								if split < 2 {
									shape := []int64{rows[i], columns(i)}
									if split == 0 && i%2 == 1 {
										shape = []int64{1, rows[i], columns(i)}
									}
									y = append(y, optest.Tensor(t, d, shape))
								}
								own := dtype.Float16
								if d == dtype.BFloat16 {
									own = dtype.Float32
								}
								b = append(b, optest.Filled(t, seed, own, kerneltest.Contiguous, []int64{columns(i)}))
								of, from := x[min(int(i), len(x)-1)], int64(0)
								if len(x) == 1 && groups > 1 {
									from = (ends[i] - rows[i]) * inner(i)
								}
								part := optest.Values(of)[from:][:rows[i]*inner(i)]
								optest.Add(want[i], append(optest.Times(part, optest.Values(w[i]), inner(i)), 0)[:max(len(want[i]), 1)])
								for k := range want[i] {
									if biased {
										want[i][k] += optest.Values(b[i])[int64(k)%columns(i)]
									}
								}
							}
							if split >= 2 {
								y = []*op.Tensor{optest.Tensor(t, d, []int64{total, columns(0)})}
							}
							outs[r] = y
							a := pass(optest.Args{"x": x, "weight": w, "y": y, "splitItem": split, "reduceOp": "sum"})
							if biased {
								a["bias"] = b
							}
							if split == 1 || split == 3 {
								a["groupListOptional"] = ends
							}
							return a
						})
						for r := range outs {
							var got, all []float64
							for _, y := range outs[r] {
								got = append(got, optest.Values(y)...)
							}
							for _, w := range want {
								all = append(all, w...)
							}
							optest.CloseTo(t, what, all, got, 8*optest.ResultLimit(d))
						}
					}
				}
			}
		}
	}
}

func TestGroupedAllReduceRefuses(t *testing.T) {
	const name = "GroupedMatMulAllReduce"
	d := dtype.Float16
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape, 1) }
	list := func(all ...*op.Tensor) []*op.Tensor { return all }
	a := pass(optest.Args{"x": list(x(d, 5, 3)), "weight": list(x(d, 3, 4), x(d, 3, 4)), "y": list(x(d, 5, 4)), "splitItem": 3, "groupListOptional": []int64{2, 5}, "reduceOp": "sum"})
	optest.Run(t, name, a)
	for _, null := range []string{"x", "weight", "y", "reduceOp", "group"} {
		optest.Refused(t, op.NullPointer, name, a.With(optest.Args{null: nil}), null)
	}
	apart := optest.Args{"x": list(x(d, 2, 3), x(d, 3, 3)), "y": list(x(d, 2, 4), x(d, 3, 4)), "splitItem": 0, "groupListOptional": nil}
	optest.Run(t, name, a.With(apart))
	many := make([]*op.Tensor, 65)
	for i := range many {
		many[i] = x(d, 3, 4)
	}
	for text, set := range map[string]optest.Args{
		`reduceOp is "max"`: {"reduceOp": "max"}, "streamMode is 0": {"streamMode": 0}, "commTurn is 1": {"commTurn": 1}, "splitItem is 4": {"splitItem": 4}, "x has 2 tensors": {"x": list(x(d, 2, 3), x(d, 3, 3))},
		"y has 1 tensors": {"splitItem": 1}, "1 to 64": {"weight": many}, "bias has 1 tensors": {"bias": list(x(d, 4))}, "dtypes differ": {"weight": list(x(d, 3, 4), x(dtype.BFloat16, 3, 4))}, "dtype": {"bias": list(x(dtype.Float32, 4), x(dtype.Float32, 4))},
		"must be contiguous": {"x": list(optest.TensorIn(t, d, kerneltest.Gapped, []int64{5, 3}, 1))}, "an element for each column": {"bias": list(x(d, 4), x(d, 3))}, "3 columns": {"weight": list(x(d, 3, 4), x(d, 2, 4))},
		"other columns": {"weight": list(x(d, 3, 4), x(d, 3, 5))}, "the rows of all groups": {"y": list(x(d, 6, 4))}, "has 1 numbers": {"groupListOptional": []int64{5}}, "must not decrease": {"groupListOptional": []int64{6, 5}},
		"ends with 4": {"groupListOptional": []int64{2, 4}}, "it must be null": {"splitItem": 2, "x": apart["x"]}, "2 to 2 are supported": {"x": list(x(d, 1, 5, 3))},
	} {
		optest.Refused(t, op.InvalidParam, name, a.With(set), text)
	}
	for text, set := range map[string]optest.Args{
		"that of x with the columns": {"y": list(x(d, 2, 4), x(d, 2, 4))}, "2 to 5 are supported": {"x": list(x(d, 2, 3), x(d, 1, 1, 1, 1, 3, 3))},
	} {
		optest.Refused(t, op.InvalidParam, name, a.With(apart).With(set), text)
	}
}
