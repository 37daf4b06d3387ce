package attention

import (
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// indexedGrads are gradients of attention over keys that an indexer chooses, and of the indexer, which learns from the probabilities
// of the attention.
var indexedGrads = op.Table{
	"LightningIndexerGrad": lightningIndexerGrad, "SparseFlashAttentionGrad": sparseFlashAttentionGrad,
	"DenseLightningIndexerSoftmaxLse": denseIndexerSums, "DenseLightningIndexerGradKLLoss": indexerLossGrad, "SparseLightningIndexerGradKLLoss": indexerLossGrad,
	"LightningIndexerKLLoss": indexerLoss,
}.Selects()

// checkTokens checks queries and keys in the layout BSND or TND, and the lengths of their sequences: tensors, or lists.
func (x *indexedTokens) checkTokens(c *op.Call, layout string) {
	x.packed = layout == "TND"
	if !x.packed && layout != "BSND" {
		c.Unfit("the layout is %q; use BSND or TND", layout)
	}
	x.packedKeys = x.packed
	rank := 4
	if x.packed {
		rank = 3
	}
	for _, t := range []*op.Tensor{x.query, x.key} {
		c.Plain(t)
		c.DType(t, op.HalfTypes...)
		if t.Rank() != rank {
			c.Unfit("%v must have %d dimensions", t, rank)
		}
	}
	c.SameDType(x.query, x.key)
	if c.Err() != nil {
		return
	}
	x.batch = x.query.Dim(0)
	if x.packed {
		x.batch = int64(len(x.queryEnds))
		if x.queries != nil {
			x.batch = x.queries.Dim(0)
		}
	}
	for _, t := range []*op.Tensor{x.queries, x.keys} {
		if t != nil {
			c.Plain(t)
			c.DType(t, dtype.Int32)
			c.Fits(t, []int64{x.batch}, "one for each sequence")
		}
	}
	switch {
	case x.query.Len() == 0 || x.key.Len() == 0:
		c.Unfit("%v and %v must not be empty", x.query, x.key)
	case x.packed && (x.queries == nil && x.queryEnds == nil || x.keys == nil && x.keyEnds == nil):
		c.Unfit("the lengths of the sequences are null; TND needs them")
	case x.queryEnds != nil && int64(len(x.queryEnds)) != x.batch || x.keyEnds != nil && int64(len(x.keyEnds)) != x.batch:
		c.Unfit("there are %d lengths of queries and %d of keys, for %d sequences", len(x.queryEnds), len(x.keyEnds), x.batch)
	case !x.packed && x.key.Dim(0) != x.batch:
		c.Unfit("%v and %v must have as many sequences", x.query, x.key)
	}
}

// noWindow refuses windows, which these operators do not have.
func noWindow(c *op.Call, names ...string) {
	for _, name := range names {
		if n := c.Int(name); n != math.MaxInt64 && n != math.MaxInt32 {
			c.Unfit("%s is %d; only 2^63-1 and 2^31-1 are supported", name, n)
		}
	}
}

// read reads tensors, of which some may be nil.
func read(tensors ...*op.Tensor) ([][]float64, error) {
	all := make([][]float64, len(tensors))
	for i, t := range tensors {
		var err error
		if all[i], err = numbers(t); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// write writes tensors, of which some may be nil.
func write(values [][]float64, tensors ...*op.Tensor) error {
	for i, t := range tensors {
		if t != nil {
			if err := elementwise.SetFloats(t.View(), values[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// scoreGrad adds up the gradients of the scores Σ wₕ·max(0, qₕ·k) of an indexer.
type scoreGrad struct {
	query, key, weights []float64
	dQuery, dKey, dW    []float64
	heads, dim          int64
}

func newScoreGrad(query, key, weights []float64, heads, dim int64) *scoreGrad {
	return &scoreGrad{query, key, weights, make([]float64, len(query)), make([]float64, len(key)), make([]float64, len(weights)), heads, dim}
}

// scores returns a query's score of each row of keys.
func (g *scoreGrad) scores(row int64, keys []int64) []float64 {
	scores := make([]float64, len(keys))
	for h := row * g.heads; h < (row+1)*g.heads; h++ {
		for n, k := range keys {
			scores[n] += float64(g.weights[h] * max(0, dotted(g.query[h*g.dim:][:g.dim], g.key[k*g.dim:][:g.dim])))
		}
	}
	return scores
}

// add adds the gradients of query, keys and weights that the gradients of a query's scores give.
func (g *scoreGrad) add(row int64, keys []int64, grad []float64) {
	for h := row * g.heads; h < (row+1)*g.heads; h++ {
		q := g.query[h*g.dim:][:g.dim]
		for n, k := range keys {
			key := g.key[k*g.dim:][:g.dim]
			product := dotted(q, key)
			if product <= 0 {
				continue
			}
			g.dW[h] += float64(grad[n] * product)
			d := float64(grad[n] * g.weights[h])
			addTimes(g.dQuery[h*g.dim:], key, d)
			addTimes(g.dKey[k*g.dim:], q, d)
		}
	}
}

// addTimes adds factor·x to the first elements of to.
func addTimes(to, x []float64, factor float64) {
	for i, v := range x {
		to[i] += float64(factor * v)
	}
}

// chosen returns the rows of the keys that query i of a sequence chose, and their places in the list: the blocks that indices
// lists, without negative numbers and keys that the query does not see.
func (x *indexedTokens) chosen(s *indexedSequence, i int64, indices []int64, block int64) (keys []int64, places []int) {
	limit := x.visible(s, i)
	for n, index := range indices {
		if index < 0 {
			continue
		}
		for j := index * block; j < min((index+1)*block, limit); j++ {
			keys, places = append(keys, s.keys[j]), append(places, n)
		}
	}
	return keys, places
}

// lightningIndexerGrad is the gradient of the values that LightningIndexer returns with its indices.
func lightningIndexerGrad(c *op.Call) (op.Run, error) {
	x := &indexedTokens{query: c.Tensor("query"), key: c.Tensor("key"), queries: c.Optional("actualSeqQLenOptional"), keys: c.Optional("actualSeqKvLenOptional"), causal: c.Int("sparseMode") == 3}
	dy, indices, weights := c.Tensor("dy"), c.Tensor("sparseIndices"), c.Tensor("weights")
	dq, dk, dw := c.Tensor("dqOut"), c.Tensor("dkOut"), c.Tensor("dweightsOut")
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Plain(dy, indices, weights, dq, dk, dw)
	c.SameDType(x.query, dy, weights)
	x.checkTokens(c, c.Text("inputLayout"))
	if mode := c.Int("sparseMode"); mode != 0 && mode != 3 {
		c.Unfit("sparseMode is %d; use 0, or 3 for a causal mask", mode)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	heads, dim, count := x.query.Dim(-2), x.query.Dim(-1), indices.Dim(-1)
	rows := x.query.Shape[:x.query.Rank()-2]
	c.DType(indices, dtype.Int32)
	if indices.Rank() != len(rows)+1 {
		c.Unfit("%v must have %d dimensions", indices, len(rows)+1)
	}
	c.Fits(indices, append(slices.Clone(rows), count), "the chosen keys of each query")
	c.Fits(dy, indices.Shape, "that of sparseIndices: a gradient for each value")
	c.Fits(weights, append(slices.Clone(rows), heads), "one for each head of each query")
	c.Same(x.query, dq)
	c.Same(x.key, dk)
	c.Same(weights, dw)
	if c.Int("headNum") != heads || heads > 64 || dim != 128 || x.key.Dim(-2) != 1 || x.key.Dim(-1) != dim || count < 1 || count > 2048 {
		c.Unfit("%v and %v: want headNum, up to 64, heads of 128 elements, one head of keys, and up to 2048 chosen keys", x.query, x.key)
	}
	before, after, tokens := c.Int("preTokens"), c.Int("nextTokens"), x.key.Dim(x.key.Rank()-3)
	if before < tokens || after < 0 || !x.causal && after < tokens { // the kernel has no window, and shows what sparseMode shows
		c.Unfit("preTokens is %d and nextTokens %d; windows are not supported, so use 2^63-1 for both", before, after)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		sequences, err := x.sequences(c.Name())
		if err != nil {
			return err
		}
		v, err := read(x.query, x.key, weights, dy)
		if err != nil {
			return err
		}
		list, err := elementwise.Indices(indices.View())
		if err != nil {
			return err
		}
		g := newScoreGrad(v[0], v[1], v[2], heads, dim)
		for _, s := range sequences {
			for i := range s.queries {
				row := s.query + i
				keys, places := x.chosen(&s, i, list[row*count:][:count], 1)
				grad := make([]float64, len(keys))
				for n, place := range places {
					grad[n] = v[3][row*count+int64(place)]
				}
				g.add(row, keys, grad)
			}
		}
		return write([][]float64{g.dQuery, g.dKey, g.dW}, dq, dk, dw)
	}, nil
}

// checkCounts refuses a number of chosen keys that the kernels do not have.
func checkCounts(c *op.Call, count int64) {
	if count < 1024 || count > 8192 || count%1024 != 0 {
		c.Unfit("there are %d chosen blocks; use a multiple of 1024 up to 8192", count)
	}
}

// sparseFlashAttentionGrad is the gradient of latent attention over chosen blocks. Without a value the keys are the values, and
// dKeyOut has the gradients of both.
func sparseFlashAttentionGrad(c *op.Call) (op.Run, error) {
	x := &indexedTokens{query: c.Tensor("query"), key: c.Tensor("key"), queries: c.Optional("actualSeqLengthsQueryOptional"), keys: c.Optional("actualSeqLengthsKvOptional"), causal: c.Int("sparseMode") == 3}
	value, indices, dOut, out := c.Optional("value"), c.Tensor("sparseIndices"), c.Tensor("dOut"), c.Tensor("out")
	top, sum := c.Tensor("softmaxMax"), c.Tensor("softmaxSum")
	queryRope, keyRope := c.Optional("queryRopeOptional"), c.Optional("keyRopeOptional")
	dq, dk := c.Tensor("dQueryOut"), c.Tensor("dKeyOut")
	block, scale := c.Int("sparseBlockSize"), c.Float("scaleValue")
	var dv, dQueryRope, dKeyRope *op.Tensor
	if value != nil {
		dv = c.Tensor("dValueOut")
	} else {
		c.NoneOf("dValueOut")
	}
	if (queryRope == nil) != (keyRope == nil) {
		c.Unfit("queryRope and keyRope must both be given, or neither")
	}
	if queryRope != nil {
		dQueryRope, dKeyRope = c.Tensor("dQueryRopeOutOptional"), c.Tensor("dKeyRopeOutOptional")
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	x.checkTokens(c, c.Text("layoutOptional"))
	if mode := c.Int("sparseMode"); mode != 0 && mode != 3 {
		c.Unfit("sparseMode is %d; use 0, or 3 for a causal mask", mode)
	}
	noWindow(c, "preTokens", "nextTokens")
	if c.Err() != nil {
		return nil, c.Err()
	}
	const dim, rope = 512, 64
	heads, rows, count := x.query.Dim(-2), slices.Clone(x.query.Shape[:x.query.Rank()-2]), indices.Dim(-1)
	with := func(t *op.Tensor, last int64) []int64 { return append(slices.Clone(t.Shape[:t.Rank()-1]), last) }
	c.Plain(indices, dOut, out, top, sum, dq, dk)
	c.SameDType(x.query, dOut, out)
	c.DType(indices, dtype.Int32)
	c.Fits(indices, append(slices.Clone(rows), 1, count), "the chosen blocks of each query")
	checkCounts(c, count)
	c.Fits(dOut, x.query.Shape, "that of query")
	c.Fits(out, x.query.Shape, "that of query")
	c.Same(x.query, dq)
	c.Same(x.key, dk)
	stats := []int64{rows[0], 1, x.query.Dim(1), heads}
	if x.packed {
		stats = []int64{1, rows[0], heads}
	}
	for _, t := range []*op.Tensor{top, sum} {
		c.DType(t, dtype.Float32)
		c.Fits(t, stats, "a number for each query and head")
	}
	if value != nil {
		c.Plain(value, dv)
		c.Same(x.key, value, dv)
	}
	if queryRope != nil {
		c.Plain(queryRope, keyRope, dQueryRope, dKeyRope)
		c.SameDType(x.query, queryRope, keyRope)
		c.Fits(queryRope, with(x.query, rope), "the rotated columns of query")
		c.Fits(keyRope, with(x.key, rope), "the rotated columns of key")
		c.Same(queryRope, dQueryRope)
		c.Same(keyRope, dKeyRope)
	}
	if x.query.Dim(-1) != dim || x.key.Dim(-1) != dim || x.key.Dim(-2) != 1 || heads > 128 || heads&(heads-1) != 0 {
		c.Unfit("%v and %v: want a power of two up to 128 of heads of %d elements, and one head of keys", x.query, x.key, dim)
	}
	if !slices.Contains([]int64{1, 8, 16, 32, 64}, block) {
		c.Unfit("sparseBlockSize is %d; use 1, 8, 16, 32 or 64", block)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		sequences, err := x.sequences(c.Name())
		if err != nil {
			return err
		}
		v, err := read(x.query, x.key, value, dOut, out, top, sum, queryRope, keyRope)
		if err != nil {
			return err
		}
		list, err := elementwise.Indices(indices.View())
		if err != nil {
			return err
		}
		query, key, grad, ropes := v[0], v[1], v[3], queryRope != nil
		dQuery, dKey, dValue := make([]float64, len(query)), make([]float64, len(key)), make([]float64, len(key))
		dqr, dkr := make([]float64, len(v[7])), make([]float64, len(v[8]))
		values := v[2]
		if value == nil {
			values, dValue = key, dKey
		}
		for _, s := range sequences {
			for i := range s.queries {
				keys, _ := x.chosen(&s, i, list[(s.query+i)*count:][:count], block)
				for h := range heads {
					row := (s.query+i)*heads + h
					q, do := query[row*dim:][:dim], grad[row*dim:][:dim]
					delta := dotted(do, v[4][row*dim:][:dim])
					for _, k := range keys {
						score := dotted(q, key[k*dim:][:dim])
						if ropes {
							score += dotted(v[7][row*rope:][:rope], v[8][k*rope:][:rope])
						}
						p := math.Exp(float64(scale*score)-v[5][row]) / v[6][row]
						ds := p * (dotted(do, values[k*dim:][:dim]) - delta) * scale
						addTimes(dValue[k*dim:], do, p)
						addTimes(dQuery[row*dim:], key[k*dim:][:dim], ds)
						addTimes(dKey[k*dim:], q, ds)
						if ropes {
							addTimes(dqr[row*rope:], v[8][k*rope:][:rope], ds)
							addTimes(dkr[k*rope:], v[7][row*rope:][:rope], ds)
						}
					}
				}
			}
		}
		return write([][]float64{dQuery, dKey, dValue, dqr, dkr}, dq, dk, dv, dQueryRope, dKeyRope)
	}, nil
}

// readIndexer checks queries, keys and weights of an indexer that sees all keys up to its own, and the lengths of the sequences.
func readIndexer(c *op.Call, query, key, weight, layout, queryEnds, keyEnds string) (x *indexedTokens, weights *op.Tensor) {
	x = &indexedTokens{query: c.Tensor(query), key: c.Tensor(key), queryEnds: c.Ints(queryEnds), keyEnds: c.Ints(keyEnds), causal: true}
	weights = c.Tensor(weight)
	if c.Err() != nil {
		return x, weights
	}
	if mode := c.Int("sparseMode"); mode != 3 {
		c.Unfit("sparseMode is %d; only 3 is supported, a causal mask that ends at the lower right corner", mode)
	}
	x.checkTokens(c, c.Text(layout))
	c.Plain(weights)
	c.DType(weights, append(slices.Clone(op.HalfTypes), dtype.Float32)...)
	if weights.DType != dtype.Float32 {
		c.SameDType(x.query, weights)
	}
	if c.Err() != nil {
		return x, weights
	}
	c.Fits(weights, x.query.Shape[:x.query.Rank()-1], "one for each head of each query")
	if heads := x.query.Dim(-2); !slices.Contains([]int64{8, 16, 32, 64}, heads) || x.query.Dim(-1) != 128 || x.key.Dim(-1) != 128 || x.key.Dim(-2) != 1 {
		c.Unfit("%v and %v: want 8, 16, 32 or 64 heads of 128 elements, and one head of keys", x.query, x.key)
	}
	return x, weights
}

// causalSequences returns the sequences, each with as many keys as queries or more.
func (x *indexedTokens) causalSequences(name string) ([]indexedSequence, error) {
	sequences, err := x.sequences(name)
	for b, s := range sequences {
		if s.queries > int64(len(s.keys)) {
			return nil, fmt.Errorf("%s: sequence %d has %d queries and %d keys; there must be a key for each query", name, b, s.queries, len(s.keys))
		}
	}
	return sequences, err
}

// statsOf is the shape of a number for each of the heads of each query: [B,N,S] or [N,T].
func (x *indexedTokens) statsOf(heads int64) []int64 {
	if x.packed {
		return []int64{heads, x.query.Dim(0)}
	}
	return []int64{x.query.Dim(0), heads, x.query.Dim(1)}
}

// statOf is the index of the number of a head of the query in a row, of statsOf.
func (x *indexedTokens) statOf(row, head, heads int64) int64 {
	tokens := x.query.Dim(0)
	if !x.packed {
		tokens = x.query.Dim(1)
	}
	return (row/tokens*heads+head)*tokens + row%tokens
}

// denseIndexerSums computes the maximum and the sum of exponentials of the scores of all keys that a query sees.
func denseIndexerSums(c *op.Call) (op.Run, error) {
	x, weights := readIndexer(c, "queryIndex", "keyIndex", "weight", "layoutOptional", "actualSeqLengthsQueryOptional", "actualSeqLengthsKeyOptional")
	top, sum := c.Tensor("softmaxMaxOut"), c.Tensor("softmaxSumOut")
	noWindow(c, "preTokens", "nextTokens")
	if c.Err() != nil {
		return nil, c.Err()
	}
	for _, t := range []*op.Tensor{top, sum} {
		c.Plain(t)
		c.DType(t, dtype.Float32)
		c.Fits(t, x.statsOf(1), "a number for each query")
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		sequences, err := x.causalSequences(c.Name())
		if err != nil {
			return err
		}
		v, err := read(x.query, x.key, weights)
		if err != nil {
			return err
		}
		g := newScoreGrad(v[0], v[1], v[2], x.query.Dim(-2), x.query.Dim(-1))
		maxima, sums := make([]float64, top.Len()), make([]float64, top.Len())
		for _, s := range sequences {
			for i := range s.queries {
				row := s.query + i
				scores := g.scores(row, s.keys[:x.visible(&s, i)])
				highest := slices.Max(scores)
				maxima[x.statOf(row, 0, 1)] = highest
				for _, score := range scores {
					sums[x.statOf(row, 0, 1)] += math.Exp(score - highest)
				}
			}
		}
		return write([][]float64{maxima, sums}, top, sum)
	}, nil
}

// indexerLossGrad computes the divergence of an indexer's probabilities from those of the attention, which are added up over
// its heads and divided by their sum, and the gradients of that loss. The keys of a query are those that it chose, which all
// heads of the attention share, or else all that it sees, of which each head has its own.
func indexerLossGrad(c *op.Call) (op.Run, error) {
	x, weights := readIndexer(c, "queryIndex", "keyIndex", "weights", "layout", "actualSeqLengthsQuery", "actualSeqLengthsKey")
	query, key, queryRope, keyRope := c.Tensor("query"), c.Tensor("key"), c.Optional("queryRope"), c.Optional("keyRope")
	top, sum := c.Tensor("softmaxMax"), c.Tensor("softmaxSum")
	var indices, topIndex, sumIndex *op.Tensor
	sparse := c.Has("sparseIndices")
	if sparse {
		indices = c.Tensor("sparseIndices")
		noWindow(c, "pre_tokens", "next_tokens")
	} else {
		topIndex, sumIndex = c.Tensor("softmaxMaxIndex"), c.Tensor("softmaxSumIndex")
		noWindow(c, "preTokens", "nextTokens")
	}
	dq, dk, dw, loss, scale := c.Tensor("dQueryIndex"), c.Tensor("dKeyIndex"), c.Tensor("dWeights"), c.Tensor("loss"), c.Float("scaleValue")
	if (queryRope == nil) != (keyRope == nil) {
		c.Unfit("queryRope and keyRope must both be given, or neither")
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	const rope = 64
	heads, keyHeads, dim, count := query.Dim(-2), query.Dim(-2), int64(128), int64(0)
	if sparse {
		keyHeads, dim, count = 1, 512, indices.Dim(-1)
		c.Plain(indices)
		c.DType(indices, dtype.Int32)
		c.Fits(indices, append(slices.Clone(x.query.Shape[:x.query.Rank()-2]), 1, count), "the chosen keys of each query")
		checkCounts(c, count)
	}
	c.Plain(query, key, top, sum, dq, dk, dw, loss)
	c.SameDType(x.query, query, key)
	with := func(t *op.Tensor, heads, last int64) []int64 {
		return append(slices.Clone(t.Shape[:t.Rank()-2]), heads, last)
	}
	if !slices.Contains([]int64{32, 64, 128}, heads) {
		c.Unfit("%v must have 32, 64 or 128 heads", query)
		return nil, c.Err()
	}
	c.Fits(query, with(x.query, heads, dim), "the tokens of queryIndex")
	c.Fits(key, with(x.key, keyHeads, dim), "the tokens of keyIndex")
	if queryRope != nil {
		c.Plain(queryRope, keyRope)
		c.SameDType(x.query, queryRope, keyRope)
		c.Fits(queryRope, with(x.query, heads, rope), "the rotated columns of query")
		c.Fits(keyRope, with(x.key, keyHeads, rope), "the rotated columns of key")
	}
	for _, t := range []*op.Tensor{top, sum} {
		c.DType(t, dtype.Float32)
		c.Fits(t, append(x.statsOf(keyHeads), heads/keyHeads), "a number for each query and head")
	}
	for _, t := range []*op.Tensor{topIndex, sumIndex} {
		if t != nil {
			c.Plain(t)
			c.DType(t, dtype.Float32)
			c.Fits(t, x.statsOf(1), "a number for each query")
		}
	}
	c.Same(x.query, dq)
	c.Same(x.key, dk)
	c.Same(weights, dw)
	c.DType(loss, dtype.Float32)
	c.Fits(loss, []int64{1}, "a number")
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		sequences, err := x.causalSequences(c.Name())
		if err != nil {
			return err
		}
		v, err := read(x.query, x.key, weights, query, key, queryRope, keyRope, top, sum, topIndex, sumIndex)
		if err != nil {
			return err
		}
		var list []int64
		if sparse {
			if list, err = elementwise.Indices(indices.View()); err != nil {
				return err
			}
		}
		g, divergence := newScoreGrad(v[0], v[1], v[2], x.query.Dim(-2), x.query.Dim(-1)), 0.0
		for _, s := range sequences {
			for i := range s.queries {
				row := s.query + i
				keys := s.keys[:x.visible(&s, i)]
				if sparse {
					keys, _ = x.chosen(&s, i, list[row*count:][:count], 1)
				}
				if len(keys) == 0 {
					continue
				}
				target, all := make([]float64, len(keys)), 0.0
				for h := range heads {
					at, own := x.statOf(row, h, heads), h
					if sparse {
						at, own = row*heads+h, 0
					}
					for n, k := range keys {
						r, of := row*heads+h, k*keyHeads+own
						score := dotted(v[3][r*dim:][:dim], v[4][of*dim:][:dim])
						if queryRope != nil {
							score += dotted(v[5][r*rope:][:rope], v[6][of*rope:][:rope])
						}
						p := math.Exp(float64(scale*score)-v[7][at]) / v[8][at]
						target[n] += p
						all += p
					}
				}
				scores := g.scores(row, keys)
				highest, total := slices.Max(scores), 0.0
				if sparse {
					for _, score := range scores {
						total += math.Exp(score - highest)
					}
				} else {
					highest, total = v[9][x.statOf(row, 0, 1)], v[10][x.statOf(row, 0, 1)]
				}
				for n, score := range scores {
					p, own := target[n]/all, math.Exp(score-highest)/total
					if p > 0 {
						divergence += float64(p * (math.Log(p) - (score - highest - math.Log(total))))
					}
					scores[n] = own - p
				}
				g.add(row, keys, scores)
			}
		}
		return write([][]float64{g.dQuery, g.dKey, g.dW, {divergence}}, dq, dk, dw, loss)
	}, nil
}

// indexerLoss computes Σ weight·(log max(P, ε) − log(Y + ε)), where P are the scores of each row divided by their sum and ε, and Y
// the probabilities of the indexer. The weight is P, or the scores themselves.
func indexerLoss(c *op.Call) (op.Run, error) {
	score, own, loss, eps := c.Tensor("targetScore"), c.Tensor("indexProbs"), c.Tensor("loss"), c.Float("eps")
	kind := c.Text("weightType")
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Plain(score, own, loss)
	c.DType(score, op.FloatTypes...)
	c.DType(own, op.FloatTypes...)
	c.SameDType(score, loss)
	c.Rank(score, 2, 3)
	c.SameShape(score, own)
	c.Shape(loss, []int64{1}, "a number")
	if kind != "logits" && kind != "probs" {
		c.Invalid("weightType is %q; use logits or probs", kind)
	}
	if eps <= 0 {
		c.Invalid("eps is %v; it must be above 0", eps)
	}
	if c.Err() == nil && (score.Len() == 0 || score.Dim(-1) > 8192 || score.Rank() == 3 && score.Dim(0) > 512) {
		c.Invalid("%v: want up to 8192 columns, and up to 512 sequences", score)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		v, err := read(score, own)
		if err != nil {
			return err
		}
		width, sum := score.Dim(-1), 0.0
		for first := int64(0); first < int64(len(v[0])); first += width {
			row, all := v[0][first:][:width], eps
			for _, y := range row {
				all += y
			}
			for i, y := range row {
				p := y / all
				weight := y
				if kind == "probs" {
					weight = p
				}
				sum += float64(weight * (math.Log(max(p, eps)) - math.Log(v[1][first+int64(i)]+eps)))
			}
		}
		return elementwise.SetFloats(loss.View(), []float64{sum})
	}, nil
}
