package communication

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// exchangeTest describes ranks with experts and tokens of [in] numbers: counts[q][r·experts+i]
// tokens of rank q are for expert i of rank r.
type exchangeTest struct {
	ranks, experts, in, out int64
	counts                  [][]int64
	transposed, own         bool
}

var exchangeTests = []exchangeTest{
	{1, 2, 3, 5, [][]int64{{2, 3}}, false, true},
	{2, 2, 4, 3, [][]int64{{1, 0, 2, 4}, {0, 3, 5, 1}}, true, true},
	{3, 1, 2, 2, [][]int64{{0, 0, 0}, {2, 1, 0}, {0, 7, 1}}, false, false},
	{2, 3, 17, 33, [][]int64{{0, 4, 1, 0, 0, 9}, {2, 2, 2, 0, 1, 0}}, true, false},
}

// receive returns the counts of the tokens that rank r receives.
func (e exchangeTest) receive(r int64) (counts []int64) {
	for _, from := range e.counts {
		counts = append(counts, from[r*e.experts:(r+1)*e.experts]...)
	}
	return counts
}

// weights returns the values and the tensor of a rank's weights, [experts, in, out].
func (e exchangeTest) weights(t *testing.T, r int64, d dtype.Type, l kerneltest.Layout) ([]float64, *op.Tensor) {
	v := optest.Normal(uint64(90+r), d, e.experts*e.in*e.out)
	if !e.transposed {
		return v, optest.TensorIn(t, d, l, []int64{e.experts, e.in, e.out}, v...)
	}
	var swapped []float64
	for i := range e.experts {
		swapped = append(swapped, optest.Transposed(v[i*e.in*e.out:(i+1)*e.in*e.out], e.out)...)
	}
	return v, optest.TensorIn(t, d, l, []int64{e.experts, e.out, e.in}, swapped...)
}

// args returns the arguments that both operators have for a rank. check compares the additional
// local product.
func (e exchangeTest) args(t *testing.T, r int64, d dtype.Type, l kerneltest.Layout) (a optest.Args, check func()) {
	a = optest.Args{"group": "ep", "epWorldSize": e.ranks, "sendCounts": e.counts[r], "recvCounts": e.receive(r), "transGmmWeight": e.transposed}
	if !e.own {
		return a, func() {}
	}
	x, w := optest.Filled(t, uint64(r), d, l, []int64{4, 6}), optest.Filled(t, uint64(r+1), d, l, []int64{3, 6})
	y := optest.TensorIn(t, d, l, []int64{4, 3})
	a["mmXOptional"], a["mmWeightOptional"], a["mmYOptional"], a["transMmWeight"] = x, w, y, true
	return a, func() {
		optest.CloseTo(t, "mmY", optest.Times(optest.Values(x), optest.Transposed(optest.Values(w), 6), 6), optest.Values(y), 4*optest.ResultLimit(d))
	}
}

// each calls f for every token of rank q in the order in which rank q sends it.
func (e exchangeTest) each(q int64, f func(rank, expert int64)) {
	for k, n := range e.counts[q] {
		for range n {
			f(int64(k)/e.experts, int64(k)%e.experts)
		}
	}
}

func TestAlltoAllvGroupedMatMul(t *testing.T) {
	for n, e := range exchangeTests {
		for i, d := range op.HalfTypes {
			name := []string{"AlltoAllvGroupedMatMul", "AlltoAllvGroupedMatMulV2"}[(n+i)%2]
			l := kerneltest.Layouts[n%len(kerneltest.Layouts)]
			tokens, weights := make([][]float64, e.ranks), make([][]float64, e.ranks)
			outs, ordered, checks := make([]*op.Tensor, e.ranks), make([]*op.Tensor, e.ranks), make([]func(), e.ranks)
			optest.OnRanks(t, name, int(e.ranks), func(rank int) optest.Args {
				r := int64(rank)
				a, check := e.args(t, r, d, l)
				a = named(name, "ai_cpu", a)
				checks[r] = check
				sent, arrive := op.Total(e.counts[r]), op.Total(e.receive(r))
				tokens[r] = optest.Normal(uint64(r), d, sent*e.in)
				var weight *op.Tensor
				weights[r], weight = e.weights(t, r, d, l)
				outs[r], ordered[r] = optest.TensorIn(t, d, l, []int64{arrive, e.out}), optest.TensorIn(t, d, l, []int64{arrive, e.in})
				a = a.With(optest.Args{"gmmX": optest.TensorIn(t, d, l, []int64{sent, e.in}, tokens[r]...), "gmmWeight": weight, "gmmY": outs[r]})
				if e.own {
					a["permuteOutFlag"], a["permuteOutOptional"] = true, ordered[r]
				}
				return a
			})
			for r := range e.ranks {
				var want, rows []float64
				for i := range e.experts {
					var mine []float64
					for q := range e.ranks {
						at := int64(0)
						e.each(q, func(rank, expert int64) {
							if rank == r && expert == i {
								mine = append(mine, tokens[q][at*e.in:(at+1)*e.in]...)
							}
							at++
						})
					}
					rows = append(rows, mine...)
					want = append(want, optest.Times(mine, weights[r][i*e.in*e.out:(i+1)*e.in*e.out], e.in)...)
				}
				what := fmt.Sprintf("%v %v rank %d", d, e, r)
				optest.CloseTo(t, what, want, optest.Values(outs[r]), 4*optest.ResultLimit(d))
				if e.own {
					optest.CloseTo(t, "permuteOut of "+what, rows, optest.Values(ordered[r]), 0)
				}
				checks[r]()
			}
		}
	}
}

func TestGroupedMatMulAlltoAllv(t *testing.T) {
	for n, e := range exchangeTests {
		for i, d := range op.HalfTypes {
			name := []string{"GroupedMatMulAlltoAllv", "GroupedMatMulAlltoAllvV2"}[(n+i)%2]
			l := kerneltest.Layouts[n%len(kerneltest.Layouts)]
			// The result of every rank: the products of the tokens that it would send in the other
			// operator.
			wants, inputs := make([][]float64, e.ranks), make([][][]float64, e.ranks)
			for r := range inputs {
				inputs[r] = make([][]float64, e.experts)
			}
			weights, tensors := make([][]float64, e.ranks), make([]*op.Tensor, e.ranks)
			for r := range e.ranks {
				weights[r], tensors[r] = e.weights(t, r, d, l)
			}
			for q := range e.ranks {
				all, at := optest.Normal(uint64(40+q), d, op.Total(e.counts[q])*e.in), int64(0)
				e.each(q, func(rank, expert int64) {
					token := all[at*e.in : (at+1)*e.in]
					inputs[rank][expert] = append(inputs[rank][expert], token...)
					wants[q] = append(wants[q], optest.Times(token, weights[rank][expert*e.in*e.out:(expert+1)*e.in*e.out], e.in)...)
					at++
				})
			}
			outs, checks := make([]*op.Tensor, e.ranks), make([]func(), e.ranks)
			optest.OnRanks(t, name, int(e.ranks), func(rank int) optest.Args {
				r := int64(rank)
				a, check := e.args(t, r, d, l)
				a = named(name, "ai_cpu", a)
				checks[r] = check
				// The tokens go in the opposite direction here.
				a["sendCounts"], a["recvCounts"] = a["recvCounts"], a["sendCounts"]
				rows := slices.Concat(inputs[r]...)
				outs[r] = optest.TensorIn(t, d, l, []int64{op.Total(e.counts[r]), e.out})
				return a.With(optest.Args{"gmmX": optest.TensorIn(t, d, l, []int64{int64(len(rows)) / e.in, e.in}, rows...), "gmmWeight": tensors[r], "y": outs[r]})
			})
			for r := range e.ranks {
				optest.CloseTo(t, fmt.Sprintf("%v %v rank %d", d, e, r), wants[r], optest.Values(outs[r]), 4*optest.ResultLimit(d))
				checks[r]()
			}
		}
	}
}

func TestFusedExchangesRefuse(t *testing.T) {
	x := func(s ...int64) *op.Tensor { return optest.Tensor(t, dtype.Float16, s, 1) }
	both := optest.Args{"group": "g", "epWorldSize": 1, "sendCounts": []int64{2, 1}, "recvCounts": []int64{2, 1}, "gmmX": x(3, 4), "gmmWeight": x(2, 4, 5)}
	for name, a := range map[string]optest.Args{
		"AlltoAllvGroupedMatMul": both.With(optest.Args{"gmmY": x(3, 5)}), "GroupedMatMulAlltoAllv": both.With(optest.Args{"y": x(3, 5)}),
	} {
		optest.Run(t, name, a)
		for text, set := range map[string]optest.Args{
			"epWorldSize is 2": {"epWorldSize": 2}, "inner dimensions": {"transGmmWeight": true}, "has 3 counts": {"sendCounts": []int64{1, 1, 1}},
			"must not be negative": {"recvCounts": []int64{4, -1}}, "of its own": {"recvCounts": []int64{1, 2}}, "recvCounts is empty": {"recvCounts": []int64{}},
			"has 128 bytes": {"group": strings.Repeat("g", 128), "sendCounts": nil},
			"dimensions":    {"gmmWeight": x(4, 5)}, "dtypes differ": {"gmmWeight": optest.Tensor(t, dtype.BFloat16, []int64{2, 4, 5}, 1)}, "sendCounts)": {"gmmX": x(4, 4)},
			"float32": {"gmmX": optest.Tensor(t, dtype.Float32, []int64{3, 4}, 1)},
		} {
			optest.Refused(t, op.InvalidParam, name, a.With(set), text)
		}
		for text, set := range map[string]optest.Args{
			"group is null": {"group": nil}, "group is empty": {"group": ""}, "all or none": {"mmXOptional": x(1, 2)}, "gmmX is null": {"gmmX": nil}, "sendCounts is null": {"sendCounts": nil}, "taken from the array": {"recvCountsTensorOptional": x(2)},
		} {
			optest.Refused(t, op.NullPointer, name, a.With(set), text)
		}
	}
	a := both.With(optest.Args{"gmmY": x(3, 5), "permuteOutFlag": true})
	optest.Refused(t, op.NullPointer, "AlltoAllvGroupedMatMul", a, "permuteOutFlag is true")
	optest.Refused(t, op.NullPointer, "AlltoAllvGroupedMatMul", a.With(optest.Args{"permuteOutFlag": false, "permuteOutOptional": x(3, 4)}), "permuteOutFlag is false")
	optest.Refused(t, op.InvalidParam, "AlltoAllvGroupedMatMul", a.With(optest.Args{"permuteOutOptional": x(3, 5)}), "that arrive")
	optest.Refused(t, op.InvalidParam, "AlltoAllvGroupedMatMul", both.With(optest.Args{"gmmY": x(4, 5)}), "recvCounts")
	optest.Refused(t, op.InvalidParam, "GroupedMatMulAlltoAllv", both.With(optest.Args{"y": x(4, 5)}), "recvCounts")
}
