package recurrent

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

// affineOf computes weight · x + bias for a row-major weight; bias may be nil.
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

// layerDefinition runs one layer in one direction over the vectors of one sequence, and returns
// its states by time step and the last cell state.
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
				nextC[k] = optest.Sigmoid(gate(1))*c[k] + optest.Sigmoid(gate(0))*math.Tanh(gate(2))
				nextH[k] = optest.Sigmoid(gate(3)) * math.Tanh(nextC[k])
			} else {
				z, candidate := optest.Sigmoid(gate(1)), math.Tanh(in[2*n+k]+optest.Sigmoid(gate(0))*hidden[2*n+k])
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
	x, out := optest.Filled(t, 1, d, kerneltest.Gapped, shape(width)), optest.Tensor(t, d, shape(directions*size))
	all := []int64{int64(layers * directions), int64(batch), int64(size)}
	hy, cy := optest.Tensor(t, d, all), optest.Tensor(t, d, all)
	var params []*op.Tensor
	var wanted [][][]float64 // parameters of each layer and direction
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
			p := optest.Filled(t, uint64(10*k+i+2), d, kerneltest.Contiguous, s)
			params, own = append(params, p), append(own, optest.Values(p))
		}
		wanted = append(wanted, own)
	}
	a := optest.Args{"input": x, "params": params, "hasBias": biased, "numLayers": layers, "batchFirst": batchFirst, "output": out, "hy": hy, "train": true}
	h0, c0 := make([]float64, layers*directions*batch*size), make([]float64, layers*directions*batch*size)
	start := []*op.Tensor{optest.Filled(t, 90, d, kerneltest.Contiguous, all), optest.Filled(t, 91, d, kerneltest.Contiguous, all)}
	if started {
		h0, c0 = optest.Values(start[0]), optest.Values(start[1])
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
	records := map[string][]*op.Tensor{}
	for _, l := range lists {
		for range layers * directions {
			records[l] = append(records[l], optest.Tensor(t, d, []int64{int64(times), int64(batch), int64(size)}))
		}
		a[l] = records[l]
	}
	optest.Run(t, name, a)
	at := func(time, b, last int) int {
		if batchFirst {
			return (b*times + time) * last
		}
		return (time*batch + b) * last
	}
	xs, limit := optest.Values(x), 6*optest.ResultLimit(d)
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
				recorded := optest.Values(records["hOut"][k])
				for time := range next {
					next[time] = append(next[time], states[time]...)
					optest.CloseTo(t, "h of "+what, states[time], recorded[(time*batch+b)*size:][:size], limit)
				}
				if lstm {
					recorded := optest.Values(records["cOut"][k])
					optest.CloseTo(t, "c of "+what, cell, recorded[(last*batch+b)*size:][:size], limit)
				}
			}
			seq = next
		}
		for time := range seq {
			wantOut = append(wantOut, seq[time]...)
			gotOut = append(gotOut, optest.Values(out)[at(time, b, directions*size):][:directions*size]...)
		}
	}
	wantH, wantC = lastH, lastC
	optest.CloseTo(t, "output of "+what, wantOut, gotOut, limit)
	optest.CloseTo(t, "hy of "+what, wantH, optest.Values(hy), limit)
	if lstm {
		optest.CloseTo(t, "cy of "+what, wantC, optest.Values(cy), limit)
	}
	inference := a.With(optest.Args{"train": false})
	for _, l := range lists {
		delete(inference, l)
	}
	before := optest.Values(out)
	optest.Fill(out, 9)
	optest.Run(t, name, inference)
	assert.Equal(t, before, optest.Values(out))
	optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"params": params[1:]}), "params has")
	optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"hOut": []*op.Tensor{}}), "hOut has 0 tensors")
	optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"batchSizes": optest.Tensor(t, dtype.Int64, []int64{3}, 1)}), "different lengths")
	optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"hy": out}), "hy")
}

func TestLSTMCell(t *testing.T) {
	for _, d := range recurrentTypes {
		for _, l := range kerneltest.Layouts {
			for _, biased := range []bool{false, true} {
				state, wide := []int64{2, 3}, []int64{2, 12}
				in, hidden, last := optest.Filled(t, 1, d, l, wide), optest.Filled(t, 2, d, l, wide), optest.Filled(t, 3, d, l, state)
				h, cell, gates := optest.TensorIn(t, d, l, state), optest.TensorIn(t, d, l, state), optest.TensorIn(t, d, l, wide)
				a := optest.Args{"inputGates": in, "hiddenGates": hidden, "cx": last, "hyOut": h, "cyOut": cell, "storageOut": gates}
				bias := make([]float64, 12)
				if biased {
					b := optest.Filled(t, 4, d, l, []int64{12})
					a["inputBiasOptional"], a["hiddenBiasOptional"] = b, b
					bias = optest.Added(optest.Values(b), []float64{0}, 2)
				}
				optest.Run(t, "ThnnFusedLstmCell", a)
				sums, lasts := optest.Added(optest.Added(optest.Values(in), optest.Values(hidden), 1), bias, 1), optest.Values(last)
				define := func(sums, last []float64) (h, c []float64) {
					for i := range last {
						at := func(g int) float64 { return sums[i/3*12+g*3+i%3] }
						c = append(c, optest.Sigmoid(at(2))*last[i]+optest.Sigmoid(at(0))*math.Tanh(at(1)))
						h = append(h, optest.Sigmoid(at(3))*math.Tanh(c[i]))
					}
					return h, c
				}
				wantH, wantC := define(sums, lasts)
				what := fmt.Sprintf("%v %v biased %v", d, l, biased)
				optest.CloseTo(t, "h of "+what, wantH, optest.Values(h), 3*optest.ResultLimit(d))
				optest.CloseTo(t, "c of "+what, wantC, optest.Values(cell), 3*optest.ResultLimit(d))

				dh, dc := optest.Filled(t, 5, d, l, state), optest.Filled(t, 6, d, l, state)
				dgates, dlast, dbias := optest.TensorIn(t, d, l, wide), optest.TensorIn(t, d, l, state), optest.Tensor(t, d, []int64{12})
				b := optest.Args{
					"gradHyOptional": dh, "gradCOptional": dc, "cx": last, "cy": cell, "storage": gates, "hasBias": true,
					"gradGatesOut": dgates, "gradCxOut": dlast, "gradBiasOut": dbias,
				}
				optest.Run(t, "ThnnFusedLstmCellBackward", b)
				both := func(sums, last []float64) []float64 { h, c := define(sums, last); return append(h, c...) }
				dy := append(optest.Values(dh), optest.Values(dc)...)
				want := optest.Gradient(func(s []float64) []float64 { return both(s, lasts) }, dy, sums)
				optest.CloseTo(t, "gates of "+what, want, optest.Values(dgates), 6*optest.ResultLimit(d))
				optest.CloseTo(t, "cx of "+what, optest.Gradient(func(c []float64) []float64 { return both(sums, c) }, dy, lasts), optest.Values(dlast), 6*optest.ResultLimit(d))
				optest.CloseTo(t, "bias of "+what, optest.Added(want[:12], want[12:], 1), optest.Values(dbias), 6*optest.ResultLimit(d))
				optest.Run(t, "ThnnFusedLstmCellBackward", b.With(optest.Args{"gradHyOptional": nil, "gradCOptional": nil, "hasBias": false, "gradBiasOut": nil}))
				assert.Equal(t, make([]float64, 24), optest.Values(dgates))
				optest.Refused(t, op.InvalidParam, "ThnnFusedLstmCell", a.With(optest.Args{"storageOut": cell}), "four gates")
				optest.Refused(t, op.NullPointer, "ThnnFusedLstmCellBackward", b.With(optest.Args{"gradBiasOut": nil}), "gradBiasOut is null")
			}
		}
	}
}
