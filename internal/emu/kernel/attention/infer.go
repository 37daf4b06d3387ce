package attention

import (
	"fmt"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
)

// Inference is the attention of one sequence without a backward pass: Max and Sum of the
// Attention are not written.
type Inference struct {
	Attention
	// Pages, if not nil, names the blocks of the cache that hold the sequence, in order: Key,
	// Value and KeyRope are then caches [blocks, heads, block tokens, dim], of which the first
	// Tokens tokens are attended to.
	Pages  []int64
	Tokens int64
	// LogSumExp, if it has data, gets the logarithm of the sum of the exponentials of each
	// row's scores: float32 [heads, rows].
	LogSumExp kernel.View
}

// Infer computes Out, and LogSumExp if it has data, of every sequence.
func Infer(items []Inference) error {
	c := rowwise.NewChain()
	plain := make([]Attention, len(items))
	for i := range items {
		it := &items[i]
		a := it.Attention
		if it.Pages != nil && c.Err == nil {
			c.Err = a.paged(it.Pages, it.Tokens)
		}
		stats := []int64{a.Query.Shape[0], a.Query.Shape[1], AttentionStatCopies}
		a.Max, a.Sum = c.Temp(stats), c.Temp(stats)
		plain[i] = a
	}
	if c.Err == nil {
		c.Err = FlashAttention(plain)
	}
	for i, a := range plain {
		if to := items[i].LogSumExp; to.Data != nil && a.Query.Len() > 0 {
			log := c.Temp(to.Shape)
			c.Set(log, elementwise.Log, nil, elementwise.Of(a.Sum.Select(2, 0)))
			c.Set(to, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(log), elementwise.Of(a.Max.Select(2, 0)))
		}
	}
	return c.End()
}

// pagedCache has the places of the tokens of Key, Value and KeyRope, which are views of the first page of a cache.
type pagedCache struct {
	pages            []int64 // numbers, in the order of their tokens
	rows             int64   // tokens of a page
	key, value, rope int64   // strides of pages
}

// UsedPages returns the pages that hold the first tokens of a sequence. The blocks that they name must be
// in the cache [blocks, heads, block tokens, dim].
func UsedPages(pages []int64, tokens int64, cache kernel.View) ([]int64, error) {
	blocks, block := cache.Shape[0], cache.Shape[2]
	need := (tokens + block - 1) / block
	if need > int64(len(pages)) {
		return nil, fmt.Errorf("%d tokens need %d blocks of %d, the block table has %d", tokens, need, block, len(pages))
	}
	for i, p := range pages[:need] {
		if p < 0 || p >= blocks {
			return nil, fmt.Errorf("block %d of the sequence is %d; the cache has blocks 0 to %d", i, p, blocks-1)
		}
	}
	return pages[:need], nil
}

// paged replaces the caches [blocks, heads, block tokens, dim] by views of the sequence's tokens.
func (a *Attention) paged(pages []int64, tokens int64) error {
	block := a.Key.Shape[2]
	a.cache = &pagedCache{rows: block}
	for _, v := range []struct {
		cache *kernel.View
		page  *int64
	}{{&a.Key, &a.cache.key}, {&a.Value, &a.cache.value}, {&a.KeyRope, &a.cache.rope}} {
		shape, strides := v.cache.Shape, v.cache.Strides
		if shape == nil {
			continue
		}
		if shape[2] != block {
			return fmt.Errorf("the blocks of the caches have %d and %d tokens", block, shape[2])
		}
		used, err := UsedPages(pages, tokens, *v.cache)
		if err != nil {
			return err
		}
		a.cache.pages, *v.page = used, strides[0]
		v.cache.Shape, v.cache.Strides = []int64{shape[1], tokens, shape[3]}, strides[1:]
	}
	return nil
}

// Merge merges the attention results of two disjoint sets of keys, as ring attention does. a
// and b each hold an output, its row maxima and its sums of exponentials; all copies of the
// merged statistics are written. Outputs are [..., dim], and the first copy of the statistics
// broadcasts to them. out, max and sum may be the memory of a.
func Merge(out, max, sum kernel.View, a, b [3]kernel.View) error {
	c := rowwise.NewChain(out)
	c.Compute = dtype.Float32
	most, scaleA, scaleB, total := c.Temp(max.Shape), c.Temp(max.Shape), c.Temp(max.Shape), c.Temp(max.Shape)
	c.Set(most, elementwise.Max, nil, elementwise.Of(a[1]), elementwise.Of(b[1]))
	for _, s := range []struct{ to, max, sum kernel.View }{{scaleA, a[1], a[2]}, {scaleB, b[1], b[2]}} {
		c.Sub(s.to, s.max, most)
		c.Set(s.to, elementwise.Exp, nil, elementwise.Of(s.to))
		c.Mul(s.to, s.to, s.sum)
	}
	c.Set(total, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(scaleA), elementwise.Of(scaleB))
	last := len(max.Shape) - 1
	for _, s := range []kernel.View{scaleA, scaleB} {
		c.Set(s, elementwise.Div, nil, elementwise.Of(s), elementwise.Of(total))
	}
	joined := c.Temp(out.Shape)
	c.Mul(joined, a[0], scaleA.Narrow(last, 0, 1))
	c.AddTimes(joined, joined, 1, b[0], scaleB.Narrow(last, 0, 1))
	c.Set(out, elementwise.Identity, nil, elementwise.Of(joined))
	c.Set(max, elementwise.Identity, nil, elementwise.Of(most))
	c.Set(sum, elementwise.Identity, nil, elementwise.Of(total))
	return c.End()
}
