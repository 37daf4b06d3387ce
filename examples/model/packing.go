package model

import (
	"fmt"

	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/autograd"
	"github.com/goascend/cann/ops/mask"
)

// checkPacked checks the boundaries of packed sequences.
func (b Batch) checkPacked() error {
	cu := b.CuSeqLens
	switch {
	case cu == nil:
		return nil
	case b.Size != 1 || b.Lengths != nil:
		return fmt.Errorf("model: packed sequences share the row of a batch without padding; this one has %d rows and %d lengths", b.Size, len(b.Lengths))
	case len(cu) < 2 || cu[0] != 0 || cu[len(cu)-1] != int64(b.Length):
		return fmt.Errorf("model: CuSeqLens is %v; it must go from 0 to %d, the number of tokens", cu, b.Length)
	}
	for i := 1; i < len(cu); i++ {
		if cu[i] <= cu[i-1] {
			return fmt.Errorf("model: CuSeqLens is %v; it must increase, as every sequence has tokens", cu)
		}
	}
	return nil
}

// cut divides a packed row into n equal parts, which must begin with sequences.
func (b Batch) cut(n int) (parts []Batch, err error) {
	width := b.Length / n
	at := 0 // in CuSeqLens
	for i := range n {
		part := b
		part.Length = width
		part.Inputs, part.Labels = b.Inputs[i*width:][:width], b.Labels[i*width:][:width]
		part.CuSeqLens, part.Adapters, part.Numbers = nil, nil, nil
		first := at
		for ; at < len(b.CuSeqLens) && b.CuSeqLens[at] <= int64((i+1)*width); at++ {
			part.CuSeqLens = append(part.CuSeqLens, b.CuSeqLens[at]-int64(i*width))
		}
		at--
		if last := len(part.CuSeqLens) - 1; b.Length%n != 0 || last < 1 || part.CuSeqLens[0] != 0 || part.CuSeqLens[last] != int64(width) {
			return nil, fmt.Errorf("model: a packed row of %d tokens with boundaries %v cannot be cut into %d micro-batches: a sequence must begin every %d tokens", b.Length, b.CuSeqLens, n, width)
		}
		if b.Adapters != nil {
			part.Adapters = b.Adapters[first:at]
		}
		if b.Numbers != nil {
			part.Numbers = b.Numbers[first:at]
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// sequences returns the positions of a batch's tokens in their texts, and the mask that
// separates the sequences.
func (m *Model) sequences(b Batch) (positions []mask.Range, of mask.Mask, err error) {
	defer func() {
		for i := range positions {
			positions[i].From, positions[i].To = positions[i].From+int64(b.From), positions[i].To+int64(b.From)
		}
	}()
	switch {
	case b.CuSeqLens != nil:
		chunks, err := m.par.positions(m.Config, b.Length)
		if err != nil {
			return nil, nil, err
		}
		for _, c := range chunks {
			for i, end := range b.CuSeqLens[1:] {
				start := b.CuSeqLens[i]
				from, to := max(start, c.From), min(end, c.To)
				if from < to {
					positions = append(positions, mask.Range{From: from - start, To: to - start})
				}
			}
		}
		of = mask.Varlen{CuQueries: b.CuSeqLens, Within: mask.Causal{}}
		if m.Config.Encoder() {
			of = mask.Varlen{CuQueries: b.CuSeqLens}
		}
		return positions, of, nil
	case b.Lengths != nil:
		of = mask.Padding{Lengths: b.Lengths, Causal: !m.Config.Encoder()}
	case m.Config.Encoder():
		of = mask.None{}
	default:
		of = mask.Causal{}
	}
	positions, err = m.par.positions(m.Config, b.Length)
	return positions, of, err
}

// layout returns the layout of queries, keys and values for attention.
func (m *inputs) layout() ops.Layout {
	if m.cu == nil {
		return ops.BSND
	}
	return ops.TND
}

// packed views [1, length, …] as [length, …] if sequences are packed.
func (m *inputs) packed(p *pass, x *autograd.Var) *autograd.Var {
	if m.cu == nil || p.Err() != nil { // then x has no shape
		return x
	}
	return p.Reshape(x, x.Shape()[1:]...)
}
