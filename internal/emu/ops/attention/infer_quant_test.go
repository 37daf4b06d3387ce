package attention

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

// quantisedCache is how the keys and values of a prompt are stored as integers.
type quantisedCache struct {
	dtype              dtype.Type // of the cache
	separate, offsets  bool       // scales for keys and values apart; with offsets
	keyMode, valueMode int64
	form               int // of a scale per channel: 0 per tensor, 1 [_,N*D], 2 [_,N,D], 3 [_,N,1,D], 4 [_,1,N,D]
}

// tokens returns the tokens for which a sequence has scales: whole blocks, if there are any.
func (p *prompt) tokens() int64 {
	if p.block == 0 {
		return p.cols
	}
	perSequence, _, _ := p.blocks()
	return perSequence * p.block
}

// index numbers the scales of a mode as their tensor holds them, except in blocks.
func (p *prompt) index(mode, b, h, s, d int64) int64 {
	switch mode {
	case scalePerChannel:
		if p.cache.form == 0 {
			return 0
		}
		return h*p.dim + d
	case scalePerHead:
		return h
	case scalePerToken, scalePerTokenPaged:
		return b*p.tokens() + s
	}
	return (b*p.keyHeads+h)*p.tokens() + s
}

// scaleOf returns the scale and the offset with an index, which are exact in every type. which is 0 for
// keys and 1 for values.
func (p *prompt) scaleOf(which, i int64) (scale, offset float64) {
	scale = float64(1+(i*5+which*2)%7) / 64
	if p.cache.offsets {
		offset = float64((i*3+which)%5) - 2
	}
	return scale, offset
}

// quantise makes integers of the keys and values and sets these to what the integers stand for.
func (p *prompt) quantise() (keys, values []float64) {
	extent, least, most := 20.0, -60.0, 60.0
	if p.cache.dtype != dtype.Int8 {
		extent, least, most = 3, -8, 7
	}
	mode := []int64{p.cache.keyMode, p.cache.valueMode}
	for which, data := range [][]float64{p.key, p.value} {
		whole := make([]float64, len(data))
		for b := range p.batch {
			for h := range p.keyHeads {
				for s := range p.cols {
					for d := range p.dim {
						at := p.at(p.layout, b, h, s, d, p.keyHeads, p.cols, 0)
						whole[at] = math.RoundToEven(min(max(data[at]*extent, least), most))
						scale, offset := p.scaleOf(int64(which), p.index(mode[which], b, h, s, d))
						data[at] = (whole[at] + offset) * scale
					}
				}
			}
		}
		keys, values = values, whole
	}
	return keys, values
}

// cacheTensor stores integers in a tensor of the layout.
func (p *prompt) cacheTensor(t testing.TB, whole []float64) *op.Tensor {
	shape := p.shape(p.layout, p.keyHeads, p.cols, p.totalCols)
	var x *op.Tensor
	switch p.cache.dtype {
	case dtype.Int8:
		return optest.Tensor(t, dtype.Int8, shape, whole...)
	case dtype.Int4:
		x = optest.Int4(t, shape...)
	default:
		shape[len(shape)-1] /= 8
		x = optest.Tensor(t, dtype.Int32, shape, 0)
	}
	optest.StoreInt4(t, x, whole)
	return x
}

// scaleTensors returns the scales and offsets of keys (from 0 to 1), of values (from 1 to 2) or of both.
func (p *prompt) scaleTensors(t testing.TB, mode, from, to int64) (scale, offset *op.Tensor) {
	parts, n := to-from, p.keyHeads
	d := dtype.Float32
	if mode == scalePerChannel || mode == scalePerHead {
		d = p.dtype
	}
	var shape []int64
	switch mode {
	case scalePerChannel:
		shape = [][]int64{{parts}, {parts, n * p.dim}, {parts, n, p.dim}, {parts, n, 1, p.dim}, {parts, 1, n, p.dim}}[p.cache.form]
	case scalePerToken:
		if shape = []int64{parts, p.batch, p.tokens()}; p.cache.form == 1 {
			shape = shape[1:]
		}
	case scalePerHead:
		shape = []int64{n}
	case scalePerTokenHead:
		shape = []int64{p.batch, n, p.tokens()}
	default:
		return p.pagedScales(t, mode, from)
	}
	var scales, offsets []float64
	for which := from; which < to; which++ {
		for i := range op.Count(shape) / parts {
			s, o := p.scaleOf(which, i)
			scales, offsets = append(scales, s), append(offsets, o)
		}
	}
	return optest.Tensor(t, d, shape, scales...), optest.Tensor(t, d, shape, offsets...)
}

// pagedScales stores the scales of tokens in the blocks of the tokens.
func (p *prompt) pagedScales(t testing.TB, mode, which int64) (scale, offset *op.Tensor) {
	perSequence, blocks, table := p.blocks()
	shape, heads := []int64{blocks, p.block}, int64(1)
	if mode == scalePerTokenHeadPaged {
		shape, heads = []int64{blocks, p.keyHeads, p.block}, p.keyHeads
	}
	scales, offsets := make([]float64, op.Count(shape)), make([]float64, op.Count(shape))
	for b := range p.batch {
		for s := range p.cols {
			for h := range heads {
				at := (int64(table[b*perSequence+s/p.block])*heads+h)*p.block + s%p.block
				scales[at], offsets[at] = p.scaleOf(which, p.index(mode, b, h, s, 0))
			}
		}
	}
	return optest.Tensor(t, dtype.Float32, shape, scales...), optest.Tensor(t, dtype.Float32, shape, offsets...)
}

// addScales adds the scales to the arguments.
func (p *prompt) addScales(t testing.TB, has func(string) bool, a optest.Args) {
	set := func(name string, v any) {
		if !has(name) {
			name += "Optional"
		}
		a[name] = v
	}
	add := func(prefix string, scale, offset *op.Tensor) {
		if set(prefix+"Scale", scale); p.cache.offsets {
			set(prefix+"Offset", offset)
		}
	}
	if !p.cache.separate {
		scale, offset := p.scaleTensors(t, p.cache.keyMode, 0, 2)
		if add("antiquant", scale, offset); has("antiquantMode") {
			a["antiquantMode"] = p.cache.keyMode
		}
		return
	}
	scale, offset := p.scaleTensors(t, p.cache.keyMode, 0, 1)
	add("keyAntiquant", scale, offset)
	scale, offset = p.scaleTensors(t, p.cache.valueMode, 1, 2)
	add("valueAntiquant", scale, offset)
	a["keyAntiquantMode"], a["valueAntiquantMode"] = p.cache.keyMode, p.cache.valueMode
}

// quantisedOut is how a result is quantised: by one number, or one for each head and position.
type quantisedOut struct {
	dtype       dtype.Type // of the scales
	each, shift bool
}

func (q *quantisedOut) of(i int64) (scale, offset float64) {
	if !q.each {
		i = 0
	}
	if scale = float64(24 + i%5*4); q.shift {
		offset = float64(i%7) - 3
	}
	return scale, offset
}

func (q *quantisedOut) add(t testing.TB, p *prompt, has func(string) bool, a optest.Args) {
	n := int64(1)
	if q.each {
		n = p.heads * p.dim
	}
	scales, offsets := make([]float64, n), make([]float64, n)
	for i := range n {
		scales[i], offsets[i] = q.of(i)
	}
	suffix := ""
	if !has("quantScale2") {
		suffix = "Optional"
	}
	shape := []int64{n}
	if q.each {
		shape = []int64{1, p.heads, 1, p.dim}
	}
	if a["quantScale2"+suffix] = optest.Tensor(t, q.dtype, shape, scales...); q.shift {
		a["quantOffset2"+suffix] = optest.Tensor(t, q.dtype, shape, offsets...)
	}
}

// check compares with the quantised want, within half a step and what rounds differently.
func (q *quantisedOut) check(t *testing.T, p *prompt, layout string, want, got []float64) {
	t.Helper()
	for b := range p.batch {
		for h := range p.heads {
			for i := range p.queryLengths[b] {
				for d := range p.dim {
					at := p.at(layout, b, h, i, d, p.heads, p.rows, 0)
					scale, offset := q.of(h*p.dim + d)
					require.InDelta(t, min(max(want[at]*scale+offset, -128), 127), got[at], 0.51, "element %d", at)
				}
			}
		}
	}
}

// A cache of integers gives the result of the numbers that the integers stand for, with every kind of
// scale.
func TestAttentionOverQuantisedCache(t *testing.T) {
	type kind struct {
		quantisedCache
		query dtype.Type
		block int64
	}
	var kinds []kind
	for _, query := range inferTypes {
		for form := range 5 {
			kinds = append(kinds, kind{quantisedCache{dtype: dtype.Int8, form: form, offsets: form%2 > 0}, query, 0},
				kind{quantisedCache{dtype: dtype.Int8, form: form, separate: true, offsets: true}, query, 32})
		}
		for mode := int64(scalePerToken); mode <= scalePerTokenHeadPaged; mode++ {
			for _, block := range []int64{0, 32} {
				if block == 0 && mode >= scalePerTokenPaged {
					continue
				}
				kinds = append(kinds, kind{quantisedCache{dtype: dtype.Int8, separate: true, offsets: block > 0, keyMode: mode, valueMode: mode}, query, block})
			}
		}
		for _, d := range []dtype.Type{dtype.Int4, dtype.Int32} {
			for _, modes := range [][2]int64{{0, 0}, {1, 1}, {3, 3}, {0, 1}} {
				kinds = append(kinds, kind{quantisedCache{dtype: d, separate: true, offsets: d == dtype.Int4, keyMode: modes[0], valueMode: modes[1], form: 2}, query, 0})
			}
		}
		kinds = append(kinds, kind{quantisedCache{dtype: dtype.Int8, keyMode: 1, valueMode: 1, offsets: true}, query, 32},
			kind{quantisedCache{dtype: dtype.Int8, keyMode: 1, valueMode: 1, separate: true, form: 1}, query, 0})
	}
	kinds = append(kinds, kind{quantisedCache{dtype: dtype.Int8, valueMode: 1, separate: true, form: 3}, dtype.Float16, 0})
	for i, k := range kinds {
		layout := []string{"BSH", "BSND", "BNSD"}[i%3]
		p := &prompt{layout: layout, dtype: k.query, heads: 4, keyHeads: 2, dim: 8, rows: 1, cols: 37, queryLengths: []int64{1, 1}, keyLengths: []int64{37, 5}, block: k.block, cache: &k.quantisedCache}
		names := []string{"FusedInferAttentionScoreV2", "FusedInferAttentionScoreV3", "FusedInferAttentionScoreV4", "FusedInferAttentionScoreV5"}
		if k.dtype != dtype.Int8 {
			p.dim = 64
		}
		if !k.separate {
			names = append(names, "FusedInferAttentionScore")
		}
		if !k.separate && k.keyMode == scalePerChannel {
			names = append(names, "IncreFlashAttentionV3", "IncreFlashAttentionV4")
		}
		for _, name := range names {
			t.Run(fmt.Sprintf("%s/%s/%v/%+v", name, layout, k.query, k), func(t *testing.T) {
				p.check(t, name, kerneltest.Contiguous, nil)
			})
		}
	}
}

// Several query tokens take an int8 cache with shared scales and float16, or separate ones and bfloat16.
func TestPromptAttentionOverQuantisedCache(t *testing.T) {
	for mode := range int64(2) {
		for _, layout := range []string{"BSH", "BNSD"} {
			p := &prompt{layout: layout, dtype: dtype.Float16, heads: 4, keyHeads: 2, dim: 32, rows: 3, cols: 11, queryLengths: []int64{3, 2}, keyLengths: []int64{11, 6}}
			p.cache = &quantisedCache{dtype: dtype.Int8, keyMode: mode, valueMode: mode, offsets: true, form: 2}
			p.check(t, "FusedInferAttentionScoreV2", kerneltest.Contiguous, nil)
			p.dtype, p.cache.separate = dtype.BFloat16, true
			p.check(t, "FusedInferAttentionScoreV3", kerneltest.Contiguous, nil)
		}
	}
	p := &prompt{layout: "BNSD", dtype: dtype.Float16, heads: 2, keyHeads: 1, dim: 32, rows: 2, cols: 130, queryLengths: []int64{2, 2}, keyLengths: []int64{130, 2}, block: 128, cache: &quantisedCache{dtype: dtype.Int8, form: 3}}
	p.check(t, "FusedInferAttentionScoreV4", kerneltest.Contiguous, nil)
}

// A result is quantised by one scale or one for each head and position, whether the cache is or not.
func TestAttentionQuantisesResult(t *testing.T) {
	for i, name := range []string{"IncreFlashAttentionV2", "IncreFlashAttentionV3", "IncreFlashAttentionV4", "FusedInferAttentionScore", "FusedInferAttentionScoreV2", "FusedInferAttentionScoreV3", "FusedInferAttentionScoreV4", "FusedInferAttentionScoreV5", "PromptFlashAttentionV2", "PromptFlashAttentionV3"} {
		for _, d := range inferTypes {
			for _, scales := range []dtype.Type{dtype.Float32, d} {
				if scales == dtype.Float16 {
					continue
				}
				for each := range 2 {
					p := &prompt{layout: []string{"BSH", "BSND", "BNSD"}[i%3], dtype: d, heads: 4, keyHeads: 2, dim: 32, rows: 1, cols: 7, queryLengths: []int64{1, 1}, keyLengths: []int64{7, 4}}
					p.out = &quantisedOut{dtype: scales, each: each > 0, shift: each > 0 != (d == dtype.Float16)}
					if hasParam(op.Find(name))("sparseMode") {
						p.rows, p.queryLengths = 2, []int64{2, 2}
					}
					p.check(t, name, kerneltest.Contiguous, nil)
				}
			}
		}
	}
	p := &prompt{layout: "BNSD", dtype: dtype.BFloat16, heads: 4, keyHeads: 2, dim: 8, rows: 1, cols: 40, queryLengths: []int64{1, 1}, keyLengths: []int64{40, 33}, block: 32, out: &quantisedOut{dtype: dtype.Float32}}
	p.check(t, "FusedInferAttentionScoreV3", kerneltest.Contiguous, nil)
	p.cache = &quantisedCache{dtype: dtype.Int8, form: 1}
	p.check(t, "IncreFlashAttentionV4", kerneltest.Contiguous, nil)
}

// withType returns a tensor of ones.
func withType(t *testing.T, d dtype.Type, shape ...int64) *op.Tensor {
	return optest.Tensor(t, d, shape, 1)
}

// int8Calls returns a call over an int8 cache without scales, and what changes for several query tokens.
func int8Calls(t *testing.T) (base, prompt optest.Args) {
	half := func(shape ...int64) *op.Tensor { return withType(t, dtype.Float16, shape...) }
	base = optest.Args{"query": half(2, 1, 8), "numHeads": 2, "numKeyValueHeads": 1, "inputLayout": "BSH", "attentionOut": half(2, 1, 8)}.With(cachesOf(t, dtype.Int8, 2, 16, 4))
	return base, optest.Args{"query": half(2, 3, 64), "attentionOut": half(2, 3, 64)}.With(cachesOf(t, dtype.Int8, 2, 16, 32))
}

func cachesOf(t *testing.T, d dtype.Type, shape ...int64) optest.Args {
	return optest.Args{"key": []*op.Tensor{withType(t, d, shape...)}, "value": []*op.Tensor{withType(t, d, shape...)}}
}

func TestQuantisedCacheRefusals(t *testing.T) {
	half := func(shape ...int64) *op.Tensor { return withType(t, dtype.Float16, shape...) }
	single := func(shape ...int64) *op.Tensor { return withType(t, dtype.Float32, shape...) }
	caches := func(d dtype.Type, shape ...int64) optest.Args { return cachesOf(t, d, shape...) }
	base, prompt := int8Calls(t)
	separate := func(key, value *op.Tensor, keyMode, valueMode int) optest.Args {
		return optest.Args{"keyAntiquantScaleOptional": key, "valueAntiquantScaleOptional": value, "keyAntiquantMode": keyMode, "valueAntiquantMode": valueMode}
	}
	shared := func(scale *op.Tensor) optest.Args { return optest.Args{"antiquantScaleOptional": scale} }
	name := "FusedInferAttentionScoreV3"
	optest.Run(t, name, base.With(shared(half(2))))
	optest.Run(t, name, base.With(prompt).With(shared(half(2))))
	for _, k := range []struct {
		changes optest.Args
		text    string
	}{
		{nil, "it needs antiquantScale, or keyAntiquantScale and valueAntiquantScale"},
		{shared(half(1)), "it can be [[2]]"},
		{shared(half(2, 8)), "wrong shape"},
		{shared(single(2)), "must be float16"},
		{shared(half(2)).With(optest.Args{"antiquantMode": 1}), "must be float32"},
		{shared(half(2)).With(optest.Args{"antiquantMode": 2}), "antiquantMode is 2"},
		{shared(single(2, 2, 15)).With(optest.Args{"antiquantMode": 1}), "[2 2 16]"},
		{shared(half(2)).With(optest.Args{"antiquantOffsetOptional": half(2, 4)}), "must have the shape of"},
		{shared(half(2)).With(optest.Args{"antiquantOffsetOptional": single(2)}), "must be float16"},
		{optest.Args{"keyAntiquantScaleOptional": half(1)}, "keyAntiquantScale and valueAntiquantScale must be given together"},
		{separate(half(1), half(1), 0, 0).With(optest.Args{"valueAntiquantOffsetOptional": half(1)}), "keyAntiquantOffset and valueAntiquantOffset must be given together"},
		{separate(half(1), half(1), 0, 2), "they must be equal, or 0 and 1"},
		{separate(half(1), half(1), 6, 6), "use 0 to 5"},
		{separate(single(2, 16), single(2, 16), 4, 4), "needs a block table"},
		{separate(half(2), half(2), 2, 2), "it can be [[1]]"},
		{shared(half(2)).With(optest.Args{"blockTableOptional": withType(t, dtype.Int32, 2, 1), "blockSize": 16, "actualSeqLengthsKvOptional": []int64{1}}), "multiple of 32"},
		{prompt, "it needs antiquantScale"},
		{prompt.With(separate(half(1), half(1), 0, 0)), "needs bfloat16"},
		{optest.Args{"query": half(2, 3, 32), "attentionOut": half(2, 3, 32)}.With(caches(dtype.Int8, 2, 16, 16)).With(shared(half(2))), "D should be 32 elements aligned"},
		{caches(dtype.Int32, 2, 16, 1).With(separate(half(1), half(1), 0, 0)).With(optest.Args{"query": half(2, 1, 16), "attentionOut": half(2, 1, 16)}), "D should be 64 elements aligned"},
		{caches(dtype.Int32, 2, 16, 8).With(shared(half(2))).With(optest.Args{"query": half(2, 1, 128), "attentionOut": half(2, 1, 128)}), "an int4 cache needs keyAntiquantScale"},
	} {
		optest.Refused(t, op.TilingRefused, name, base.With(k.changes), k.text)
	}
	optest.Refused(t, op.InvalidParam, "IncreFlashAttention", base.With(nil), "int8")
	optest.Refused(t, op.InvalidParam, "IncreFlashAttentionV4", base.With(caches(dtype.Int32, 2, 16, 4)), "int32")
}

func TestQuantisedResultRefusals(t *testing.T) {
	half := func(shape ...int64) *op.Tensor { return withType(t, dtype.Float16, shape...) }
	single := func(shape ...int64) *op.Tensor { return withType(t, dtype.Float32, shape...) }
	base, prompt := int8Calls(t)
	shared := func(scale *op.Tensor) optest.Args { return optest.Args{"antiquantScaleOptional": scale} }
	out := optest.Args{"attentionOut": withType(t, dtype.Int8, 2, 1, 8)}.With(shared(half(2)))
	for _, k := range []struct {
		changes optest.Args
		text    string
	}{
		{out, "needs quantScale2"},
		{out.With(optest.Args{"quantScale2Optional": single(3)}), "must have one element, or one for each of 2 heads and 4 positions"},
		{out.With(optest.Args{"quantScale2Optional": half(1)}), "must be float32, or bfloat16"},
		{out.With(optest.Args{"quantScale2Optional": withType(t, dtype.BFloat16, 1)}), "must be float32, or bfloat16"},
		{out.With(optest.Args{"quantScale2Optional": single(1), "quantOffset2Optional": single(8)}), "must have the dtype and the size"},
		{shared(half(2)).With(optest.Args{"quantScale2Optional": single(1)}), "the result is"},
		{prompt.With(shared(half(2))).With(optest.Args{"attentionOut": withType(t, dtype.Int8, 2, 3, 64), "quantScale2Optional": single(1), "quantOffset2Optional": single(1),
			"sparseMode": 3, "attenMaskOptional": withType(t, dtype.Bool, 2048, 2048), "actualSeqLengthsKvOptional": []int64{2}}), "the mask hides all keys"},
	} {
		optest.Refused(t, op.TilingRefused, "FusedInferAttentionScoreV3", base.With(k.changes), k.text)
	}
}
