package model_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/model"
)

// changedAdapter copies PEFT's folder with other options, and with its tensors renamed; an empty name leaves one out.
func changedAdapter(t *testing.T, from, options string, rename func(string) string) string {
	dir := t.TempDir()
	var config map[string]any
	text, err := os.ReadFile(filepath.Join(from, "adapter_config.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &config))
	require.NoError(t, json.Unmarshal([]byte("{"+options+"}"), &config))
	text, err = json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "adapter_config.json"), text, 0o600))
	f, err := safetensors.Open(filepath.Join(from, "adapter_model.safetensors"))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	var all []safetensors.Data
	for _, name := range f.Names() {
		tensor, err := f.Tensor(name)
		require.NoError(t, err)
		raw, err := tensor.Bytes()
		require.NoError(t, err)
		if tensor.Name = rename(name); tensor.Name != "" {
			all = append(all, safetensors.Data{Info: tensor.Info, Elements: raw})
		}
	}
	require.NoError(t, safetensors.WriteFile(filepath.Join(dir, "adapter_model.safetensors"), all, nil))
	return dir
}

// TestAdapterByTensors: a folder's tensors name the layers of its adapter, whatever the expression in its configuration is.
func TestAdapterByTensors(t *testing.T) {
	st, reg := setUp(t)
	r := openAdapterRun(t, "qwen3")
	m := r.base(t, st, reg, aclnn.Float32, model.Parallel{})
	names := func(folder string) (list []string) {
		a, err := model.LoadAdapter(t.Context(), m, folder, 1)
		require.NoError(t, err)
		for _, p := range a.Parameters() {
			list = append(list, p.Name)
		}
		require.NoError(t, a.Close())
		return list
	}
	from, same := filepath.Join(r.folder, "a"), func(name string) string { return name }
	all := names(from)
	require.NotEmpty(t, all)
	for _, options := range []string{
		`"target_modules": "^(model(?=\\.).*\\.(q_proj))$"`, `"target_modules": "("`, `"target_modules": ["w1"]`, `"exclude_modules": ["q_proj"]`, `"layers_to_transform": 0`,
	} {
		require.Equal(t, all, names(changedAdapter(t, from, options, same)), options)
	}
	nested := func(name string) string {
		return strings.Replace(name, "base_model.model.model.", "base_model.model.model.language_model.", 1)
	}
	require.Equal(t, all, names(changedAdapter(t, from, "", nested)))
	some := names(changedAdapter(t, from, "", func(name string) string {
		if strings.Contains(name, "q_proj") {
			return ""
		}
		return name
	}))
	require.Len(t, some, len(all)-4)
	for want, rename := range map[string]func(string) string{
		"no such tensor": func(name string) string {
			return strings.Replace(name, "layers.0.self_attn.q_proj.lora_A", "layers.7.self_attn.q_proj.lora_A", 1)
		},
		"is of no layer of this model": func(name string) string {
			return strings.Replace(name, "layers.1.self_attn.q_proj", "layers.7.self_attn.q_proj", 1)
		},
		"is neither A nor B of a product": func(name string) string {
			return strings.Replace(name, "layers.1.self_attn.q_proj.lora_A.weight", "lm_head.weight", 1)
		},
	} {
		_, err := model.LoadAdapter(t.Context(), m, changedAdapter(t, from, "", rename), 1)
		require.ErrorContains(t, err, want)
	}
	_, err := model.NewAdapter(t.Context(), m, model.LoRA{Rank: 2, Pattern: `(\w+\w+)+!`}, 1)
	require.Error(t, err)
}

// TestOverridesKeepTheirOrder: of PEFT's patterns the first that matches counts.
func TestOverridesKeepTheirOrder(t *testing.T) {
	var o model.Overrides
	text := `{"q_proj":1,"self_attn.q_proj":64,"a":0.5}`
	require.NoError(t, json.Unmarshal([]byte(text), &o))
	require.Equal(t, model.Overrides{{Layers: "q_proj", Value: 1}, {Layers: "self_attn.q_proj", Value: 64}, {Layers: "a", Value: 0.5}}, o)
	again, err := json.Marshal(o)
	require.NoError(t, err)
	require.Equal(t, text, string(again))
	require.NoError(t, json.Unmarshal([]byte("null"), &o))
	require.Empty(t, o)
	require.Error(t, json.Unmarshal([]byte(`{"a":"b"}`), &o))
}
