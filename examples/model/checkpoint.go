package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/checkpoint"
)

// Prefixes of the optimiser's tensors in a checkpoint.
const (
	averagePrefix = "optimizer.exp_avg."
	squarePrefix  = "optimizer.exp_avg_sq."
)

// Load reads the weights of a Hugging Face checkpoint: a safetensors file, an index of shards, or a
// folder. Every weight of the model must be present with its shape. Unread lists the parts of a folder that are left out;
// other tensors without a place are an error. Quantised weights are dequantised, see package quantization.
func (m *Model) Load(ctx context.Context, path string) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(m.LoadFile(ctx, f), f.Close())
}

// LoadFile is Load from an open file. Each rank reads its own parts of the weights and no more:
// File.BytesRead counts them. Of quantised weights it reads some whole rows or columns.
func (m *Model) LoadFile(ctx context.Context, f *safetensors.File) error {
	whole := f
	f, err := m.Config.Quantization.View(f)
	if err != nil {
		return err
	}
	if _, err := m.places(f); err != nil {
		return err
	}
	if m.Config.KeepCodes {
		if m.kept != nil {
			return errQuantized
		}
		if err := m.keep(ctx, whole); err != nil {
			return err
		}
	}
	for _, q := range m.params.all {
		if q.coded() || m.Config.NewScore && q == m.head.weight {
			continue
		}
		pieces, err := m.Config.family().hubPieces(f, q)
		if err != nil {
			return err
		}
		if err := m.store.write(ctx, q, masters(m.store), pieces.values); err != nil {
			return fmt.Errorf("model: %v: %w", q, err)
		}
		if err := m.store.publish(q); err != nil {
			return err
		}
	}
	return nil
}

// record is a kind of tensor that a checkpoint has for each parameter: the prefix of its name, and
// the tensor of a slot that contains it.
type record struct {
	prefix string
	of     func(slot int) *aclnn.Tensor
}

func (o *Optimizer) records() []record {
	return []record{
		{"", masters(o.store)},
		{averagePrefix, func(slot int) *aclnn.Tensor { return o.moments[slot].average }},
		{squarePrefix, func(slot int) *aclnn.Tensor { return o.moments[slot].square }},
	}
}

// sharing returns this rank's number among the ranks that have the same part of a parameter, and
// their number.
func (par *Parallel) sharing(q *Parameter) (at, ranks int64) {
	if q.spread.experts {
		return index(par.ExpertData), size(par.ExpertData)
	}
	at, ranks = index(par.Data), size(par.Data)
	if q.spread.Of == 0 {
		at, ranks = at*size(par.Tensor)+index(par.Tensor), ranks*size(par.Tensor)
	}
	return at, ranks
}

// Snapshot copies to the host what this rank is to write to a checkpoint: the weights that the
// optimiser updates, in float32, and its state. Ranks that have the same part of a weight take turns,
// so that each part is written once. All ranks call it.
func Snapshot(ctx context.Context, o *Optimizer) ([]checkpoint.Tensor, error) {
	return o.m.snapshot(ctx, o.params, o.store, o.records())
}

// Snapshot copies this rank's parts of the weights alone, as Snapshot of their optimiser does.
func (m *Model) Snapshot(ctx context.Context) ([]checkpoint.Tensor, error) {
	return m.snapshot(ctx, &m.params, m.store, []record{{of: masters(m.store)}})
}

// Snapshot copies this rank's parts of the adapter's weights alone.
func (a *Adapter) Snapshot(ctx context.Context) ([]checkpoint.Tensor, error) {
	return a.m.snapshot(ctx, &a.params, a.store, []record{{of: masters(a.store)}})
}

func (m *Model) snapshot(ctx context.Context, params *parameters, store storage, records []record) (tensors []checkpoint.Tensor, err error) {
	_, shared := store.(*sharded)
	for i, q := range params.all {
		at, ranks := m.par.sharing(q)
		mine := int64(i)%ranks == at && !(q.tied && m.last()) // the first stage writes what both have
		if !mine && !shared {
			continue
		}
		for _, r := range records {
			values, err := store.read(ctx, q, r.of)
			if err != nil {
				return nil, fmt.Errorf("model: %s%v: %w", r.prefix, q, err)
			}
			if mine {
				tensors = append(tensors, checkpoint.Tensor{Part: q.part(r.prefix), Values: values})
			}
		}
	}
	return tensors, nil
}

// About begins the description of a checkpoint: model, step, and the loss scale of float16 in Data.
func About(o *Optimizer) (about checkpoint.About, err error) {
	about.Step = o.steps
	o.m.scale.describe(&about)
	about.Model, err = json.Marshal(o.m.Config)
	return about, err
}

// Restore reads a checkpoint into an optimiser and the weights that it updates. The parallelism may
// differ from that of the ranks that wrote it. Each rank reads what it keeps, and little more:
// Set.BytesRead counts that.
func Restore(ctx context.Context, set *checkpoint.Set, o *Optimizer) error {
	for _, q := range o.params.all {
		for _, r := range o.records() {
			if err := restore(ctx, set, o.store, q, r); err != nil {
				return err
			}
		}
		if err := o.store.publish(q); err != nil {
			return err
		}
	}
	o.count(set.About().Step)
	return o.m.scale.restore(set.About())
}

// LoadCheckpoint reads the weights of a checkpoint, for a model that is not trained on.
func (m *Model) LoadCheckpoint(ctx context.Context, set *checkpoint.Set) error {
	for _, q := range m.params.all {
		if err := restore(ctx, set, m.store, q, record{of: masters(m.store)}); err != nil {
			return err
		}
		if err := m.store.publish(q); err != nil {
			return err
		}
	}
	return nil
}

func restore(ctx context.Context, set *checkpoint.Set, store storage, q *Parameter, r record) error {
	part := q.part(r.prefix)
	read := func(lo, hi int64) ([]float32, error) { return set.Range(part, lo, hi) }
	if err := store.write(ctx, q, r.of, read); err != nil {
		return fmt.Errorf("model: %s%v: %w", r.prefix, q, err)
	}
	return nil
}

// SavedConfig returns the configuration of a checkpoint's model.
func SavedConfig(set *checkpoint.Set) (c Config, err error) {
	if err := json.Unmarshal(set.About().Model, &c); err != nil {
		return c, fmt.Errorf("model: the checkpoint's configuration: %w", err)
	}
	return c, c.Validate()
}
