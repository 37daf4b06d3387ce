package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/budget"
	"github.com/goascend/cann/examples/checkpoint"
	"github.com/goascend/cann/examples/durable"
	"github.com/goascend/cann/examples/verdict"
)

// Files of a PEFT folder, and the prefix of the names in it.
const (
	adapterConfigFile  = "adapter_config.json"
	adapterWeightsFile = "adapter_model.safetensors"
	peftPrefix         = "base_model.model."
)

// mostParameters bounds the names of target_parameters, because each of them is compared with each stacked weight.
const mostParameters = 10_000

// peftConfig holds the keys of adapter_config.json that this package follows.
type peftConfig struct {
	Type       string          `json:"peft_type"`
	Rank       int             `json:"r"`
	Alpha      float64         `json:"lora_alpha"`
	Dropout    float64         `json:"lora_dropout"`
	RSLoRA     bool            `json:"use_rslora"`
	Targets    moduleNames     `json:"target_modules"`
	Parameters []string        `json:"target_parameters"`
	Exclude    moduleNames     `json:"exclude_modules"`
	Ranks      Overrides       `json:"rank_pattern"`
	Alphas     Overrides       `json:"alpha_pattern"`
	Layers     layerNumbers    `json:"layers_to_transform"`
	Bias       string          `json:"bias"`
	Initialise json.RawMessage `json:"init_lora_weights"`
}

// AdapterTable says what becomes of each key of PEFT's adapter_config.json.
var AdapterTable = verdict.Table{Format: adapterConfigFile, Keys: slices.Concat([]verdict.Key{
	verdict.Honour("peft_type", "LORA; others are refused"),
	verdict.Honour("r", "rank of the products; default 8"),
	verdict.Honour("lora_alpha", "the products are scaled by lora_alpha/r; default 8"),
	verdict.Honour("lora_dropout", "of the inputs in training"),
	verdict.Honour("use_rslora", "scale by the root of the rank instead"),
	verdict.Honour("target_modules", "layers of a new adapter: names, their ends, all-linear, or an expression, which may look around; a loaded one has those with weights"),
	verdict.Honour("target_parameters", "stacked weights of experts that get products"),
	verdict.Honour("exclude_modules", "layers without products"),
	verdict.Honour("rank_pattern", "other ranks by expression; the first that matches counts"),
	verdict.Honour("alpha_pattern", "other scales by expression; the first that matches counts"),
	verdict.Honour("layers_to_transform", "numbers of the layers of a new adapter"),
	verdict.Refuse("layers_pattern", "layers are numbered in model.layers", `"layers"`, `["layers"]`, "[]"),
	verdict.Refuse("bias", "biases of the base are not trained", `"none"`),
	verdict.Refuse("lora_bias", "products have no bias", "false"),
	verdict.Refuse("fan_in_fan_out", "weights are [out, in]", "false"),
	verdict.Refuse("use_dora", "the norms of DoRA are not computed; merge the adapter with PEFT", "false"),
	verdict.Refuse("modules_to_save", "weights that an adapter replaces are not read; merge the adapter with PEFT", "[]"),
	verdict.Refuse("trainable_token_indices", "rows of the embedding that an adapter replaces are not read", "[]", "{}"),
	verdict.Refuse("init_lora_weights", "this way to begin changes the base too; convert the adapter to LoRA with PEFT", "true", "false", `"gaussian"`, `"eva"`, `"orthogonal"`),
	verdict.Refuse("layer_replication", "layers are not repeated", "[]"),
	verdict.Refuse("megatron_config", "Megatron's layers are not wrapped"),
	verdict.Refuse("alora_invocation_tokens", "an adapter holds for all tokens of a text", "[]"),
	verdict.Refuse("arrow_config", "adapters are not routed"),
	verdict.Refuse("ensure_weight_tying", "embedding and head are not adapted together", "false"),
	verdict.Refuse("use_qalora", "inputs are not pooled", "false"),
	verdict.Refuse("use_bdlora", "products are not divided into blocks", "false"),
	verdict.Refuse("kasa_config", "this kind of product is not computed"),
	verdict.Refuse("monteclora_config", "this kind of product is not computed"),
	verdict.Refuse("velora_config", "this kind of product is not computed"),
},
	verdict.Each("peft_version base_model_name_or_path revision inference_mode task_type auto_mapping runtime_config", verdict.NoEffect("", "where the adapter came from")),
	verdict.Each("loftq_config eva_config corda_config lora_ga_config", verdict.NoEffect("", "how the weights began, where init_lora_weights names this way")),
	verdict.Each("megatron_core qalora_group_size", verdict.NoEffect("", "of a kind that is refused")),
)}

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
	text, err := budget.ReadFile(path, budget.Config)
	if errors.Is(err, fs.ErrNotExist) && checkpoint.Find(folder) {
		return l, nil, fmt.Errorf("%s is a checkpoint of a training, not an adapter's folder: trainstep -resume %s -export FOLDER writes one", folder, folder)
	}
	if err != nil {
		return l, nil, err
	}
	c := peftConfig{Rank: 8, Alpha: 8} // PEFT's defaults
	t := AdapterTable
	t.Format = path
	if _, err := t.Decode(text, &c, &raw); err != nil {
		return l, nil, err
	}
	if !strings.EqualFold(c.Type, "LORA") {
		return l, nil, fmt.Errorf("%s: peft_type is %.80q; only LORA is supported", path, c.Type)
	}
	if err := budget.Size(path+": target_parameters", len(c.Parameters), mostParameters, "names"); err != nil {
		return l, nil, err
	}
	if len(c.Layers) == 0 {
		c.Layers = nil
	}
	l = LoRA{
		Rank: c.Rank, Alpha: c.Alpha, Dropout: c.Dropout, RSLoRA: c.RSLoRA, Targets: c.Targets.list, Pattern: c.Targets.pattern,
		Parameters: c.Parameters, Exclude: c.Exclude.list, ExcludePattern: c.Exclude.pattern, Layers: c.Layers, Ranks: c.Ranks, Alphas: c.Alphas,
	}
	return l, raw, nil
}

// LoadAdapter makes an adapter of a folder that PEFT or Save has written. It has the layers that have weights in the
// folder, whatever its target_modules say. Weights without a layer are an error.
func LoadAdapter(ctx context.Context, m *Model, folder string, seed uint64) (a *Adapter, err error) {
	lora, raw, err := readPEFT(folder)
	if err != nil {
		return nil, err
	}
	f, err := safetensors.Open(filepath.Join(folder, adapterWeightsFile))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if lora.modules, err = m.Config.family().adapted(f); err == nil {
		a, err = NewAdapter(ctx, m, lora, seed)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	a.config = raw
	if err := a.load(ctx, f); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", folder, err), a.Close())
	}
	return a, nil
}

// adapted names the layers that have weights in a file.
func (f family) adapted(file *safetensors.File) (map[string]bool, error) {
	modules := map[string]bool{}
	for _, name := range file.Names() {
		rest, ok := strings.CutPrefix(name, peftPrefix)
		module, kind, low := strings.Cut(rest, ".lora_")
		if !ok || !low || kind != "A.weight" && kind != "B.weight" {
			return nil, fmt.Errorf("model: %.200s is neither A nor B of a product; weights that an adapter replaces, magnitudes of DoRA, biases and embeddings are not read", name)
		}
		modules[f.canonical(module)] = true
	}
	return modules, nil
}

func (a *Adapter) load(ctx context.Context, f *safetensors.File) error {
	read := map[string]bool{}
	for _, p := range a.params.all {
		name := p.Name
		nested := nestedName(name)
		if _, err := f.Tensor(nested); err == nil {
			name, a.nested = nested, true
		}
		t, err := a.m.Config.family().hubTensor(f, name, p.shape)
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
			return fmt.Errorf("model: %.200s is of no layer of this model", name)
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

// Save writes a folder for PEFT: adapter_config.json, and the weights in float32. PEFT 0.21 with transformers 5 takes layers of DeepSeek V3 and GLM-4.5 whose
// names end in gate_proj, up_proj and down_proj for weights of experts, and warns that it has none for these; it reads adapters of their
// attention. The weights come from a
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
	if a.config == nil && a.m.Config.family().sparse {
		// PEFT takes the word all-linear, and ends of names such as down_proj, for routers and weights of experts too in these families.
		l.Targets, l.Pattern, l.Exclude, l.ExcludePattern, l.Layers = a.modules(), "", nil, "", nil
	}
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

// modules lists the names of the layers that the adapter adds to.
func (a *Adapter) modules() (names []string) {
	for _, pairs := range a.pairs {
		for _, l := range pairs {
			switch name := l.module; {
			case l.experts > 0:
			case a.nested:
				names = append(names, strings.TrimPrefix(nestedName(peftPrefix+name), peftPrefix))
			default:
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
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
