package model_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/internal/testing/golden"
)

// huggingFace writes a folder in the format of Hugging Face's save_pretrained.
func huggingFace(t *testing.T, run *golden.Training, without string) (dir string) {
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), run.Config.Raw, 0o600))
	weights := run.Sub("init")
	var infos []safetensors.Info
	for _, name := range weights.Names() {
		if name != without {
			infos = append(infos, safetensors.Info{Name: name, DType: aclnn.Float32, Shape: weights.Shape(name)})
		}
	}
	w, err := safetensors.Create(filepath.Join(dir, "model.safetensors"), infos, map[string]string{"format": "pt"})
	require.NoError(t, err)
	for _, info := range infos {
		v := weights.Float32(info.Name)
		require.NoError(t, w.Write(info.Name, unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), 4*len(v))))
	}
	require.NoError(t, w.Commit())
	return dir
}

// TestLoadsHuggingFaceModel checks that a folder with config.json and safetensors gives PyTorch's
// logits.
func TestLoadsHuggingFaceModel(t *testing.T) {
	run := golden.Model(t, "qwen3")
	dir := huggingFace(t, run, "")
	cfg, err := model.ReadConfig(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	require.Equal(t, 128*64*2+2*(64*16*(2*4+2*2)+2*16+3*64*96+2*64)+64, cfg.Parameters())
	st, reg := setUp(t)
	m, err := model.New(st, reg, cfg, aclnn.Float32)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	require.NoError(t, m.Load(t.Context(), dir))
	logits, err := m.Logits(t.Context(), batch(run, 0))
	require.NoError(t, err)
	require.NoError(t, compareValid(run, logits))

	err = m.Load(t.Context(), huggingFace(t, run, "model.norm.weight"))
	require.ErrorIs(t, err, safetensors.ErrNotFound)
	require.ErrorContains(t, err, "model.norm.weight")
}

func TestConfigRefusals(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                     "config.json",
		`{"model_type":"gpt2"}`: "gpt2",
		"version https://git-lfs.github.com/spec/v1":                            "Git LFS",
		hybrid(`"quantization_config":{"quant_method":"aqlm"}`):                 "quantization_config.quant_method is aqlm",
		hybrid(`"quantization_config":{"quant_method":"fp8","nobody_knows":1}`): "quantization_config.nobody_knows is 1",
		hybrid(`"quantization_config":{"bits":4}`):                              "quantization_config is",
		`{"rope_parameters":{"rope_type":"yarn","rope_theta":1}}`:               `"yarn" needs factor`,
		`{"vocab_size":8,"hidden_size":8,"intermediate_size":8,"num_hidden_layers":1,"num_attention_heads":3,"num_key_value_heads":2,"head_dim":4,"rope_theta":1}`: "multiple",
		`{"vocab_size":8,"hidden_size":8,"intermediate_size":8,"num_hidden_layers":1,"num_attention_heads":2,"num_key_value_heads":2,"head_dim":3,"rope_theta":1}`: "odd",
		hybrid(`"num_hidden_layers":4194304`):                            "num_hidden_layers is 4194304; more than 4096",
		`{"vocab_size":0}`:                                               "vocab_size",
		hybrid(`"layer_types":["linear_attention"]`):                     "1 entries for 2 layers",
		hybrid(`"layer_types":["linear_attention","sliding_attention"]`): "sliding_attention",
		hybrid(`"linear_num_key_heads":2,"linear_num_value_heads":3`):    "3 linear value heads",
		hybrid(`"linear_conv_kernel_dim":-1`):                            "linear_conv_kernel_dim",
		hybrid(`"model_type":"qwen3_next","num_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":8`): "shared_expert_intermediate_size",
		hybrid(`"rope_parameters":{"rope_theta":1,"partial_rotary_factor":0.2}`):                              "partial_rotary_factor",
	} {
		_, err := model.ParseConfig([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

// hybrid returns the modified configuration of a model with delta nets.
func hybrid(changes string) string {
	all := map[string]json.RawMessage{}
	for _, text := range []string{`{"model_type":"qwen3_5_text","vocab_size":8,"hidden_size":8,"intermediate_size":8,"num_hidden_layers":2,"num_attention_heads":2,` +
		`"num_key_value_heads":2,"head_dim":8,"rope_parameters":{"rope_theta":1,"partial_rotary_factor":0.5},"linear_num_key_heads":1,` +
		`"linear_num_value_heads":2,"linear_key_head_dim":4,"linear_value_head_dim":4,"linear_conv_kernel_dim":4}`, `{` + changes + `}`} {
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			panic(err)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Without layer_types, every fourth layer is attention, or as many as full_attention_interval says.
func TestHybridLayers(t *testing.T) {
	cfg, err := model.ParseConfig([]byte(hybrid(`"num_hidden_layers":9`)))
	require.NoError(t, err)
	for i, kind := range cfg.LayerTypes {
		require.Equal(t, i == 3 || i == 7, kind == "full_attention", "layer %d", i)
	}
	cfg, err = model.ParseConfig([]byte(hybrid(`"full_attention_interval":2`)))
	require.NoError(t, err)
	require.Equal(t, []string{"linear_attention", "full_attention"}, cfg.LayerTypes)
	st, reg := setUp(t)
	m, err := model.New(st, reg, cfg, aclnn.Float32)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	n := int64(0)
	for _, p := range m.Parameters() {
		n += p.Value.Len()
	}
	require.Equal(t, int64(cfg.Parameters()), n)
	require.NoError(t, m.Init(t.Context(), 1))
	b := model.Batch{Size: 2, Length: 3, Inputs: []int32{1, 2, 3, 4, 5, 6}, Labels: []int32{2, 3, 4, 5, 6, 7}, Lengths: []int64{3, 2}}
	_, err = m.Gradients(t.Context(), b)
	require.NoError(t, err)
	b.Lengths[1] = 4
	_, err = m.Gradients(t.Context(), b)
	require.ErrorContains(t, err, "row 1 has 4 valid tokens of 3")
}

// TestBatchRefusals: ids outside the vocabulary would be a fault on the device.
func TestBatchRefusals(t *testing.T) {
	run := golden.Model(t, "qwen3")
	cfg, err := model.ParseConfig(run.Config.Raw)
	require.NoError(t, err)
	st, reg := setUp(t)
	m, err := model.New(st, reg, cfg, aclnn.Float32)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	for _, b := range []model.Batch{
		{}, {Size: 1, Length: 2, Inputs: []int32{1}, Labels: []int32{1, 2}},
		{Size: 1, Length: 1, Inputs: []int32{128}, Labels: []int32{0}}, {Size: 1, Length: 1, Inputs: []int32{-1}, Labels: []int32{0}},
		{Size: 1, Length: 1, Inputs: []int32{0}, Labels: []int32{128}},
		{Size: 1, Length: 1, Inputs: []int32{0}, Labels: []int32{0}, Lengths: []int64{1, 1}},
	} {
		_, err := m.Gradients(t.Context(), b)
		require.ErrorContains(t, err, "model:", "%+v", b)
	}
}
