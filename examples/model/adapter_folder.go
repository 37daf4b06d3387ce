package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/checkpoint"
	"github.com/goascend/cann/examples/durable"
)

// Files of a PEFT folder, and the prefix of the names in it.
const (
	adapterConfigFile  = "adapter_config.json"
	adapterWeightsFile = "adapter_model.safetensors"
	peftPrefix         = "base_model.model."
)

// peftConfig holds the keys of adapter_config.json that this package follows.
type peftConfig struct {
	Type       string             `json:"peft_type"`
	Rank       int                `json:"r"`
	Alpha      float64            `json:"lora_alpha"`
	Dropout    float64            `json:"lora_dropout"`
	RSLoRA     bool               `json:"use_rslora"`
	Targets    moduleNames        `json:"target_modules"`
	Parameters []string           `json:"target_parameters"`
	Exclude    moduleNames        `json:"exclude_modules"`
	Ranks      map[string]int     `json:"rank_pattern"`
	Alphas     map[string]float64 `json:"alpha_pattern"`
	Layers     layerNumbers       `json:"layers_to_transform"`
	Bias       string             `json:"bias"`
	Initialise json.RawMessage    `json:"init_lora_weights"`
}

// ignoredKeys do not change the result of an adapter.
var ignoredKeys = []string{
	"peft_version", "base_model_name_or_path", "inference_mode", "task_type", "revision", "auto_mapping", "loftq_config", "eva_config", "corda_config",
	"lora_ga_config", "megatron_core", "qalora_group_size", "ensure_weight_tying", "runtime_config",
	"peft_type", "r", "lora_alpha", "lora_dropout", "use_rslora", "target_modules", "target_parameters", "exclude_modules", "rank_pattern", "alpha_pattern", "layers_to_transform",
	"bias", "init_lora_weights",
}

// harmless are the ways to initialise an adapter that leave the base as it is.
var harmless = []string{"", "null", "true", "false", `"gaussian"`, `"eva"`, `"orthogonal"`}

// moduleNames is a list of names, or one regular expression.
type moduleNames struct {
	list    []string
	pattern string
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *moduleNames) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		if err := json.Unmarshal(text, &n.pattern); err != nil {
			return err
		}
		if n.pattern == AllLinear {
			n.list, n.pattern = []string{AllLinear}, ""
		}
		return nil
	}
	return json.Unmarshal(text, &n.list)
}

// MarshalJSON implements json.Marshaler.
func (n moduleNames) MarshalJSON() ([]byte, error) {
	switch {
	case n.pattern != "":
		return json.Marshal(n.pattern)
	case len(n.list) == 1 && n.list[0] == AllLinear:
		return json.Marshal(AllLinear)
	}
	return json.Marshal(n.list)
}

// layerNumbers is a list of numbers, or one number.
type layerNumbers []int

// UnmarshalJSON implements json.Unmarshaler.
func (n *layerNumbers) UnmarshalJSON(text []byte) error {
	var one int
	if json.Unmarshal(text, &one) == nil && !bytes.Equal(text, []byte("null")) {
		*n = layerNumbers{one}
		return nil
	}
	return json.Unmarshal(text, (*[]int)(n))
}

// ReadLoRA reads the options of an adapter that PEFT has saved. It refuses options that this
// package would have to ignore.
func ReadLoRA(folder string) (LoRA, error) {
	l, _, err := readPEFT(folder)
	return l, err
}

func readPEFT(folder string) (l LoRA, raw map[string]json.RawMessage, err error) {
	path := filepath.Join(folder, adapterConfigFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return l, nil, err
	}
	var c peftConfig
	if err := errors.Join(json.Unmarshal(text, &c), json.Unmarshal(text, &raw)); err != nil {
		return l, nil, fmt.Errorf("%s: %w", path, err)
	}
	if !strings.EqualFold(c.Type, "LORA") {
		return l, nil, fmt.Errorf("%s: peft_type is %q; only LORA is supported", path, c.Type)
	}
	if c.Bias != "" && c.Bias != "none" || !slices.Contains(harmless, string(c.Initialise)) {
		return l, nil, fmt.Errorf("%s: bias %q with init_lora_weights %s is not supported, only adapters that leave the base as it is", path, c.Bias, c.Initialise)
	}
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		var value any
		if err := json.Unmarshal(raw[key], &value); err != nil {
			return l, nil, fmt.Errorf("%s: %w", path, err)
		}
		if !slices.Contains(ignoredKeys, key) && !slices.Contains([]string{"<nil>", "false", "0", "[]", "map[]", ""}, fmt.Sprint(value)) {
			return l, nil, fmt.Errorf("%s: %s is %s, which is not supported", path, key, raw[key])
		}
	}
	l = LoRA{
		Rank: c.Rank, Alpha: c.Alpha, Dropout: c.Dropout, RSLoRA: c.RSLoRA, Targets: c.Targets.list, Pattern: c.Targets.pattern,
		Parameters: c.Parameters, Exclude: c.Exclude.list, ExcludePattern: c.Exclude.pattern, Layers: c.Layers, Ranks: c.Ranks, Alphas: c.Alphas,
	}
	return l, raw, nil
}

// LoadAdapter makes an adapter of a folder that PEFT or Save has written.
func LoadAdapter(ctx context.Context, m *Model, folder string, seed uint64) (*Adapter, error) {
	lora, raw, err := readPEFT(folder)
	if err != nil {
		return nil, err
	}
	a, err := NewAdapter(ctx, m, lora, seed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	a.config = raw
	if err := a.load(ctx, filepath.Join(folder, adapterWeightsFile)); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

func (a *Adapter) load(ctx context.Context, path string) (err error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	read := map[string]bool{}
	for _, p := range a.params.all {
		name := p.Name
		if nested := nestedName(name); slices.Contains(f.Names(), nested) {
			name, a.nested = nested, true
		}
		t, err := hubTensor(f, name, p.shape)
		if err != nil {
			return err
		}
		values, err := safetensors.Values[float32](t)
		if err != nil {
			return err
		}
		if err := a.Set(ctx, p, values); err != nil {
			return err
		}
		read[name] = true
	}
	if _, stages := a.m.par.stage(); stages > 1 {
		return nil // other stages read the others
	}
	for _, name := range f.Names() {
		if !read[name] {
			return fmt.Errorf("model: %s: %s is of no layer that %s selects", path, name, adapterConfigFile)
		}
	}
	return nil
}

// nestedName is the name of an adapter's weight in a model that sees images.
func nestedName(name string) string {
	if rest, ok := strings.CutPrefix(name, peftPrefix+"model."); ok {
		return peftPrefix + nestedPrefix + rest
	}
	return name
}

// Save writes a folder for PEFT: adapter_config.json, and the weights in float32. They come from a
// checkpoint of the adapter, or with nil from this device, which must then have all of them. base
// names the model in the configuration.
func (a *Adapter) Save(ctx context.Context, folder, base string, from Weights) error {
	if from == nil {
		if err := a.m.alone("Save without a checkpoint"); err != nil {
			return err
		}
		from = held{ctx, a.params.all, a.Get}
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	var tensors []safetensors.Data
	for _, p := range from.Tensors() {
		if !strings.HasPrefix(p.Name, peftPrefix) {
			continue
		}
		values, err := from.Read(p)
		if err != nil {
			return err
		}
		name := p.Name
		if a.nested {
			name = nestedName(name)
		}
		tensors = append(tensors, safetensors.Of(name, values, int(p.Shape[0]), int(p.Shape[1])))
	}
	if err := safetensors.WriteFile(filepath.Join(folder, adapterWeightsFile), tensors, map[string]string{"format": "pt"}); err != nil {
		return err
	}
	text, err := a.describe(base)
	if err != nil {
		return err
	}
	return durable.Write(filepath.Join(folder, adapterConfigFile), bytes.NewReader(text))
}

// describe returns adapter_config.json: with the keys of the folder from which the adapter was
// loaded, if it was.
func (a *Adapter) describe(base string) ([]byte, error) {
	l := a.lora
	own, err := json.Marshal(peftConfig{
		Type: "LORA", Rank: l.Rank, Alpha: l.Alpha, Dropout: l.Dropout, RSLoRA: l.RSLoRA, Targets: moduleNames{l.Targets, l.Pattern}, Parameters: l.Parameters, Exclude: moduleNames{l.Exclude, l.ExcludePattern},
		Ranks: l.Ranks, Alphas: l.Alphas, Layers: l.Layers, Bias: "none", Initialise: json.RawMessage("true"),
	})
	if err != nil {
		return nil, err
	}
	all := map[string]json.RawMessage{
		"base_model_name_or_path": nil, "task_type": json.RawMessage(`"CAUSAL_LM"`), "inference_mode": json.RawMessage("true"),
		"fan_in_fan_out": json.RawMessage("false"), "modules_to_save": nil, "use_dora": json.RawMessage("false"),
	}
	maps.Copy(all, a.config)
	if err := json.Unmarshal(own, &all); err != nil {
		return nil, err
	}
	if base != "" {
		if all["base_model_name_or_path"], err = json.Marshal(base); err != nil {
			return nil, err
		}
	}
	return json.MarshalIndent(all, "", "  ")
}

// Weights are whole tensors to be written to a folder: those of a checkpoint.Set, for example.
type Weights interface {
	Tensors() []checkpoint.Part
	Read(checkpoint.Part) ([]float32, error)
}

// held are weights that this device has as a whole.
type held struct {
	ctx  context.Context
	list []*Parameter
	get  func(context.Context, *Parameter) ([]float32, error)
}

// Tensors implements Weights.
func (h held) Tensors() (parts []checkpoint.Part) {
	for _, q := range h.list {
		parts = append(parts, checkpoint.Part{Name: q.Name, Shape: q.shape})
	}
	return parts
}

// Read implements Weights.
func (h held) Read(p checkpoint.Part) ([]float32, error) {
	for _, q := range h.list {
		if q.Name == p.Name {
			return h.get(h.ctx, q)
		}
	}
	return nil, fmt.Errorf("model: %s: %w", p.Name, checkpoint.ErrMissing)
}
