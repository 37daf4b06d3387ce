package qwen

import (
	"errors"
	"fmt"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/mask"
)

// checkPacked says what is wrong with the boundaries of packed sequences.
func (b Batch) checkPacked() error {
	cu := b.CuSeqLens
	switch {
	case cu == nil:
		return nil
	case b.Size != 1 || b.Lengths != nil:
		return fmt.Errorf("qwen: packed sequences share the row of a batch without padding; this one has %d rows and %d lengths", b.Size, len(b.Lengths))
	case len(cu) < 2 || cu[0] != 0 || cu[len(cu)-1] != int64(b.Length):
		return fmt.Errorf("qwen: CuSeqLens is %v; it must go from 0 to %d, the number of tokens", cu, b.Length)
	}
	for i := 1; i < len(cu); i++ {
		if cu[i] <= cu[i-1] {
			return fmt.Errorf("qwen: CuSeqLens is %v; it must increase, as every sequence has tokens", cu)
		}
	}
	return nil
}

// sequences are the positions of a batch's tokens in their own sequences, and the mask that
// keeps these apart.
func (m *Model) sequences(b Batch) (positions []mask.Range, of mask.Mask, err error) {
	switch {
	case b.CuSeqLens != nil:
		if size(m.par.Context) > 1 {
			return nil, nil, errors.New("qwen: context parallelism divides single sequences, not packed ones; pad them instead")
		}
		for i, end := range b.CuSeqLens[1:] {
			positions = append(positions, mask.Range{To: end - b.CuSeqLens[i]})
		}
		return positions, mask.Varlen{CuQueries: b.CuSeqLens, Within: mask.Causal{}}, nil
	case b.Lengths != nil:
		of = mask.Padding{Lengths: b.Lengths, Causal: true}
	default:
		of = mask.Causal{}
	}
	positions, err = m.par.positions(b.Length)
	return positions, of, err
}

// layout is how attention gets queries, keys and values [batch, length, heads, features].
func (m *inputs) layout() ops.Layout {
	if m.cu == nil {
		return ops.BSND
	}
	return ops.TND
}

// tokens views [1, length, …] as [length, …] if sequences are packed.
func (m *inputs) tokens(t *aclnn.Tensor) *aclnn.Tensor {
	if m.cu == nil {
		return t
	}
	return t.Squeeze(0)
}

// stats is the shape of what attention keeps of its softmax.
func (m *inputs) stats(heads int64) []int64 {
	if m.cu == nil {
		return []int64{m.batch, heads, m.length, 8}
	}
	return []int64{m.length, heads, 8}
}
