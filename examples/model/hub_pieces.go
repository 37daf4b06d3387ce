package model

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goascend/cann/aclnn/safetensors"
)

// pieces are parts of the tensors of a hub folder that one after another are this rank's part of a
// weight. Reading elements of them reads nothing else of the files.
type pieces []safetensors.Tensor

// values reads the elements [lo, hi); it is a source.
func (p pieces) values(lo, hi int64) (all []float32, err error) {
	at := int64(0)
	for _, t := range p {
		from, to := max(lo-at, 0), min(hi-at, int64(t.Len()))
		at += int64(t.Len())
		if from >= to {
			continue
		}
		if from > 0 || to < int64(t.Len()) {
			if t, err = t.Range(int(from), int(to-from)); err != nil {
				return nil, err
			}
		}
		some, err := safetensors.Values[float32](t)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// hubPieces finds a weight in a hub folder. The experts of a layer may be one tensor, or one tensor
// each as on the Hugging Face hub; in that case the rows of the gate and of the up projection of an
// expert follow each other.
func hubPieces(f *safetensors.File, q *Parameter) (pieces, error) {
	t, err := hubTensor(f, q.Name, q.shape)
	if errors.Is(err, safetensors.ErrNotFound) {
		if found, err := expertPieces(f, q); found != nil || err != nil {
			return found, err
		}
	}
	if err != nil || q.spread.parts == 0 {
		return pieces{t}, err
	}
	blocks := q.spread.blocks
	if blocks == nil {
		blocks = []int64{q.shape[q.spread.axis]}
	}
	var list pieces
	at := int64(0)
	for _, b := range blocks {
		n := b / q.spread.parts
		part, err := t.Narrow(q.spread.axis, int(at+q.spread.part*n), int(n))
		if err != nil {
			return nil, err
		}
		list, at = append(list, part), at+b
	}
	return list, nil
}

// expertPieces finds this rank's experts by their own tensors; nil if the weight is not of experts.
func expertPieces(f *safetensors.File, q *Parameter) (list pieces, err error) {
	layer, projections := "", []string(nil)
	if prefix, ok := strings.CutSuffix(q.Name, "experts.gate_up_proj"); ok {
		layer, projections = prefix, []string{"gate_proj", "up_proj"}
	} else if prefix, ok := strings.CutSuffix(q.Name, "experts.down_proj"); ok {
		layer, projections = prefix, []string{"down_proj"}
	} else {
		return nil, nil
	}
	shape := []int64{q.shape[1] / int64(len(projections)), q.shape[2]}
	own := q.local()[0]
	for e := q.spread.part * own; e < (q.spread.part+1)*own; e++ {
		for _, projection := range projections {
			t, err := hubTensor(f, fmt.Sprintf("%sexperts.%d.%s.weight", layer, e, projection), shape)
			if err != nil {
				return nil, err
			}
			list = append(list, t)
		}
	}
	return list, nil
}
