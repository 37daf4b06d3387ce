package attention

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	attentionkernel "github.com/goascend/cann/internal/emu/kernel/attention"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/op"
)

// sparseAttentions are two branches of native sparse attention: attention to compressed blocks,
// whose probabilities select blocks, and attention to the selected blocks.
var sparseAttentions = op.Table{
	"NsaCompressAttention": compressedAttention, "NsaSelectedAttention": selectedAttention, "NsaSelectedAttentionGrad": selectedAttentionGrad,
	"NsaSelectedAttentionInfer": cachedSelectedAttention, "NsaCompressAttentionInfer": cachedCompressedAttention,
}.Selects()

// sparseAttention has the arguments that these operators share. Their tensors are packed sequences
// [tokens, heads, dim].
type sparseAttention struct {
	*op.Call
	query, key, value      *op.Tensor
	mask, out, max, sum    *op.Tensor
	queryEnds, keyEnds     []int64
	heads, keyHeads, group int64
	scale                  float32
}

// newSparseAttention reads the shared arguments. keyEnds is the name of the parameter with the
// sequence ends of the keys.
func newSparseAttention(c *op.Call, keyEnds string) *sparseAttention {
	a := &sparseAttention{
		Call: c, query: c.Tensor("query"), key: c.Tensor("key"), value: c.Tensor("value"), mask: c.Optional("attenMaskOptional"),
		queryEnds: c.Ints("actualSeqQLenOptional"), keyEnds: c.Ints(keyEnds), scale: float32(c.Float("scaleValue")),
	}
	if layout := c.RequiredText("inputLayout"); c.Err() == nil && layout != "TND" {
		c.Invalid("inputLayout is %q; only TND is supported", layout)
	}
	c.Plain(a.query, a.key, a.value)
	c.DType(a.query, op.HalfTypes...)
	c.SameDType(a.query, a.key, a.value)
	for _, t := range []*op.Tensor{a.query, a.key, a.value} {
		c.Rank(t, 3, 3)
	}
	if c.Err() != nil {
		return a
	}
	a.heads, a.keyHeads = a.query.Dim(1), a.key.Dim(1)
	switch {
	case a.keyHeads == 0 || a.heads%a.keyHeads != 0 || a.heads == 0:
		c.Invalid("%v and %v: the heads of the keys must divide those of the query", a.query, a.key)
		return a
	case c.Int("headNum") != a.heads:
		c.Invalid("headNum is %d, but %v has %d heads", c.Int("headNum"), a.query, a.heads)
	case a.query.Dim(2) != a.key.Dim(2) || a.value.Dim(2) > a.key.Dim(2) || !slices.Equal(a.key.Shape[:2], a.value.Shape[:2]):
		c.Invalid("%v, %v and %v do not belong together", a.query, a.key, a.value)
	case len(a.queryEnds) == 0 || len(a.queryEnds) != len(a.keyEnds):
		c.Invalid("actualSeqQLenOptional has %d sequences, %s %d; give the ends of each", len(a.queryEnds), keyEnds, len(a.keyEnds))
	}
	a.group = a.heads / a.keyHeads
	sequenceEnds(c, "actualSeqQLenOptional", a.queryEnds, a.query)
	sequenceEnds(c, keyEnds, a.keyEnds, a.key)
	return a
}

// sequenceEnds checks the sequence ends of a packed tensor.
func sequenceEnds(c *op.Call, name string, ends []int64, t *op.Tensor) {
	if n := len(ends); n > 0 && (!slices.IsSorted(ends) || ends[0] < 0 || ends[n-1] > t.Dim(0)) {
		c.Invalid("%s is %s; the ends must not fall and not exceed the %d tokens of %v", name, op.Dims(ends), t.Dim(0), t)
	}
}

// stats checks the result and the softmax statistics that are kept for the gradient.
func (a *sparseAttention) stats(maximum, sum, out string) {
	a.max, a.sum, a.out = a.Tensor(maximum), a.Tensor(sum), a.Tensor(out)
	if a.Err() != nil {
		return
	}
	a.Plain(a.max, a.sum, a.out)
	a.DType(a.max, dtype.Float32)
	a.SameDType(a.max, a.sum)
	a.SameDType(a.query, a.out)
	shape := []int64{a.query.Dim(0), a.heads, attentionkernel.AttentionStatCopies}
	a.Shape(a.max, shape, "eight for each token and head")
	a.Shape(a.sum, shape, "eight for each token and head")
	a.Shape(a.out, []int64{a.query.Dim(0), a.heads, a.value.Dim(2)}, "that of the query with the heads of the values")
}

// part returns tokens and heads of a packed tensor as [heads, tokens, dim].
func (a *sparseAttention) part(t *op.Tensor, first, n, head, heads int64) kernel.View {
	v := t.View().Narrow(0, first, n).Narrow(1, head, heads)
	return kernel.View{Data: v.Data, DType: v.DType, Shape: []int64{heads, n, v.Shape[2]}, Strides: []int64{v.Strides[1], v.Strides[0], v.Strides[2]}}
}

// headSequence is one key head of one sequence.
type headSequence struct {
	row, rows, column, columns int64
	head                       int64
}

// each calls f for every key head of every sequence.
func (a *sparseAttention) each(f func(s headSequence) error) error {
	row, column := int64(0), int64(0)
	for i, end := range a.queryEnds {
		for head := range a.keyHeads {
			if err := f(headSequence{row, end - row, column, a.keyEnds[i] - column, head}); err != nil {
				return err
			}
		}
		row, column = end, a.keyEnds[i]
	}
	return nil
}

// item returns the attention of a sequence to the columns whose byte in hidden is 0.
func (a *sparseAttention) item(s headSequence, hidden kernel.View, causal bool) attentionkernel.Attention {
	first := s.head * a.group
	item := attentionkernel.Attention{
		Query: a.part(a.query, s.row, s.rows, first, a.group), Key: a.part(a.key, s.column, s.columns, s.head, 1), Value: a.part(a.value, s.column, s.columns, s.head, 1),
		Out: a.part(a.out, s.row, s.rows, first, a.group), Max: a.part(a.max, s.row, s.rows, first, a.group), Sum: a.part(a.sum, s.row, s.rows, first, a.group),
		Scale: a.scale, First: -attentionkernel.Unlimited, Last: attentionkernel.Unlimited, KeepProb: 1, ZeroMaskedRows: true,
		Mask: kernel.View{Data: hidden.Data, DType: dtype.Bool, Shape: []int64{a.group, s.rows, s.columns}, Strides: []int64{0, s.columns, 1}},
	}
	if causal {
		item.Last = 0
	}
	return item
}

// hide fills hidden [rows, columns] with bytes from the call's mask. Without a mask nothing is
// hidden.
func (a *sparseAttention) hide(hidden kernel.View, rows, columns int64) error {
	if a.mask == nil {
		return elementwise.Zero(hidden)
	}
	return elementwise.Copy(hidden, a.mask.View().Narrow(0, 0, rows).Narrow(1, 0, columns))
}

// checkMask checks that a mask covers the longest sequences.
func (a *sparseAttention) checkMask(t *op.Tensor, columnEnds []int64) {
	if t == nil || a.Err() != nil {
		return
	}
	a.Plain(t)
	a.DType(t, dtype.Bool, dtype.Uint8)
	a.Rank(t, 2, 2)
	if rows, columns := longest(a.queryEnds), longest(columnEnds); a.Err() == nil && (t.Dim(0) < rows || t.Dim(1) < columns) {
		a.Invalid("%v must have %d rows and %d columns for the longest sequences", t, rows, columns)
	}
}

// longest returns the length of the longest sequence.
func longest(ends []int64) (n int64) {
	before := int64(0)
	for _, end := range ends {
		n, before = max(n, end-before), end
	}
	return n
}

// blockSelection is a call with the blocks of keys that each token sees.
type blockSelection struct {
	*sparseAttention
	blocks *op.Tensor
	size   int64
	causal bool
}

func newBlockSelection(c *op.Call) *blockSelection {
	s := &blockSelection{sparseAttention: newSparseAttention(c, "actualSeqKvLenOptional"), blocks: c.Tensor("topkIndices"), size: c.Int("selectedBlockSize")}
	if c.Err() != nil {
		return s
	}
	c.Plain(s.blocks)
	c.DType(s.blocks, dtype.Int32)
	c.Shape(s.blocks, []int64{s.query.Dim(0), s.keyHeads, c.Int("selectedBlockCount")}, "the blocks for each token and key head")
	if s.size <= 0 || s.size > 128 || s.size%16 != 0 {
		c.Invalid("selectedBlockSize is %d; use a multiple of 16 up to 128", s.size)
	}
	switch mode := c.Int("sparseMode"); {
	case s.mask == nil:
	case mode == 0:
		s.checkMask(s.mask, s.keyEnds)
	case mode == 2: // the mask is the lower triangle, which need not be read
		s.causal, s.mask = true, nil
	default:
		c.Invalid("sparseMode is %d; 0 and 2 are supported", mode)
	}
	return s
}

// items calls f with the attention of each sequence to its selected blocks.
func (s *blockSelection) items(f func(at headSequence, item attentionkernel.Attention) error) error {
	return s.each(func(at headSequence) error {
		if at.rows == 0 || at.columns == 0 {
			return nil
		}
		chosen, err := elementwise.Indices(s.blocks.View().Narrow(0, at.row, at.rows).Select(1, at.head))
		if err != nil {
			return err
		}
		hidden, release := kernel.TemporaryInt8(at.rows, at.columns)
		defer release()
		if err := s.hide(hidden, at.rows, at.columns); err != nil {
			return err
		}
		cells, n := unsafe.Slice((*byte)(hidden.Data), at.rows*at.columns), s.blocks.Dim(2)
		seen := make([]bool, (at.columns+s.size-1)/s.size)
		for row := range at.rows {
			clear(seen)
			for _, block := range chosen[row*n : (row+1)*n] {
				if block >= int64(len(seen)) {
					return fmt.Errorf("%v holds block %d for token %d; there are %d", s.blocks, block, at.row+row, len(seen))
				}
				if block >= 0 {
					seen[block] = true
				}
			}
			for block, ok := range seen {
				if first := int64(block) * s.size; !ok {
					line := cells[row*at.columns:][first:min(first+s.size, at.columns)]
					for i := range line {
						line[i] = 1
					}
				}
			}
		}
		return f(at, s.item(at, hidden, s.causal))
	})
}

// selectedAttention computes attention to the blocks of keys that were selected for each token. A
// block that is listed twice counts once; negative block numbers are ignored.
func selectedAttention(c *op.Call) (op.Run, error) {
	s := newBlockSelection(c)
	s.stats("softmaxMaxOut", "softmaxSumOut", "attentionOut")
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		return s.items(func(_ headSequence, item attentionkernel.Attention) error {
			return attentionkernel.FlashAttention([]attentionkernel.Attention{item})
		})
	}, nil
}

func selectedAttentionGrad(c *op.Call) (op.Run, error) {
	s := newBlockSelection(c)
	s.stats("softmaxMax", "softmaxSum", "attentionOut")
	grad, dq, dk, dv := c.Tensor("attentionOutGrad"), c.Tensor("dqOut"), c.Tensor("dkOut"), c.Tensor("dvOut")
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Plain(grad, dq, dk, dv)
	c.Same(s.out, grad)
	c.Same(s.query, dq)
	c.Same(s.key, dk)
	c.Same(s.value, dv)
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		for _, t := range []*op.Tensor{dq, dk, dv} {
			if err := elementwise.Zero(t.View()); err != nil {
				return err
			}
		}
		return s.items(func(at headSequence, item attentionkernel.Attention) error {
			items := []attentionkernel.Attention{item}
			n, err := attentionkernel.FlashAttentionGradWorkspace(items)
			if err != nil {
				return err
			}
			scratch, release := kernel.TemporaryInt8(n)
			defer release()
			first := at.head * s.group
			return attentionkernel.FlashAttentionGrad(items, []attentionkernel.AttentionGrad{{
				OutGrad: s.part(grad, at.row, at.rows, first, s.group), QueryGrad: s.part(dq, at.row, at.rows, first, s.group),
				KeyGrad: s.part(dk, at.column, at.columns, at.head, 1), ValueGrad: s.part(dv, at.column, at.columns, at.head, 1),
			}}, scratch.Data)
		})
	}, nil
}

// compression is attention to compressed blocks, which also selects longer blocks.
type compression struct {
	*sparseAttention
	blockChoice
	always, chosen *op.Tensor
	chosenEnds     []int64 // ends of the longer blocks
}

// compressedAttention computes attention to compressed blocks. The score of a longer block is the
// sum of the probabilities of the compressed blocks that it overlaps. Blocks that the mask requests
// are selected first, then those with the best scores.
func compressedAttention(c *op.Call) (op.Run, error) {
	a := newSparseAttention(c, "actualCmpSeqKvLenOptional")
	a.stats("softmaxMaxOut", "softmaxSumOut", "attentionOutOut")
	p := &compression{sparseAttention: a, always: c.Optional("topkMaskOptional"), chosen: c.Tensor("topkIndicesOut"), chosenEnds: c.Ints("actualSelSeqKvLenOptional")}
	if c.Err() != nil {
		return nil, c.Err()
	}
	p.blockChoice = newBlockChoice(c, c.Int("compressStride"))
	if c.Err() != nil {
		return nil, c.Err()
	}
	count := p.count
	c.Plain(p.chosen)
	c.DType(p.chosen, dtype.Int32)
	c.Shape(p.chosen, []int64{a.query.Dim(0), a.keyHeads, count}, "the blocks for each token and key head")
	a.checkMask(a.mask, a.keyEnds)
	if len(p.chosenEnds) != len(a.keyEnds) {
		c.Invalid("actualSelSeqKvLenOptional has %d sequences, the keys %d", len(p.chosenEnds), len(a.keyEnds))
		return nil, c.Err()
	}
	a.checkMask(p.always, p.chosenEnds)
	for i := range a.keyEnds {
		keys, blocks := length(a.keyEnds, i), length(p.chosenEnds, i)
		if blocks != (keys+p.perBlock-1)/p.perBlock || count < 1 || count > blocks {
			c.Invalid("sequence %d has %d compressed blocks and %d to select, of which selectBlockCount is %d; %d are selected from, at least as many as that",
				i, keys, blocks, count, (keys+p.perBlock-1)/p.perBlock)
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error { return a.each(p.attend) }, nil
}

func (p *compression) attend(s headSequence) error {
	if s.rows == 0 || s.columns == 0 {
		return nil
	}
	hidden, release := kernel.TemporaryInt8(s.rows, s.columns)
	defer release()
	if err := p.hide(hidden, s.rows, s.columns); err != nil {
		return err
	}
	item := p.item(s, hidden, false)
	if err := attentionkernel.FlashAttention([]attentionkernel.Attention{item}); err != nil {
		return err
	}
	probabilities, err := groupProbabilities(item)
	if err != nil {
		return err
	}
	return p.choose(s, probabilities)
}

// choose writes the selected blocks of each token, best first.
func (p *compression) choose(s headSequence, probabilities []float64) error {
	blocks := (s.columns + p.perBlock - 1) / p.perBlock
	var always []int64
	if p.always != nil {
		var err error
		if always, err = elementwise.Indices(p.always.View().Narrow(0, 0, s.rows).Narrow(1, 0, blocks)); err != nil {
			return err
		}
	}
	best := p.best(probabilities, s.rows, s.columns, blocks, always)
	return indexing.SetInts(p.chosen.View().Narrow(0, s.row, s.rows).Select(1, s.head), best)
}
