package qwen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"unsafe"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
)

// Prefixes of the optimiser's tensors in a checkpoint.
const (
	averagePrefix = "optimizer.exp_avg."
	squarePrefix  = "optimizer.exp_avg_sq."
)

// Load reads the weights of a Hugging Face checkpoint: a safetensors file, an index of shards, or a
// folder. Every weight of the model must be present with its shape; a tied head and unknown weights
// are ignored. Each rank takes its parts.
func (m *Model) Load(ctx context.Context, path string) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(m.load(ctx, f), f.Close())
}

func (m *Model) load(ctx context.Context, f *safetensors.File) error {
	for _, p := range m.params.all {
		values, err := readWeight(f, p.Name, p.Shape())
		if err != nil {
			return err
		}
		if err := m.Set(ctx, p, values); err != nil {
			return err
		}
	}
	return nil
}

func readTensor(f *safetensors.File, name string, shape []int64) ([]float32, error) {
	t, err := f.Tensor(name)
	if err != nil {
		return nil, err
	}
	if fmt.Sprint(t.Shape) != fmt.Sprint(shape) {
		return nil, fmt.Errorf("qwen: %s has shape %v in the checkpoint, the model needs %v", name, t.Shape, shape)
	}
	return safetensors.Values[float32](t)
}

// record is a kind of tensor that a checkpoint has for each parameter: the prefix of its name, and
// the tensor of a slot that contains it.
type record struct {
	prefix string
	of     func(slot int) *aclnn.Tensor
}

func (o *Optimizer) records() []record {
	return []record{
		{"", o.m.master},
		{averagePrefix, func(slot int) *aclnn.Tensor { return o.moments[slot].average }},
		{squarePrefix, func(slot int) *aclnn.Tensor { return o.moments[slot].square }},
	}
}

// File returns the checkpoint file of this rank. With several ranks each writes its parts to its
// own file, and can read them only with the same parallelism.
func (par *Parallel) File(path string) string {
	if n := size(par.World); n > 1 {
		return fmt.Sprintf("%s.rank%dof%d", path, index(par.World), n)
	}
	return path
}

// Save writes weights, optimiser state and config to one safetensors file, which appears under its
// name only when it is complete; with several ranks each writes Parallel.File. The weights are the
// optimiser's float32 ones. The metadata contains the configuration, the step, and the caller's
// entries.
func Save(ctx context.Context, path string, m *Model, o *Optimizer, metadata map[string]string) (err error) {
	config, err := json.Marshal(m.Config)
	if err != nil {
		return err
	}
	all := map[string]string{"config": string(config), "step": strconv.Itoa(o.steps)}
	maps.Copy(all, metadata)
	var infos []safetensors.Info
	for _, p := range m.params.all {
		for _, r := range o.records() {
			infos = append(infos, safetensors.Info{Name: r.prefix + p.Name, DType: aclnn.Float32, Shape: ints(p.local())})
		}
	}
	w, err := safetensors.Create(m.par.File(path), infos, all)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for _, p := range m.params.all {
		for _, r := range o.records() {
			values, err := m.store.read(ctx, p, r.of)
			if err != nil {
				return err
			}
			if err := w.Write(r.prefix+p.Name, bytesOf(values)); err != nil {
				return err
			}
		}
	}
	return w.Commit()
}

func ints(shape []int64) []int {
	out := make([]int, len(shape))
	for i, d := range shape {
		out[i] = int(d)
	}
	return out
}

// bytesOf views float32 values as bytes, which are little-endian on every platform that this module
// supports.
func bytesOf(values []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values))
}

// SavedConfig returns the configuration and the metadata of a checkpoint made by Save. With several
// ranks, path is the file of any rank.
func SavedConfig(path string) (Config, map[string]string, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return Config{}, nil, err
	}
	metadata := f.Metadata()
	if err := f.Close(); err != nil {
		return Config{}, nil, err
	}
	c, err := ParseConfig([]byte(metadata["config"]))
	return c, metadata, err
}

// Resume reads a checkpoint made by Save into a model and an optimiser with the same configuration
// and the same parallelism.
func Resume(ctx context.Context, path string, m *Model, o *Optimizer) error {
	f, err := safetensors.Open(m.par.File(path))
	if err != nil {
		return err
	}
	return errors.Join(resume(ctx, f, m, o), f.Close())
}

func resume(ctx context.Context, f *safetensors.File, m *Model, o *Optimizer) error {
	step, err := strconv.Atoi(f.Metadata()["step"])
	if err != nil {
		return fmt.Errorf("qwen: the checkpoint has no step: %w", err)
	}
	for _, p := range m.params.all {
		for _, r := range o.records() {
			values, err := readTensor(f, r.prefix+p.Name, p.local())
			if err != nil {
				return err
			}
			if err := m.store.write(ctx, p, r.of, values); err != nil {
				return fmt.Errorf("qwen: %s%v: %w", r.prefix, p, err)
			}
		}
		if err := m.store.publish(p); err != nil {
			return err
		}
	}
	o.steps = step
	return nil
}
