package attention

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	attentionkernel "github.com/goascend/cann/internal/emu/kernel/attention"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/op"
)

// cachedCompression is the attention of the last tokens of each sequence to compressed blocks,
// which are stored in pages. It also selects longer blocks.
type cachedCompression struct {
	*op.Call
	blockChoice
	query, key, value, out, chosen, pages *op.Tensor // heads are a dimension of their own
	first, rows                           []int64    // first token and number of tokens in the query, by sequence
	compressed, tokens                    []int64    // numbers of compressed blocks and, if given, of the original tokens
	masked                                bool
	scale                                 float32
}

// mostNewTokens is the largest number of query tokens of a sequence.
const mostNewTokens = 4

func cachedCompressedAttention(c *op.Call) (op.Run, error) {
	heads, keyHeads := c.Int("numHeads"), c.Int("numKeyValueHeads")
	s := &cachedCompression{
		Call: c, query: c.Tensor("query"), key: c.Tensor("key"), value: c.Tensor("value"), out: c.Tensor("output"), chosen: c.Tensor("topKOutput"), pages: c.Tensor("blockTableOptional"),
		compressed: c.Ints("actualCmpKvSeqLenOptional"), tokens: c.Ints("actualSelKvSeqLenOptional"), masked: c.Optional("attentionMaskOptional") != nil, scale: float32(c.Float("scaleValue")),
	}
	c.NoneOf("topKMaskOptional")
	layout := c.Text("layoutOptional")
	if layout != "BSND" && layout != "TND" {
		c.Invalid("layoutOptional is %q; use BSND or TND", layout)
	}
	if s.compressed == nil {
		c.Fail(op.NullPointer, "actualCmpKvSeqLenOptional is null")
	}
	for _, t := range []*op.Tensor{s.query, s.key, s.value, s.out} {
		c.Plain(t)
		c.DType(t, op.HalfTypes...)
	}
	c.SameDType(s.query, s.key, s.value, s.out)
	c.Plain(s.chosen, s.pages)
	c.DType(s.chosen, dtype.Int32)
	c.DType(s.pages, dtype.Int32)
	c.Rank(s.pages, 2, 2)
	for _, t := range []*op.Tensor{s.key, s.value} {
		c.Rank(t, 3, 3)
		c.Dense(t)
	}
	rank := map[string]int{"BSND": 4, "TND": 3}[layout]
	c.Rank(s.query, rank, rank)
	if c.Err() != nil {
		return nil, c.Err()
	}
	s.key, s.value = headsApart(c, s.key, keyHeads), headsApart(c, s.value, keyHeads)
	s.blockChoice = newBlockChoice(c, c.Int("compressBlockStride"))
	if c.Err() != nil {
		return nil, c.Err()
	}
	page := c.Int("pageBlockSize")
	switch {
	case s.query.Dim(-2) != heads || heads%keyHeads != 0 || heads == 0:
		c.Invalid("%v does not have numHeads %d heads, or numKeyValueHeads %d does not divide them", s.query, heads, keyHeads)
	case s.query.Dim(-1) != s.key.Dim(3) || s.value.Dim(3) > s.key.Dim(3) || !slices.Equal(s.key.Shape[:3], s.value.Shape[:3]):
		c.Invalid("%v, %v and %v do not belong together", s.query, s.key, s.value)
	case page <= 0 || page > 128 || page%16 != 0 || page != s.key.Dim(1):
		c.Invalid("pageBlockSize is %d, but %v has pages of %d; use a multiple of 16 up to 128", page, s.key, s.key.Dim(1))
	case s.pages.Dim(0) != int64(len(s.compressed)):
		c.Invalid("%v has rows for %d sequences, actualCmpKvSeqLenOptional %d", s.pages, s.pages.Dim(0), len(s.compressed))
	}
	s.newTokens(layout)
	s.lengths()
	leading := s.query.Shape[:rank-2]
	c.Shape(s.out, append(slices.Clone(leading), heads, s.value.Dim(3)), "that of the query with the heads of the values")
	c.Shape(s.chosen, append(slices.Clone(leading), keyHeads, s.count), "the blocks for each token and key head")
	if c.Err() != nil {
		return nil, c.Err()
	}
	return s.run, nil
}

// newTokens finds the query tokens of each sequence. actualQSeqLen has their numbers; without it
// there is one for each sequence.
func (s *cachedCompression) newTokens(layout string) {
	batch, counts := int64(len(s.compressed)), s.Ints("actualQSeqLenOptional")
	if counts == nil {
		counts = slices.Repeat([]int64{1}, int(batch))
	}
	if int64(len(counts)) != batch {
		s.Invalid("actualQSeqLenOptional has %d lengths for %d sequences", len(counts), batch)
		return
	}
	room, at := int64(mostNewTokens), int64(0)
	if layout == "BSND" {
		if room = min(room, s.query.Dim(1)); s.query.Dim(0) != batch {
			s.Invalid("%v does not have %d sequences", s.query, batch)
		}
	}
	for i, n := range counts {
		if n < 1 || n > room {
			s.Invalid("actualQSeqLenOptional: sequence %d has %d tokens; 1 to %d are supported", i, n, room)
		}
		if layout == "BSND" {
			at = int64(i) * s.query.Dim(1)
		}
		s.first, s.rows = append(s.first, at), append(s.rows, n)
		at += n
	}
	if layout == "TND" && at != s.query.Dim(0) {
		s.Invalid("%v has %d tokens, the sequences %d", s.query, s.query.Dim(0), at)
	}
}

// lengths checks the lengths of the sequences against the pages and the blocks to select from.
func (s *cachedCompression) lengths() {
	if s.Err() != nil {
		return
	}
	if s.tokens != nil && len(s.tokens) != len(s.compressed) {
		s.Invalid("actualSelKvSeqLenOptional has %d lengths, actualCmpKvSeqLenOptional %d", len(s.tokens), len(s.compressed))
		return
	}
	for i, n := range s.compressed {
		switch {
		case n < 1 || n > s.pages.Dim(1)*s.key.Dim(1):
			s.Invalid("actualCmpKvSeqLenOptional: %d blocks of sequence %d; %v has pages for 1 to %d", n, i, s.pages, s.pages.Dim(1)*s.key.Dim(1))
		case s.count < 1 || s.count > s.blocks(n):
			s.Invalid("selectBlockCount is %d; sequence %d has %d blocks to choose from", s.count, i, s.blocks(n))
		case s.tokens != nil && (s.tokens[i] < s.block || (s.tokens[i]-s.block)/s.stride+1 != n):
			s.Invalid("actualSelKvSeqLenOptional: the %d tokens of sequence %d do not compress to %d blocks", s.tokens[i], i, n)
		}
	}
	if s.tokens == nil && s.masked && slices.Max(s.rows) > 1 {
		s.Fail(op.NullPointer, "actualSelKvSeqLenOptional is null; a mask for several tokens of a sequence needs it")
	}
}

// blocks returns the number of longer blocks that n compressed blocks overlap.
func (s *cachedCompression) blocks(n int64) int64 {
	return ((n-1)*s.stride + s.block + s.long - 1) / s.long
}

func (s *cachedCompression) run(*op.Exec) error {
	for i, n := range s.compressed {
		places, err := pagedRows(s.pages, int64(i), s.key, op.InOrder(int(n)))
		if err != nil {
			return err
		}
		for head := range s.key.Dim(2) {
			if err := s.attend(i, head, places); err != nil {
				return err
			}
		}
	}
	return nil
}

// ofSequence returns the tokens of a sequence in the query or in a result.
func (s *cachedCompression) ofSequence(t *op.Tensor, i int) kernel.View {
	if t.Rank() == 4 {
		return t.View().Select(0, int64(i)).Narrow(0, 0, s.rows[i])
	}
	return t.View().Narrow(0, s.first[i], s.rows[i])
}

func (s *cachedCompression) attend(i int, head int64, places []int64) error {
	group, rows, n := s.query.Dim(-2)/s.key.Dim(2), s.rows[i], int64(len(places))
	hidden, release := kernel.TemporaryInt8(rows, n)
	defer release()
	s.hide(i, unsafe.Slice((*byte)(hidden.Data), rows*n))
	part := func(t *op.Tensor) kernel.View { return headsLeading(s.ofSequence(t, i).Narrow(1, head*group, group)) }
	return withCachedHead(s.key, s.value, head, places, func(key, value kernel.View) error {
		item := attentionkernel.Attention{
			Query: part(s.query), Key: key, Value: value, Out: part(s.out), Scale: s.scale,
			Mask: kernel.View{Data: hidden.Data, DType: dtype.Bool, Shape: []int64{group, rows, n}, Strides: []int64{0, n, 1}},
		}
		if err := attendCached(item); err != nil {
			return err
		}
		probabilities, err := groupProbabilities(item)
		if err != nil {
			return err
		}
		return indexing.SetInts(s.ofSequence(s.chosen, i).Select(1, head), s.best(probabilities, rows, n, s.blocks(n), nil))
	})
}

// hide marks the blocks that end after a token, if there is a mask. The last of the new tokens sees
// the whole sequence; earlier ones see less.
func (s *cachedCompression) hide(i int, hidden []byte) {
	clear(hidden)
	if !s.masked || s.rows[i] == 1 {
		return
	}
	n := s.compressed[i]
	for row := range s.rows[i] {
		seen := s.tokens[i] - (s.rows[i] - 1 - row)
		for k := range n {
			if k*s.stride+s.block > seen {
				hidden[row*n+k] = 1
			}
		}
	}
}
