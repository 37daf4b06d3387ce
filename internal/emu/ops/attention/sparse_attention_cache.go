package attention

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	attentionkernel "github.com/goascend/cann/internal/emu/kernel/attention"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// cachedSelection is the attention of one new token of each sequence to selected blocks of keys and
// values, which are stored in pages.
type cachedSelection struct {
	*op.Call
	query, key, value, out, blocks, pages *op.Tensor // heads are a dimension of their own
	lengths                               []int64
	size, page                            int64
	scale                                 float32
}

// headsApart views [..., heads·dim] as [..., heads, dim].
func headsApart(c *op.Call, t *op.Tensor, heads int64) *op.Tensor {
	n := t.Rank()
	if n != 3 {
		return t
	}
	if heads <= 0 || t.Dim(2)%heads != 0 {
		c.Invalid("%v cannot be divided among %d heads", t, heads)
		return t
	}
	return c.Reshaped(t, t.Dim(0), t.Dim(1), heads, t.Dim(2)/heads)
}

// cachedSelectedAttention computes attention to the selected blocks, which it finds through the
// page table.
func cachedSelectedAttention(c *op.Call) (op.Run, error) {
	heads, keyHeads := c.Int("numHeads"), c.Int("numKeyValueHeads")
	s := &cachedSelection{
		Call: c, query: c.Tensor("query"), key: c.Tensor("key"), value: c.Tensor("value"), out: c.Tensor("output"), blocks: c.Tensor("topkIndices"), pages: c.Tensor("blockTableOptional"),
		lengths: c.Ints("actualKvSeqLenOptional"), size: c.Int("selectBlockSize"), page: c.Int("pageBlockSize"), scale: float32(c.Float("scaleValue")),
	}
	c.NoneOf("attenMaskOptional")
	layout := c.Text("layoutOptional")
	if layout != "" && layout != "BSND" && layout != "BSH" && layout != "TND" {
		c.Invalid("layoutOptional is %q; use BSH, BSND or TND", layout)
	}
	for _, t := range []*op.Tensor{s.query, s.key, s.value, s.out} {
		c.Plain(t)
		c.Rank(t, 3, 4)
		c.DType(t, op.HalfTypes...)
		c.Dense(t)
	}
	c.SameDType(s.query, s.key, s.value, s.out)
	c.Plain(s.blocks, s.pages)
	c.DType(s.blocks, dtype.Int32)
	c.DType(s.pages, dtype.Int32)
	if c.Err() != nil {
		return nil, c.Err()
	}
	if layout == "TND" && s.query.Rank() == 3 { // one token of each sequence
		for _, t := range []**op.Tensor{&s.query, &s.out, &s.blocks} {
			if x := *t; x.Rank() == 3 {
				*t = c.Reshaped(x, x.Dim(0), 1, x.Dim(1), x.Dim(2))
			}
		}
	}
	s.query, s.out, s.key, s.value = headsApart(c, s.query, heads), headsApart(c, s.out, heads), headsApart(c, s.key, keyHeads), headsApart(c, s.value, keyHeads)
	if c.Err() != nil {
		return nil, c.Err()
	}
	batch, count := s.query.Dim(0), c.Int("selectBlockCount")
	switch {
	case s.query.Dim(1) != 1:
		c.Invalid("%v has %d tokens of a sequence; one is supported", s.query, s.query.Dim(1))
	case s.query.Dim(2) != heads || s.key.Dim(2) != keyHeads || keyHeads == 0 || heads%keyHeads != 0:
		c.Invalid("%v and %v do not have %d and %d heads, of which the second divides the first", s.query, s.key, heads, keyHeads)
	case s.query.Dim(3) != s.key.Dim(3) || !slices.Equal(s.key.Shape[:3], s.value.Shape[:3]):
		c.Invalid("%v, %v and %v do not belong together", s.query, s.key, s.value)
	case s.page <= 0 || s.page != s.key.Dim(1):
		c.Invalid("pageBlockSize is %d, but %v has pages of %d", s.page, s.key, s.key.Dim(1))
	case s.size <= 0 || s.size > 128 || s.size%16 != 0:
		c.Invalid("selectBlockSize is %d; use a multiple of 16 up to 128", s.size)
	case int64(len(s.lengths)) != batch:
		c.Invalid("actualKvSeqLenOptional has %d lengths for %d sequences", len(s.lengths), batch)
	case s.pages.Rank() != 2 || s.pages.Dim(0) != batch:
		c.Invalid("%v must have a row for each of %d sequences", s.pages, batch)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Shape(s.blocks, []int64{batch, 1, keyHeads, count}, "the blocks for each token and key head")
	c.Shape(s.out, []int64{batch, 1, heads, s.value.Dim(3)}, "that of the query with the heads of the values")
	for i, n := range s.lengths {
		if n < 0 || n > s.pages.Dim(1)*s.page {
			c.Invalid("actualKvSeqLenOptional: %d tokens of sequence %d; %v has pages for %d", n, i, s.pages, s.pages.Dim(1)*s.page)
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		for sequence := range batch {
			for head := range keyHeads {
				if err := s.attend(sequence, head, heads/keyHeads); err != nil {
					return err
				}
			}
		}
		return nil
	}, nil
}

// places returns the rows of the cache that the token of a sequence sees, in order.
func (s *cachedSelection) places(sequence, head int64) ([]int64, error) {
	chosen, err := elementwise.Indices(s.blocks.View().Select(0, sequence).Select(0, 0).Select(0, head))
	if err != nil {
		return nil, err
	}
	var tokens []int64
	for _, block := range chosen {
		if block < 0 {
			continue
		}
		for at := block * s.size; at < min((block+1)*s.size, s.lengths[sequence]); at++ {
			tokens = append(tokens, at)
		}
	}
	return pagedRows(s.pages, sequence, s.key, tokens)
}

func (s *cachedSelection) attend(sequence, head, group int64) error {
	rows, err := s.places(sequence, head)
	if err != nil {
		return err
	}
	first := head * group
	query, out := s.query.View().Select(0, sequence).Narrow(1, first, group), s.out.View().Select(0, sequence).Narrow(1, first, group)
	if len(rows) == 0 {
		return elementwise.Zero(out)
	}
	return withCachedHead(s.key, s.value, head, rows, func(key, value kernel.View) error {
		return attendCached(attentionkernel.Attention{Query: headsLeading(query), Key: key, Value: value, Out: headsLeading(out), Scale: s.scale})
	})
}

// pagedRows returns the rows of a cache [pages, tokens of a page, …] that hold tokens of a
// sequence, by the page table.
func pagedRows(table *op.Tensor, sequence int64, cache *op.Tensor, tokens []int64) ([]int64, error) {
	pages, err := elementwise.Indices(table.View().Select(0, sequence))
	if err != nil {
		return nil, err
	}
	size, rows := cache.Dim(1), make([]int64, len(tokens))
	for i, at := range tokens {
		page := pages[at/size]
		if page < 0 || page >= cache.Dim(0) {
			return nil, fmt.Errorf("%v holds page %d for sequence %d; there are %d", table, page, sequence, cache.Dim(0))
		}
		rows[i] = page*size + at%size
	}
	return rows, nil
}

// withCachedHead calls f with rows of one head of contiguous caches as [1, rows, dim].
func withCachedHead(key, value *op.Tensor, head int64, rows []int64, f func(key, value kernel.View) error) error {
	gather := func(t *op.Tensor) (kernel.View, func(), error) {
		width := t.Dim(3)
		cache := t.As([]int64{t.Dim(0) * t.Dim(1), t.Dim(2), width}, []int64{t.Dim(2) * width, width, 1}).Select(1, head)
		v, release, err := op.RowsOf(cache, rows)
		v.Shape, v.Strides = append([]int64{1}, v.Shape...), append([]int64{0}, v.Strides...)
		return v, release, err
	}
	k, releaseKey, err := gather(key)
	defer releaseKey()
	if err != nil {
		return err
	}
	v, releaseValue, err := gather(value)
	defer releaseValue()
	if err != nil {
		return err
	}
	return f(k, v)
}

// headsLeading views [tokens, heads, dim] as [heads, tokens, dim].
func headsLeading(v kernel.View) kernel.View {
	return kernel.View{Data: v.Data, DType: v.DType, Shape: []int64{v.Shape[1], v.Shape[0], v.Shape[2]}, Strides: []int64{v.Strides[1], v.Strides[0], v.Strides[2]}}
}

// attendCached computes attention to all columns and discards the statistics.
func attendCached(item attentionkernel.Attention) error {
	stats, release := kernel.Temporary(2, item.Query.Shape[0], item.Query.Shape[1], attentionkernel.AttentionStatCopies)
	defer release()
	item.Max, item.Sum = stats.Select(0, 0), stats.Select(0, 1)
	item.First, item.Last, item.KeepProb, item.ZeroMaskedRows = -attentionkernel.Unlimited, attentionkernel.Unlimited, 1, true
	return attentionkernel.FlashAttention([]attentionkernel.Attention{item})
}
