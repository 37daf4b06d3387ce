//go:build emu

package qwen_test

import (
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/qwen"
	"github.com/goascend/cann/internal/golden"
	"github.com/goascend/cann/internal/safetensors"
)

// huggingFace writes a folder as Hugging Face's save_pretrained does.
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

// TestLoadsHuggingFaceModel: a folder with config.json and safetensors gives PyTorch's logits.
func TestLoadsHuggingFaceModel(t *testing.T) {
	run := golden.Model(t, "qwen3")
	dir := huggingFace(t, run, "")
	cfg, err := qwen.ReadConfig(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	require.Equal(t, 128*64*2+2*(64*16*(2*4+2*2)+2*16+3*64*96+2*64)+64, cfg.Parameters())
	st, reg := setUp(t)
	m, err := qwen.New(st, reg, cfg, aclnn.Float32)
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
		`{`:                       "config.json",
		`{"model_type":"llama"}`:  "llama",
		`{"attention_bias":true}`: "attention_bias",
		`{"rope_parameters":{"rope_type":"yarn","rope_theta":1}}`: "yarn",
		`{"vocab_size":8,"hidden_size":8,"intermediate_size":8,"num_hidden_layers":1,"num_attention_heads":3,"num_key_value_heads":2,"head_dim":4,"rope_theta":1}`: "multiple",
		`{"vocab_size":8,"hidden_size":8,"intermediate_size":8,"num_hidden_layers":1,"num_attention_heads":2,"num_key_value_heads":2,"head_dim":3,"rope_theta":1}`: "odd",
		`{"vocab_size":0}`: "vocab_size",
	} {
		_, err := qwen.ParseConfig([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

// TestBatchRefusals: ids outside the vocabulary would be a fault on the device.
func TestBatchRefusals(t *testing.T) {
	run := golden.Model(t, "qwen3")
	cfg, err := qwen.ParseConfig(run.Config.Raw)
	require.NoError(t, err)
	st, reg := setUp(t)
	m, err := qwen.New(st, reg, cfg, aclnn.Float32)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	for _, b := range []qwen.Batch{
		{}, {Size: 1, Length: 2, Inputs: []int32{1}, Labels: []int32{1, 2}},
		{Size: 1, Length: 1, Inputs: []int32{128}, Labels: []int32{0}}, {Size: 1, Length: 1, Inputs: []int32{-1}, Labels: []int32{0}},
		{Size: 1, Length: 1, Inputs: []int32{0}, Labels: []int32{128}},
		{Size: 1, Length: 1, Inputs: []int32{0}, Labels: []int32{0}, Lengths: []int64{1, 1}},
	} {
		_, err := m.Gradients(t.Context(), b)
		require.ErrorContains(t, err, "qwen:", "%+v", b)
	}
}
