package attention

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// prompt is a test case of attention without a backward pass.
type prompt struct {
	layout                      string
	dtype                       dtype.Type
	heads, keyHeads, dim        int64
	rows, cols                  int64   // of the tensors
	queryLengths, keyLengths    []int64 // valid tokens of each sequence
	visible                     func(b int, i, j int64) bool
	block                       int64 // 0 without paging
	query, key, value           []float64
	bias                        []float64 // [heads, rows, columns]; nil without one
	sinks                       []float64 // one for each head; nil without
	batch, totalRows, totalCols int64
	cache                       *quantisedCache // nil for keys and values of dtype
	out                         *quantisedOut   // nil for a result of dtype
}

// at returns the position of an element in the layout's tensor. first is the first token of the
// sequence in TND.
func (p *prompt) at(layout string, b, h, s, d, heads, rows, first int64) int64 {
	switch layout {
	case "BNSD":
		return ((b*heads+h)*rows+s)*p.dim + d
	case "TND":
		return ((first+s)*heads+h)*p.dim + d
	}
	return ((b*rows+s)*heads+h)*p.dim + d
}

func (p *prompt) shape(layout string, heads, rows, total int64) []int64 {
	switch layout {
	case "BNSD":
		return []int64{p.batch, heads, rows, p.dim}
	case "BSND":
		return []int64{p.batch, rows, heads, p.dim}
	case "TND":
		return []int64{total, heads, p.dim}
	}
	return []int64{p.batch, rows, heads * p.dim}
}

func (p *prompt) start() {
	p.batch = int64(len(p.queryLengths))
	p.totalRows, p.totalCols = op.Total(p.queryLengths), op.Total(p.keyLengths)
	p.query = optest.Normal(1, p.dtype, optest.Elements(p.shape(p.layout, p.heads, p.rows, p.totalRows)))
	p.key = optest.Normal(2, p.dtype, optest.Elements(p.shape(p.layout, p.keyHeads, p.cols, p.totalCols)))
	p.value = optest.Normal(3, p.dtype, optest.Elements(p.shape(p.layout, p.keyHeads, p.cols, p.totalCols)))
}

// expected evaluates the definition in float64 and returns it in the layout of the result.
func (p *prompt) expected(out string) (result, lse []float64) {
	result = make([]float64, optest.Elements(p.shape(out, p.heads, p.rows, p.totalRows)))
	lse = make([]float64, len(result)/int(p.dim))
	var row0, col0 int64
	for b := range p.batch {
		for h := range p.heads {
			kh := h / (p.heads / p.keyHeads)
			for i := range p.queryLengths[b] {
				scores := make([]float64, p.keyLengths[b])
				total := 0.0
				if p.sinks != nil {
					total = math.Exp(p.sinks[h])
				}
				for j := range scores {
					for d := range p.dim {
						scores[j] += p.query[p.at(p.layout, b, h, i, d, p.heads, p.rows, row0)] * p.key[p.at(p.layout, b, kh, int64(j), d, p.keyHeads, p.cols, col0)]
					}
					if scores[j] *= 0.25; p.bias != nil {
						scores[j] += p.bias[(h*p.rows+i)*p.cols+int64(j)]
					}
					scores[j] = math.Exp(scores[j])
					if p.visible != nil && !p.visible(int(b), i, int64(j)) {
						scores[j] = 0
					}
					total += scores[j]
				}
				for j, s := range scores {
					for d := range p.dim {
						result[p.at(out, b, h, i, d, p.heads, p.rows, row0)] += s / total * p.value[p.at(p.layout, b, kh, int64(j), d, p.keyHeads, p.cols, col0)]
					}
				}
				if len(scores) > 0 {
					place := (b*p.heads+h)*p.rows + i
					if p.layout == "TND" {
						place = (row0+i)*p.heads + h
					}
					lse[place] = math.Log(total)
				}
			}
		}
		row0, col0 = row0+p.queryLengths[b], col0+p.keyLengths[b]
	}
	return result, lse
}

// blocks returns the blocks of a sequence, those of the cache, and the table of their numbers.
func (p *prompt) blocks() (perSequence, blocks int64, at []float64) {
	perSequence = (p.cols + p.block - 1) / p.block
	blocks = p.batch*perSequence + 1
	at = make([]float64, p.batch*perSequence)
	for i := range at {
		at[i] = float64((i*7 + 3) % int(blocks))
	}
	return perSequence, blocks, at
}

// paged stores the keys or values in a cache with shuffled blocks.
func (p *prompt) paged(t testing.TB, d dtype.Type, data []float64, flat bool) (cache, table *op.Tensor) {
	perSequence, blocks, at := p.blocks()
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(at))), len(at), "blocks must be distinct")
	store := make([]float64, blocks*p.keyHeads*p.block*p.dim)
	col0 := int64(0)
	for b := range p.batch {
		for j := range p.keyLengths[b] {
			block := int64(at[b*perSequence+j/p.block])
			for h := range p.keyHeads {
				for d := range p.dim {
					place := ((block*p.keyHeads+h)*p.block+j%p.block)*p.dim + d
					if flat {
						place = ((block*p.block+j%p.block)*p.keyHeads+h)*p.dim + d
					}
					store[place] = data[p.at(p.layout, b, h, j, d, p.keyHeads, p.cols, col0)]
				}
			}
		}
		col0 += p.keyLengths[b]
	}
	shape := []int64{blocks, p.keyHeads, p.block, p.dim}
	if flat {
		shape = []int64{blocks, p.block, p.keyHeads * p.dim}
	}
	return optest.Tensor(t, d, shape, store...), optest.Tensor(t, dtype.Int32, []int64{p.batch, perSequence}, at...)
}

func hasParam(o *op.Operator) func(name string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(o.Params, func(q op.Param) bool { return q.Name == name })
	}
}

// addLengths adds the valid tokens of the sequences, or their ends in TND, to the arguments.
func (p *prompt) addLengths(has func(string) bool, a optest.Args) {
	queryLengths, keyLengths := p.queryLengths, p.keyLengths
	if p.layout == "TND" {
		if queryLengths = ends(queryLengths); p.block == 0 {
			keyLengths = ends(keyLengths)
		}
	}
	for _, n := range []string{"actualSeqLengths", "actualSeqLengthsOptional"} {
		if has(n) {
			a[n] = queryLengths
		}
	}
	named := false
	for _, n := range []string{"actualSeqLengthsKv", "actualSeqLengthsKvOptional"} {
		if has(n) {
			a[n], named = keyLengths, true
		}
	}
	if !named {
		a["actualSeqLengths"] = keyLengths
	}
}

// addBias adds the bias to the arguments.
func (p *prompt) addBias(t testing.TB, has func(string) bool, a optest.Args) {
	for _, n := range []string{"pseShift", "pseShiftOptional"} {
		if has(n) && p.bias != nil {
			a[n] = optest.Tensor(t, p.dtype, []int64{1, p.heads, p.rows, p.cols}, p.bias...)
		}
	}
}

func (p *prompt) check(t *testing.T, name string, l kerneltest.Layout, extra optest.Args) {
	t.Helper()
	p.start()
	out := p.layout
	word := p.layout
	if w, ok := extra["inputLayout"].(string); ok {
		word, out = w, "BSND"
	}
	make3 := func(data []float64, heads, rows, total int64) *op.Tensor {
		return optest.TensorIn(t, p.dtype, l, p.shape(p.layout, heads, rows, total), data...)
	}
	key, value := make3(p.key, p.keyHeads, p.cols, p.totalCols), make3(p.value, p.keyHeads, p.cols, p.totalCols)
	result := optest.TensorIn(t, p.dtype, l, p.shape(out, p.heads, p.rows, p.totalRows), 0)
	o := op.Find(name)
	has := hasParam(o)
	a := optest.Args{"query": make3(p.query, p.heads, p.rows, p.totalRows), "numHeads": p.heads, "numKeyValueHeads": p.keyHeads, "scaleValue": 0.25, "inputLayout": word, "attentionOut": result}
	keys, values, stored := p.key, p.value, p.dtype
	if p.cache != nil {
		keys, values = p.quantise()
		stored = p.cache.dtype
		key, value = p.cacheTensor(t, keys), p.cacheTensor(t, values)
		p.addScales(t, has, a)
	}
	if p.out != nil {
		result = optest.Tensor(t, dtype.Int8, result.Shape, 0)
		a["attentionOut"] = result
		p.out.add(t, p, has, a)
	}
	if p.block > 0 {
		var table *op.Tensor
		flat := p.layout != "BNSD"
		key, table = p.paged(t, stored, keys, flat)
		value, _ = p.paged(t, stored, values, flat)
		for _, n := range []string{"blockTable", "blockTableOptional", "blocktable"} {
			if has(n) {
				a[n] = table
			}
		}
		a["blockSize"] = p.block
	}
	a["key"], a["value"] = key, value
	if o.Params[1].Class == op.TensorListClass {
		a["key"], a["value"] = []*op.Tensor{key}, []*op.Tensor{value}
	}
	p.addLengths(has, a)
	p.addBias(t, has, a)
	var lse *op.Tensor
	if has("softmaxLse") {
		shape := []int64{p.batch, p.heads, p.rows, 1}
		if p.layout == "TND" {
			shape = []int64{p.totalRows, p.heads, 1}
		}
		lse = optest.Tensor(t, dtype.Float32, shape, 7)
		a["softmaxLse"], a["softmaxLseFlag"] = lse, true
	}
	for k, v := range extra {
		a[k] = v
	}
	optest.Run(t, name, a)
	want, wantLSE := p.expected(out)
	limit := map[dtype.Type]float64{dtype.Float16: 2e-3, dtype.BFloat16: 1.6e-2}[p.dtype]
	if p.out != nil {
		p.out.check(t, p, out, want, optest.Values(result))
		return
	}
	optest.CloseTo(t, fmt.Sprintf("%s %s %v %v", name, word, p.dtype, l), want, optest.Values(result), limit)
	if lse != nil {
		optest.CloseTo(t, "softmaxLse", wantLSE, optest.Values(lse), 1e-4)
	}
}

var inferTypes = []dtype.Type{dtype.Float16, dtype.BFloat16}

func TestPromptAttentionLayouts(t *testing.T) {
	for _, name := range []string{"PromptFlashAttentionV3", "FusedInferAttentionScore", "FusedInferAttentionScoreV4", "FusedInferAttentionScoreV5"} {
		for _, layout := range []string{"BSH", "BSND", "BNSD", "TND"} {
			if layout == "TND" && name == "PromptFlashAttentionV3" {
				continue
			}
			for _, d := range inferTypes {
				for _, l := range kerneltest.Layouts {
					p := &prompt{layout: layout, dtype: d, heads: 4, keyHeads: 2, dim: 64, rows: 5, cols: 9, queryLengths: []int64{5, 3, 0}, keyLengths: []int64{9, 4, 2}}
					p.check(t, name, l, nil)
				}
			}
		}
	}
	p := &prompt{layout: "BNSD", dtype: dtype.Float16, heads: 2, keyHeads: 1, dim: 16, rows: 3, cols: 3, queryLengths: []int64{3, 2}, keyLengths: []int64{3, 0}}
	p.check(t, "FusedInferAttentionScoreV2", kerneltest.Contiguous, optest.Args{"inputLayout": "BNSD_BSND"})
}

// A bias of every head and place is added to the scaled scores.
func TestPromptAttentionBias(t *testing.T) {
	for _, name := range int8Operators {
		for _, d := range inferTypes {
			p := &prompt{layout: "BSND", dtype: d, heads: 2, keyHeads: 1, dim: 16, rows: 4, cols: 6, queryLengths: []int64{4, 3}, keyLengths: []int64{6, 5}}
			p.bias = optest.Normal(4, d, p.heads*p.rows*p.cols)
			p.check(t, name, kerneltest.Contiguous, nil)
		}
	}
}

// FusedInferAttentionScoreV5 has further parameters for a bias of slopes, which CANN's tiling refuses. Without one they have no effect.
func TestPromptAttentionOfPositions(t *testing.T) {
	p := &prompt{layout: "BSND", dtype: dtype.Float16, heads: 2, keyHeads: 1, dim: 16, rows: 4, cols: 6, queryLengths: []int64{4, 3}, keyLengths: []int64{6, 5}}
	p.bias = optest.Normal(4, p.dtype, p.heads*p.rows*p.cols)
	p.check(t, "FusedInferAttentionScoreV5", kerneltest.Contiguous, optest.Args{"qStartIdxOptional": []int64{5}, "kvStartIdxOptional": []int64{2}})
	x := optest.Tensor(t, dtype.Float16, []int64{1, 2, 1, 16}, 1)
	a := optest.Args{"query": x, "key": []*op.Tensor{x}, "value": []*op.Tensor{x}, "numHeads": 1, "inputLayout": "BSND", "scaleValue": 1.0, "attentionOut": optest.Tensor(t, dtype.Float16, x.Shape)}
	optest.Run(t, "FusedInferAttentionScoreV5", a)
	optest.RunOn(t, acceptance.Ascend950, "FusedInferAttentionScoreV5", a)
	for _, kind := range []int64{-1, 1, 2, 3} {
		optest.Refused(t, op.TilingRefused, "FusedInferAttentionScoreV5", a.With(optest.Args{"pseType": kind}), "takes 0")
	}
}

func TestPromptAttentionMasks(t *testing.T) {
	lengths := func() *prompt {
		return &prompt{layout: "BSND", dtype: dtype.Float16, heads: 2, keyHeads: 2, dim: 16, rows: 4, cols: 6, queryLengths: []int64{4, 3}, keyLengths: []int64{6, 5}}
	}
	compressed := triangle(t, 2048)
	for mode, visible := range map[int]func(delta, i, j int64) bool{
		2: func(_, i, j int64) bool { return j <= i },
		3: func(delta, i, j int64) bool { return j <= i+delta },
		4: func(delta, i, j int64) bool { return j >= i+delta-2 && j <= i+delta+1 },
	} {
		p := lengths()
		p.visible = func(b int, i, j int64) bool { return visible(p.keyLengths[b]-p.queryLengths[b], i, j) }
		p.check(t, "FusedInferAttentionScoreV3", kerneltest.Contiguous, optest.Args{"sparseMode": mode, "attenMaskOptional": compressed, "preTokens": 2, "nextTokens": 1})
	}
	// A dense mask that is larger than the scores, either for all items or one for each.
	hidden := func(b int, i, j int64) bool { return (i+j+int64(b))%3 == 0 && j > 0 }
	for _, batch := range []int64{1, 2} {
		p := lengths()
		var bytes []float64
		for b := range batch {
			for i := range int64(5) {
				for j := range int64(8) {
					bytes = append(bytes, map[bool]float64{true: 1}[hidden(int(b), i, j)])
				}
			}
		}
		p.visible = func(b int, i, j int64) bool { return !hidden(min(b, int(batch)-1), i, j) }
		for _, d := range []dtype.Type{dtype.Bool, dtype.Uint8, dtype.Int8} {
			for _, shape := range [][]int64{{batch, 5, 8}, {batch, 1, 5, 8}} {
				p.check(t, "PromptFlashAttentionV2", kerneltest.Contiguous, optest.Args{"sparseMode": 1, "attenMask": optest.Tensor(t, d, shape, bytes...)})
			}
		}
	}
}

func TestIncrementalAttentionOverPages(t *testing.T) {
	for _, layout := range []string{"BSH", "BSND", "BNSD"} {
		for _, d := range inferTypes {
			for _, block := range []int64{0, 16, 48} {
				p := &prompt{layout: layout, dtype: d, heads: 6, keyHeads: 2, dim: 8, rows: 1, cols: 70, queryLengths: []int64{1, 1}, keyLengths: []int64{70, 3}, block: block}
				p.check(t, "IncreFlashAttentionV4", kerneltest.Contiguous, nil)
				p.check(t, "FusedInferAttentionScoreV3", kerneltest.Contiguous, nil)
			}
		}
	}
	packed := &prompt{layout: "TND", dtype: dtype.BFloat16, heads: 4, keyHeads: 4, dim: 64, cols: 39, queryLengths: []int64{3, 1, 2}, keyLengths: []int64{39, 20, 2}, block: 16}
	packed.visible = func(b int, i, j int64) bool { return j <= i+packed.keyLengths[b]-packed.queryLengths[b] }
	packed.rows = 6
	packed.check(t, "FusedInferAttentionScoreV3", kerneltest.Contiguous, optest.Args{"sparseMode": 3, "attenMaskOptional": triangle(t, 2048)})
	p := &prompt{layout: "BSH", dtype: dtype.Float16, heads: 2, keyHeads: 1, dim: 8, rows: 1, cols: 4, queryLengths: []int64{1, 1}, keyLengths: []int64{4, 4}}
	p.visible = func(b int, _, j int64) bool { return j != int64(b) }
	p.check(t, "IncreFlashAttention", kerneltest.Contiguous, optest.Args{"attenMask": optest.Tensor(t, dtype.Bool, []int64{2, 4}, 1, 0, 0, 0, 0, 1, 0, 0)})
}

func TestInferenceRefusals(t *testing.T) {
	f := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.Float16, shape, 1) }
	with := func(changes optest.Args) optest.Args {
		a := optest.Args{"query": f(2, 1, 8), "key": []*op.Tensor{f(2, 16, 4)}, "value": []*op.Tensor{f(2, 16, 4)}, "numHeads": 2, "numKeyValueHeads": 1, "inputLayout": "BSH", "attentionOut": f(2, 1, 8)}
		for k, v := range changes {
			a[k] = v
		}
		return a
	}
	list := func(x *op.Tensor) []*op.Tensor { return []*op.Tensor{x} }
	paged := func(block int, changes optest.Args) optest.Args {
		a := optest.Args{"blockTableOptional": optest.Tensor(t, dtype.Int32, []int64{2, 1}, 0), "blockSize": block, "actualSeqLengthsKvOptional": []int64{1, 1}}
		return a.With(changes)
	}
	name := "FusedInferAttentionScoreV3"
	optest.Run(t, name, with(nil))
	optest.Run(t, name, with(paged(16, nil)))
	optest.Run(t, name, with(optest.Args{"actualSeqLengthsKvOptional": []int64{1, 2, 3}})) // of which the first two count
	for _, k := range []struct {
		code    int32
		changes optest.Args
		text    string
	}{
		{op.NullPointer, optest.Args{"query": nil}, "query is null"},
		{op.NullPointer, optest.Args{"key": nil}, "key is null"},
		{op.NullPointer, optest.Args{"softmaxLseFlag": true}, "softmaxLse is null"},
		{op.InvalidParam, optest.Args{"inputLayout": "SBH"}, "SBH"},
		{op.InvalidParam, optest.Args{"inputLayout": "BNSD"}, "BNSD"},
		{op.InvalidParam, optest.Args{"numHeads": 0}, "it must be positive"},
		{op.TilingRefused, optest.Args{"numHeads": 3}, "numHeads 3"},
		{op.TilingRefused, optest.Args{"attenMaskOptional": optest.Tensor(t, dtype.Bool, []int64{2, 2, 1, 16}, 0)}, "must be [Sq,Skv], [B,Sq,Skv] or [B,1,Sq,Skv]"},
		{op.TilingRefused, optest.Args{"numKeyValueHeads": 3}, "no multiple"},
		{op.InvalidParam, optest.Args{"key": []*op.Tensor{f(2, 16, 8)}}, "[2,16,4]"},
		{op.InvalidParam, optest.Args{"attentionOut": f(2, 1, 4)}, "[2,1,8]"},
		{op.TilingRefused, optest.Args{"keyAntiquantScaleOptional": f(1)}, "only an int8 or int4 cache has scales"},
		{op.TilingRefused, optest.Args{"actualSeqLengthsKvOptional": []int64{17}}, "key tokens"},
		{op.TilingRefused, optest.Args{"query": f(3, 1, 8), "attentionOut": f(3, 1, 8), "key": list(f(3, 16, 4)), "value": list(f(3, 16, 4)), "actualSeqLengthsKvOptional": []int64{1, 2}}, "2 actual lengths"},
		{op.TilingRefused, optest.Args{"value": list(f(2, 16, 2)), "attentionOut": f(2, 1, 4)}, "queryD keyD valueD must be equal"},
		{op.TilingRefused, optest.Args{"sparseMode": 5}, "sparseMode 5"},
		{op.TilingRefused, optest.Args{"sparseMode": 3, "attenMaskOptional": optest.Tensor(t, dtype.Bool, []int64{2, 16}, 0)}, "[2048,2048]"},
		{op.InvalidParam, optest.Args{"queryRopeOptional": f(2, 1, 4)}, "together"},
		{op.TilingRefused, paged(32, nil), "blockSize 32"},
		{op.TilingRefused, paged(16, optest.Args{"actualSeqLengthsKvOptional": nil}), "actualSeqLengthsKv"},
		{op.TilingRefused, paged(8, optest.Args{"key": list(f(2, 8, 4)), "value": list(f(2, 8, 4))}), "blockSize is 8; it must be a multiple of 16 up to 512"},
		{op.TilingRefused, paged(1024, optest.Args{"key": list(f(2, 1024, 4)), "value": list(f(2, 1024, 4))}), "up to 512"},
		{op.TilingRefused, paged(16, optest.Args{"query": f(2, 2, 8), "attentionOut": f(2, 2, 8)}), "D should be 16 elements aligned"},
		{op.TilingRefused, paged(16, optest.Args{"query": f(2, 2, 32), "attentionOut": f(2, 2, 32), "key": list(f(2, 16, 16)), "value": list(f(2, 16, 16))}), "a multiple of 128"},
		{op.TilingRefused, paged(16, optest.Args{"key": list(f(2, 1, 16, 4)), "value": list(f(2, 1, 16, 4))}), "with inputLayout BSH the cache must be"},
		{op.TilingRefused, paged(16, optest.Args{"attenMaskOptional": optest.Tensor(t, dtype.Bool, []int64{2, 8}, 0), "actualSeqLengthsKvOptional": []int64{1, 1}}), "s Size[8] of atten_mask"},
		{op.TilingRefused, optest.Args{"attenMaskOptional": optest.Tensor(t, dtype.Bool, []int64{1, 16}, 0)}, "batchSize of atten_mask must be equal to batchSize[2]"},
		{op.TilingRefused, optest.Args{"query": f(2, 1, 65*4), "attentionOut": f(2, 1, 65*4), "numHeads": 65}, "65 query heads share a key head"},
		{op.TilingRefused, optest.Args{"query": f(2, 1, 1028), "attentionOut": f(2, 1, 1028), "key": list(f(2, 16, 514)), "value": list(f(2, 16, 514))}, "less than or equal to 512"},
		{op.InvalidParam, optest.Args{"query": optest.Tensor(t, dtype.Float32, []int64{2, 1, 8}, 1)}, "float32"},
	} {
		optest.Refused(t, k.code, name, with(k.changes), k.text)
	}
	err := optest.Execute(t, name, with(paged(16, optest.Args{"blockTableOptional": optest.Tensor(t, dtype.Int32, []int64{2, 1}, 0, 2)})))
	require.ErrorContains(t, err, "block 0 of the sequence is 2; the cache has blocks 0 to 1")
	optest.Refused(t, op.TilingRefused, "IncreFlashAttention", optest.Args{"query": f(2, 2, 8), "key": []*op.Tensor{f(2, 3, 4)}, "value": []*op.Tensor{f(2, 3, 4)}, "numHeads": 2, "numKeyValueHeads": 1, "attentionOut": f(2, 2, 8)}, "one new token")
}

// The joined results of attention over two halves of the keys equal attention over all keys.
func TestRingAttentionUpdateJoinsHalves(t *testing.T) {
	const s, b, n, d, keys = 3, 2, 2, 4, 5
	for _, dt := range []dtype.Type{dtype.Float32, dtype.BFloat16} {
		scores, v := optest.Normal(5, dtype.Float32, s*b*n*keys), optest.Normal(6, dtype.Float32, b*n*keys*d)
		part := func(lo, hi int) (out, most, total []float64) {
			out, most, total = make([]float64, s*b*n*d), make([]float64, b*n*s*8), make([]float64, b*n*s*8)
			for i := range s {
				for bn := range b * n {
					row := scores[(i*b*n+bn)*keys:][lo:hi]
					top, all := slices.Max(row), 0.0
					for _, x := range row {
						all += math.Exp(x - top)
					}
					for j, x := range row {
						for k := range d {
							out[(i*b*n+bn)*d+k] += math.Exp(x-top) / all * v[(bn*keys+lo+j)*d+k]
						}
					}
					for k := range 8 {
						most[(bn*s+i)*8+k], total[(bn*s+i)*8+k] = top, all
					}
				}
			}
			return
		}
		half := func(lo, hi int) [3]*op.Tensor {
			o, m, z := part(lo, hi)
			return [3]*op.Tensor{optest.Tensor(t, dt, []int64{s, b, n * d}, o...), optest.Tensor(t, dtype.Float32, []int64{b, n, s, 8}, m...), optest.Tensor(t, dtype.Float32, []int64{b, n, s, 8}, z...)}
		}
		p, q, r := half(0, 2), half(2, keys), half(0, keys)
		optest.Run(t, "RingAttentionUpdate", optest.Args{"prevAttnOut": p[0], "prevSoftmaxMax": p[1], "prevSoftmaxSum": p[2], "curAttnOut": q[0], "curSoftmaxMax": q[1], "curSoftmaxSum": q[2],
			"inputLayoutOptional": "SBH", "attnOutOut": p[0], "softmaxMaxOut": p[1], "softmaxSumOut": p[2]})
		for i, limit := range []float64{map[dtype.Type]float64{dtype.Float32: 1e-5, dtype.BFloat16: 2e-2}[dt], 1e-6, 1e-5} {
			optest.CloseTo(t, fmt.Sprint(dt, i), optest.Values(r[i]), optest.Values(p[i]), limit)
		}
	}
}
