package recurrent

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// recurrence is a test case of the recurrent form; values are row-major.
type recurrence struct {
	hk, hv, dk, dv   int
	ends, rows       []int64
	accepted         []int64 // may be nil
	q, k, v, beta, g []float64
	states           []float64 // [rows, hv, dv, dk]
	scale            float64
	out              []float64
}

// run computes the definition. States are rounded to their dtype after each token.
func (r *recurrence) run(state dtype.Type) {
	size := r.dv * r.dk
	r.out = make([]float64, len(r.v))
	for n := range len(r.ends) - 1 {
		from := r.ends[n]
		if from == r.ends[n+1] {
			continue
		}
		start := r.rows[from]
		if r.accepted != nil {
			start = r.rows[from+r.accepted[n]-1]
		}
		for h := range r.hv {
			at := func(row int64) []float64 { return r.states[(int(row)*r.hv+h)*size:][:size] }
			s := append([]float64(nil), at(start)...)
			for t := from; t < r.ends[n+1]; t++ {
				key := (int(t)*r.hk + h/(r.hv/r.hk)) * r.dk
				gate := int(t)*r.hv + h
				decay := 1.
				if r.g != nil {
					decay = math.Exp(r.g[gate])
				}
				for j := range r.dv {
					row, value := s[j*r.dk:][:r.dk], gate*r.dv+j
					miss := r.v[value]
					for i := range row {
						row[i] *= decay
						miss -= row[i] * r.k[key+i]
					}
					read := 0.
					for i := range row {
						row[i] += r.beta[gate] * miss * r.k[key+i]
						read += row[i] * r.q[key+i]
					}
					r.out[value] = r.scale * read
				}
				for i := range s {
					s[i] = kerneltest.Round(state, s[i])
				}
				copy(at(r.rows[t]), s)
			}
		}
	}
}

// TestRecurrentDelta compares with the definition: groups of heads, sequences of zero to eight
// tokens, state rows in any order and shared, and drafts of which a part was accepted.
func TestRecurrentDelta(t *testing.T) {
	for name, c := range map[string]struct {
		recurrence
		state  dtype.Type
		nogate bool
	}{
		"one token":        {recurrence: recurrence{hk: 1, hv: 1, dk: 4, dv: 4, ends: []int64{0, 1}, rows: []int64{0}}},
		"batch of decodes": {recurrence: recurrence{hk: 2, hv: 4, dk: 8, dv: 5, ends: []int64{0, 1, 2, 3}, rows: []int64{4, 0, 2}}, state: dtype.BFloat16},
		"rows kept":        {recurrence: recurrence{hk: 1, hv: 2, dk: 7, dv: 3, ends: []int64{0, 8, 8, 11}, rows: []int64{0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 3}}},
		"rows for each":    {recurrence: recurrence{hk: 2, hv: 2, dk: 16, dv: 16, ends: []int64{0, 3, 5}, rows: []int64{4, 2, 0, 1, 3}}},
		"accepted drafts":  {recurrence: recurrence{hk: 1, hv: 1, dk: 8, dv: 8, ends: []int64{0, 3, 5}, rows: []int64{4, 2, 0, 1, 3}, accepted: []int64{2, 1}}, state: dtype.BFloat16},
		"without decay":    {recurrence: recurrence{hk: 1, hv: 3, dk: 4, dv: 4, ends: []int64{0, 4}, rows: []int64{0, 1, 2, 3}}, nogate: true},
		"no tokens":        {recurrence: recurrence{hk: 1, hv: 1, dk: 4, dv: 4, ends: []int64{0, 0}, rows: []int64{}}},
	} {
		t.Run(name, func(t *testing.T) {
			const lines = 5
			bf := dtype.BFloat16
			tokens := int64(len(c.rows))
			c.scale = 0.5
			shape := func(n ...int) []int64 {
				s := []int64{tokens}
				for _, d := range n {
					s = append(s, int64(d))
				}
				return s
			}
			shrunk := func(seed uint64, d dtype.Type, n int64, f func(float64) float64) []float64 {
				v := optest.Normal(seed, dtype.Float64, n)
				for i := range v {
					v[i] = kerneltest.Round(d, f(v[i]))
				}
				return v
			}
			half := func(x float64) float64 { return x / 2 }
			c.q, c.k = shrunk(1, bf, tokens*int64(c.hk*c.dk), half), shrunk(2, bf, tokens*int64(c.hk*c.dk), half)
			c.v = optest.Normal(3, bf, tokens*int64(c.hv*c.dv))
			c.beta = shrunk(4, bf, tokens*int64(c.hv), func(x float64) float64 { return 1 / (1 + math.Exp(-x)) })
			c.states = optest.Normal(6, c.state, lines*int64(c.hv*c.dv*c.dk))
			state := optest.Tensor(t, c.state, []int64{lines, int64(c.hv), int64(c.dv), int64(c.dk)}, c.states...)
			ints := func(values []int64) *op.Tensor {
				wide := make([]float64, len(values))
				for i, v := range values {
					wide[i] = float64(v)
				}
				return optest.Tensor(t, dtype.Int32, []int64{int64(len(values))}, wide...)
			}
			out := optest.Tensor(t, bf, shape(c.hv, c.dv))
			a := optest.Args{
				"query": optest.Tensor(t, bf, shape(c.hk, c.dk), c.q...), "key": optest.Tensor(t, bf, shape(c.hk, c.dk), c.k...), "value": optest.Tensor(t, bf, shape(c.hv, c.dv), c.v...),
				"beta": optest.Tensor(t, bf, shape(c.hv), c.beta...), "stateRef": state, "actualSeqLengths": ints(c.ends), "ssmStateIndices": ints(c.rows),
				"scaleValue": c.scale, "out": out,
			}
			if !c.nogate {
				c.g = shrunk(5, dtype.Float32, tokens*int64(c.hv), func(x float64) float64 { return -math.Abs(x) })
				a["g"] = optest.Tensor(t, dtype.Float32, shape(c.hv), c.g...)
			}
			if c.accepted != nil {
				a["numAcceptedTokens"] = ints(c.accepted)
			}
			optest.Run(t, "RecurrentGatedDeltaRule", a)
			c.run(c.state)
			near := func(want, got []float64, what string) {
				require.Len(t, got, len(want))
				for i, w := range want {
					require.InDelta(t, w, got[i], 0.004+0.01*math.Abs(w), "%s, element %d", what, i)
				}
			}
			near(c.out, optest.Values(out), "out")
			near(c.states, optest.Values(state), "states")
		})
	}
}

func TestRecurrentDeltaRefusals(t *testing.T) {
	bf := dtype.BFloat16
	ints := func(values ...float64) *op.Tensor {
		return optest.Tensor(t, dtype.Int32, []int64{int64(len(values))}, values...)
	}
	x, gates := optest.Tensor(t, bf, []int64{9, 2, 4}, 1), optest.Tensor(t, bf, []int64{9, 2}, 1)
	a := optest.Args{
		"query": x, "key": x, "value": x, "beta": gates, "stateRef": optest.Tensor(t, dtype.Float32, []int64{9, 2, 4, 4}, 0), "actualSeqLengths": ints(0, 4, 9),
		"ssmStateIndices": ints(0, 1, 2, 3, 4, 5, 6, 7, 8), "scaleValue": 1., "out": optest.Tensor(t, bf, []int64{9, 2, 4}),
	}
	optest.Run(t, "RecurrentGatedDeltaRule", a)
	for name, c := range map[string]struct {
		change optest.Args
		code   int32
		text   string
	}{
		"no state":         {optest.Args{"stateRef": nil}, op.NullPointer, "stateRef is null"},
		"float16":          {optest.Args{"query": optest.Tensor(t, dtype.Float16, []int64{9, 2, 4})}, op.InvalidParam, "float16"},
		"float32 rows":     {optest.Args{"ssmStateIndices": optest.Tensor(t, dtype.Float32, []int64{9})}, op.InvalidParam, "float32"},
		"state transposed": {optest.Args{"stateRef": optest.Tensor(t, dtype.Float32, []int64{9, 2, 4, 3})}, op.InvalidParam, "rows of states"},
		"rows missing":     {optest.Args{"ssmStateIndices": ints(0, 1)}, op.InvalidParam, "a row for each token"},
		"gk":               {optest.Args{"gk": gates}, op.InvalidParam, "not supported"},
		"heads":            {optest.Args{"key": optest.Tensor(t, bf, []int64{9, 3, 4}), "query": optest.Tensor(t, bf, []int64{9, 3, 4})}, op.InvalidParam, "multiple of key heads"},
		"accepted":         {optest.Args{"numAcceptedTokens": ints(1)}, op.InvalidParam, "one for each sequence"},
	} {
		t.Run(name, func(t *testing.T) { optest.Refused(t, c.code, "RecurrentGatedDeltaRule", a.With(c.change), c.text) })
	}
	// Errors that only the device can detect fail there.
	for name, c := range map[string]struct {
		change optest.Args
		text   string
	}{
		"nine tokens":       {optest.Args{"actualSeqLengths": ints(0, 9)}, "at most 8 each"},
		"not sorted":        {optest.Args{"actualSeqLengths": ints(0, 4, 2)}, "goes from 4 to 2"},
		"row outside":       {optest.Args{"ssmStateIndices": ints(0, 1, 2, 3, 4, 5, 6, 7, 9)}, "ssmStateIndices has 9"},
		"too many accepted": {optest.Args{"numAcceptedTokens": ints(5, 1)}, "numAcceptedTokens[0] is 5"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, optest.Execute(t, "RecurrentGatedDeltaRule", a.With(c.change)), c.text)
		})
	}
}

// deltaSystem is a test case for the operators of w and u: packed sequences in one row, in
// float64, [heads, tokens, ·].
type deltaSystem struct {
	hk, hv, t, dk, dv int
	ends              []int64
	k, v, beta, g     []float64
	dw, du            []float64
}

const deltaChunkLength = 64

// chunks calls f with the token range of each chunk.
func (d *deltaSystem) chunks(f func(from, to int)) {
	for i := range len(d.ends) - 1 {
		for from := d.ends[i]; from < d.ends[i+1]; from += deltaChunkLength {
			f(int(from), int(min(from+deltaChunkLength, d.ends[i+1])))
		}
	}
}

// matrix returns β·kkᵀ·decay below the diagonal, for one head and chunk.
func (d *deltaSystem) matrix(h, from, to int) [][]float64 {
	n, key := to-from, h/(d.hv/d.hk)
	m := make([][]float64, n)
	for i := range m {
		m[i] = make([]float64, n)
		for j := range i {
			dot, at, other := 0., h*d.t+from+i, h*d.t+from+j
			for x := range d.dk {
				dot += d.k[(key*d.t+from+i)*d.dk+x] * d.k[(key*d.t+from+j)*d.dk+x]
			}
			m[i][j] = d.beta[at] * dot * math.Exp(d.g[at]-d.g[other])
		}
	}
	return m
}

// solved returns (I + m)⁻¹·[β·eᵞ·k | β·v], row by row.
func (d *deltaSystem) solved(m [][]float64, h, from int) [][]float64 {
	key := h / (d.hv / d.hk)
	x := make([][]float64, len(m))
	for i := range m {
		at := h*d.t + from + i
		x[i] = make([]float64, d.dk+d.dv)
		for c := range d.dk {
			x[i][c] = d.beta[at] * math.Exp(d.g[at]) * d.k[(key*d.t+from+i)*d.dk+c]
		}
		for c := range d.dv {
			x[i][d.dk+c] = d.beta[at] * d.v[at*d.dv+c]
		}
		for j := range i {
			for c := range x[i] {
				x[i][c] -= m[i][j] * x[j][c]
			}
		}
	}
	return x
}

// weighed is Σ dw·w + du·u over a head and chunk, the function that the operators differentiate.
func (d *deltaSystem) weighed(m [][]float64, h, from int) float64 {
	sum := 0.
	for i, row := range d.solved(m, h, from) {
		at := h*d.t + from + i
		for c := range d.dk {
			sum += d.dw[at*d.dk+c] * row[c]
		}
		for c := range d.dv {
			sum += d.du[at*d.dv+c] * row[d.dk+c]
		}
	}
	return sum
}

func (d *deltaSystem) total() float64 {
	sum := 0.
	d.chunks(func(from, to int) {
		for h := range d.hv {
			sum += d.weighed(d.matrix(h, from, to), h, from)
		}
	})
	return sum
}

// gradientOf approximates a derivative by a difference quotient.
func gradientOf(x *float64, f func() float64) float64 {
	const step = 1e-5
	at := *x
	*x = at + step
	above := f()
	*x = at - step
	below := f()
	*x = at
	return (above - below) / (2 * step)
}

func gradientsOf(x []float64, f func() float64) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = gradientOf(&x[i], f)
	}
	return out
}

// TestPrepareWyReprBwd compares three results with difference quotients of the definition: the
// gradient of the chunks' systems, the gradients derived from it, and both from the fused
// operator.
func TestPrepareWyReprBwd(t *testing.T) {
	for _, c := range []deltaSystem{
		{hk: 1, hv: 1, t: 1, dk: 2, dv: 3, ends: []int64{0, 1}},
		{hk: 2, hv: 4, t: 9, dk: 3, dv: 2, ends: []int64{0, 9}},
		{hk: 1, hv: 2, t: 70, dk: 3, dv: 4, ends: []int64{0, 3, 70}},
	} {
		t.Run(fmt.Sprintf("%d heads on %d/%v", c.hv, c.hk, c.ends), func(t *testing.T) {
			d, half, wide := c, dtype.Float16, dtype.Float32
			hk, hv, tokens, dk, dv := int64(d.hk), int64(d.hv), int64(d.t), int64(d.dk), int64(d.dv)
			d.k, d.v, d.dw, d.du = optest.Normal(1, half, hk*tokens*dk), optest.Normal(2, half, hv*tokens*dv), optest.Normal(3, half, hv*tokens*dk), optest.Normal(4, half, hv*tokens*dv)
			for i := range d.k {
				d.k[i] = kerneltest.Round(half, d.k[i]/2)
			}
			d.beta, d.g = optest.Normal(5, wide, hv*tokens), optest.Normal(6, wide, hv*tokens)
			for i := range d.beta {
				d.beta[i] = kerneltest.Round(wide, 1/(1+math.Exp(-d.beta[i])))
			}
			for h := range d.hv {
				d.chunks(func(from, to int) { // running sums of negative values
					sum := 0.
					for i := from; i < to; i++ {
						sum -= math.Abs(d.g[h*d.t+i]) / 8
						d.g[h*d.t+i] = kerneltest.Round(wide, sum)
					}
				})
			}
			// The inverse of each chunk's system, [heads, tokens, 64], and the gradients with
			// respect to it.
			inverse := make([]float64, d.hv*d.t*deltaChunkLength)
			wantDA := make([]float64, len(inverse))
			d.chunks(func(from, to int) {
				for h := range d.hv {
					m := d.matrix(h, from, to)
					for i := range m {
						row := inverse[(h*d.t+from+i)*deltaChunkLength:][:deltaChunkLength]
						row[i] = 1
						for j := range i {
							for x := j; x < i; x++ {
								row[j] -= m[i][x] * inverse[(h*d.t+from+x)*deltaChunkLength+j]
							}
						}
					}
					for i := range m {
						for j := range i {
							// The operator's gradient includes the decay, as M/(β·kkᵀ) does.
							decay := math.Exp(d.g[h*d.t+from+i] - d.g[h*d.t+from+j])
							wantDA[(h*d.t+from+i)*deltaChunkLength+j] = decay * gradientOf(&m[i][j], func() float64 { return d.weighed(m, h, from) })
						}
					}
				}
			})
			shape := func(n ...int64) []int64 { return append([]int64{1}, n...) }
			gates, system := shape(hv, tokens), shape(hv, tokens, deltaChunkLength)
			a := optest.Args{
				"k": optest.Tensor(t, half, shape(hk, tokens, dk), d.k...), "v": optest.Tensor(t, half, shape(hv, tokens, dv), d.v...),
				"beta": optest.Tensor(t, wide, gates, d.beta...), "a": optest.Tensor(t, wide, system, inverse...), "dw": optest.Tensor(t, half, shape(hv, tokens, dk), d.dw...),
				"du": optest.Tensor(t, half, shape(hv, tokens, dv), d.du...), "g": optest.Tensor(t, wide, gates, d.g...), "chunkSize": deltaChunkLength,
			}
			if len(d.ends) > 2 {
				a["cuSeqlensOptional"] = d.ends
				list := []int64{}
				for i := range len(d.ends) - 1 {
					for n := range (d.ends[i+1] - d.ends[i] + deltaChunkLength - 1) / deltaChunkLength {
						list = append(list, int64(i), n)
					}
				}
				a["chunkIndicesOptional"] = list
			}
			da := optest.Tensor(t, wide, system)
			optest.Run(t, "PrepareWyReprBwdDa", a.With(optest.Args{"dAOut": da}))
			near(t, "dA", wantDA, da)
			want := map[string][]float64{
				"dkOut": gradientsOf(d.k, d.total), "dvOut": gradientsOf(d.v, d.total), "dbetaOut": gradientsOf(d.beta, d.total), "dgOut": gradientsOf(d.g, d.total),
			}
			for name, more := range map[string]optest.Args{"PrepareWyReprBwdFull": {"dA": da}, "PrepareWyReprBwd": {}} {
				outs := optest.Args{
					"dkOut": optest.Tensor(t, wide, shape(hk, tokens, dk)), "dvOut": optest.Tensor(t, wide, shape(hv, tokens, dv)),
					"dbetaOut": optest.Tensor(t, wide, gates), "dgOut": optest.Tensor(t, wide, gates),
				}
				optest.Run(t, name, a.With(more).With(outs))
				for out, values := range want {
					near(t, name+" "+out, values, outs[out].(*op.Tensor))
				}
				optest.Refused(t, op.InvalidParam, name, a.With(more).With(outs).With(optest.Args{"beta": optest.Tensor(t, wide, system)}), "the form of keys and values")
				optest.Refused(t, op.NullPointer, name, a.With(more).With(outs).With(optest.Args{"dw": nil}), "dw is null")
			}
			optest.Refused(t, op.InvalidParam, "PrepareWyReprBwdDa", a.With(optest.Args{"dAOut": optest.Tensor(t, wide, gates)}), "the form of keys and values")
		})
	}
}
