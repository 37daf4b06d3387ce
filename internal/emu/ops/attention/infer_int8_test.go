package attention

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// int8Prompt is a call of attention in int8.
type int8Prompt struct {
	prompt
	wide bool  // scales are uint64
	part int64 // keys whose probabilities are quantised together
	zero bool  // queries that see nothing give 0
}

// Scales of the test. The device does not read the low bits of the first and the last.
const (
	scoreScale, weightScale, valueScale = 0.00071, 119.7, 0.0123 / 119.7
	int8Factor                          = 0.26
)

func toHalf(x float64) float64 { return kerneltest.Round(dtype.Float16, x) }

// device returns what the device reads of a scale, and the tensor of it.
func (p *int8Prompt) device(t testing.TB, scale float64) (float64, *op.Tensor) {
	bits := math.Float32bits(float32(scale))
	x := optest.Tensor(t, dtype.Float32, []int64{1}, scale)
	if p.wide {
		x = optest.Tensor(t, dtype.Uint64, []int64{1}, float64(1<<46|uint64(bits)))
	}
	return float64(math.Float32frombits(bits &^ 0x1fff)), x
}

// attended is the result of a query: its numbers, how far the device's may be from them, what they are without
// any rounding, how far from that they may be, and the logarithm of the sum of exponentials.
type attended struct {
	value, slack, ideal, reach []float64
	log                        float64
}

// query evaluates one query of a head in float64, with the roundings of the device.
func (p *int8Prompt) query(b, h, i int64, deq1, deq2 float64) attended {
	const ulp = 0x1p-10
	n, kh := p.keyLengths[b], h/(p.heads/p.keyHeads)
	zeros := func() []float64 { return make([]float64, p.dim) }
	r := attended{zeros(), zeros(), zeros(), zeros(), 0}
	scores, exact, hidden := make([]float64, n), make([]float64, n), make([]bool, n)
	for j := range n {
		whole := 0.0
		for d := range p.dim {
			whole += p.prompt.query[p.at(p.layout, b, h, i, d, p.heads, p.rows, 0)] * p.key[p.at(p.layout, b, kh, j, d, p.keyHeads, p.cols, 0)]
		}
		scores[j], exact[j] = toHalf(toHalf(whole*deq1)*toHalf(int8Factor)), whole*deq1*int8Factor
		if p.bias != nil {
			bias := p.bias[(h*p.rows+i)*p.cols+j]
			scores[j], exact[j] = toHalf(scores[j]+bias), exact[j]+bias
		}
		if hidden[j] = p.visible != nil && !p.visible(int(b), i, j); hidden[j] {
			scores[j], exact[j] = -65504, -65504
		}
	}
	blind := p.zero && !slices.Contains(hidden, false)
	most, total := math.Inf(-1), 0.0
	for first := int64(0); first < n; first += p.part {
		before := most
		for _, s := range scores[first:min(first+p.part, n)] {
			most = max(most, s)
		}
		fade, part, wobble := toHalf(math.Exp(before-most)), zeros(), zeros()
		total *= math.Exp(before - most)
		for j := first; j < min(first+p.part, n); j++ {
			weight := math.Exp(scores[j] - most)
			total += weight
			quantised := func(x float64) float64 { return optest.ToInt8(toHalf(toHalf(x) * toHalf(weightScale))) }
			q, spread := quantised(weight), quantised(weight*(1+0x1p-20))-quantised(weight*(1-0x1p-20))
			if blind {
				weight, q, spread = 0, 0, 0
			}
			for d := range p.dim {
				v := p.value[p.at(p.layout, b, kh, j, d, p.keyHeads, p.cols, 0)]
				part[d] += q * v
				wobble[d] += spread * math.Abs(v) * deq2
			}
		}
		for d := range p.dim {
			now := toHalf(part[d] * deq2)
			faded := toHalf(r.value[d] * fade)
			r.slack[d] = r.slack[d]*fade + wobble[d] + ulp*math.Abs(faded)
			r.value[d] = toHalf(faded + now)
			r.slack[d] += ulp * math.Abs(r.value[d])
		}
	}
	for d := range p.dim {
		r.value[d] = toHalf(r.value[d] / toHalf(total))
		r.slack[d] = r.slack[d]/total + 2*ulp*math.Abs(r.value[d]) + 0x1p-24
	}
	if !blind {
		p.unrounded(&r, b, kh, exact, deq2)
	}
	if r.log = most + math.Log(total); blind {
		r.log = math.Inf(1)
	}
	return r
}

// unrounded computes the ideal result and how far roundings may take the device's from it: each score is rounded three
// times to float16, and each probability to a whole number.
func (p *int8Prompt) unrounded(r *attended, b, keyHead int64, scores []float64, deq2 float64) {
	const ulp = 0x1p-10
	most, largest, total := slices.Max(scores), 0.0, 0.0
	for _, s := range scores {
		if total += math.Exp(s - most); s > -65504 || most <= -65504 {
			largest = max(largest, math.Abs(s)+8)
		}
	}
	if most <= -65504 {
		largest = 0 // all scores are the lowest, which is exact
	}
	apart := math.Exp(4*ulp*largest) - 1 // relative, of a probability
	for j, s := range scores {
		weight := math.Exp(s - most)
		for d := range p.dim {
			v := p.value[p.at(p.layout, b, keyHead, int64(j), d, p.keyHeads, p.cols, 0)]
			r.ideal[d] += weight * v * deq2 * weightScale / total
			r.reach[d] += math.Abs(v) * deq2 * (0.5 + weightScale*weight*(2*apart+4*ulp)) / total * (1 + apart)
		}
	}
	for d := range p.dim {
		r.reach[d] += 8*ulp*math.Abs(r.ideal[d]) + 0x1p-20
	}
}

// check runs an operator and compares its results.
func (p *int8Prompt) check(t *testing.T, name string, l kerneltest.Layout, extra optest.Args) {
	t.Helper()
	p.dtype = dtype.Float16
	p.start()
	r := rand.New(rand.NewPCG(5, uint64(p.cols)))
	for _, x := range [][]float64{p.prompt.query, p.key, p.value} {
		for i := range x {
			x[i] = float64(r.IntN(256) - 128)
		}
	}
	out := p.layout
	word := p.layout
	if w, ok := extra["inputLayout"].(string); ok {
		word, out = w, "BSND"
	}
	input := func(data []float64, heads, rows int64) *op.Tensor {
		return optest.TensorIn(t, dtype.Int8, l, p.shape(p.layout, heads, rows, 0), data...)
	}
	has := hasParam(op.Find(name))
	suffix := ""
	if !has("quantScale1") {
		suffix = "Optional"
	}
	deq1, scores := p.device(t, scoreScale)
	deq2, values := p.device(t, valueScale)
	result := optest.TensorIn(t, dtype.Float16, l, p.shape(out, p.heads, p.rows, 0), 7)
	a := optest.Args{"query": input(p.prompt.query, p.heads, p.rows), "key": input(p.key, p.keyHeads, p.cols), "value": input(p.value, p.keyHeads, p.cols),
		"deqScale1" + suffix: scores, "quantScale1" + suffix: optest.Tensor(t, dtype.Float32, []int64{1}, weightScale), "deqScale2" + suffix: values,
		"numHeads": p.heads, "numKeyValueHeads": p.keyHeads, "scaleValue": int8Factor, "inputLayout": word}
	if p.out != nil {
		result = optest.TensorIn(t, dtype.Int8, l, result.Shape, 7)
		p.out.add(t, &p.prompt, has, a)
	}
	a["attentionOut"] = result
	p.addBias(t, has, a)
	p.addLengths(has, a)
	if op.Find(name).Params[1].Class == op.TensorListClass {
		a["key"], a["value"] = []*op.Tensor{a["key"].(*op.Tensor)}, []*op.Tensor{a["value"].(*op.Tensor)}
	}
	var lse *op.Tensor
	if has("softmaxLse") {
		lse = optest.Tensor(t, dtype.Float32, []int64{p.batch, p.heads, p.rows, 1}, 7)
		a["softmaxLse"], a["softmaxLseFlag"] = lse, true
	}
	optest.Run(t, name, a.With(extra))
	p.compare(t, out, deq1, deq2, optest.Values(result), lse)
}

func (p *int8Prompt) compare(t *testing.T, out string, deq1, deq2 float64, got []float64, lse *op.Tensor) {
	t.Helper()
	equal, all := 0, 0
	for b := range p.batch {
		for h := range p.heads {
			for i := range p.rows {
				if i >= p.queryLengths[b] || p.keyLengths[b] == 0 {
					continue
				}
				r := p.query(b, h, i, deq1, deq2)
				for d := range p.dim {
					x, what := got[p.at(out, b, h, i, d, p.heads, p.rows, 0)], fmt.Sprintf("item %d, head %d, query %d, element %d", b, h, i, d)
					assert.InDelta(t, r.ideal[d], r.value[d], r.reach[d], "the reference itself, %s", what)
					all++
					if p.out == nil {
						require.InDelta(t, r.value[d], x, r.slack[d], what)
						if x == r.value[d] {
							equal++
						}
						continue
					}
					scale, offset := p.out.of(h*p.dim + d)
					want := toHalf(toHalf(r.value[d]*toHalf(scale)) + toHalf(offset))
					require.InDelta(t, min(max(want, -128), 127), x, 0.5+r.slack[d]*scale+0x1p-9*math.Abs(want), what)
					if x == optest.ToInt8(want) {
						equal++
					}
				}
				if lse != nil {
					got := optest.Values(lse)[(b*p.heads+h)*p.rows+i]
					require.True(t, got == r.log || math.Abs(got-r.log) < max(1e-4, math.Abs(r.log)*1e-7), "the logarithm is %g, not %g", got, r.log)
				}
			}
		}
	}
	assert.GreaterOrEqual(t, float64(equal), 0.97*float64(all), "results that are those of the reference to the bit, of %d", all)
}

func newInt8Prompt(layout string, dim, rows, cols int64) *int8Prompt {
	return &int8Prompt{prompt: prompt{layout: layout, heads: 4, keyHeads: 2, dim: dim, rows: rows, cols: cols, queryLengths: []int64{rows, rows - 1}, keyLengths: []int64{cols, cols - 3}}, part: 1024}
}

var int8Operators = []string{"PromptFlashAttentionV2", "PromptFlashAttentionV3", "FusedInferAttentionScore", "FusedInferAttentionScoreV2", "FusedInferAttentionScoreV3", "FusedInferAttentionScoreV4", "FusedInferAttentionScoreV5"}

// Every operator, layout, form of scales and kind of result.
func TestAttentionOfInt8(t *testing.T) {
	for i, name := range int8Operators {
		for j, layout := range []string{"BSH", "BSND", "BNSD", "BNSD_BSND"} {
			for k, out := range []*quantisedOut{nil, {dtype: dtype.Float32}, {dtype: dtype.Float32, each: true, shift: true}} {
				t.Run(fmt.Sprintf("%s/%s/%v", name, layout, out), func(t *testing.T) {
					p := newInt8Prompt(layout, 32, 3, 9)
					extra := optest.Args{}
					if layout == "BNSD_BSND" {
						p.layout, extra["inputLayout"] = "BNSD", layout
					}
					p.wide, p.out = (i+j+k)%2 > 0, out
					p.check(t, name, kerneltest.Layouts[(i+j+k)%len(kerneltest.Layouts)], extra)
				})
			}
		}
	}
	p := newInt8Prompt("BSND", 32, 1, 5)
	p.queryLengths = []int64{1, 1}
	p.check(t, "PromptFlashAttentionV3", kerneltest.Contiguous, nil)
	p = newInt8Prompt("BSH", 32, 2, 6)
	p.keyLengths = []int64{0, 6}
	p.check(t, "FusedInferAttentionScoreV3", kerneltest.Contiguous, nil)
}

// Masks, windows and biases hide keys and change scores as they do in floating point.
func TestAttentionOfInt8WithMasks(t *testing.T) {
	for mode, visible := range map[int]func(delta, i, j int64) bool{
		0: func(_, i, j int64) bool { return j >= i-2 && j <= i+1 },
		2: func(_, i, j int64) bool { return j <= i },
		3: func(delta, i, j int64) bool { return j <= i+delta },
		4: func(delta, i, j int64) bool { return j >= i+delta-2 && j <= i+delta+1 },
	} {
		p := newInt8Prompt("BSND", 32, 5, 9)
		p.visible = func(b int, i, j int64) bool { return visible(p.keyLengths[b]-p.queryLengths[b], i, j) }
		mask := triangle(t, 2048)
		if mode == 0 {
			mask = optest.Tensor(t, dtype.Bool, []int64{5, 9}, 0)
		}
		p.check(t, "FusedInferAttentionScoreV3", kerneltest.Contiguous, optest.Args{"sparseMode": mode, "attenMaskOptional": mask, "preTokens": 2, "nextTokens": 1})
	}
	hidden := func(b int, i, j int64) bool { return (i+j+int64(b))%3 == 0 || i == 1 }
	for precise, zero := range map[int]bool{1: false, 2: true} {
		for _, d := range []dtype.Type{dtype.Bool, dtype.Int8, dtype.Uint8} {
			p := newInt8Prompt("BNSD", 32, 4, 6)
			p.zero, p.visible = zero, func(b int, i, j int64) bool { return !hidden(b, i, j) }
			p.bias = optest.Normal(9, dtype.Float16, p.heads*p.rows*p.cols)
			mask := denseMask(t, []int64{2, 1, 4, 6}, func(b int, _, i, j int64) bool { return !hidden(b, i, j) })
			mask = optest.Tensor(t, d, mask.Shape, optest.Values(mask)...)
			p.check(t, "FusedInferAttentionScoreV2", kerneltest.Contiguous, optest.Args{"sparseMode": 1, "attenMaskOptional": mask, "innerPrecise": precise})
		}
	}
}

// Probabilities are quantised by the largest score so far, part by part of the keys.
func TestAttentionOfInt8InParts(t *testing.T) {
	causal := optest.Args{"sparseMode": 3, "attenMask": triangle(t, 2048)}
	for _, c := range []struct {
		dim, rows, cols, part int64
		extra                 optest.Args
	}{
		{32, 2, 2500, 2048, nil}, {32, 2, 1500, 1024, nil}, {32, 17, 2100, 1024, nil}, {32, 2, 2100, 1024, causal},
		{16, 2, 600, 256, nil}, {16, 2, 300, 128, causal}, {72, 2, 300, 128, nil}, {32, 140, 60, 1024, causal}, {32, 200, 1100, 1024, causal},
	} {
		p := newInt8Prompt("BSH", c.dim, c.rows, c.cols)
		p.heads, p.keyHeads, p.part = 1, 1, c.part
		p.queryLengths, p.keyLengths = []int64{c.rows}, []int64{c.cols}
		if c.extra != nil {
			p.zero = c.rows > c.cols
			p.visible = func(_ int, i, j int64) bool { return j <= i+c.cols-c.rows }
		}
		t.Run(fmt.Sprint(c.dim, c.rows, c.cols, c.part), func(t *testing.T) { p.check(t, "PromptFlashAttentionV3", kerneltest.Contiguous, c.extra) })
	}
}

func TestAttentionOfInt8Refusals(t *testing.T) {
	whole := func(shape ...int64) *op.Tensor { return withType(t, dtype.Int8, shape...) }
	single := func(shape ...int64) *op.Tensor { return withType(t, dtype.Float32, shape...) }
	halves := func(shape ...int64) *op.Tensor { return withType(t, dtype.Float16, shape...) }
	list := func(x *op.Tensor) []*op.Tensor { return []*op.Tensor{x} }
	base := optest.Args{"query": whole(2, 3, 64), "key": list(whole(2, 16, 32)), "value": list(whole(2, 16, 32)), "numHeads": 2, "numKeyValueHeads": 1, "inputLayout": "BSH",
		"deqScale1Optional": single(1), "quantScale1Optional": single(1), "deqScale2Optional": single(1), "attentionOut": halves(2, 3, 64)}
	name := "FusedInferAttentionScoreV3"
	optest.Run(t, name, base)
	optest.Refused(t, op.InvalidParam, name, base.With(optest.Args{"attentionOut": withType(t, dtype.BFloat16, 2, 3, 64)}), "bfloat16")
	optest.Refused(t, op.InvalidParam, name, base.With(optest.Args{"key": list(halves(2, 16, 32))}), "float16")
	optest.Refused(t, op.InvalidParam, name, base.With(optest.Args{"quantScale1Optional": halves(1)}), "float16")
	optest.Refused(t, op.InvalidParam, name, base.With(optest.Args{"pseShiftOptional": withType(t, dtype.BFloat16, 1, 2, 3, 16)}), "bfloat16")
	for _, c := range []struct {
		changes optest.Args
		text    string
	}{
		{optest.Args{"deqScale1Optional": nil}, "needs deqScale1, quantScale1 and deqScale2"},
		{optest.Args{"quantScale1Optional": nil}, "needs deqScale1, quantScale1 and deqScale2"},
		{optest.Args{"deqScale2Optional": single(0)}, "needs deqScale1, quantScale1 and deqScale2"},
		{optest.Args{"deqScale2Optional": single(2)}, "must have one element"},
		{optest.Args{"quantScale2Optional": single(1)}, "not int8"},
		{optest.Args{"attentionOut": whole(2, 3, 64)}, "needs quantScale2"},
		{optest.Args{"attentionOut": whole(2, 3, 64), "quantScale2Optional": withType(t, dtype.BFloat16, 1)}, "must be float32"},
		{optest.Args{"query": whole(2, 1, 64), "attentionOut": halves(2, 1, 64)}, "several tokens only"},
		{optest.Args{"query": whole(2, 3, 32), "attentionOut": halves(2, 3, 32), "key": list(whole(2, 16, 16)), "value": list(whole(2, 16, 16))}, "D should be 32 elements aligned"},
		{optest.Args{"key": list(whole(2, 0, 32)), "value": list(whole(2, 0, 32))}, "input datatype should not be int8"},
		{optest.Args{"key": list(whole(2, 128, 32)), "value": list(whole(2, 128, 32)), "blockTableOptional": withType(t, dtype.Int32, 2, 1), "blockSize": 128, "actualSeqLengthsKvOptional": []int64{1}}, "block table"},
		{optest.Args{"query": halves(2, 3, 64), "key": list(halves(2, 16, 32)), "value": list(halves(2, 16, 32))}, "only an int8 query has it"},
	} {
		optest.Refused(t, op.TilingRefused, name, base.With(c.changes), c.text)
	}
	packed := optest.Args{"inputLayout": "TND", "query": whole(3, 2, 32), "attentionOut": halves(3, 2, 32), "key": list(whole(4, 1, 32)), "value": list(whole(4, 1, 32)), "actualSeqLengthsOptional": []int64{3}, "actualSeqLengthsKvOptional": []int64{4}}
	optest.Refused(t, op.TilingRefused, name, base.With(packed), "TND")
	many := func(batch int64) optest.Args {
		return optest.Args{"query": whole(batch, 2, 8), "key": whole(batch, 2, 8), "value": whole(batch, 2, 8), "numHeads": 1, "numKeyValueHeads": 1, "inputLayout": "BSH",
			"deqScale1": single(1), "quantScale1": single(1), "deqScale2": single(1), "attentionOut": halves(batch, 2, 8)}
	}
	optest.Run(t, "PromptFlashAttentionV3", many(128))
	optest.Refused(t, op.TilingRefused, "PromptFlashAttentionV3", many(129), "can not be larger than 128")
}
