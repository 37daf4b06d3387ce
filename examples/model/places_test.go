package model_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/internal/testing/golden"
)

// TestPlaces: each tensor of a folder is read, is of a part that is known to be left out, or is refused by name and method.
func TestPlaces(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	folder := filepath.Join(dir, "hub", "qwen3_moe")
	f, err := safetensors.Open(folder)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	var own []safetensors.Data
	for _, name := range f.Names() {
		tensor, err := f.Tensor(name)
		require.NoError(t, err)
		raw, err := tensor.Bytes()
		require.NoError(t, err)
		own = append(own, safetensors.Data{Info: tensor.Info, Elements: raw})
	}
	cfg, err := model.ReadConfig(filepath.Join(folder, "config.json"))
	require.NoError(t, err)
	st, reg := setUp(t)
	m, err := model.New(st, reg, cfg, aclnn.Float32)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	load := func(tensors []safetensors.Data) ([]string, error) {
		path := filepath.Join(t.TempDir(), "model.safetensors")
		require.NoError(t, safetensors.WriteFile(path, tensors, nil))
		if err := m.Load(t.Context(), path); err != nil {
			if _, unread := m.Unread(t.Context(), path); unread != nil {
				require.EqualError(t, unread, err.Error())
			}
			return nil, err
		}
		return m.Unread(t.Context(), path)
	}
	with := func(name string) ([]string, error) {
		return load(append(slices.Clone(own), safetensors.Of(name, []float32{1}, 1)))
	}
	unread, err := load(own)
	require.NoError(t, err)
	require.Empty(t, unread)
	for name, want := range map[string]string{
		"model.layers.0.self_attn.q_proj.weight_scale_inv":                     "FP8 weights in blocks",
		"model.layers.0.mlp.experts.3.up_proj.weight_scale_inv":                "FP8 weights in blocks",
		"model.layers.0.mlp.experts.3.up_proj.weight_scale":                    "FP8 or int8",
		"model.layers.0.self_attn.q_proj.qweight":                              "GPTQ",
		"model.layers.0.self_attn.q_proj.g_idx":                                "GPTQ",
		"model.layers.0.self_attn.q_proj.weight_packed":                        "compressed-tensors",
		"model.layers.0.mlp.experts.gate_up_proj_blocks":                       "MXFP4",
		"model.layers.0.self_attn.q_proj.weight.absmax":                        "bitsandbytes",
		"model.layers.0.self_attn.q_proj.weight.quant_state.bitsandbytes__nf4": "bitsandbytes",
		"model.layers.0.self_attn.q_proj.bias":                                 "a bias",
		"model.layers.2.self_attn.q_proj.weight":                               "no weight of this model",
		"model.layers.0.mlp.experts.8.up_proj.weight":                          "no weight of this model",
		"score.weight": "another head",
		"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": "an adapter",
	} {
		_, err := with(name)
		require.ErrorContains(t, err, name+" is ", name)
		require.ErrorContains(t, err, want, name)
	}
	for name, part := range map[string]string{
		"model.visual.blocks.0.norm1.weight":           "model.visual: 1 tensors",
		"mtp.fc.weight":                                "mtp.fc: 1 tensors",
		"model.layers.0.self_attn.rotary_emb.inv_freq": "model.layers: 1 tensors",
		"model.layers.0.self_attn.attn.k_scale":        "model.layers: 1 tensors",
	} {
		unread, err := with(name)
		require.NoError(t, err, name)
		require.Equal(t, []string{part}, unread)
	}

	for _, name := range []string{"bert.embeddings.word_embeddings.weight", "bert.model.norm.weight", "roberta.model.norm.weight", "bert.pooler.dense.weight", "pooler.dense.weight", "embeddings.position_ids", "model.layers.0.block_sparse_moe.experts.3.w1.weight"} {
		_, err := with(name) // the names of other families
		require.ErrorContains(t, err, name+" is no weight of this model", name)
	}
	for _, prefix := range []string{"bert.", "roberta."} {
		other := slices.Clone(own)
		for i := range other {
			other[i].Name = prefix + other[i].Name
		}
		_, err := load(other)
		require.ErrorContains(t, err, fmt.Sprintf("%d tensors have no place in a model of type qwen3_moe", len(own)), prefix)
	}
	for name, want := range map[string]string{
		"norm.weight":                          "model.norm.weight and norm.weight are one weight under two names",
		"model.language_model.norm.weight":     "model.language_model.norm.weight",
		"model.layers.0.mlp.experts.down_proj": "is a part of model.layers.0.mlp.experts.down_proj, which is there too",
	} {
		_, err := with(name)
		require.ErrorContains(t, err, want, name)
	}

	bare := slices.Clone(own) // as folders of embedding models have them
	for i := range bare {
		bare[i].Name = strings.TrimPrefix(bare[i].Name, "model.")
	}
	unread, err = load(bare)
	require.NoError(t, err)
	require.Empty(t, unread)
	quantized := slices.Clone(own)
	at := slices.IndexFunc(own, func(d safetensors.Data) bool { return d.Name == "model.norm.weight" })
	quantized[at] = safetensors.Of("model.norm.weight", make([]int8, cfg.HiddenSize), cfg.HiddenSize)
	_, err = load(quantized)
	require.ErrorContains(t, err, "model.norm.weight has elements of int8")
}

// TestNextLayers: the layers that predict further tokens, so many as the configuration says, are named and left out; others behind the last layer are refused.
func TestNextLayers(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	folder := filepath.Join(dir, "families", "deepseek_v3")
	f, err := safetensors.Open(folder)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	with := func(name string) string {
		var all []safetensors.Data
		for _, own := range f.Names() {
			tensor, err := f.Tensor(own)
			require.NoError(t, err)
			raw, err := tensor.Bytes()
			require.NoError(t, err)
			all = append(all, safetensors.Data{Info: tensor.Info, Elements: raw})
		}
		path := filepath.Join(t.TempDir(), "model.safetensors")
		require.NoError(t, safetensors.WriteFile(path, append(all, safetensors.Of(name, make([]float32, 4), 4)), nil))
		return path
	}
	cfg, err := model.ReadConfig(filepath.Join(folder, "config.json"))
	require.NoError(t, err)
	require.Equal(t, 1, cfg.NextLayers)
	st, reg := setUp(t)
	m, err := model.New(st, reg, cfg, aclnn.Float32)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	left, err := m.Unread(t.Context(), with("model.layers.2.eh_proj.weight"))
	require.NoError(t, err)
	require.Equal(t, []string{"layers that predict further tokens: 1 tensors"}, left)
	_, err = m.Unread(t.Context(), with("model.layers.3.eh_proj.weight"))
	require.ErrorContains(t, err, "model.layers.3.eh_proj.weight")
}
