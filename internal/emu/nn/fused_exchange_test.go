package nn

import (
	"fmt"
	"slices"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// exchangeTest are ranks with experts and tokens of [in] numbers: counts[q][r·experts+i] tokens
// of rank q are for expert i of rank r.
type exchangeTest struct {
	ranks, experts, in, out int64
	counts                  [][]int64
	turned, own             bool
}

var exchangeTests = []exchangeTest{
	{1, 2, 3, 5, [][]int64{{2, 3}}, false, true},
	{2, 2, 4, 3, [][]int64{{1, 0, 2, 4}, {0, 3, 5, 1}}, true, true},
	{3, 1, 2, 2, [][]int64{{0, 0, 0}, {2, 1, 0}, {0, 7, 1}}, false, false},
	{2, 3, 17, 33, [][]int64{{0, 4, 1, 0, 0, 9}, {2, 2, 2, 0, 1, 0}}, true, false},
}

// receive are the counts of what comes to rank r.
func (e exchangeTest) receive(r int64) (counts []int64) {
	for _, from := range e.counts {
		counts = append(counts, from[r*e.experts:(r+1)*e.experts]...)
	}
	return counts
}

// weights are [experts, in, out] of a rank, and the tensor that has them.
func (e exchangeTest) weights(t *testing.T, r int64, d dtype.Type, l kerneltest.Layout) ([]float64, *Tensor) {
	v := normal(uint64(90+r), d, e.experts*e.in*e.out)
	if !e.turned {
		return v, tensorIn(t, d, l, []int64{e.experts, e.in, e.out}, v...)
	}
	var swapped []float64
	for i := range e.experts {
		swapped = append(swapped, transposedMatrix(v[i*e.in*e.out:(i+1)*e.in*e.out], e.in, e.out)...)
	}
	return v, tensorIn(t, d, l, []int64{e.experts, e.out, e.in}, swapped...)
}

// args are what both operators take of a rank; check compares the product of that rank alone.
func (e exchangeTest) args(t *testing.T, r int64, d dtype.Type, l kerneltest.Layout) (a args, check func()) {
	a = args{"group": "ep", "epWorldSize": e.ranks, "sendCounts": e.counts[r], "recvCounts": e.receive(r), "transGmmWeight": e.turned}
	if !e.own {
		return a, func() {}
	}
	x, w := filled(t, uint64(r), d, l, []int64{4, 6}), filled(t, uint64(r+1), d, l, []int64{3, 6})
	y := tensorIn(t, d, l, []int64{4, 3})
	a["mmXOptional"], a["mmWeightOptional"], a["mmYOptional"], a["transMmWeight"] = x, w, y, true
	return a, func() {
		closeTo(t, "mmY", matrixProduct(values(x), transposedMatrix(values(w), 3, 6), 4, 6, 3), values(y), 4*resultLimit(d))
	}
}

// each calls f for every token of rank q in the order in which q sends it.
func (e exchangeTest) each(q int64, f func(rank, expert int64)) {
	for k, n := range e.counts[q] {
		for range n {
			f(int64(k)/e.experts, int64(k)%e.experts)
		}
	}
}

func TestAlltoAllvGroupedMatMul(t *testing.T) {
	for n, e := range exchangeTests {
		for _, d := range pairTypes {
			l := kerneltest.Layouts[n%len(kerneltest.Layouts)]
			tokens, weights := make([][]float64, e.ranks), make([][]float64, e.ranks)
			outs, ordered, checks := make([]*Tensor, e.ranks), make([]*Tensor, e.ranks), make([]func(), e.ranks)
			ensemble(t, "AlltoAllvGroupedMatMul", int(e.ranks), func(rank int) args {
				r := int64(rank)
				a, check := e.args(t, r, d, l)
				checks[r] = check
				sent, arrive := total(e.counts[r]), total(e.receive(r))
				tokens[r] = normal(uint64(r), d, sent*e.in)
				var weight *Tensor
				weights[r], weight = e.weights(t, r, d, l)
				outs[r], ordered[r] = tensorIn(t, d, l, []int64{arrive, e.out}), tensorIn(t, d, l, []int64{arrive, e.in})
				a = a.with(args{"gmmX": tensorIn(t, d, l, []int64{sent, e.in}, tokens[r]...), "gmmWeight": weight, "gmmY": outs[r]})
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
					want = append(want, matrixProduct(mine, weights[r][i*e.in*e.out:(i+1)*e.in*e.out], int64(len(mine))/e.in, e.in, e.out)...)
				}
				what := fmt.Sprintf("%v %v rank %d", d, e, r)
				closeTo(t, what, want, values(outs[r]), 4*resultLimit(d))
				if e.own {
					closeTo(t, "permuteOut of "+what, rows, values(ordered[r]), 0)
				}
				checks[r]()
			}
		}
	}
}

func TestGroupedMatMulAlltoAllv(t *testing.T) {
	for n, e := range exchangeTests {
		for _, d := range pairTypes {
			l := kerneltest.Layouts[n%len(kerneltest.Layouts)]
			// What every rank gets back: its tokens, here those that it would have sent.
			wants, inputs := make([][]float64, e.ranks), make([][][]float64, e.ranks)
			for r := range inputs {
				inputs[r] = make([][]float64, e.experts)
			}
			weights, tensors := make([][]float64, e.ranks), make([]*Tensor, e.ranks)
			for r := range e.ranks {
				weights[r], tensors[r] = e.weights(t, r, d, l)
			}
			for q := range e.ranks {
				all, at := normal(uint64(40+q), d, total(e.counts[q])*e.in), int64(0)
				e.each(q, func(rank, expert int64) {
					token := all[at*e.in : (at+1)*e.in]
					inputs[rank][expert] = append(inputs[rank][expert], token...)
					wants[q] = append(wants[q], matrixProduct(token, weights[rank][expert*e.in*e.out:(expert+1)*e.in*e.out], 1, e.in, e.out)...)
					at++
				})
			}
			outs, checks := make([]*Tensor, e.ranks), make([]func(), e.ranks)
			ensemble(t, "GroupedMatMulAlltoAllv", int(e.ranks), func(rank int) args {
				r := int64(rank)
				a, check := e.args(t, r, d, l)
				checks[r] = check
				// Here the tokens go the other way.
				a["sendCounts"], a["recvCounts"] = a["recvCounts"], a["sendCounts"]
				rows := slices.Concat(inputs[r]...)
				outs[r] = tensorIn(t, d, l, []int64{total(e.counts[r]), e.out})
				return a.with(args{"gmmX": tensorIn(t, d, l, []int64{int64(len(rows)) / e.in, e.in}, rows...), "gmmWeight": tensors[r], "y": outs[r]})
			})
			for r := range e.ranks {
				closeTo(t, fmt.Sprintf("%v %v rank %d", d, e, r), wants[r], values(outs[r]), 4*resultLimit(d))
				checks[r]()
			}
		}
	}
}

func TestFusedExchangesRefuse(t *testing.T) {
	x := func(s ...int64) *Tensor { return tensor(t, dtype.Float16, s, 1) }
	both := args{"group": "g", "epWorldSize": 1, "sendCounts": []int64{2, 1}, "recvCounts": []int64{2, 1}, "gmmX": x(3, 4), "gmmWeight": x(2, 4, 5)}
	for name, a := range map[string]args{
		"AlltoAllvGroupedMatMul": both.with(args{"gmmY": x(3, 5)}), "GroupedMatMulAlltoAllv": both.with(args{"y": x(3, 5)}),
	} {
		run(t, name, a)
		for text, set := range map[string]args{
			"epWorldSize is 2": {"epWorldSize": 2}, "inner dimensions": {"transGmmWeight": true}, "has 3 counts": {"sendCounts": []int64{1, 1, 1}},
			"must not be negative": {"recvCounts": []int64{4, -1}}, "of its own": {"recvCounts": []int64{1, 2}}, "all or none": {"mmXOptional": x(1, 2)},
			"dimensions": {"gmmWeight": x(4, 5)}, "dtypes differ": {"gmmWeight": tensor(t, dtype.BFloat16, []int64{2, 4, 5}, 1)}, "sendCounts)": {"gmmX": x(4, 4)},
			"float32": {"gmmX": tensor(t, dtype.Float32, []int64{3, 4}, 1)},
		} {
			refused(t, invalidParam, name, a.with(set), text)
		}
		for text, set := range map[string]args{
			"group is null": {"group": nil}, "gmmX is null": {"gmmX": nil}, "sendCounts is null": {"sendCounts": nil}, "taken from the array": {"recvCountsTensorOptional": x(2)},
		} {
			refused(t, nullPointer, name, a.with(set), text)
		}
	}
	a := both.with(args{"gmmY": x(3, 5), "permuteOutFlag": true})
	refused(t, nullPointer, "AlltoAllvGroupedMatMul", a, "permuteOutOptional is null")
	refused(t, invalidParam, "AlltoAllvGroupedMatMul", a.with(args{"permuteOutOptional": x(3, 5)}), "that arrive")
	refused(t, invalidParam, "AlltoAllvGroupedMatMul", a.with(args{"gmmY": x(4, 5)}), "recvCounts")
	refused(t, invalidParam, "GroupedMatMulAlltoAllv", both.with(args{"y": x(4, 5)}), "recvCounts")
}
