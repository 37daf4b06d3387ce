package main

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/weights"
	"github.com/goascend/cann/internal/testing/golden"
)

// hubFolder is a golden hub folder, and a file of tokens for its vocabulary.
func hubFolder(t *testing.T, name string) (folder, data string) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	rng, tokens := rand.New(rand.NewPCG(1, 2)), []byte(nil)
	for range 300 {
		tokens = binary.LittleEndian.AppendUint16(tokens, uint16(rng.IntN(32)))
	}
	data = filepath.Join(t.TempDir(), "tokens.bin")
	require.NoError(t, os.WriteFile(data, tokens, 0o600))
	return filepath.Join(dir, "hub", name), data
}

// weightsOf reads all tensors of a folder or a file.
func weightsOf(t *testing.T, path string) map[string][]float32 {
	f, err := safetensors.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	all := map[string][]float32{}
	for _, name := range f.Names() {
		x, err := f.Tensor(name)
		require.NoError(t, err)
		all[name], err = safetensors.Values[float32](x)
		require.NoError(t, err)
	}
	return all
}

// TestLoraExports trains an adapter alone and on several ranks, whose folders agree, goes on with
// one, and merges it.
func TestLoraExports(t *testing.T) {
	folder, data := hubFolder(t, "qwen3_moe")
	flags := []string{"-model", folder, "-data", data, "-dtype", "fp32", "-batch", "4", "-seq", "16", "-warmup", "2", "-lr", "1e-3"}
	lora := append(flags, "-lora", "4", "-lora-targets", "q_proj,v_proj", "-steps", "3")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	out, loss := trained(t, append(lora, "-export", at("one"))...)
	require.Contains(t, out, "exported to "+at("one"))
	options, err := model.ReadLoRA(at("one"))
	require.NoError(t, err)
	require.Equal(t, model.LoRA{Rank: 4, Alpha: 8, Targets: []string{
		"model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.v_proj", "model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.v_proj",
	}}, withoutEmpty(options), "PEFT maps short names of such models to those of all experts")
	for name, layout := range map[string][]string{"tp": {"-ranks", "4", "-tp", "2", "-sp"}, "pp": {"-ranks", "2", "-pp", "2", "-micro", "2"}, "fsdp": {"-ranks", "2", "-fsdp"}} {
		_, several := trained(t, append(append(lora, layout...), "-export", at(name))...)
		require.InDelta(t, loss, several, 2e-4, name)
		one, all := weightsOf(t, at("one/adapter_model.safetensors")), weightsOf(t, at(name+"/adapter_model.safetensors"))
		require.Len(t, all, len(one))
		for weight, values := range one {
			require.InDeltaSlice(t, values, all[weight], 5e-4, "%s of %s", weight, name)
		}
		require.NoDirExists(t, at(name+"/"+exportParts))
	}

	_, next := trained(t, append(flags, "-adapter", at("one"), "-steps", "1", "-export", at("merged"), "-merge")...)
	require.Less(t, next, 6.)
	base, merged := weightsOf(t, folder), weightsOf(t, at("merged"))
	changed := 0
	for name, values := range base {
		require.Len(t, merged[name], len(values), name)
		for i := range values {
			if values[i] != merged[name][i] {
				require.Regexp(t, "[qv]_proj.weight$", name)
				changed++
				break
			}
		}
	}
	require.Equal(t, 4, changed, "two weights in each of two layers")
}

// TestLoraOfExperts: adapters of experts agree over layouts, go on, and change the weights of experts when they
// are merged.
func TestLoraOfExperts(t *testing.T) {
	folder, data := hubFolder(t, "qwen3_moe")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	flags := []string{"-model", folder, "-data", data, "-dtype", "fp32", "-batch", "4", "-seq", "16", "-warmup", "0", "-lr", "1e-3", "-steps", "3"}
	lora := append(flags, "-lora", "2", "-lora-experts", "-lora-targets", "o_proj")
	_, loss := trained(t, append(lora, "-export", at("one"))...)
	one := weightsOf(t, at("one/adapter_model.safetensors"))
	require.Contains(t, one, "base_model.model.model.layers.0.mlp.experts.base_layer.lora_A.weight")
	for name, layout := range map[string][]string{"ep": {"-ranks", "2", "-ep", "2"}, "tp": {"-ranks", "4", "-tp", "2", "-ep", "2"}, "fsdp": {"-ranks", "2", "-fsdp"}} {
		_, several := trained(t, append(append(lora, layout...), "-export", at(name))...)
		require.InDelta(t, loss, several, 2e-4, name)
		all := weightsOf(t, at(name+"/adapter_model.safetensors"))
		require.Len(t, all, len(one))
		for weight, values := range one {
			require.InDeltaSlice(t, values, all[weight], 1e-3, "%s of %s", weight, name)
		}
	}
	shards, err := parseFlags(append(lora, "-ranks", "2", "-etp", "2"), t.Output())
	require.NoError(t, err)
	require.ErrorContains(t, run(t.Context(), shards, t.Output()), "adapters of experts need each expert whole")
	trained(t, append(flags, "-adapter", at("one"), "-export", at("merged"), "-merge", "-ranks", "2", "-ep", "2")...)
	base, merged := weightsOf(t, folder), weightsOf(t, at("merged"))
	for name, values := range base {
		changed := strings.Contains(name, "experts.") || strings.Contains(name, "o_proj")
		require.Equal(t, changed, !slices.Equal(values, merged[name]), name)
	}
}

func withoutEmpty(l model.LoRA) model.LoRA {
	if len(l.Ranks) == 0 && len(l.Alphas) == 0 {
		l.Ranks, l.Alphas = nil, nil
	}
	return l
}

// TestLoraResumes: an adapter that is saved and resumed ends as one that trained without a break.
func TestLoraResumes(t *testing.T) {
	folder, data := hubFolder(t, "qwen3")
	dir := t.TempDir()
	flags := []string{"-model", folder, "-data", data, "-dtype", "fp32", "-batch", "2", "-seq", "16", "-lora", "4", "-lora-dropout", "0.1", "-warmup", "0", "-lr", "1e-3"}
	at := func(name string) string { return filepath.Join(dir, name) }
	trained(t, append(flags, "-steps", "4", "-save", at("saved"), "-save-every", "2", "-export", at("whole"))...)
	sets, err := filepath.Glob(filepath.Join(at("saved"), "step-00000002-*"))
	require.NoError(t, err)
	require.Len(t, sets, 1)
	out, _ := trained(t, append(flags, "-steps", "4", "-resume", sets[0], "-export", at("resumed"))...)
	require.Contains(t, out, "resumed after step 2")
	require.NotContains(t, out, "not as it was")
	require.Equal(t, weightsOf(t, at("whole/adapter_model.safetensors")), weightsOf(t, at("resumed/adapter_model.safetensors")))
	// The checkpoint is neither a model nor a folder of an adapter, and who takes it for one reads what it is and how to make that.
	_, err = model.ReadLoRA(at("saved"))
	require.ErrorContains(t, err, "is a checkpoint of a training, not an adapter's folder: trainstep -resume")
	_, err = weights.Source{Folder: at("saved")}.Model(t.Context(), nil, nil, io.Discard)
	require.ErrorContains(t, err, "is a checkpoint of an adapter, not of a model: write its folder with trainstep -export")
}

// TestAutoResume: a job that is started again with the same flags begins with the folder's weights,
// and then goes on from its own checkpoint.
func TestAutoResume(t *testing.T) {
	folder, data := hubFolder(t, "qwen3")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	flags := []string{"-model", folder, "-data", data, "-dtype", "fp32", "-batch", "2", "-seq", "16", "-warmup", "0", "-schedule", "constant"}
	job := append(flags, "-save", at("saved"), "-auto-resume", "-ranks", "2")
	out, _ := trained(t, append(job, "-steps", "2")...)
	require.NotContains(t, out, "resumed")
	out, _ = trained(t, append(job, "-steps", "4", "-export", at("twice"))...)
	require.Contains(t, out, "resumed after step 2")
	trained(t, append(flags, "-ranks", "2", "-steps", "4", "-export", at("once"))...)
	require.Equal(t, weightsOf(t, at("once")), weightsOf(t, at("twice")))
	_, err := parseFlags(append(flags, "-auto-resume"), t.Output())
	require.ErrorContains(t, err, "-auto-resume needs -save")
}

// TestExportsModels trains all weights of a hub folder on several ranks and exports them, and then
// again from the checkpoint of another layout; both folders have the tensors of the first.
func TestExportsModels(t *testing.T) {
	folder, data := hubFolder(t, "qwen3_5_moe_vl")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	flags := []string{"-data", data, "-batch", "4", "-seq", "16", "-steps", "2", "-warmup", "0"}
	trained(t, append(flags, "-model", folder, "-ranks", "4", "-ep", "2", "-etp", "2", "-export", at("direct"), "-save", at("saved"))...)
	o, err := parseFlags(append(flags, "-resume", at("saved"), "-ranks", "1", "-export", at("later")), t.Output())
	require.NoError(t, err)
	require.NoError(t, run(t.Context(), o, t.Output()))
	base, direct, later := weightsOf(t, folder), weightsOf(t, at("direct")), weightsOf(t, at("later"))
	require.Equal(t, direct, later)
	require.Len(t, direct, len(base))
	require.NotEqual(t, base["lm_head.weight"], direct["lm_head.weight"])
	for name, values := range base {
		require.Len(t, direct[name], len(values), name)
		if len(name) > 12 && name[:12] == "model.visual" {
			require.Equal(t, values, direct[name])
		}
	}
	require.FileExists(t, at("direct/generation_config.json"))
}

// TestExportsTransposedWeights: shards that keep the weights of experts in the order of grouped products are exported
// in the order of the folder that they came from, bit by bit, on ranks that have whole experts or parts of some.
func TestExportsTransposedWeights(t *testing.T) {
	folder, data := hubFolder(t, "qwen3_moe")
	base := weightsOf(t, folder)
	for _, ranks := range []string{"2", "3"} {
		to := filepath.Join(t.TempDir(), "model")
		trained(t, "-data", data, "-model", folder, "-dtype", "bf16", "-batch", "6", "-seq", "16", "-steps", "1", "-lr", "0",
			"-ranks", ranks, "-fsdp", "-gmm-nz", "-shard-align", "512", "-export", to)
		require.Equal(t, base, weightsOf(t, to), "%s ranks", ranks)
	}
}

// TestStrict: a file that is left out is a warning, and with -strict an error.
func TestStrict(t *testing.T) {
	source, data := hubFolder(t, "qwen3")
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(folder, os.DirFS(source)))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "weights.xyz"), nil, 0o600))
	flags := []string{"-data", data, "-model", folder, "-batch", "2", "-seq", "8", "-steps", "1"}
	out, _ := trained(t, flags...)
	require.Contains(t, out, "warning: weights.xyz")
	o, err := parseFlags(append(flags, "-strict"), t.Output())
	require.NoError(t, err)
	require.ErrorContains(t, run(t.Context(), o, t.Output()), "-strict: ")
	require.Empty(t, acl.Live())
	_, err = parseFlags([]string{"-strict"}, t.Output())
	require.ErrorContains(t, err, "-strict")
}
