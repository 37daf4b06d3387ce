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
	"github.com/goascend/cann/internal/safetensors"
)

// Names of the optimiser's tensors in a checkpoint, before the weight's name.
const (
	averagePrefix = "optimizer.exp_avg."
	squarePrefix  = "optimizer.exp_avg_sq."
)

// Load reads the weights of a Hugging Face checkpoint: a safetensors file, an index of
// shards, or a folder. Every weight of the model must be there with its shape; a tied head
// and weights of others are passed over.
func (m *Model) Load(ctx context.Context, path string) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(m.read(ctx, f), f.Close())
}

func (m *Model) read(ctx context.Context, f *safetensors.File) error {
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
	return t.Float32s()
}

// Save writes weights, optimiser state and config to one safetensors file, which appears
// under its name only when it is complete. Weights are the optimiser's float32 ones. The
// metadata holds the configuration, the step, and what the caller adds.
func Save(ctx context.Context, path string, m *Model, o *Optimizer, metadata map[string]string) (err error) {
	config, err := json.Marshal(m.Config)
	if err != nil {
		return err
	}
	all := map[string]string{"config": string(config), "step": strconv.Itoa(o.steps)}
	maps.Copy(all, metadata)
	type entry struct {
		name   string
		tensor *aclnn.Tensor
	}
	var entries []entry
	var infos []safetensors.Info
	for i, p := range m.params.all {
		entries = append(entries, entry{p.Name, p.Master}, entry{averagePrefix + p.Name, o.moments[i].average}, entry{squarePrefix + p.Name, o.moments[i].square})
	}
	for _, e := range entries {
		infos = append(infos, safetensors.Info{Name: e.name, DType: aclnn.Float32, Shape: ints(e.tensor.Shape())})
	}
	w, err := safetensors.Create(path, infos, all)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for _, e := range entries {
		values := make([]float32, e.tensor.Len())
		if err := aclnn.CopyFromDevice(ctx, m.st, values, e.tensor); err != nil {
			return err
		}
		if err := w.Write(e.name, bytesOf(values)); err != nil {
			return err
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

// bytesOf views float32 values as the little-endian bytes they are on every platform this
// module supports.
func bytesOf(values []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values))
}

// SavedConfig is the configuration of a checkpoint of Save, and its metadata.
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

// Resume reads what Save wrote into a model and an optimiser of the same configuration.
func Resume(ctx context.Context, path string, m *Model, o *Optimizer) error {
	f, err := safetensors.Open(path)
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
	if err := m.read(ctx, f); err != nil {
		return err
	}
	for i, p := range m.params.all {
		for _, s := range []struct {
			prefix string
			tensor *aclnn.Tensor
		}{{averagePrefix, o.moments[i].average}, {squarePrefix, o.moments[i].square}} {
			values, err := readTensor(f, s.prefix+p.Name, p.Shape())
			if err != nil {
				return err
			}
			if err := aclnn.CopyToDevice(ctx, m.st, s.tensor, values); err != nil {
				return err
			}
		}
	}
	o.steps = step
	return nil
}
