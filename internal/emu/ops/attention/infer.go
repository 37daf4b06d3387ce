package attention

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	attentionkernel "github.com/goascend/cann/internal/emu/kernel/attention"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// inferenceTable is attention without a backward pass: over prompts, over a cache of keys for one
// new token, and both in one operator. Caches and results may be quantised, and queries too if the keys and
// values are. Null pointers, dtypes, layouts and head dimensions
// are refused with 161001 or 161002. Masks, lengths, block tables, scales and the sizes of a 910B,
// which only the kernel's tiling checks, are refused with 561002, in phase one too.
var inferenceTable = op.Table{
	"PromptFlashAttention": inferAttention, "PromptFlashAttentionV2": inferAttention, "PromptFlashAttentionV3": inferAttention,
	"IncreFlashAttention": inferAttention, "IncreFlashAttentionV2": inferAttention, "IncreFlashAttentionV3": inferAttention, "IncreFlashAttentionV4": inferAttention,
	"FusedInferAttentionScore": inferAttention, "FusedInferAttentionScoreV2": inferAttention,
	"FusedInferAttentionScoreV3": inferAttention, "FusedInferAttentionScoreV4": inferAttention, "FusedInferAttentionScoreV5": inferAttention,
	"RingAttentionUpdate": ringAttentionUpdate, "RingAttentionUpdateV2": ringAttentionUpdate, "AttentionUpdate": attentionUpdate,
}.Selects()

// inference is one call.
type inference struct {
	attentionShape
	keys, values []*op.Tensor // a single tensor, or one for each batch item
	out, lse     *op.Tensor
	outLayout    attentionLayout
	mask         attentionMask
	bias         *op.Tensor
	blocks       *op.Tensor // block table [batch, blocks of a sequence]; nil without paging
	blockSize    int64
	scale        float32

	keyScale, valueScale *cacheScale // of a quantised cache
	outScale, outOffset  *op.Tensor  // of an int8 result: one number, or one for each head and position
	integers             *int8Scales // of an int8 query
	latentScales         *latentScales

	addition
}

// refusedOptions are the tensors of features that the emulator does not support.
var refusedOptions = []string{
	"dequantScale1", "dequantScale2", "keyRopeAntiquantScale",
}

// named returns the name of a parameter in the declaration, which may end in Optional, and whether
// it exists.
func named(c *op.Call, name string) (string, bool) {
	for _, n := range []string{name, name + "Optional"} {
		if c.Has(n) {
			return n, true
		}
	}
	return name, false
}

// optionalNamed returns an optional tensor under either name. It returns nil if there is no such
// parameter or the tensor has no elements.
func optionalNamed(c *op.Call, name string) *op.Tensor {
	if n, ok := named(c, name); ok {
		if t := c.Optional(n); t != nil && t.Len() > 0 {
			return t
		}
	}
	return nil
}

// hasNamed reports whether there is a parameter under either name.
func hasNamed(c *op.Call, name string) bool {
	_, ok := named(c, name)
	return ok
}

func intsNamed(c *op.Call, name string) []int64 {
	if n, ok := named(c, name); ok {
		return c.Ints(n)
	}
	return nil
}

// keysOrValues reads the keys or the values, which are a list of tensors, or a single tensor in the
// Prompt operators.
func keysOrValues(c *op.Call, name string) []*op.Tensor {
	if c.Class(name) == op.TensorClass {
		return []*op.Tensor{c.Tensor(name)}
	}
	list := c.Tensors(name)
	if len(list) == 0 {
		c.Fail(op.NullPointer, "%s is null or empty", name)
		return []*op.Tensor{&op.Absent}
	}
	return list
}

func inferAttention(c *op.Call) (op.Run, error) {
	a := &inference{keys: keysOrValues(c, "key"), values: keysOrValues(c, "value"), out: c.Tensor("attentionOut"), scale: float32(c.Float("scaleValue"))}
	a.query, a.key, a.value = c.Tensor("query"), a.keys[0], a.values[0]
	for _, name := range refusedOptions {
		if t := optionalNamed(c, name); t != nil {
			c.Invalid("%v is given; the emulator does not compute rotated keys with scales of their own: pass null", t)
		}
	}
	a.queryRope, a.keyRope = optionalNamed(c, "queryRope"), optionalNamed(c, "keyRope")
	a.bias = optionalNamed(c, "pseShift")
	if kind := c.IntOr("pseType", pseAfterScale); kind != pseAfterScale {
		c.Unfit("pseType is %d; attention without a backward pass takes 0, a pseShift that is added to the scaled scores", kind)
	}
	if a.blocks = optionalNamed(c, "blockTable"); a.blocks == nil {
		a.blocks = optionalNamed(c, "blocktable")
	}
	a.blockSize = c.IntOr("blockSize", 0)
	a.headNum = c.Int("numHeads")
	a.mask = attentionMask{
		tensor: optionalNamed(c, "attenMask"), mode: c.IntOr("sparseMode", sparseAll),
		pre:  min(max(c.IntOr("preTokens", farAway), -farAway), farAway),
		next: min(max(c.IntOr("nextTokens", farAway), -farAway), farAway),
		zero: c.IntOr("innerPrecise", 0)&2 != 0,
	}
	if c.Has("preTokens") && !c.Has("sparseMode") {
		a.mask.mode = sparseDense
	}
	if c.Has("softmaxLseFlag") && c.Bool("softmaxLseFlag") {
		a.lse = c.Tensor("softmaxLse")
	}
	for _, check := range []func(*op.Call){
		a.readShapes, a.checkSizes, a.readPrefix, a.readLengths, a.checkMask, a.checkPacked, a.checkOutputs, a.checkRope, a.readCacheScales, a.readInt8Scales, a.readLatentScales,
		a.readOutScale, a.readPadding, a.readSink, a.checkAddition,
	} {
		if check(c); c.Err() != nil {
			return nil, c.Err()
		}
	}
	a.mask.decide(&a.attentionShape)
	return func(*op.Exec) error { return a.run() }, nil
}

// readShapes derives the heads, lengths and dimensions.
func (a *inference) readShapes(c *op.Call) {
	name, outName := c.Text("inputLayout"), ""
	if name == "" {
		name = "BSH"
	}
	name, outName, _ = strings.Cut(name, "_")
	if outName == "" {
		outName = name
	}
	a.layout, a.outLayout = readLayout(c, name, a.query), readLayout(c, outName, a.out)
	if name == "SBH" {
		c.Invalid("inputLayout SBH is not supported; use BSH, BSND, BNSD, BNSD_BSND or TND")
	}
	queries, outs := []dtype.Type{dtype.Float16, dtype.BFloat16}, []dtype.Type{a.query.DType}
	if hasNamed(c, "deqScale1") {
		queries = append(queries, dtype.Int8)
	}
	switch {
	case a.latentInt8():
		outs[0] = dtype.BFloat16
	case a.query.DType == dtype.Int8:
		outs[0] = dtype.Float16
	}
	if hasNamed(c, "quantScale2") {
		outs = append(outs, dtype.Int8)
	}
	c.DType(a.query, queries...)
	c.DType(a.out, outs...)
	for _, t := range slices.Concat(a.keys, a.values) {
		a.checkCacheType(c, t)
		c.Plain(t)
	}
	c.Plain(a.out)
	if len(a.keys) != len(a.values) {
		c.Invalid("key has %d tensors and value %d", len(a.keys), len(a.values))
	}
	if (a.queryRope == nil) != (a.keyRope == nil) {
		c.Invalid("queryRope and keyRope must be given together")
	}
	if c.Err() != nil {
		return
	}
	l := a.layout
	a.heads, a.dim = a.headNum, a.query.Dim(l.dim)
	if l.heads {
		a.heads = a.query.Dim(l.head)
	}
	switch {
	case a.headNum <= 0:
		c.Invalid("numHeads is %d; it must be positive", a.headNum)
		return
	case a.headNum != a.heads:
		c.Unfit("numHeads is %d; %v has %d heads", a.headNum, a.query, a.heads)
		return
	}
	if !l.heads {
		if a.dim%a.heads != 0 {
			c.Unfit("the last dimension of %v is no multiple of numHeads %d", a.query, a.heads)
		}
		a.dim /= a.heads
	}
	if a.keyHeads = c.Int("numKeyValueHeads"); a.keyHeads == 0 {
		a.keyHeads = a.heads
	}
	if a.keyHeads < 0 || a.heads%a.keyHeads != 0 {
		c.Unfit("numHeads %d is no multiple of numKeyValueHeads %d", a.heads, a.keyHeads)
		return
	}
	a.rows = a.query.Dim(l.row)
	if !l.packed() {
		a.batch = a.query.Dim(l.batch)
	}
	a.readKeys(c)
}

// cache returns the view [blocks, heads, tokens of a block, dim] of a paged tensor, which is
// [blocks, heads, tokens, dim] or [blocks, tokens, heads * dim].
func (a *inference) cache(t *op.Tensor, dim int64) kernel.View {
	shape := []int64{t.Dim(0), a.keyHeads, t.Dim(-2), dim}
	if t.Rank() == 4 {
		return t.As(shape, t.Strides)
	}
	shape[2] = t.Dim(1)
	return t.As(shape, []int64{t.Strides[0], dim * t.Strides[2], t.Strides[1], t.Strides[2]})
}

// readKeys checks the tensors of keys and values against the query.
func (a *inference) readKeys(c *op.Call) {
	l := a.layout
	if a.blocks != nil {
		c.DType(a.blocks, dtype.Int32)
		c.Rank(a.blocks, 2, 2)
		for _, p := range []struct {
			t   *op.Tensor
			dim *int64
		}{{a.key, nil}, {a.value, &a.valDim}} {
			t := p.t
			c.Rank(t, 3, 5)
			if c.Err() != nil {
				return
			}
			if t.Rank() == 5 {
				dim := t.Dim(2) * t.Dim(4)
				a.checkTiles(c, t, dim)
				if p.dim != nil {
					*p.dim = dim
				} else if dim != a.dim {
					c.Invalid("the head dimension is %d in %v and %d in %v", a.dim, a.query, dim, t)
				}
				continue
			}
			dim, heads := t.Dim(-1), a.keyHeads
			if t.Rank() == 3 {
				dim /= a.keyHeads
			} else {
				heads = t.Dim(1)
			}
			if size := t.Dim(-2); size != a.blockSize || heads != a.keyHeads || dim < 1 || t.Dim(-1)%dim != 0 {
				c.Unfit("%v must be [blocks, blockSize, numKeyValueHeads*D] or [blocks, numKeyValueHeads, blockSize, D] with blockSize %d and %d heads", t, a.blockSize, a.keyHeads)
			}
			if p.dim != nil {
				*p.dim = dim
			} else if dim != a.dim {
				c.Invalid("the head dimension is %d in %v and %d in %v", a.dim, a.query, dim, t)
			}
		}
		return
	}
	if n := int64(len(a.keys)); n != 1 && (l.packed() || n != a.batch) {
		c.Unfit("key has %d tensors; it has one, or one for each of %d batch items", n, a.batch)
		return
	}
	for i := range a.keys {
		k, v := a.keys[i], a.values[i]
		c.Rank(k, l.rank, l.rank)
		c.Rank(v, l.rank, l.rank)
		if c.Err() != nil {
			return
		}
		batch := int64(1)
		if !l.packed() {
			if batch = a.batch; len(a.keys) > 1 {
				batch = 1
			}
		}
		a.valDim = v.Dim(l.dim)
		if !l.heads {
			a.valDim /= a.keyHeads
		}
		c.Shape(k, l.shape(batch, k.Dim(l.row), a.keyHeads, a.dim), "batch, numKeyValueHeads and the head dimension of query")
		c.Shape(v, l.shape(batch, k.Dim(l.row), a.keyHeads, a.valDim), "batch, tokens and heads of key")
		a.cols = max(a.cols, k.Dim(l.row))
	}
}

// lengthLists returns the lengths of the queries and of the keys, which are null where the operator has none.
func lengthLists(c *op.Call) (queries, keys []int64) {
	queries, keys = intsNamed(c, "actualSeqLengths"), intsNamed(c, "actualSeqLengthsKv")
	switch {
	case strings.HasPrefix(c.Op.Name, "Incre"):
		return nil, queries
	case !hasNamed(c, "actualSeqLengthsKv"):
		return queries, queries
	}
	return queries, keys
}

// readLengths finds the valid tokens of each sequence.
func (a *inference) readLengths(c *op.Call) {
	queryLengths, keyLengths := lengthLists(c)
	if strings.HasPrefix(c.Op.Name, "Incre") && a.rows != 1 && !a.layout.packed() {
		c.Unfit("%v has %d tokens; this operator takes one new token", a.query, a.rows)
	}
	if a.layout.packed() {
		a.batch = int64(len(queryLengths))
		if len(keyLengths) != len(queryLengths) || a.batch == 0 {
			c.Unfit("with TND actualSeqLengths and actualSeqLengthsKv must have an entry for each sequence; they have %d and %d", len(queryLengths), len(keyLengths))
			return
		}
	}
	if a.blocks != nil {
		a.cols = a.blocks.Dim(1) * a.blockSize
		if a.blocks.Dim(0) < a.batch {
			c.Unfit("%v must have a row for each of %d sequences", a.blocks, a.batch)
		}
		if len(keyLengths) == 0 {
			c.Unfit("a block table needs actualSeqLengthsKv, the tokens of each sequence")
		}
	}
	for _, list := range [][]int64{queryLengths, keyLengths} {
		if n := int64(len(list)); n > 1 && n < a.batch {
			c.Unfit("%d actual lengths; there must be one for all of %d sequences or one for each", n, a.batch)
		}
	}
	if c.Err() != nil {
		return
	}
	at := attentionItem{}
	for b := range a.batch {
		at.batch = b
		if a.layout.packed() {
			at.row, at.rows = at.row+at.rows, queryLengths[b]-at.row-at.rows
		} else {
			at.rows = lengthOf(queryLengths, b, a.rows)
		}
		if a.layout.packed() && a.blocks == nil {
			at.col, at.cols = at.col+at.cols, keyLengths[b]-at.col-at.cols
		} else {
			whole := a.cols
			if len(a.keys) > 1 {
				whole = a.keys[b].Dim(a.layout.row)
			}
			at.cols = lengthOf(keyLengths, b, whole)
		}
		if at.rows < 0 || at.cols < 0 || at.row+at.rows > a.rows || at.col+at.cols > a.cols {
			c.Unfit("sequence %d has %d query tokens and %d key tokens from %d and %d on; the tensors hold %d and %d", b, at.rows, at.cols, at.row, at.col, a.rows, a.cols)
			return
		}
		a.items = append(a.items, at)
	}
	a.cols += a.prefix
	for i := range a.items {
		a.items[i].cols += a.prefix
	}
}

// lengthOf returns the length of sequence b. The list may be absent, hold one length for all
// sequences, or be longer than needed.
func lengthOf(list []int64, b, otherwise int64) int64 {
	switch len(list) {
	case 0:
		return otherwise
	case 1:
		return list[0]
	}
	return list[b]
}

// checkOutputs checks the shapes of the results and of the bias.
func (a *inference) checkOutputs(c *op.Call) {
	tokens := a.rows
	c.Shape(a.out, a.outLayout.shape(a.batch, tokens, a.heads, a.valDim), "query with the head dimension of value")
	if a.lse != nil {
		c.DType(a.lse, dtype.Float32)
		want := []int64{a.batch, a.heads, tokens, 1}
		if a.layout.packed() {
			want = []int64{tokens, a.heads, 1}
		}
		c.Shape(a.lse, want, "a number for each head and query token")
	}
	if a.bias != nil {
		c.Plain(a.bias)
		if a.query.DType == dtype.Int8 {
			c.DType(a.bias, dtype.Float16)
		} else {
			c.SameDType(a.query, a.bias)
		}
		b := a.bias.Shape
		if a.layout.packed() || len(b) != 4 || b[0] != 1 && b[0] != a.batch || b[1] != a.heads || b[2] < a.rows || b[3] < a.cols {
			c.Unfit("%v must be [1 or B, N, Sq, Skv]: 1 or %d, %d, at least %d and %d", a.bias, a.batch, a.heads, a.rows, a.cols)
		}
	}
	if a.queryRope != nil {
		l := a.layout
		if a.latentInt8() {
			c.DType(a.queryRope, dtype.BFloat16)
		} else {
			c.SameDType(a.query, a.queryRope)
		}
		c.SameDType(a.queryRope, a.keyRope)
		c.Plain(a.queryRope, a.keyRope)
		c.Rank(a.queryRope, l.rank, l.rank)
		if c.Err() != nil {
			return
		}
		if a.ropeDim = a.queryRope.Dim(l.dim); !l.heads {
			a.ropeDim /= a.heads
		}
		c.Shape(a.queryRope, l.shape(a.batch, a.rows, a.heads, a.ropeDim), "query with the rope dimension")
		want := slices.Clone(a.key.Shape)
		if c0 := op.DefaultC0(a.keyRope.DType); a.tiled() {
			want[2], want[4] = a.ropeDim/c0, c0
		} else {
			want[len(want)-1] = want[len(want)-1] / a.dim * a.ropeDim
		}
		c.Shape(a.keyRope, want, "key with the rope dimension")
	}
}

// run computes the sequences that have scores and sets the other results to zero.
func (a *inference) run() error {
	for _, t := range []*op.Tensor{a.out, a.lse} {
		if t != nil {
			if err := op.Zero(t); err != nil {
				return err
			}
		}
	}
	var table []int64
	if a.blocks != nil {
		var err error
		if table, err = elementwise.Indices(a.blocks.View()); err != nil {
			return err
		}
	}
	if a.latentScales != nil {
		return a.runLatentInt8(table)
	}
	if a.integers != nil {
		return a.runInt8()
	}
	if a.keyScale != nil || a.outScale != nil {
		return a.runQuantised(table)
	}
	ends, err := a.tokenEnds()
	if err != nil {
		return err
	}
	var sinks kernel.View
	if a.sink != nil {
		var release func()
		sinks, release, err = a.sinks()
		defer release()
		if err != nil {
			return err
		}
	}
	var items []attentionkernel.Inference
	for _, it := range a.items {
		if it.rows == 0 || it.cols == 0 {
			continue
		}
		k := a.inferItem(a.at(it, ends), table)
		k.Sink = sinks
		if a.tiled() {
			release, err := a.gatherTiles(&k)
			defer release()
			if err != nil {
				return err
			}
		}
		if a.prefixKey != nil {
			release, err := a.prefixed(&k, it)
			defer release()
			if err != nil {
				return err
			}
		}
		items = append(items, k)
	}
	if err := attentionkernel.Infer(items); err != nil {
		return fmt.Errorf("attention: %w", err)
	}
	return nil
}

func (a *inference) inferItem(it attentionItem, table []int64) attentionkernel.Inference {
	l := a.layout
	k := attentionkernel.Inference{Tokens: it.cols, Attention: attentionkernel.Attention{
		Query: l.view(a.query, it.batch, it.row, a.heads, it.rows, a.dim),
		Out:   a.outLayout.view(a.out, it.batch, it.row, a.heads, it.rows, a.valDim),
		Scale: a.scale, ZeroMaskedRows: a.mask.zero || a.mask.mode == sparseRight && it.rows > it.cols,
	}}
	k.First, k.Last = it.window.first, it.window.last
	if m := a.mask.tensor; m != nil && !a.mask.compressed() {
		batch := int64(0)
		if m.Shape[0] > 1 {
			batch = it.batch
		}
		k.Mask = part(m, batch*m.Strides[0], []int64{a.heads, it.rows, it.cols}, []int64{0, m.Strides[2], m.Strides[3]})
	}
	if b := a.bias; b != nil {
		batch := min(it.batch, b.Shape[0]-1)
		k.Bias = part(b, batch*b.Strides[0], []int64{a.heads, it.rows, it.cols}, b.Strides[1:])
		k.BiasKind = attentionkernel.BiasAfterScale
	}
	if a.lse != nil {
		s := a.lse.Strides
		if l.packed() {
			k.LogSumExp = part(a.lse, it.row*s[0], []int64{a.heads, it.rows}, []int64{s[1], s[0]})
		} else {
			k.LogSumExp = part(a.lse, it.batch*s[0], []int64{a.heads, it.rows}, []int64{s[1], s[2]})
		}
	}
	key, value, batch := a.key, a.value, it.batch
	if len(a.keys) > 1 {
		key, value, batch = a.keys[it.batch], a.values[it.batch], 0
	}
	if a.blocks != nil {
		n := a.blocks.Dim(1)
		k.Pages = table[it.batch*n : (it.batch+1)*n]
		if a.tiled() {
			return a.withQueryRope(k, it) // gatherTiles adds the cache
		}
		k.Key, k.Value = a.cache(key, a.dim), a.cache(value, a.valDim)
	} else {
		k.Key = l.view(key, batch, it.col, a.keyHeads, it.cols, a.dim)
		k.Value = l.view(value, batch, it.col, a.keyHeads, it.cols, a.valDim)
	}
	k = a.withQueryRope(k, it)
	if a.queryRope != nil {
		if a.blocks != nil {
			k.KeyRope = a.cache(a.keyRope, a.ropeDim)
		} else {
			k.KeyRope = l.view(a.keyRope, it.batch, it.col, a.keyHeads, it.cols, a.ropeDim)
		}
	}
	return k
}

// withQueryRope adds the rotated features of an item's queries, if there are any.
func (a *inference) withQueryRope(k attentionkernel.Inference, it attentionItem) attentionkernel.Inference {
	if a.queryRope != nil {
		k.QueryRope = a.layout.view(a.queryRope, it.batch, it.row, a.heads, it.rows, a.ropeDim)
	}
	return k
}
