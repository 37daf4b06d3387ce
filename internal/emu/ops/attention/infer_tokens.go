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

// addition has the optional inputs of a call without quantised tensors: sinks, a prefix that all sequences share, and left padding, with which
// the tokens lie at the end of the tensors.
type addition struct {
	sink             *op.Tensor // bfloat16 [heads]
	prefixKey        *op.Tensor // of a batch of one; the keys of all sequences follow it
	prefixValue      *op.Tensor
	prefix           int64      // tokens of the prefix that count
	queryPad, keyPad *op.Tensor // int64 [1]: tokens behind the valid ones; nil if these are at the start
}

// readPrefix reads the shared prefix, whose tokens count as keys of each sequence.
func (a *inference) readPrefix(c *op.Call) {
	key, value := optionalNamed(c, "keySharedPrefix"), optionalNamed(c, "valueSharedPrefix")
	if key == nil && value == nil {
		return
	}
	if key == nil || value == nil {
		c.Unfit("keySharedPrefix and valueSharedPrefix must be given together")
		return
	}
	l := a.layout
	switch {
	case a.blocks != nil || len(a.keys) > 1 || l.packed():
		c.Unfit("%v: a shared prefix needs one tensor of keys, without blocks and without inputLayout TND", key)
	case a.queryRope != nil:
		c.Unfit("%v: there is no shared prefix with queryRope", key)
	}
	c.Plain(key, value)
	c.Rank(key, l.rank, l.rank)
	if c.Err() != nil {
		return
	}
	tokens := key.Dim(l.row)
	c.SameDType(a.key, key, value)
	c.Shape(key, l.shape(1, tokens, a.keyHeads, a.dim), "a batch of 1, with the heads of key")
	c.Shape(value, l.shape(1, tokens, a.keyHeads, a.valDim), "a batch of 1, with the heads of value and the tokens of the prefix")
	a.prefixKey, a.prefixValue, a.prefix = key, value, tokens
	if list := intsNamed(c, "actualSharedPrefixLen"); list != nil {
		if len(list) != 1 || list[0] < 0 || list[0] > tokens {
			c.Unfit("actualSharedPrefixLen is %d; it has one number up to %d, the tokens of %v", list, tokens, key)
			return
		}
		a.prefix = list[0]
	}
}

// readPadding reads how many tokens lie behind the valid ones. CANN does so only if there are lengths, and of the query only
// with several tokens.
func (a *inference) readPadding(c *op.Call) {
	queries, keys := lengthLists(c)
	for _, p := range []struct {
		name  string
		lens  []int64
		to    **op.Tensor
		apply bool
	}{
		{"queryPaddingSize", queries, &a.queryPad, a.rows > 1},
		{"kvPaddingSize", keys, &a.keyPad, true},
	} {
		t := optionalNamed(c, p.name)
		if t == nil || p.lens == nil || !p.apply {
			continue
		}
		c.Plain(t)
		switch {
		case t.DType != dtype.Int64 || !slices.Equal(t.Shape, []int64{1}):
			c.Unfit("%v must be int64 [1]", t)
		case a.blocks != nil || len(a.keys) > 1 || a.layout.packed():
			c.Unfit("%v: padding on the left needs one tensor of keys, without blocks and without inputLayout TND", t)
		case a.mask.tensor != nil || a.bias != nil || a.prefixKey != nil || a.queryRope != nil:
			c.Unfit("%v: the emulator does not know which columns of a mask, of pseShift, of a shared prefix or of queryRope belong to tokens that are padded on the left", t)
		}
		*p.to = t
	}
}

// readSink reads the sinks.
func (a *inference) readSink(c *op.Call) {
	sink := optionalNamed(c, "learnableSink")
	if sink == nil {
		return
	}
	c.Plain(sink)
	switch {
	case sink.DType != dtype.BFloat16 || !slices.Equal(sink.Shape, []int64{a.heads}):
		c.Unfit("%v must be bfloat16 [%d], one for each head", sink, a.heads)
	case a.valDim != 64 && a.valDim != 128:
		c.Unfit("%v: with sinks the head dimension of value is 64 or 128; it is %d", sink, a.valDim)
	case a.bias != nil || a.prefixKey != nil || a.queryPad != nil || a.keyPad != nil:
		c.Unfit("%v: there are no sinks with pseShift, padding on the left or a shared prefix", sink)
	}
	a.sink = sink
}

// checkAddition refuses quantised tensors beside sinks, prefixes and padding.
func (a *inference) checkAddition(c *op.Call) {
	for _, t := range []*op.Tensor{a.sink, a.prefixKey, a.queryPad, a.keyPad} {
		if t != nil && (a.key.DType != a.query.DType || a.query.DType == dtype.Int8 || a.out.DType == dtype.Int8) {
			c.Unfit("%v is given; the emulator computes it without quantised tensors only: query is %v, key %v, attentionOut %v", t, a.query.DType, a.key.DType, a.out.DType)
		}
	}
}

// tokenEnds is behind which place of the queries and of the keys the padding begins that follows the valid tokens.
type tokenEnds struct{ query, key int64 }

// tokenEnds reads the sizes of the padding.
func (a *inference) tokenEnds() (e tokenEnds, err error) {
	for _, p := range []struct {
		t      *op.Tensor
		to     *int64
		tokens int64
		of     func(it attentionItem) int64
	}{
		{a.queryPad, &e.query, a.rows, func(it attentionItem) int64 { return it.rows }},
		{a.keyPad, &e.key, a.cols, func(it attentionItem) int64 { return it.cols }},
	} {
		if p.t == nil {
			continue
		}
		v, err := elementwise.Indices(p.t.View())
		if err != nil {
			return e, err
		}
		*p.to = p.tokens - max(v[0], 0)
		for _, it := range a.items {
			if n := p.of(it); n > *p.to {
				return e, fmt.Errorf("%v is %d: of %d tokens a sequence of %d does not fit before that padding", p.t, v[0], p.tokens, n)
			}
		}
	}
	return e, nil
}

// at returns an item whose tokens lie before the padding.
func (a *inference) at(it attentionItem, e tokenEnds) attentionItem {
	if a.queryPad != nil {
		it.row = e.query - it.rows
	}
	if a.keyPad != nil {
		it.col = e.key - it.cols
	}
	return it
}

// prefixed replaces the keys and values of an item by the prefix and the item's own. release frees their memory.
func (a *inference) prefixed(k *attentionkernel.Inference, it attentionItem) (release func(), err error) {
	l, own := a.layout, it.cols-a.prefix
	key, freeKey := kernel.TemporaryOf(a.key.DType, a.keyHeads, it.cols, a.dim)
	value, freeValue := kernel.TemporaryOf(a.key.DType, a.keyHeads, it.cols, a.valDim)
	release = func() { freeKey(); freeValue() }
	for _, part := range []struct {
		to           kernel.View
		prefix, rest *op.Tensor
		dim          int64
	}{{key, a.prefixKey, a.key, a.dim}, {value, a.prefixValue, a.value, a.valDim}} {
		if err := elementwise.Copy(part.to.Narrow(1, 0, a.prefix), l.view(part.prefix, 0, 0, a.keyHeads, a.prefix, part.dim)); err != nil {
			return release, err
		}
		if err := elementwise.Copy(part.to.Narrow(1, a.prefix, own), l.view(part.rest, it.batch, 0, a.keyHeads, own, part.dim)); err != nil {
			return release, err
		}
	}
	k.Key, k.Value = key, value
	return release, nil
}

// sinks returns the sinks in float32.
func (a *inference) sinks() (v kernel.View, release func(), err error) {
	v, release = kernel.Temporary(a.heads, 1, 1)
	return v, release, elementwise.Copy(v, a.sink.As([]int64{a.heads, 1, 1}, []int64{a.sink.Strides[0], 0, 0}))
}
