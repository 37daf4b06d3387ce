package model

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/half"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/checkpoint"
	"github.com/goascend/cann/examples/durable"
	"github.com/goascend/cann/examples/verdict"
)

// shardBytes is the size of the files of a new folder.
const shardBytes = 5 << 30

const weightsFile = "model.safetensors"

// Export writes a folder for Hugging Face's libraries. like is the folder from which the model was
// loaded: the files get the tensors that those there have, with their names, shapes and dtypes, and
// what this package does not load, such as the weights of a vision tower, and the files of the
// configuration and the tokenizer are copied. A quantised folder becomes a plain one: the weights that were quantised there
// are in dt, and config.json has no quantization_config. Without like, like is "", the folder gets a
// configuration, and weights in dt. The weights come from a checkpoint of the model, or with nil from
// this device, which must then have all of them.
func (m *Model) Export(ctx context.Context, folder, like string, dt aclnn.DType, from Weights) error {
	if m.Config.Encoder() {
		return errEncoder
	}
	if from == nil {
		if err := m.alone("Export without a checkpoint"); err != nil {
			return err
		}
		from = held{ctx, m.params.all, m.Get}
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	e := &exporter{family: m.Config.family(), from: from, shapes: map[string][]int64{}, recent: map[string][]float32{}}
	for _, p := range from.Tensors() {
		e.shapes[p.Name] = p.Shape
	}
	if like == "" {
		return e.fresh(folder, m.Config, dt)
	}
	if same, err := sameFolder(folder, like); err != nil || same {
		return errors.Join(err, fmt.Errorf("model: %s is the folder that the model comes from; export it to another one", folder))
	}
	if m.Config.Quantization != nil || m.Config.NewScore {
		return e.plain(ctx, folder, like, m.Config, dt)
	}
	return e.alike(ctx, folder, like)
}

// sameFolder reports whether two paths lead to one folder.
func sameFolder(a, b string) (bool, error) {
	x, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y), err
}

// exporter writes weights under the names of a hub folder.
type exporter struct {
	family family
	from   Weights
	shapes map[string][]int64   // of the model's weights
	recent map[string][]float32 // read last, of one layer's experts
}

// alike writes the files of like anew.
func (e *exporter) alike(ctx context.Context, folder, like string) error {
	entries, err := os.ReadDir(like)
	if err != nil {
		return err
	}
	missing := maps.Clone(e.shapes)
	for _, entry := range entries {
		name := entry.Name()
		switch path := filepath.Join(like, name); {
		case ctx.Err() != nil:
			return ctx.Err()
		case entry.IsDir() || strings.HasPrefix(name, "."):
		case filepath.Ext(name) == ".safetensors":
			err = e.file(path, filepath.Join(folder, name), missing)
		case !otherWeights(name):
			err = copyFile(path, filepath.Join(folder, name))
		}
		if err != nil {
			return err
		}
	}
	return complete(like, missing)
}

// otherWeights reports whether a file has the weights in another form.
func otherWeights(name string) bool {
	return slices.Contains([]string{".bin", ".pt", ".pth", ".gguf", ".onnx", ".h5"}, filepath.Ext(name))
}

// complete refuses a folder that lacks weights of the model.
func complete(like string, missing map[string][]int64) error {
	for name := range missing {
		return fmt.Errorf("model: %s has no tensor for %s: it is not the folder of this model", like, name)
	}
	return nil
}

// file writes one file of weights, and takes those that it has out of missing.
func (e *exporter) file(from, to string, missing map[string][]int64) (err error) {
	f, err := safetensors.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var infos []safetensors.Info
	for _, name := range f.Names() {
		t, err := f.Tensor(name)
		if err != nil {
			return err
		}
		infos = append(infos, t.Info)
	}
	w, err := safetensors.Create(to, infos, f.Metadata())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := e.tensors(w, infos, f, missing); err != nil {
		return err
	}
	return w.Commit()
}

// tensors writes the tensors of a new file: the model's weights, and others as they are in f.
func (e *exporter) tensors(w *safetensors.Writer, infos []safetensors.Info, f *safetensors.File, missing map[string][]int64) error {
	for _, info := range infos {
		if known, err := e.write(w, info, e.family.canonical(info.Name), missing); known || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		t, err := f.Tensor(info.Name)
		if err == nil {
			t, err = t.As(info.DType)
		}
		if err != nil {
			return err
		}
		if _, err := io.Copy(w.To(info.Name), t.Reader()); err != nil {
			return err
		}
	}
	return nil
}

// write writes a tensor if the model has it, under the name inner, as a whole or as one of a layer's
// experts.
func (e *exporter) write(w *safetensors.Writer, info safetensors.Info, inner string, missing map[string][]int64) (known bool, err error) {
	name := inner
	if e.shapes[name] == nil {
		name = stacked(inner)
	}
	shape := e.shapes[name]
	if shape == nil {
		return false, nil
	}
	delete(missing, name)
	values, err := e.read(name)
	if err != nil {
		return true, err
	}
	if name != inner {
		if values, err = oneExpert(values, shape, inner); err != nil {
			return true, err
		}
	}
	if len(values) != info.Len() {
		return true, fmt.Errorf("model: %s has %d elements, and %v in the folder", name, len(values), info)
	}
	raw, err := elements(values, info.DType)
	if err != nil {
		return true, fmt.Errorf("model: %s: %w", info.Name, err)
	}
	return true, w.Write(info.Name, raw)
}

// read reads a weight. It keeps those of experts, which are asked for once for each expert.
func (e *exporter) read(name string) ([]float32, error) {
	if values := e.recent[name]; values != nil {
		return values, nil
	}
	values, err := e.from.Read(checkpoint.Part{Name: name, Shape: e.shapes[name]})
	layer, _, experts := strings.Cut(name, ".experts.")
	if err != nil || !experts {
		return values, err
	}
	for other := range e.recent {
		if !strings.HasPrefix(other, layer+".experts.") {
			delete(e.recent, other)
		}
	}
	e.recent[name] = values
	return values, nil
}

// oneExpert selects the weight with a name such as "…experts.3.up_proj.weight" from those of all
// experts, [experts, out, in]; the rows of the up projection follow those of the gate.
func oneExpert(values []float32, shape []int64, name string) ([]float32, error) {
	_, rest, _ := strings.Cut(name, ".experts.")
	var index int64
	var projection string
	if _, err := fmt.Sscanf(strings.Replace(rest, ".", " ", 1), "%d %s", &index, &projection); err != nil || index < 0 || index >= shape[0] {
		return nil, fmt.Errorf("model: %s: is of none of the %d experts", name, shape[0])
	}
	size := shape[1] * shape[2]
	own := values[index*size:][:size]
	switch projection {
	case "gate_proj.weight":
		return own[:size/2], nil
	case "up_proj.weight":
		return own[size/2:], nil
	}
	return own, nil
}

// elements converts values to the bytes of a dtype.
func elements(values []float32, dt aclnn.DType) ([]byte, error) {
	one := safetensors.Of("", values, len(values))
	switch dt {
	case aclnn.Float32:
	case aclnn.BFloat16:
		narrow := make([]half.BFloat16, len(values))
		for i, v := range values {
			narrow[i] = half.BFloat16FromFloat32(v)
		}
		one = safetensors.Of("", narrow, len(values))
	case aclnn.Float16:
		narrow := make([]half.Float16, len(values))
		for i, v := range values {
			narrow[i] = half.Float16FromFloat32(v)
		}
		one = safetensors.Of("", narrow, len(values))
	case aclnn.Float64:
		wide := make([]float64, len(values))
		for i, v := range values {
			wide[i] = float64(v)
		}
		one = safetensors.Of("", wide, len(values))
	default:
		return nil, fmt.Errorf("weights of %v cannot be written", dt)
	}
	return one.Elements, nil
}

// fresh writes a folder for a model that did not come from one: with a tensor for each expert, as
// hub models have them.
func (e *exporter) fresh(folder string, cfg Config, dt aclnn.DType) (err error) {
	var infos []safetensors.Info
	add := func(name string, shape ...int64) {
		info := safetensors.Info{Name: name, DType: dt}
		for _, d := range shape {
			info.Shape = append(info.Shape, int(d))
		}
		if cfg.family().mixtral && strings.Contains(name, ".mlp.") {
			info.Name = mixtralNames.Replace(name)
		}
		infos = append(infos, info)
	}
	for _, p := range e.from.Tensors() {
		layer, stack, experts := strings.Cut(p.Name, ".experts.")
		experts = experts && !cfg.family().clipped // which hub models have in one tensor
		for i := int64(0); experts && i < p.Shape[0]; i++ {
			one := fmt.Sprintf("%s.experts.%d.", layer, i)
			if stack == "down_proj" {
				add(one+"down_proj.weight", p.Shape[1:]...)
				continue
			}
			add(one+"gate_proj.weight", p.Shape[1]/2, p.Shape[2])
			add(one+"up_proj.weight", p.Shape[1]/2, p.Shape[2])
		}
		if !experts && !strings.HasPrefix(p.Name, averagePrefix) && !strings.HasPrefix(p.Name, squarePrefix) {
			add(p.Name, p.Shape...)
		}
	}
	w, err := createFolder(folder, infos)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for _, info := range infos {
		if _, err := e.write(w, info, e.family.canonical(info.Name), map[string][]int64{}); err != nil {
			return err
		}
	}
	if err := w.Commit(); err != nil {
		return err
	}
	text, err := describeConfig(cfg, dt)
	if err != nil {
		return err
	}
	return durable.Write(filepath.Join(folder, "config.json"), bytes.NewReader(text))
}

// createFolder begins the weights of a new folder: one file, or several if they are large.
func createFolder(folder string, infos []safetensors.Info) (*safetensors.Writer, error) {
	size, about := int64(0), map[string]string{"format": "pt"}
	for _, info := range infos {
		size += info.Size()
	}
	if size > shardBytes {
		return safetensors.CreateShards(folder, shardBytes, infos, about)
	}
	return safetensors.Create(filepath.Join(folder, weightsFile), infos, about)
}

// describeConfig returns config.json.
func describeConfig(cfg Config, dt aclnn.DType) ([]byte, error) {
	if cfg.ModelType == "" {
		cfg.ModelType = "qwen3"
	}
	all := map[string]any{}
	if err := remarshal(cfg, &all); err != nil {
		return nil, err
	}
	rope := map[string]any{}
	if err := remarshal(cfg.Rope, &rope); err != nil {
		return nil, err
	}
	rope["rope_type"], rope["rope_theta"] = cfg.Rope.kind(), cfg.RopeTheta
	delete(all, "rope_theta")
	if cfg.family().partial() {
		rope["partial_rotary_factor"] = cfg.PartialRotary
	}
	if cfg.family().sparse {
		all["norm_topk_prob"], all["router_aux_loss_coef"] = cfg.NormTopK, cfg.RouterLossScale // their zero is not the default
	}
	all["architectures"], all["dtype"], all["rope_parameters"] = []string{cfg.class()}, dt.String(), rope
	if cfg.Score {
		all["id2label"], all["label2id"] = oneLabel, map[string]int{oneLabel["0"]: 0}
	}
	all["hidden_act"], all["attention_bias"], all["use_sliding_window"] = cmp.Or(cfg.Activation, "silu"), cfg.AttentionBias, cfg.Window > 0
	if cfg.Window == 0 {
		all["sliding_window"] = nil
	}
	if cfg.family().mixtral || cfg.family().clipped {
		all["num_local_experts"] = cfg.Experts
	}
	if cfg.family().deepseek {
		all["n_routed_experts"], all["first_k_dense_replace"], all["rope_interleave"] = cfg.Experts, cfg.FirstDense, cfg.Interleaved
		for key, value := range map[string]int{"n_shared_experts": cfg.SharedExperts, "n_group": cfg.Groups, "topk_group": cfg.TopGroups, "q_lora_rank": cfg.QRank} {
			if all[key] = value; value == 0 { // of the class: another number
				all[key] = nil
			}
		}
	}
	if f := cfg.family(); f.gemma {
		all["hidden_activation"], all["query_pre_attn_scalar"] = all["hidden_act"], cmp.Or(cfg.AttentionScalar, float64(cfg.HeadDim))
		all["rope_parameters"] = map[string]any{fullLayer: rope, slidingLayer: map[string]any{"rope_type": "default", "rope_theta": cfg.near().RopeTheta}}
		delete(all, "rope_local_base_freq")
		if cfg.Window == 0 {
			all["layer_types"] = slices.Repeat([]string{fullLayer}, cfg.Layers)
		}
	}
	table := ConfigTable(cfg.ModelType)
	maps.DeleteFunc(all, func(key string, _ any) bool { // of other families
		return key != "rope_parameters" && !slices.ContainsFunc(table.Keys, func(k verdict.Key) bool { return k.Name == key })
	})
	if !cfg.family().hybrid && !cfg.family().gemma && (cfg.Window == 0 || !cfg.family().windows.byLayer()) {
		delete(all, "layer_types")
	}
	return json.MarshalIndent(all, "", "  ")
}

// oneLabel is the id2label of a classifier with one label, as transformers writes it.
var oneLabel = map[string]string{"0": "LABEL_0"}

// class is the name of the class in transformers.
func (c Config) class() string {
	name := c.family().class
	if c.Score {
		name = strings.TrimSuffix(name, "ForCausalLM") + classifier
	}
	return name
}

// remarshal gives a value's JSON another type.
func remarshal(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	return durable.Write(to, in)
}
