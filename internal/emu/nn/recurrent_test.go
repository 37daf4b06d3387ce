package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func sigmoidOf(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// affineOf is weight · x + bias for a weight of rows of the length of x; bias may be nil.
func affineOf(weight, x, bias []float64) []float64 {
	y := make([]float64, len(weight)/len(x))
	for i := range y {
		for j, v := range x {
			y[i] += weight[i*len(x)+j] * v
		}
		if bias != nil {
			y[i] += bias[i]
		}
	}
	return y
}

// layerDefinition runs one layer in one direction over the vectors of one sequence, and
// returns its states by time and the last cell.
func layerDefinition(lstm, reverse bool, params [][]float64, xs [][]float64, h, c []float64) (states [][]float64, cell []float64) {
	states = make([][]float64, len(xs))
	var inBias, hiddenBias []float64
	if len(params) == 4 {
		inBias, hiddenBias = params[2], params[3]
	}
	n := len(h)
	for i := range xs {
		t := i
		if reverse {
			t = len(xs) - 1 - i
		}
		in, hidden := affineOf(params[0], xs[t], inBias), affineOf(params[1], h, hiddenBias)
		nextH, nextC := make([]float64, n), make([]float64, n)
		for k := range n {
			gate := func(g int) float64 { return in[g*n+k] + hidden[g*n+k] }
			if lstm {
				nextC[k] = sigmoidOf(gate(1))*c[k] + sigmoidOf(gate(0))*math.Tanh(gate(2))
				nextH[k] = sigmoidOf(gate(3)) * math.Tanh(nextC[k])
			} else {
				z, candidate := sigmoidOf(gate(1)), math.Tanh(in[2*n+k]+sigmoidOf(gate(0))*hidden[2*n+k])
				nextH[k] = (1-z)*candidate + z*h[k]
			}
		}
		h, c = nextH, nextC
		states[t] = h
	}
	return states, c
}

func TestRecurrent(t *testing.T) {
	const times, batch, width, size = 3, 2, 4, 3
	for _, d := range recurrentTypes {
		for _, lstm := range []bool{true, false} {
			for _, biased := range []bool{true, false} {
				for _, directions := range []int{1, 2} {
					for _, batchFirst := range []bool{false, true} {
						for _, started := range []bool{false, true} {
							what := fmt.Sprintf("%v lstm %v biased %v directions %d batchFirst %v started %v", d, lstm, biased, directions, batchFirst, started)
							recurrentTrial(t, what, d, lstm, biased, directions, batchFirst, started, times, batch, width, size)
						}
					}
				}
			}
		}
	}
}

func recurrentTrial(t *testing.T, what string, d dtype.Type, lstm, biased bool, directions int, batchFirst, started bool, times, batch, width, size int) {
	const layers = 2
	kinds, name := 3, "GRU"
	if lstm {
		kinds, name = 4, "LSTM"
	}
	shape := func(last int) []int64 {
		if batchFirst {
			return []int64{int64(batch), int64(times), int64(last)}
		}
		return []int64{int64(times), int64(batch), int64(last)}
	}
	x, out := filled(t, 1, d, kerneltest.Gapped, shape(width)), tensor(t, d, shape(directions*size))
	all := []int64{int64(layers * directions), int64(batch), int64(size)}
	hy, cy := tensor(t, d, all), tensor(t, d, all)
	var params []*Tensor
	var wanted [][][]float64 // the parameters of each layer and direction
	in := width
	for k := range layers * directions {
		if k == directions {
			in = directions * size
		}
		shapes := [][]int64{{int64(kinds * size), int64(in)}, {int64(kinds * size), int64(size)}}
		if biased {
			shapes = append(shapes, []int64{int64(kinds * size)}, []int64{int64(kinds * size)})
		}
		var own [][]float64
		for i, s := range shapes {
			p := filled(t, uint64(10*k+i+2), d, kerneltest.Contiguous, s)
			params, own = append(params, p), append(own, values(p))
		}
		wanted = append(wanted, own)
	}
	a := args{"input": x, "params": params, "hasBias": biased, "numLayers": layers, "batchFirst": batchFirst, "output": out, "hy": hy, "train": true}
	h0, c0 := make([]float64, layers*directions*batch*size), make([]float64, layers*directions*batch*size)
	start := []*Tensor{filled(t, 90, d, kerneltest.Contiguous, all), filled(t, 91, d, kerneltest.Contiguous, all)}
	if started {
		h0, c0 = values(start[0]), values(start[1])
	}
	lists, bi := []string{"rOut", "zOut", "nOut", "hnOut", "hOut"}, "bidirection"
	if lstm {
		lists, bi, a["cy"] = []string{"iOut", "jOut", "fOut", "oOut", "hOut", "cOut", "tanhCOut"}, "bidirectional", cy
	}
	a[bi] = directions == 2
	switch {
	case started && lstm:
		a["hx"] = start
	case started:
		a["hx"] = start[0]
	}
	records := map[string][]*Tensor{}
	for _, l := range lists {
		for range layers * directions {
			records[l] = append(records[l], tensor(t, d, []int64{int64(times), int64(batch), int64(size)}))
		}
		a[l] = records[l]
	}
	run(t, name, a)
	at := func(time, b, last int) int {
		if batchFirst {
			return (b*times + time) * last
		}
		return (time*batch + b) * last
	}
	xs, limit := values(x), 6*resultLimit(d)
	var wantOut, gotOut, wantH, wantC []float64
	lastH, lastC := make([]float64, len(h0)), make([]float64, len(c0))
	for b := range batch {
		seq := make([][]float64, times)
		for time := range seq {
			seq[time] = xs[at(time, b, width):][:width]
		}
		for layer := range layers {
			next := make([][]float64, times)
			for dir := range directions {
				k := layer*directions + dir
				place := (k*batch + b) * size
				states, cell := layerDefinition(lstm, dir == 1, wanted[k], seq, h0[place:][:size], c0[place:][:size])
				copy(lastC[place:], cell)
				last := times - 1
				if dir == 1 {
					last = 0
				}
				copy(lastH[place:], states[last])
				recorded := values(records["hOut"][k])
				for time := range next {
					next[time] = append(next[time], states[time]...)
					closeTo(t, "h of "+what, states[time], recorded[(time*batch+b)*size:][:size], limit)
				}
				if lstm {
					recorded := values(records["cOut"][k])
					closeTo(t, "c of "+what, cell, recorded[(last*batch+b)*size:][:size], limit)
				}
			}
			seq = next
		}
		for time := range seq {
			wantOut = append(wantOut, seq[time]...)
			gotOut = append(gotOut, values(out)[at(time, b, directions*size):][:directions*size]...)
		}
	}
	wantH, wantC = lastH, lastC
	closeTo(t, "output of "+what, wantOut, gotOut, limit)
	closeTo(t, "hy of "+what, wantH, values(hy), limit)
	if lstm {
		closeTo(t, "cy of "+what, wantC, values(cy), limit)
	}
	inference := a.with(args{"train": false})
	for _, l := range lists {
		delete(inference, l)
	}
	before := values(out)
	fill(out, 9)
	run(t, name, inference)
	assert.Equal(t, before, values(out))
	refused(t, invalidParam, name, a.with(args{"params": params[1:]}), "params has")
	refused(t, invalidParam, name, a.with(args{"hOut": []*Tensor{}}), "hOut has 0 tensors")
	refused(t, invalidParam, name, a.with(args{"batchSizes": tensor(t, dtype.Int64, []int64{3}, 1)}), "different lengths")
	refused(t, invalidParam, name, a.with(args{"hy": out}), "hy")
}

func TestLSTMCell(t *testing.T) {
	for _, d := range recurrentTypes {
		for _, l := range kerneltest.Layouts {
			for _, biased := range []bool{false, true} {
				state, wide := []int64{2, 3}, []int64{2, 12}
				in, hidden, last := filled(t, 1, d, l, wide), filled(t, 2, d, l, wide), filled(t, 3, d, l, state)
				h, cell, gates := tensorIn(t, d, l, state), tensorIn(t, d, l, state), tensorIn(t, d, l, wide)
				a := args{"inputGates": in, "hiddenGates": hidden, "cx": last, "hyOut": h, "cyOut": cell, "storageOut": gates}
				bias := make([]float64, 12)
				if biased {
					b := filled(t, 4, d, l, []int64{12})
					a["inputBiasOptional"], a["hiddenBiasOptional"] = b, b
					bias = added(values(b), []float64{0}, 2)
				}
				run(t, "ThnnFusedLstmCell", a)
				sums, lasts := added(added(values(in), values(hidden), 1), bias, 1), values(last)
				define := func(sums, last []float64) (h, c []float64) {
					for i := range last {
						at := func(g int) float64 { return sums[i/3*12+g*3+i%3] }
						c = append(c, sigmoidOf(at(2))*last[i]+sigmoidOf(at(0))*math.Tanh(at(1)))
						h = append(h, sigmoidOf(at(3))*math.Tanh(c[i]))
					}
					return h, c
				}
				wantH, wantC := define(sums, lasts)
				what := fmt.Sprintf("%v %v biased %v", d, l, biased)
				closeTo(t, "h of "+what, wantH, values(h), 3*resultLimit(d))
				closeTo(t, "c of "+what, wantC, values(cell), 3*resultLimit(d))

				dh, dc := filled(t, 5, d, l, state), filled(t, 6, d, l, state)
				dgates, dlast, dbias := tensorIn(t, d, l, wide), tensorIn(t, d, l, state), tensor(t, d, []int64{12})
				b := args{
					"gradHyOptional": dh, "gradCOptional": dc, "cx": last, "cy": cell, "storage": gates, "hasBias": true,
					"gradGatesOut": dgates, "gradCxOut": dlast, "gradBiasOut": dbias,
				}
				run(t, "ThnnFusedLstmCellBackward", b)
				both := func(sums, last []float64) []float64 { h, c := define(sums, last); return append(h, c...) }
				dy := append(values(dh), values(dc)...)
				want := gradient(func(s []float64) []float64 { return both(s, lasts) }, dy, sums)
				closeTo(t, "gates of "+what, want, values(dgates), 6*resultLimit(d))
				closeTo(t, "cx of "+what, gradient(func(c []float64) []float64 { return both(sums, c) }, dy, lasts), values(dlast), 6*resultLimit(d))
				closeTo(t, "bias of "+what, added(want[:12], want[12:], 1), values(dbias), 6*resultLimit(d))
				run(t, "ThnnFusedLstmCellBackward", b.with(args{"gradHyOptional": nil, "gradCOptional": nil, "hasBias": false, "gradBiasOut": nil}))
				assert.Equal(t, make([]float64, 24), values(dgates))
				refused(t, invalidParam, "ThnnFusedLstmCell", a.with(args{"storageOut": cell}), "four gates")
				refused(t, nullPointer, "ThnnFusedLstmCellBackward", b.with(args{"gradBiasOut": nil}), "gradBiasOut is null")
			}
		}
	}
}
