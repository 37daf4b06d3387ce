package model

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/checkpoint"
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
func (f family) hubPieces(file *safetensors.File, q *Parameter) (pieces, error) {
	t, err := f.hubTensor(file, q.Name, q.shape)
	if errors.Is(err, safetensors.ErrNotFound) {
		if found, err := f.expertPieces(file, q); found != nil || err != nil {
			return found, err
		}
	}
	if err != nil {
		return nil, err
	}
	list, err := pieces(nil).of(t, q.spread.Cut)
	if err != nil || q.spread.inner.Of == 0 {
		return list, err
	}
	own := list[0]
	list = nil
	for e := range own.Shape[0] {
		one, err := own.Narrow(0, e, 1)
		if err == nil {
			list, err = list.of(one, q.spread.inner)
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// of adds the pieces that a cut takes of a tensor.
func (p pieces) of(t safetensors.Tensor, c checkpoint.Cut) (pieces, error) {
	for _, r := range c.Ranges(int64(t.Shape[c.Axis])) {
		part, err := t.Narrow(c.Axis, int(r.From), int(r.To-r.From))
		if err != nil {
			return nil, err
		}
		p = append(p, part)
	}
	return p, nil
}

// expertParts returns the prefix of the names of experts' own tensors, and the projections that a stacked weight has of each; none if the weight is not of experts.
func expertParts(name string) (prefix string, projections []string) {
	if prefix, ok := strings.CutSuffix(name, "experts.gate_up_proj"); ok {
		return prefix + "experts.", []string{"gate_proj", "up_proj"}
	}
	if prefix, ok := strings.CutSuffix(name, "experts.down_proj"); ok {
		return prefix + "experts.", []string{"down_proj"}
	}
	return "", nil
}

// expertTensor is the name of the tensor of one expert's projection.
func expertTensor(prefix string, expert int64, projection string) string {
	return fmt.Sprintf("%s%d.%s.weight", prefix, expert, projection)
}

// expertPieces finds this rank's experts by their own tensors; nil if the weight is not of experts.
func (f family) expertPieces(file *safetensors.File, q *Parameter) (list pieces, err error) {
	prefix, projections := expertParts(q.Name)
	if projections == nil {
		return nil, nil
	}
	shape := []int64{q.shape[1] / int64(len(projections)), q.shape[2]}
	shard := q.spread.inner
	shard.Axis, shard.Blocks = max(shard.Axis-1, 0), nil // of one projection of one expert
	own := q.spread.Ranges(q.shape[0])[0]
	for e := own.From; e < own.To; e++ {
		for _, projection := range projections {
			t, err := f.hubTensor(file, expertTensor(prefix, e, projection), shape)
			if err != nil {
				return nil, err
			}
			if list, err = list.of(t, shard); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}
