package model

import (
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/autograd"
	"github.com/goascend/cann/ops/mask"
)

// inputs holds the data of a micro-batch that every layer reads; with context parallelism this
// rank's positions of each row.
type inputs struct {
	batch, length int64
	ids, labels   *aclnn.Tensor
	targets       []int32   // labels, on the host
	parts         []portion // with losses of their own
	mask          mask.Mask
	cu            []int64       // boundaries of packed sequences, or nil
	valid         *aclnn.Tensor // [tokens, 1], 1 for tokens and 0 for padding; nil without padding
	rope          rotation
	scale         float64
	// Of an encoder: rows of its tables.
	positions, types *aclnn.Tensor

	headless bool                              // the pass ends before the head
	loss     func(*autograd.Var) *autograd.Var // computes the loss from what the head would read, or nil
	weighted bool                              // that loss is the weighted sum of those of all parts, and the step has them already
	trains   bool                              // it has gradients

	from  int64  // tokens of each sequence that are already in the cache
	cache *Cache // nil in training
	past  *past  // of the current layer

	// Of a Decoder: where in the cache the tokens go, [batch], which places are hidden, and how many of
	// them attention reads.
	slots  *aclnn.Tensor
	hidden unseen
	places int64

	// Of Advance: the sequences, by number of new tokens; their last rows; and the pages, which are those
	// of the current layer in paged. slots is theirs too.
	subBatches []subBatch
	last       *aclnn.Tensor
	first      []int         // row of the first token of each piece
	kept       *aclnn.Tensor // takes the states that the head reads, or nil
	pages      *Pages
	paged      *page
}

// layer returns the inputs for one layer.
func (in *inputs) layer(i int) *inputs {
	own := *in
	switch {
	case in.cache != nil:
		own.past = in.cache.layers[i]
	case in.pages != nil:
		own.paged = in.pages.layers[i]
	}
	return &own
}

func (m *Model) inputs(p *pass, b Batch) (*inputs, error) {
	if err := b.validate(m.Config.VocabSize); err != nil {
		return nil, err
	}
	in := &inputs{batch: int64(b.Size), scale: m.Config.attentionScale(), cu: b.CuSeqLens}
	chunks, err := m.par.positions(m.Config, b.Length)
	if err != nil {
		return nil, err
	}
	var positions []mask.Range
	if positions, in.mask, err = m.sequences(b); err != nil {
		return nil, err
	}
	ids, labels, labelled := b.own(chunks)
	in.length = int64(len(ids)) / in.batch
	in.parts = []portion{{rows: int64(len(ids)), labelled: labelled, trained: true}}
	if b.Adapters != nil {
		in.parts = b.portions(b.Adapters, chunks, labels)
		p.multi = &multiAdapterPass{multiAdapter: m.multi, parts: in.parts, rows: int64(len(ids))}
	}
	if b.Numbers != nil {
		in.parts = b.portions(b.Numbers, chunks, labels)
		for i := range in.parts {
			in.parts[i].trained = true
		}
	}
	in.ids, in.labels, in.targets = p.tokens(ids), p.tokens(labels), labels
	if b.Lengths != nil && m.Config.family().hybrid { // attention uses its mask instead
		in.valid = p.valid(b, chunks)
	}
	if b.Types != nil && !m.Config.Encoder() {
		return nil, fmt.Errorf("model: a batch with Types, which %s has none of: %w", m.Config.ModelType, acl.ErrInvalidArgument)
	}
	if m.Config.Encoder() {
		return in, m.encoderInputs(p, in, b)
	}
	table, err := m.rope.whole(p.ctx, m.st, m.Config, m.dt, b)
	if err != nil {
		return nil, err
	}
	in.rope = rotation{p.rows(table.cos, positions), p.rows(table.sin, positions)}
	return in, p.Err()
}

// rows selects this rank's positions of a table [1, length, 1, ·].
func (p *pass) rows(table *aclnn.Tensor, chunks []mask.Range) *aclnn.Tensor {
	if len(chunks) == 1 {
		return table.Narrow(1, chunks[0].From, chunks[0].Len())
	}
	n := int64(0)
	for _, c := range chunks {
		n += c.Len()
	}
	var out *aclnn.Tensor
	p.queue(func(s *aclnn.Scope) {
		out = s.Tensor(table.DType(), 1, n, 1, table.Dim(3))
		at := int64(0)
		for _, c := range chunks {
			if s.Err() == nil {
				s.Copy(out.Narrow(1, at, c.Len()), table.Narrow(1, c.From, c.Len()))
			}
			at += c.Len()
		}
	})
	return out
}
