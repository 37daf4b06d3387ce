package qwen

import (
	"math"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/mask"
)

// inputs is what every layer sees of a micro-batch: with context parallelism this rank's
// positions of each row.
type inputs struct {
	batch, length int64
	ids, labels   *aclnn.Tensor
	labelled      int // labels that count
	mask          mask.Mask
	cu            []int64       // boundaries of packed sequences, or nil
	valid         *aclnn.Tensor // [tokens, 1], 1 for tokens and 0 for padding; nil without padding
	rope          rotation
	scale         float64

	from  int64  // tokens of each sequence that came before, and are in the cache
	cache *Cache // nil in training
	past  *past  // of the layer at hand
}

// layer is what one layer sees.
func (in *inputs) layer(i int) *inputs {
	if in.cache == nil {
		return in
	}
	own := *in
	own.past = in.cache.layers[i]
	return &own
}

func (m *Model) inputs(p *pass, b Batch) (*inputs, error) {
	if err := b.validate(m.Config.VocabSize); err != nil {
		return nil, err
	}
	in := &inputs{batch: int64(b.Size), scale: 1 / math.Sqrt(float64(m.Config.HeadDim)), cu: b.CuSeqLens}
	chunks, err := m.par.positions(b.Length)
	if err != nil {
		return nil, err
	}
	var positions []mask.Range
	if positions, in.mask, err = m.sequences(b); err != nil {
		return nil, err
	}
	var ids, labels []int32
	for row := range b.Size {
		at := row * b.Length
		ids = append(ids, mask.Gather(b.Inputs[at:at+b.Length], int64(b.Length), chunks)...)
		labels = append(labels, mask.Gather(b.Labels[at:at+b.Length], int64(b.Length), chunks)...)
	}
	in.length = int64(len(ids)) / in.batch
	for i, l := range labels {
		if l < 0 {
			labels[i] = ignored
		} else {
			in.labelled++
		}
	}
	if in.ids, err = p.tokens(ids); err != nil {
		return nil, err
	}
	if in.labels, err = p.tokens(labels); err != nil {
		return nil, err
	}
	if b.Lengths != nil && m.Config.family().hybrid { // attention has its mask
		if in.valid, err = p.valid(b, chunks); err != nil {
			return nil, err
		}
	}
	table, err := m.rope.get(p.ctx, m.st, m.Config, m.dt, 0, int64(b.Length))
	if err != nil {
		return nil, err
	}
	in.rope = rotation{p.rows(table.cos, positions), p.rows(table.sin, positions)}
	return in, p.err
}

// rows are the positions that a rank has of a table [1, length, 1, ·].
func (p *pass) rows(table *aclnn.Tensor, chunks []mask.Range) *aclnn.Tensor {
	if len(chunks) == 1 {
		return table.Narrow(1, chunks[0].From, chunks[0].Len())
	}
	n := int64(0)
	for _, c := range chunks {
		n += c.Len()
	}
	out := p.tensor(table.DType(), 1, n, 1, table.Dim(3))
	at := int64(0)
	for _, c := range chunks {
		if p.err == nil {
			p.copy(out.Narrow(1, at, c.Len()), table.Narrow(1, c.From, c.Len()))
		}
		at += c.Len()
	}
	return out
}
