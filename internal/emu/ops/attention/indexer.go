package attention

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// indexed lists attention over keys that an indexer chooses for each query: DeepSeek's sparse attention.
var indexed = op.Table{
	"LightningIndexer": lightningIndexer, "LightningIndexerV2": compressedIndexer, "QuantLightningIndexer": quantIndexer, "QuantLightningIndexerV2": compressedQuantIndexer,
	"SparseFlashAttention": sparseFlashAttention, "SparseFlashAttentionV2": sparseFlashAttention,
}.Selects()

// indexedTokens finds queries and keys in one of the layouts BSND, TND, and for keys PA_BSND.
type indexedTokens struct {
	query, key         *op.Tensor
	queries, keys      *op.Tensor // lengths, which may be nil
	queryEnds, keyEnds []int64    // lengths of operators that have them on the host, which may be nil
	table              *op.Tensor
	batch              int64
	packed             bool // queries are TND
	packedKeys, page   bool // keys are TND, or pages
	causal             bool
	leading            bool       // lengths of packed tokens begin with a 0
	ratio              int64      // how many tokens a key stands for; 0 is 1
	residual           *op.Tensor // how many tokens of each sequence have no key yet; may be nil
}

// readIndexed reads the arguments that the operators share. keyLengths is the name of the lengths of the keys, and layout of their layout.
func readIndexed(c *op.Call, keyLengths, layout string, types ...dtype.Type) *indexedTokens {
	x := &indexedTokens{query: c.Tensor("query"), key: c.Tensor("key"), queries: c.Optional("actualSeqLengthsQueryOptional"), keys: c.Optional(keyLengths), table: c.Optional("blockTableOptional")}
	if c.Err() != nil {
		return x
	}
	for _, name := range []string{"preTokens", "nextTokens"} {
		if n := c.Int(name); n != math.MaxInt64 {
			c.Invalid("%s is %d; only 2^63-1 is supported", name, n)
		}
	}
	x.check(c, [2]string{"layoutQuery", layout}, [2]string{cmp.Or(c.Text("layoutQueryOptional"), "BSND"), cmp.Or(c.Text(layout), "BSND")}, "PA_BSND", keyLengths, c.Int("sparseMode"), types)
	return x
}

// check checks the tokens by the layouts of queries and keys, and sets what follows from them. paged is the layout of pages,
// keyLengths the name of the lengths of the keys, and mode the kind of mask.
func (x *indexedTokens) check(c *op.Call, names, layouts [2]string, paged, keyLengths string, mode int64, types []dtype.Type) {
	layout, queryLayout, keyLayout := names[1], layouts[0], layouts[1]
	x.packed, x.packedKeys, x.page = queryLayout == "TND", keyLayout == "TND", keyLayout == paged
	if !x.packed && queryLayout != "BSND" {
		c.Invalid("%s is %q; use BSND or TND", names[0], queryLayout)
	}
	if !x.packedKeys && !x.page && keyLayout != "BSND" {
		c.Invalid("%s is %q; use BSND, TND or %s", layout, keyLayout, paged)
	}
	if !x.page && x.packed != x.packedKeys {
		c.Invalid("layoutQuery is %s and that of the keys %s; they must be equal, or the keys paged", queryLayout, keyLayout)
	}
	c.Plain(x.query, x.key)
	if types == nil {
		types = op.HalfTypes
	}
	c.DType(x.query, types...)
	c.SameDType(x.query, x.key)
	for _, r := range []struct {
		t      *op.Tensor
		packed bool
	}{{x.query, x.packed}, {x.key, x.packedKeys}} {
		if rank := 4; r.packed {
			c.Rank(r.t, rank-1, rank-1)
		} else {
			c.Rank(r.t, rank, rank)
		}
		c.Dense(r.t)
	}
	switch mode {
	case 0, 3:
		x.causal = mode == 3
	default:
		c.Invalid("the mode of the mask is %d; use 0, or 3 for a causal mask that ends at the lower right corner", mode)
	}
	if x.packed && x.queries == nil {
		c.Invalid("the lengths of the queries are null; packed queries need them")
	}
	if (x.packedKeys || x.page) && x.keys == nil {
		c.Invalid("%s is null; packed or paged keys need it", keyLengths)
	}
	if x.page != (x.table != nil) {
		c.Invalid("blockTable must be given for %s and null otherwise", paged)
	}
	if c.Err() != nil {
		return
	}
	x.batch = x.query.Dim(0)
	extra := int64(0)
	if x.leading {
		extra = 1
	}
	if x.packed {
		if x.batch = x.queries.Dim(0) - extra; x.batch < 0 {
			c.Invalid("%v is empty; it must begin with 0", x.queries)
			return
		}
	}
	for _, t := range []struct {
		lengths *op.Tensor
		packed  bool
	}{{x.queries, x.packed}, {x.keys, x.packedKeys}, {x.residual, false}} {
		if t.lengths != nil {
			c.Plain(t.lengths)
			c.DType(t.lengths, dtype.Int32)
			want := x.batch
			if t.packed {
				want += extra
			}
			c.Shape(t.lengths, []int64{want}, "one for each sequence")
		}
	}
	if x.key.Dim(-2) != 1 {
		c.Invalid("%v must have 1 head", x.key)
	}
	if x.page {
		c.Plain(x.table)
		c.DType(x.table, dtype.Int32)
		c.Rank(x.table, 2, 2)
		if n := x.key.Dim(1); x.table.Dim(0) != x.batch || n%16 != 0 || n < 16 || n > 1024 {
			c.Invalid("%v and %v: want a row of the table for each sequence, and pages of a multiple of 16 tokens up to 1024", x.table, x.key)
		}
	} else if !x.packedKeys && x.key.Dim(0) != x.batch {
		c.Invalid("%v and %v must have as many sequences", x.query, x.key)
	}
}

// row is the first dimension after those of tokens: heads.
func (x *indexedTokens) row(heads, last int64) []int64 {
	if x.packed {
		return []int64{x.query.Dim(0), heads, last}
	}
	return []int64{x.query.Dim(0), x.query.Dim(1), heads, last}
}

// indexedSequence is where the tokens of a sequence are: rows of the queries, and of the keys where each token may have its own.
type indexedSequence struct {
	query, queries int64   // the first row, and how many
	keys           []int64 // rows
	residual       int64   // tokens without a key
}

// sequences reads the lengths.
func (x *indexedTokens) sequences(name string) ([]indexedSequence, error) {
	spans := func(t, lengths *op.Tensor, given []int64, packed bool) (from, n []int64, err error) {
		from, n = make([]int64, x.batch), make([]int64, x.batch)
		if lengths != nil {
			if given, err = elementwise.Indices(lengths.View()); err != nil {
				return nil, nil, err
			}
			if packed && x.leading {
				given = given[1:]
			}
		}
		for b := range x.batch {
			switch {
			case packed:
				if b > 0 {
					from[b] = given[b-1]
				}
				n[b] = given[b] - from[b]
				if n[b] < 0 || given[b] > t.Dim(0) {
					return nil, nil, fmt.Errorf("%s: the sums of lengths %s must increase up to the tokens of %v", name, op.Dims(given), t)
				}
			default:
				from[b], n[b] = b*t.Dim(1), t.Dim(1)
				if given != nil {
					n[b] = given[b]
				}
			}
		}
		return from, n, nil
	}
	q, nq, err := spans(x.query, x.queries, x.queryEnds, x.packed)
	if err != nil {
		return nil, err
	}
	k, nk, err := spans(x.key, x.keys, x.keyEnds, x.packedKeys)
	if err != nil {
		return nil, err
	}
	var pages []int64
	if x.page {
		if pages, err = elementwise.Indices(x.table.View()); err != nil {
			return nil, err
		}
	}
	residual := make([]int64, x.batch)
	if x.residual != nil {
		if residual, err = elementwise.Indices(x.residual.View()); err != nil {
			return nil, err
		}
	}
	all := make([]indexedSequence, x.batch)
	for b := range all {
		if residual[b] < 0 || residual[b] >= max(x.ratio, 1) {
			return nil, fmt.Errorf("%s: %v has %d for sequence %d; a key stands for %d tokens", name, x.residual, residual[b], b, x.ratio)
		}
		most := x.key.Dim(1)
		if x.page {
			most = x.table.Dim(1) * x.key.Dim(1)
		}
		if nq[b] < 0 || nk[b] < 0 || !x.packed && nq[b] > x.query.Dim(1) || !x.packedKeys && nk[b] > most {
			return nil, fmt.Errorf("%s: sequence %d has %d queries and %d keys, for %v and %v", name, b, nq[b], nk[b], x.query, x.key)
		}
		all[b] = indexedSequence{query: q[b], queries: nq[b], keys: make([]int64, nk[b]), residual: residual[b]}
		for j := range all[b].keys {
			row := k[b] + int64(j)
			if x.page {
				size := x.key.Dim(1)
				page := pages[int64(b)*x.table.Dim(1)+int64(j)/size]
				if page < 0 || page >= x.key.Dim(0) {
					return nil, fmt.Errorf("%s: blockTable has %d for %v", name, page, x.key)
				}
				row = page*size + int64(j)%size
			}
			all[b].keys[j] = row
		}
	}
	return all, nil
}

// visible returns how many keys query i of a sequence sees: the first ones.
func (x *indexedTokens) visible(s *indexedSequence, i int64) int64 {
	n, ratio := int64(len(s.keys)), max(x.ratio, 1)
	if x.causal {
		n = min(n, max(0, n*ratio+s.residual-s.queries+i+1)/ratio)
	}
	return n
}

// lightningIndexer gives each query the keys with the largest Σ wₕ·max(0, qₕ·k) over its heads, the largest first, and −1 in
// the places that are left, whose values are −∞.
func lightningIndexer(c *op.Call) (op.Run, error) {
	x := readIndexed(c, "actualSeqLengthsKeyOptional", "layoutKeyOptional")
	weights, out := c.Tensor("weights"), c.Tensor("sparseIndicesOut")
	count := c.Int("sparseCount")
	if c.Err() != nil {
		return nil, c.Err()
	}
	heads, dim := x.query.Dim(-2), x.query.Dim(-1)
	c.DType(weights, append(slices.Clone(op.HalfTypes), dtype.Float32)...)
	if weights.DType != dtype.Float32 {
		c.SameDType(x.query, weights)
	}
	c.Plain(weights, out)
	c.Shape(weights, x.query.Shape[:x.query.Rank()-1], "one for each head of each query")
	c.DType(out, dtype.Int32)
	c.Shape(out, x.row(1, count), "sparseCount keys for each query")
	if heads < 1 || heads > 64 || dim != 128 || x.key.Dim(-1) != dim {
		c.Invalid("%v and %v: want 1 to 64 heads of the query, and a head dimension of 128", x.query, x.key)
	}
	checkIndexCount(c, count)
	c.Dense(weights, out)
	var values *op.Tensor
	if c.Bool("returnValues") {
		values = c.Tensor("sparseValuesOut")
		if c.Err() == nil {
			c.SameDType(x.query, values)
			c.Shape(values, out.Shape, "that of sparseIndicesOut")
		}
		if x.page {
			c.Invalid("returnValues is true; paged keys return none")
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return x.chooseByProducts(c.Name(), weights, out, values, heads, dim), nil
}

// checkIndexCount refuses numbers of chosen keys that the kernels do not have.
func checkIndexCount(c *op.Call, count int64) {
	if count < 1 || count > 8192 || count > 2048 && count%1024 != 0 {
		c.Invalid("%d keys are to be chosen; use 1 to 2048, 3072, 4096, 5120, 6144, 7168 or 8192", count)
	}
}

// chooseByProducts chooses by the weighted products of the heads of queries with keys, all in floating point.
func (x *indexedTokens) chooseByProducts(name string, weights, out, values *op.Tensor, heads, dim int64) op.Run {
	return func(*op.Exec) error {
		v, err := read(x.query, x.key, weights)
		if err != nil {
			return err
		}
		return x.choose(name, out, values, newScoreGrad(v[0], v[1], v[2], heads, dim).scores)
	}
}

// choose writes the keys of each query with the largest scores, and the scores if values is given. score returns the scores of keys.
func (x *indexedTokens) choose(name string, out, values *op.Tensor, score func(row int64, keys []int64) []float64) error {
	sequences, err := x.sequences(name)
	if err != nil {
		return err
	}
	count := out.Dim(-1)
	chosen, best := make([]float64, out.Len()), make([]float64, out.Len())
	for i := range chosen {
		chosen[i], best[i] = -1, math.Inf(-1)
	}
	for _, s := range sequences {
		for i := range s.queries {
			row := s.query + i
			scores := score(row, s.keys[:x.visible(&s, i)])
			order := make([]int, len(scores))
			for j := range order {
				order[j] = j
			}
			slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
			for n, j := range order[:min(len(order), int(count))] {
				chosen[row*count+int64(n)], best[row*count+int64(n)] = float64(j), scores[j]
			}
		}
	}
	return write([][]float64{chosen, best}, out, values)
}

// compressedIndexer is lightningIndexer for keys that stand for cmpRatio tokens each. A query sees a key if it comes after its last
// token, or is it. metadataOptional only divides the work among cores.
func compressedIndexer(c *op.Call) (op.Run, error) {
	x := &indexedTokens{query: c.Tensor("q"), key: c.Tensor("k"), queries: c.Optional("cuSeqlensQOptional"), keys: c.Optional("cuSeqlensKOptional"), table: c.Optional("blockTableOptional"), leading: true, ratio: c.Int("cmpRatio"), residual: c.Optional("cmpResidualKOptional")}
	weights, out, count, mode := c.Tensor("w"), c.Tensor("sparseIndices"), c.Int("topk"), c.Int("maskMode")
	layouts := [2]string{cmp.Or(c.Text("layoutQ"), "BSND"), cmp.Or(c.Text("layoutK"), "BSND")}
	var values *op.Tensor
	switch wanted := c.Int("returnValue"); wanted {
	case 0:
	case 1:
		values = c.Tensor("sparseValues")
	default:
		c.Invalid("returnValue is %d; use 0 or 1", wanted)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.NoneOf("sequsedQOptional", "outputIdxOffsetOptional")
	if n := c.Int("maxSeqlenQ"); n < -1 {
		c.Invalid("maxSeqlenQ is %d; use -1, or a length", n)
	}
	if layouts[0] != "TND" {
		c.NoneOf("cuSeqlensQOptional")
	}
	if layouts[1] != "TND" {
		c.NoneOf("cuSeqlensKOptional")
	}
	if used := c.Optional("sequsedKOptional"); layouts[1] == "PA_BBND" {
		x.keys = used
	} else if used != nil {
		c.Invalid("sequsedK is supported for pages only")
	}
	if x.ratio < 1 || x.ratio > 128 || (x.residual != nil) != (x.ratio > 1 && mode == 3) {
		c.Invalid("cmpRatio is %d; use 1 to 128, and give cmpResidualK where it is above 1 and maskMode 3, and only there", x.ratio)
	}
	x.check(c, [2]string{"layoutQ", "layoutK"}, layouts, "PA_BBND", "the lengths of the keys", mode, nil)
	if t := c.Optional("metadataOptional"); t != nil {
		c.DType(t, dtype.Int32)
		c.Shape(t, []int64{1024}, "what LightningIndexerV2Metadata returns")
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	heads, dim := x.query.Dim(-2), x.query.Dim(-1)
	c.Plain(weights, out)
	c.DType(weights, dtype.Float32)
	c.Shape(weights, x.query.Shape[:x.query.Rank()-1], "one for each head of each query")
	c.DType(out, dtype.Int32)
	c.Shape(out, x.row(1, count), "topk keys for each query")
	checkIndexCount(c, count)
	if values != nil {
		c.Plain(values)
		c.DType(values, dtype.Float32)
		c.Shape(values, out.Shape, "that of sparseIndices")
	}
	if heads < 1 || heads > 64 || dim != 128 || x.key.Dim(-1) != dim {
		c.Invalid("%v and %v: want 1 to 64 heads of the queries, and a head dimension of 128", x.query, x.key)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return x.chooseByProducts(c.Name(), weights, out, values, heads, dim), nil
}

// quantIndexer is lightningIndexer for integers of eight bits with a scale for each head of each token.
func quantIndexer(c *op.Call) (op.Run, error) {
	x := readIndexed(c, "actualSeqLengthsKeyOptional", "layoutKeyOptional", dtype.Int8)
	weights, out, count := c.Tensor("weights"), c.Tensor("out"), c.Int("sparseCount")
	queryScale, keyScale := c.Tensor("queryDequantScale"), c.Tensor("keyDequantScale")
	for _, name := range []string{"queryQuantMode", "keyQuantMode"} {
		if mode := c.Int(name); mode != 0 {
			c.Invalid("%s is %d; only 0 is supported, a scale for each token and head", name, mode)
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	heads, dim := x.query.Dim(-2), x.query.Dim(-1)
	c.Plain(weights, out, queryScale, keyScale)
	c.DType(weights, dtype.Float16)
	c.SameDType(weights, queryScale, keyScale)
	for _, t := range []*op.Tensor{weights, queryScale} {
		c.Shape(t, x.query.Shape[:x.query.Rank()-1], "one for each head of each query")
	}
	c.Shape(keyScale, x.key.Shape[:x.key.Rank()-1], "one for each key")
	c.DType(out, dtype.Int32)
	c.Shape(out, x.row(1, count), "sparseCount keys for each query")
	if heads < 1 || heads > 64 || c.Chip() == acceptance.Ascend950 && !slices.Contains([]int64{8, 16, 24, 32, 64}, heads) {
		c.Invalid("%v: want up to 64 heads of the queries, on the Ascend950 8, 16, 24, 32 or 64", x.query)
	}
	if dim != 128 || x.key.Dim(-1) != dim || count < 1 || count > 2048 {
		c.Invalid("%v and %v: want a head dimension of 128, and sparseCount %d from 1 to 2048", x.query, x.key, count)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return x.chooseScaled(c.Name(), [3]*op.Tensor{weights, queryScale, keyScale}, out, nil), nil
}

// chooseScaled chooses keys by products of integers with scales: those of heads, of queries by head, and of keys.
func (x *indexedTokens) chooseScaled(name string, scales [3]*op.Tensor, out, values *op.Tensor) op.Run {
	heads, dim := x.query.Dim(-2), x.query.Dim(-1)
	return func(*op.Exec) error {
		v, err := read(x.query, x.key, scales[0], scales[1], scales[2])
		if err != nil {
			return err
		}
		return x.choose(name, out, values, func(row int64, keys []int64) []float64 {
			scores := make([]float64, len(keys))
			for h := row * heads; h < (row+1)*heads; h++ {
				for n, k := range keys {
					product := dotted(v[0][h*dim:][:dim], v[1][k*dim:][:dim])
					scores[n] += float64(v[2][h] * max(0, v[3][h]*v[4][k]*product))
				}
			}
			return scores
		})
	}
}

// compressedQuantIndexer is quantIndexer for keys that stand for cmpRatioOptional tokens each.
func compressedQuantIndexer(c *op.Call) (op.Run, error) {
	x := &indexedTokens{query: c.Tensor("query"), key: c.Tensor("key"), queries: c.Optional("cuSeqLensQOptional"), keys: c.Optional("cuSeqLensKOptional"), table: c.Optional("blockTableOptional"), leading: true, ratio: c.Int("cmpRatioOptional"), residual: c.Optional("cmpResidualKOptional")}
	weights, queryScale, keyScale, meta := c.Tensor("weights"), c.Tensor("queryDequantScale"), c.Tensor("keyDequantScale"), c.Tensor("metadataOptional")
	out, count, mode := c.Tensor("sparseIndicesOut"), c.Int("topk"), c.Int("maskModeOptional")
	layouts := [2]string{cmp.Or(c.Text("layoutQOptional"), "BSND"), cmp.Or(c.Text("layoutKOptional"), "BSND")}
	narrow, most := c.Chip() != acceptance.Ascend950, int64(8192)
	if narrow {
		most = 2048
	}
	var values *op.Tensor
	switch wanted := c.Int("returnValueOptional"); {
	case wanted == 1 && !narrow:
		values = c.Tensor("sparseValuesOut")
	case wanted != 0:
		c.Invalid("returnValue is %d; use 0, or on the Ascend950 1", wanted)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.NoneOf("sequsedQOptional", "outputIdxOffsetOptional")
	if n := c.Int("maxSeqlenQOptional"); n < -1 {
		c.Invalid("maxSeqlenQ is %d; use -1, or a length", n)
	}
	if kind := c.Int("quantMode"); kind != 2 {
		c.Invalid("quantMode is %d; only 2 is emulated, int8 with a scale for each head of each token", kind)
	}
	if layouts[0] != "TND" {
		c.NoneOf("cuSeqLensQOptional")
	}
	if layouts[1] != "TND" {
		c.NoneOf("cuSeqLensKOptional")
	}
	if narrow && layouts[1] != "PA_BSND" {
		c.Invalid("layoutK is %s; on this chip use PA_BSND", layouts[1])
	}
	if used := c.Optional("sequsedKOptional"); layouts[1] == "PA_BSND" {
		x.keys = used
	} else if used != nil {
		c.Invalid("sequsedK is emulated for pages only")
	}
	if x.ratio < 1 || x.ratio > 128 || narrow && x.ratio&(x.ratio-1) != 0 {
		c.Invalid("cmpRatio is %d; use 1 to 128, on this chip a power of two", x.ratio)
	}
	if x.residual == nil && x.ratio > 1 && mode == 3 {
		c.Invalid("cmpResidualK is null; cmpRatio %d with maskMode 3 needs it", x.ratio)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	x.check(c, [2]string{"layoutQ", "layoutK"}, layouts, "PA_BSND", "the lengths of the keys", mode, []dtype.Type{dtype.Int8})
	c.Plain(weights, queryScale, keyScale, meta, out)
	c.DType(meta, dtype.Int32)
	c.Shape(meta, []int64{1024}, "what QuantLightningIndexerV2Metadata returns")
	if c.Err() != nil {
		return nil, c.Err()
	}
	heads, dim := x.query.Dim(-2), x.query.Dim(-1)
	c.DType(weights, dtype.Float16)
	c.SameDType(weights, queryScale, keyScale)
	for _, t := range []*op.Tensor{weights, queryScale} {
		c.Shape(t, x.query.Shape[:x.query.Rank()-1], "one for each head of each query")
	}
	c.Shape(keyScale, x.key.Shape[:x.key.Rank()-1], "one for each key")
	c.DType(out, dtype.Int32)
	c.Shape(out, x.row(1, count), "topk keys for each query")
	if values != nil {
		c.Plain(values)
		c.DType(values, dtype.BFloat16)
		c.Shape(values, out.Shape, "that of sparseIndicesOut")
	}
	if heads < 1 || heads > 64 || c.Tiled() && narrow && heads != 64 || dim != 128 || x.key.Dim(-1) != dim || count < 1 || count > most {
		c.Invalid("%v and %v: want a head dimension of 128, 64 heads, fewer on the Ascend950 only, and topk %d from 1 to %d", x.query, x.key, count, most)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return x.chooseScaled(c.Name(), [3]*op.Tensor{weights, queryScale, keyScale}, out, values), nil
}

func dotted(a, b []float64) (sum float64) {
	for i, x := range a {
		sum += float64(x * b[i])
	}
	return sum
}

// sparseFlashAttention is latent attention of each query over the blocks of keys that sparseIndices lists, up to the first −1. The
// second version has sinks. The result of a query that sees no key is 0.
func sparseFlashAttention(c *op.Call) (op.Run, error) {
	x := readIndexed(c, "actualSeqLengthsKvOptional", "layoutKvOptional")
	value, indices, out := c.Tensor("value"), c.Tensor("sparseIndices"), c.Tensor("attentionOut")
	queryRope, keyRope := c.Tensor("queryRopeOptional"), c.Tensor("keyRopeOptional")
	block, scale := c.Int("sparseBlockSizeOptional"), c.Float("scaleValue")
	var sinks *op.Tensor
	if c.Has("sinksOptional") {
		sinks = c.Optional("sinksOptional")
	}
	if mode := c.Int("attentionMode"); mode != 2 {
		c.Invalid("attentionMode is %d; only 2 is supported, latent attention", mode)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	heads, dim, rope, count := x.query.Dim(-2), x.query.Dim(-1), queryRope.Dim(-1), indices.Dim(-1)
	c.Plain(value, indices, out, queryRope, keyRope)
	c.SameDType(x.query, value, queryRope, keyRope, out)
	c.SameShape(x.key, value)
	c.SameShape(x.query, out)
	c.DType(indices, dtype.Int32)
	c.Shape(indices, x.row(1, count), "the chosen blocks of each query")
	c.Shape(queryRope, append(slices.Clone(x.query.Shape[:x.query.Rank()-1]), rope), "the tokens and heads of the query")
	c.Shape(keyRope, append(slices.Clone(x.key.Shape[:x.key.Rank()-1]), rope), "the tokens of the keys")
	if dim != 512 || rope != 64 || x.key.Dim(-1) != dim {
		c.Invalid("%v, %v and %v: want a head dimension of 512, and 64 rotated columns", x.query, x.key, queryRope)
	}
	if heads < 1 || heads > 128 || heads&(heads-1) != 0 || count < 1 {
		c.Invalid("%v and %v: want 1 to 128 heads, a power of two, and chosen blocks", x.query, indices)
	}
	if block < 1 || block > 128 || block&(block-1) != 0 || x.page && x.key.Dim(1)%block != 0 {
		c.Invalid("sparseBlockSize is %d; use a power of two up to 128 that divides the size of a page", block)
	}
	c.Dense(value, indices, queryRope, keyRope, out)
	if sinks != nil {
		c.Plain(sinks)
		c.DType(sinks, dtype.Float32)
		c.Shape(sinks, []int64{heads}, "one for each head")
	}
	var top, sum *op.Tensor
	if c.Bool("returnSoftmaxLse") {
		top, sum = c.Tensor("softmaxMax"), c.Tensor("softmaxSum")
		want := []int64{x.query.Dim(0), 1, x.query.Dim(1), heads}
		if x.packed {
			want = []int64{1, x.query.Dim(0), heads}
		}
		for _, t := range []*op.Tensor{top, sum} {
			if t != nil {
				c.DType(t, dtype.Float32)
				c.Shape(t, want, "a number for each query and head")
			}
		}
		if x.page {
			c.Invalid("returnSoftmaxLse is true; paged keys return none")
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		sequences, err := x.sequences(c.Name())
		if err != nil {
			return err
		}
		var read [5][]float64
		for i, v := range []kernel.View{x.query.View(), x.key.View(), value.View(), queryRope.View(), keyRope.View()} {
			if read[i], err = elementwise.Doubles(v); err != nil {
				return err
			}
		}
		blocks, err := elementwise.Indices(indices.View())
		if err != nil {
			return err
		}
		var extra []float64
		if sinks != nil {
			if extra, err = elementwise.Doubles(sinks.View()); err != nil {
				return err
			}
		}
		rows := x.query.Len() / dim
		result, maxima, sums := make([]float64, rows*dim), make([]float64, rows), make([]float64, rows)
		for _, s := range sequences {
			for i := range s.queries {
				var keys []int64
				limit := x.visible(&s, i)
				for _, n := range blocks[(s.query+i)*count:][:count] {
					if n < 0 {
						break
					}
					for j := n * block; j < min((n+1)*block, limit); j++ {
						keys = append(keys, s.keys[j])
					}
				}
				for h := range heads {
					row := (s.query+i)*heads + h
					scores, highest, total := make([]float64, len(keys)), -math.MaxFloat32, 0.0
					if extra != nil {
						highest = extra[h]
					}
					for n, k := range keys {
						scores[n] = scale * (dotted(read[0][row*dim:][:dim], read[1][k*dim:][:dim]) + dotted(read[3][row*rope:][:rope], read[4][k*rope:][:rope]))
						highest = max(highest, scores[n])
					}
					if extra != nil {
						total = math.Exp(extra[h] - highest)
					}
					for n := range keys {
						scores[n] = math.Exp(scores[n] - highest)
						total += scores[n]
					}
					for n, k := range keys {
						for d, v := range read[2][k*dim:][:dim] {
							result[row*dim+int64(d)] += float64(scores[n] / total * v)
						}
					}
					maxima[row], sums[row] = highest, total
				}
			}
		}
		if err := elementwise.SetFloats(out.View(), result); err != nil || top == nil {
			return err
		}
		if err := elementwise.SetFloats(top.View(), maxima); err != nil {
			return err
		}
		return elementwise.SetFloats(sum.View(), sums)
	}, nil
}
