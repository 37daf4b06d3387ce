package recurrent

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// decayOf is the logarithm of the decay for a raw gate, by definition.
func decayOf(x, rate, bias float64, safe bool, lower float64) float64 {
	if safe {
		return lower / (1 + math.Exp(-math.Exp(rate)*(x+bias)))
	}
	return -math.Exp(rate) * math.Log(1+math.Exp(x+bias))
}

// kdaCase is a call of RecurrentKda.
type kdaCase struct {
	layout                                                     string
	lengths                                                    []float64 // of the sequences
	dv                                                         int64
	gate, state                                                dtype.Type
	valueFirst, inPlace, output                                bool
	normalize, inKernel, safe, bias, sigmoid, double, withEnds bool
	slots                                                      [][]float64 // by sequence and token; nil without
	rows                                                       bool        // slots is a matrix
	accepted                                                   []float64
}

const kdaHeads, kdaKeys, kdaDim = 2, 1, 128

// args returns the arguments of a call, and the number of tokens.
func (c kdaCase) args(t *testing.T) (optest.Args, int64) {
	n := int64(0)
	for _, length := range c.lengths {
		n += int64(length)
	}
	lead := []int64{n}
	if c.layout == "BSND" {
		lead = []int64{int64(len(c.lengths)), n / int64(len(c.lengths))}
		if c.withEnds {
			lead = []int64{1, n}
		}
	}
	in := func(seed uint64, d dtype.Type, tail ...int64) *op.Tensor {
		return optest.Filled(t, seed, d, kerneltest.Contiguous, slices.Concat(lead, tail))
	}
	states, tail := int64(len(c.lengths)), []int64{kdaHeads, kdaDim, c.dv}
	if c.valueFirst {
		tail = []int64{kdaHeads, c.dv, kdaDim}
	}
	if c.slots != nil {
		states = 6
	}
	a := optest.Args{
		"query": in(1, dtype.BFloat16, kdaKeys, kdaDim), "key": in(2, dtype.BFloat16, kdaKeys, kdaDim), "value": in(3, dtype.BFloat16, kdaHeads, c.dv), "gate": in(4, c.gate, kdaHeads, kdaDim), "beta": in(5, c.gate, kdaHeads),
		"initialStateRef": optest.Filled(t, 6, c.state, kerneltest.Contiguous, append([]int64{states}, tail...)), "finalState": optest.Tensor(t, c.state, append([]int64{states}, tail...), 7), "attnOut": optest.Tensor(t, dtype.BFloat16, slices.Concat(lead, []int64{kdaHeads, c.dv})),
		"layout": c.layout, "scale": 0.125, "outputFinalState": c.output, "inplaceFinalState": c.inPlace, "useQkL2normInKernel": c.normalize, "useGateInKernel": c.inKernel, "useBetaSigmoidInKernel": c.sigmoid, "allowNegEigval": c.double,
		"safeGate": c.safe, "lowerBound": -4.0, "stateVFirst": c.valueFirst,
	}
	if c.withEnds {
		ends := []float64{0}
		for _, length := range c.lengths {
			ends = append(ends, ends[len(ends)-1]+length)
		}
		a["cuSeqlensOptional"] = optest.Tensor(t, dtype.Int32, []int64{int64(len(ends))}, ends...)
	}
	if c.slots != nil {
		all := slices.Concat(c.slots...)
		shape := []int64{int64(len(all))}
		if c.rows {
			shape = []int64{int64(len(c.slots)), int64(len(c.slots[0]))}
		}
		a["ssmStateIndicesOptional"] = optest.Tensor(t, dtype.Int64, shape, all...)
	}
	if c.accepted != nil {
		a["numAcceptedTokensOptional"] = optest.Tensor(t, dtype.Int32, []int64{int64(len(c.accepted))}, c.accepted...)
	}
	if c.inKernel {
		a["aLogOptional"] = optest.Tensor(t, dtype.Float32, []int64{kdaHeads}, 0.25, -0.5)
		if c.bias {
			a["dtBiasOptional"] = optest.Filled(t, 8, dtype.Float32, kerneltest.Contiguous, []int64{kdaHeads, kdaDim})
		}
	}
	return a, n
}

// define computes the recurrence S = (I − β·k·kᵀ)·diag(α)·S + β·k·vᵀ, o = Sᵀ·q. It returns the results and the states
// after the call, which it changes in place.
func (c kdaCase) define(a optest.Args, n int64, states []float64) (out []float64) {
	values := func(name string) []float64 {
		if x, ok := a[name].(*op.Tensor); ok {
			return optest.Values(x)
		}
		return make([]float64, kdaHeads*kdaDim)
	}
	q, k, v, g, beta, rate, bias := values("query"), values("key"), values("value"), values("gate"), values("beta"), values("aLogOptional"), values("dtBiasOptional")
	out = make([]float64, n*kdaHeads*c.dv)
	at := func(slot, h, i, j int64) int64 { // of channel i of keys and j of values
		if c.valueFirst {
			return ((slot*kdaHeads+h)*c.dv+j)*kdaDim + i
		}
		return ((slot*kdaHeads+h)*kdaDim+i)*c.dv + j
	}
	first := int64(0)
	for s, length := range c.lengths {
		slot := func(i int) int64 {
			if c.slots == nil {
				return int64(s)
			}
			return int64(c.slots[s][i])
		}
		if length == 0 {
			continue
		}
		from := slot(0)
		if c.accepted != nil {
			from = slot(int(c.accepted[s]) - 1)
		}
		for h := range int64(kdaHeads) {
			S := make([]float64, kdaDim*c.dv)
			for i := range int64(kdaDim) {
				for j := range c.dv {
					S[i*c.dv+j] = states[at(from, h, i, j)]
				}
			}
			for p := range int(length) {
				token := first + int64(p)
				unit := func(x []float64) []float64 {
					row, size := slices.Clone(x[token*kdaDim:][:kdaDim]), 1.0
					if c.normalize {
						size = math.Sqrt(optest.Times(row, row, kdaDim)[0])
					}
					for i := range row {
						row[i] /= size
					}
					return row
				}
				qs, ks, b := unit(q), unit(k), beta[token*kdaHeads+h]
				if c.sigmoid {
					b = 1 / (1 + math.Exp(-b))
					if c.double {
						b *= 2
					}
				}
				for i := range int64(kdaDim) {
					x := g[(token*kdaHeads+h)*kdaDim+i]
					if c.inKernel {
						x = decayOf(x, rate[h], bias[h*kdaDim+i], c.safe, -4)
					}
					for j := range c.dv {
						S[i*c.dv+j] *= math.Exp(x)
					}
				}
				for j := range c.dv {
					dot := 0.0
					for i := range int64(kdaDim) {
						dot += ks[i] * S[i*c.dv+j]
					}
					y := &out[(token*kdaHeads+h)*c.dv+j]
					for i := range int64(kdaDim) {
						S[i*c.dv+j] += b * ks[i] * (v[(token*kdaHeads+h)*c.dv+j] - dot)
						*y += 0.125 * qs[i] * S[i*c.dv+j]
						states[at(slot(p), h, i, j)] = S[i*c.dv+j]
					}
				}
			}
		}
		first += int64(length)
	}
	return out
}

func TestRecurrentKda(t *testing.T) {
	f, b, h := dtype.Float32, dtype.BFloat16, dtype.Float16
	for _, c := range []kdaCase{
		{layout: "BSND", lengths: []float64{2, 2}, dv: 128, gate: f, state: f, valueFirst: true, inPlace: true, output: true, normalize: true, inKernel: true, sigmoid: true, bias: true},
		{layout: "BSND", lengths: []float64{3, 3}, dv: 128, gate: b, state: f, inPlace: true, normalize: true, inKernel: true, safe: true, sigmoid: true, double: true},
		{layout: "TND", lengths: []float64{1, 3, 0, 2}, withEnds: true, dv: 256, gate: h, state: b, valueFirst: true, output: true, normalize: true, inKernel: true},
		{layout: "TND", lengths: []float64{8}, dv: 128, gate: f, state: f, normalize: true, inKernel: true, safe: true, bias: true, sigmoid: true},
		{layout: "TND", lengths: []float64{1, 3}, withEnds: true, dv: 128, gate: f, state: f, valueFirst: true, inPlace: true, normalize: true, inKernel: true, sigmoid: true, slots: [][]float64{{5}, {0, 2, 2}}},
		{layout: "BSND", lengths: []float64{2, 2}, withEnds: true, dv: 128, gate: f, state: b, output: true, normalize: true, inKernel: true, sigmoid: true, slots: [][]float64{{5, 1}, {0, 2}}, rows: true, accepted: []float64{2, 1}},
	} {
		what := fmt.Sprintf("%+v", c)
		a, n := c.args(t)
		state, final := a["initialStateRef"].(*op.Tensor), a["finalState"].(*op.Tensor)
		before := optest.Values(state)
		after := slices.Clone(before)
		want := c.define(a, n, after)
		optest.Run(t, "RecurrentKda", a)
		optest.CloseTo(t, "results of "+what, want, optest.Values(a["attnOut"].(*op.Tensor)), optest.ResultLimit(b))
		limit := optest.ResultLimit(c.state)
		if !c.inPlace {
			require.Equal(t, before, optest.Values(state), what)
			if c.output && c.slots == nil {
				got := optest.Values(final)
				for s, length := range c.lengths {
					if size := len(got) / len(c.lengths); length > 0 {
						optest.CloseTo(t, "states of "+what, after[s*size:][:size], got[s*size:][:size], limit)
					}
				}
			}
			continue
		}
		optest.CloseTo(t, "states of "+what, after, optest.Values(state), limit)
		if c.output {
			require.Equal(t, optest.Values(state), optest.Values(final), what)
		}
	}
}

func TestRecurrentKdaRefuses(t *testing.T) {
	c := kdaCase{layout: "TND", lengths: []float64{1, 3}, withEnds: true, dv: 128, gate: dtype.Float32, state: dtype.Float32, inPlace: true, inKernel: true, slots: [][]float64{{5}, {0, 2, 2}}}
	a, _ := c.args(t)
	ints := func(v ...float64) *op.Tensor { return optest.Tensor(t, dtype.Int32, []int64{int64(len(v))}, v...) }
	for text, set := range map[string]optest.Args{
		"key is null": {"key": nil}, "finalState is null": {"finalState": nil}, "layout is": {"layout": "SBH"}, "lowerBound": {"safeGate": true, "lowerBound": -6.0}, "aLogOptional is null": {"aLogOptional": nil},
		"useGateInKernel": {"useGateInKernel": false}, "128 or 256": {"value": optest.Tensor(t, dtype.BFloat16, []int64{4, 2, 64}, 1), "attnOut": optest.Tensor(t, dtype.BFloat16, []int64{4, 2, 64})},
		"at least two": {"cuSeqlensOptional": ints(0)}, "one element for each": {"ssmStateIndicesOptional": ints(1, 2)}, "goes with": {"ssmStateIndicesOptional": nil, "numAcceptedTokensOptional": ints(1, 1)},
		"one for each sequence": {"numAcceptedTokensOptional": ints(1)}, "a state for each": {"ssmStateIndicesOptional": nil}, "dtypes differ": {"finalState": optest.Tensor(t, dtype.BFloat16, []int64{6, 2, 128, 128})},
	} {
		optest.Refused(t, op.InvalidParam, "RecurrentKda", a.With(set), text)
	}
	for text, set := range map[string]optest.Args{
		"at most 8": {"cuSeqlensOptional": ints(1, 2, 4)}, "has 6 for 6 states": {"ssmStateIndicesOptional": ints(0, 6, 1, 1)}, "has 4 for a sequence of 3": {"numAcceptedTokensOptional": ints(1, 4)},
	} {
		require.ErrorContains(t, optest.Execute(t, "RecurrentKda", a.With(set)), text)
	}
}

func TestKdaGateCumsum(t *testing.T) {
	for _, shape := range [][]int64{{2, 3, 70, 5}, {3, 100, 2}, {1, 2, 40, 1}} {
		for _, d := range op.FloatTypes {
			for _, l := range kerneltest.Layouts {
				for _, bounds := range [][]int64{nil, {0, 3, 3, 39, shape[len(shape)-2]}} {
					if bounds != nil && len(shape) == 4 && shape[0] > 1 {
						continue
					}
					for mode := range 3 { // logarithms, raw gates, and bounded gates
						heads, tokens, n := shape[len(shape)-3], shape[len(shape)-2], shape[len(shape)-1]
						g, out := optest.Filled(t, 1, d, l, shape), optest.Tensor(t, dtype.Float32, shape)
						rate, bias := optest.Filled(t, 2, dtype.Float32, kerneltest.Contiguous, []int64{heads}), optest.Filled(t, 3, dtype.Float32, kerneltest.Contiguous, []int64{heads * n})
						a := optest.Args{"g": g, "cuSeqlensOptional": bounds, "chunkSize": 32, "gkOut": out}
						if mode > 0 {
							a = a.With(optest.Args{"aLogOptional": rate, "dtBiasOptional": bias, "useGateInKernel": true, "safeGate": mode == 2, "lowerBound": -3.0})
						}
						if bounds == nil {
							delete(a, "cuSeqlensOptional")
						}
						optest.Run(t, "KdaGateCumsum", a)
						in, want := optest.Values(g), make([]float64, g.Len())
						for i := range want {
							token, head, j := int64(i)/n%tokens, int64(i)/n/tokens%heads, int64(i)%n
							start := int64(0)
							for _, b := range bounds {
								if b <= token {
									start = b
								}
							}
							for p := token - (token-start)%32; p <= token; p++ {
								x := in[int64(i)-(token-p)*n]
								if mode > 0 {
									x = decayOf(x, optest.Values(rate)[head], optest.Values(bias)[head*n+j], mode == 2, -3)
								}
								want[i] += x / math.Ln2
							}
						}
						optest.CloseTo(t, fmt.Sprint(shape, d, l, bounds, mode), want, optest.Values(out), 3e-6)
					}
				}
			}
		}
	}
	a := optest.Args{"g": optest.Tensor(t, dtype.Float32, []int64{2, 40, 4}, 1), "chunkSize": 64, "gkOut": optest.Tensor(t, dtype.Float32, []int64{2, 40, 4})}
	for text, set := range map[string]optest.Args{
		"g is null": {"g": nil}, "chunkSize is 16": {"chunkSize": 16}, "aLogOptional is null": {"useGateInKernel": true}, "cuSeqlensOptional is [0,39]": {"cuSeqlensOptional": []int64{0, 39}},
		"at most 256": {"g": optest.Tensor(t, dtype.Float32, []int64{1, 1, 257}, 1), "gkOut": optest.Tensor(t, dtype.Float32, []int64{1, 1, 257})}, "shapes differ": {"gkOut": optest.Tensor(t, dtype.Float32, []int64{2, 40, 5})},
	} {
		optest.Refused(t, op.InvalidParam, "KdaGateCumsum", a.With(set), text)
	}
}
