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

// deltaChunks computes the results of a deltaSystem chunk by chunk, from queries and the given w and u.
type deltaChunks struct {
	deltaSystem
	scale           float64
	q, dOut, w, u   []float64
	h, nudge        []float64 // states before the chunks, and what is added to those after them: [heads, chunks, dk, dv]
	corrected       []float64 // the values without what the states predict
	initial, ending []float64 // states of the sequences: [sequences, heads, dk, dv]
}

// eachChunk calls f with the tokens of each chunk of each head, the place of its state, and whether it
// is the first or the last one of its sequence.
func (d *deltaChunks) eachChunk(f func(h, from, to, state, sequence int, first, last bool)) {
	state := 0
	for h := range d.hv {
		d.chunks(func(from, to int) {
			sequence := 0
			for int(d.ends[sequence+1]) < to {
				sequence++
			}
			f(h, from, to, state, sequence, int64(from) == d.ends[sequence], int64(to) == d.ends[sequence+1])
			state += d.dk * d.dv
		})
	}
}

// states computes the states and the corrected values.
func (d *deltaChunks) states() {
	size := d.dk * d.dv
	d.eachChunk(func(h, from, to, state, sequence int, first, last bool) {
		end := (sequence*d.hv + h) * size
		before := d.h[state : state+size]
		if first {
			copy(before, d.initial[end:])
		}
		for i := from; i < to; i++ {
			at := h*d.t + i
			for b := range d.dv {
				v := d.u[at*d.dv+b]
				for a := range d.dk {
					v -= d.w[at*d.dk+a] * before[a*d.dv+b]
				}
				d.corrected[at*d.dv+b] = v
			}
		}
		after := d.ending[end : end+size]
		if !last {
			after = d.h[state+size : state+2*size]
		}
		g := d.g[h*d.t:]
		for a := range d.dk {
			for b := range d.dv {
				sum := d.nudge[state+a*d.dv+b] + math.Exp(g[to-1])*before[a*d.dv+b]
				for i := from; i < to; i++ {
					sum += math.Exp(g[to-1]-g[i]) * d.k[d.key(h, i)+a] * d.corrected[(h*d.t+i)*d.dv+b]
				}
				after[a*d.dv+b] = sum
			}
		}
	})
}

// key returns the place of a token's key, and of its query, for a head of the values.
func (d *deltaChunks) key(h, i int) int { return (h/(d.hv/d.hk)*d.t + i) * d.dk }

// outputs computes the results from the states and the corrected values.
func (d *deltaChunks) outputs() []float64 {
	out := make([]float64, len(d.u))
	d.eachChunk(func(h, from, to, state, _ int, _, _ bool) {
		g := d.g[h*d.t:]
		for i := from; i < to; i++ {
			row, q := out[(h*d.t+i)*d.dv:][:d.dv], d.q[d.key(h, i):][:d.dk]
			for j := from; j <= i; j++ {
				dot := 0.
				for a := range d.dk {
					dot += q[a] * d.k[d.key(h, j)+a]
				}
				for b := range row {
					row[b] += d.scale * math.Exp(g[i]-g[j]) * dot * d.corrected[(h*d.t+j)*d.dv+b]
				}
			}
			for a := range d.dk {
				for b := range row {
					row[b] += d.scale * math.Exp(g[i]) * q[a] * d.h[state+a*d.dv+b]
				}
			}
		}
	})
	return out
}

// loss is Σ dOut·out, the function that the operators differentiate.
func (d *deltaChunks) loss() float64 {
	d.states()
	return d.lossOfOutputs()
}

func (d *deltaChunks) lossOfOutputs() (sum float64) {
	for i, v := range d.outputs() {
		sum += d.dOut[i] * v
	}
	return sum
}

// newDeltaChunks fills a case with values that float16 represents, and w and u with those of the
// definition.
func newDeltaChunks(d deltaSystem, initial bool) *deltaChunks {
	const half = dtype.Float16
	count := 0
	d.chunks(func(int, int) { count++ })
	values, keys, states := d.hv*d.t*d.dv, d.hk*d.t*d.dk, d.hv*count*d.dk*d.dv
	normal := func(seed uint64, n int, by float64) []float64 {
		v := optest.Normal(seed, half, int64(n))
		for i := range v {
			v[i] = kerneltest.Round(half, v[i]*by)
		}
		return v
	}
	d.k, d.v, d.beta, d.g = normal(1, keys, .5), normal(2, values, 1), normal(3, d.hv*d.t, 1), normal(4, d.hv*d.t, .125)
	c := &deltaChunks{
		deltaSystem: d, scale: .5, q: normal(5, keys, 1), dOut: normal(6, values, 1), w: make([]float64, d.hv*d.t*d.dk), u: make([]float64, values),
		h: make([]float64, states), nudge: make([]float64, states), corrected: make([]float64, values),
		initial: make([]float64, (len(d.ends)-1)*d.hv*d.dk*d.dv), ending: make([]float64, (len(d.ends)-1)*d.hv*d.dk*d.dv),
	}
	if initial {
		c.initial = normal(7, len(c.initial), 1)
	}
	for i := range d.beta {
		d.beta[i] = kerneltest.Round(half, 1/(1+math.Exp(-d.beta[i])))
		d.g[i] = -math.Abs(d.g[i])
	}
	return c
}

// sum replaces the gates by their running sums.
func (d *deltaChunks) sum() {
	d.eachChunk(func(h, from, to, _, _ int, _, _ bool) {
		for i := from + 1; i < to; i++ {
			d.g[h*d.t+i] += d.g[h*d.t+i-1]
		}
	})
}

// solve computes w and u and the inverses of the chunks' systems, [heads, tokens, 64].
func (d *deltaChunks) solve() (inverse []float64) {
	inverse = make([]float64, d.hv*d.t*deltaChunkLength)
	d.eachChunk(func(h, from, to, _, _ int, _, _ bool) {
		m := d.matrix(h, from, to)
		for i, row := range d.solved(m, h, from) {
			at := h*d.t + from + i
			copy(d.w[at*d.dk:], row[:d.dk])
			copy(d.u[at*d.dv:], row[d.dk:])
			line := inverse[at*deltaChunkLength:][:deltaChunkLength]
			line[i] = 1
			for j := range i {
				for x := j; x < i; x++ {
					line[j] -= m[i][x] * inverse[(h*d.t+from+x)*deltaChunkLength+j]
				}
			}
		}
	})
	return inverse
}

// near asserts that a tensor holds the values, but for rounding in float32.
func near(t *testing.T, what string, want []float64, got *op.Tensor) {
	t.Helper()
	sum, diff := 1e-12, 0.
	for i, v := range optest.Values(got) {
		diff += (v - want[i]) * (v - want[i])
		sum += want[i] * want[i]
	}
	require.LessOrEqual(t, math.Sqrt(diff/sum), 1e-4, what)
}

// TestDeltaChunks compares the operators of a pass over the chunks with a definition, and those of the
// way back with its difference quotients.
func TestDeltaChunks(t *testing.T) {
	for _, c := range []deltaSystem{
		{hk: 1, hv: 1, t: 1, dk: 2, dv: 3, ends: []int64{0, 1}},
		{hk: 2, hv: 4, t: 9, dk: 3, dv: 2, ends: []int64{0, 9}},
		{hk: 1, hv: 2, t: 70, dk: 3, dv: 4, ends: []int64{0, 70}},
		{hk: 1, hv: 2, t: 70, dk: 3, dv: 4, ends: []int64{0, 3, 70}},
	} {
		t.Run(fmt.Sprintf("%d heads on %d/%v", c.hv, c.hk, c.ends), func(t *testing.T) {
			testDeltaForward(t, newDeltaChunks(c, true))
			testDeltaBackward(t, newDeltaChunks(c, false))
		})
	}
}

// deltaTensors makes the tensors of a case.
type deltaTensors struct {
	*testing.T
	d                                     *deltaChunks
	keys, ofW, values, gates, states, end []int64
}

func (d *deltaChunks) tensors(t *testing.T) deltaTensors {
	hk, hv, n, k, v := int64(d.hk), int64(d.hv), int64(d.t), int64(d.dk), int64(d.dv)
	return deltaTensors{
		t, d, []int64{1, hk, n, k}, []int64{1, hv, n, k}, []int64{1, hv, n, v}, []int64{1, hv, n},
		[]int64{1, hv, int64(len(d.h)) / (hv * k * v), k, v}, []int64{int64(len(d.ends) - 1), hv, k, v},
	}
}

func (t deltaTensors) half(shape []int64, v []float64) *op.Tensor {
	return optest.Tensor(t, dtype.Float16, shape, v...)
}

func (t deltaTensors) wide(shape []int64, v ...float64) *op.Tensor {
	return optest.Tensor(t, dtype.Float32, shape, v...)
}

// packed returns the arguments that describe the chunks.
func (t deltaTensors) packed(list string, block int64) optest.Args {
	a := optest.Args{"chunkSize": deltaChunkLength}
	if len(t.d.ends) > 2 {
		form := deltaForm{length: block, ends: t.d.ends[1:]}
		a["cuSeqlensOptional"], a[list] = t.d.ends, form.chunkIndexList()
	}
	return a
}

func testDeltaForward(t *testing.T, d *deltaChunks) {
	x := d.tensors(t)
	sums, gates := x.wide(x.gates), x.wide(x.gates, d.g...)
	optest.Run(t, "ChunkLocalCumsum", x.packed("chunkIndicesOutOptional", cumsumBlock/deltaChunkLength).With(optest.Args{"g": gates, "scale": 1.0, "headFirst": true, "out": sums}))
	d.sum()
	near(t, "sums", d.g, sums)

	inverse := d.solve()
	k, g, w, u := x.half(x.keys, d.k), x.wide(x.gates, d.g...), x.wide(x.ofW), x.wide(x.values)
	shared := x.packed(chunkList, deltaChunkLength).With(optest.Args{"k": k, "g": g})
	system := x.wide(append(slices.Clone(x.gates), deltaChunkLength), inverse...)
	optest.Run(t, "RecomputeWUFwd", shared.With(optest.Args{"v": x.half(x.values, d.v), "beta": x.wide(x.gates, d.beta...), "a": system, "wOut": w, "uOut": u}))
	near(t, "w", d.w, w)
	near(t, "u", d.u, u)

	d.states()
	h, corrected, final := x.wide(x.states), x.wide(x.values), x.wide(x.end)
	optest.Run(t, "ChunkGatedDeltaRuleFwdH", x.packed(chunkList, deltaChunkLength).With(optest.Args{
		"k": k, "w": w, "u": u, "gOptional": g, "initialStateOptional": x.wide(x.end, d.initial...), "outputFinalState": true,
		"hOut": h, "vNewOut": corrected, "finalStateOut": final,
	}))
	near(t, "states", d.h, h)
	near(t, "corrected values", d.corrected, corrected)
	near(t, "final states", d.ending, final)

	out := x.wide(x.values)
	optest.Run(t, "ChunkFwdO", x.packed("chunkOffsetsOptional", deltaChunkLength).With(optest.Args{
		"q": x.half(x.keys, d.q), "k": k, "v": corrected, "h": h, "g": g, "scale": d.scale, "oOut": out,
	}))
	near(t, "out", d.outputs(), out)
}

func testDeltaBackward(t *testing.T, d *deltaChunks) {
	x := d.tensors(t)
	d.sum()
	d.solve()
	d.states()
	h, corrected := slices.Clone(d.h), slices.Clone(d.corrected)
	q, k, g, dOut := x.half(x.keys, d.q), x.half(x.keys, d.k), x.wide(x.gates, d.g...), x.half(x.values, d.dOut)
	shared := x.packed(chunkList, deltaChunkLength).With(optest.Args{"q": q, "k": k, "g": g, "scale": d.scale})
	local := x.wide(x.values)
	optest.Run(t, "ChunkBwdDvLocal", shared.With(optest.Args{"dO": dOut, "out": local}))
	near(t, "local gradient of the values", gradientsOf(d.corrected, d.lossOfOutputs), local)

	dh, dv := x.wide(x.states), x.wide(x.values)
	a := x.packed(chunkList, deltaChunkLength).With(optest.Args{
		"q": q, "k": k, "w": x.wide(x.ofW, d.w...), "dO": dOut, "dv": local, "gOptional": g, "scale": d.scale, "dhOut": dh, "dv2Out": dv,
	})
	optest.Run(t, "ChunkGatedDeltaRuleBwdDhu", a)
	near(t, "gradient of the states", gradientsOf(d.nudge, d.loss), dh)
	near(t, "gradient of the values", gradientsOf(d.u, d.loss), dv)

	want := map[string][]float64{"dqOut": gradientsOf(d.q, d.loss), "dkOut": gradientsOf(d.k, d.loss), "dwOut": gradientsOf(d.w, d.loss), "dgOut": gradientsOf(d.g, d.loss)}
	outs := optest.Args{"dqOut": x.wide(x.keys), "dkOut": x.wide(x.keys), "dwOut": x.wide(x.ofW), "dgOut": x.wide(x.gates)}
	optest.Run(t, "ChunkBwdDqkwg", shared.With(outs).With(optest.Args{
		"v": x.wide(x.values, corrected...), "h": x.wide(x.states, h...), "dox": dOut, "dh": dh, "dv": dv,
	}))
	for name, values := range want {
		near(t, name, values, outs[name].(*op.Tensor))
	}
}
