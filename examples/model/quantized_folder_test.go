package model_test

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/internal/testing/golden"
)

// TestQuantizedFolders: the logits of a quantised folder are those of transformers with the weights that its codes stand for. The
// folder that is exported from it is plain, and gives them too.
func TestQuantizedFolders(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	for _, name := range []string{"fp8_moe", "fp8_blocks", "int8", "mixed", "packed4", "gptq4", "gptq3", "awq4"} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(dir, "quantized", name)
			st, reg := setUp(t)
			expected, err := safetensors.Open(filepath.Join(folder, "expected.safetensors.golden"))
			require.NoError(t, err)
			defer func() { require.NoError(t, expected.Close()) }()
			tensor, err := expected.Tensor("logits")
			require.NoError(t, err)
			want, err := safetensors.Values[float32](tensor)
			require.NoError(t, err)
			var text struct{ IDs [][]int32 }
			raw, err := os.ReadFile(filepath.Join(folder, "expected.json"))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(raw, &text))

			check := func(folder string) *model.Model {
				m, err := fromFolder(t.Context(), st, reg, folder, aclnn.Float32, model.Parallel{})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, m.Close()) })
				unread, err := m.Unread(t.Context(), folder)
				require.NoError(t, err)
				if name == "gptq4" && m.Config.Quantization != nil {
					require.Equal(t, []string{"model.layers: 13 tensors"}, unread, "biases of zeros")
				} else if name != "gptq4" {
					require.Empty(t, unread)
				}
				for i, ids := range text.IDs {
					got, err := m.Logits(t.Context(), model.Batch{Size: 1, Length: len(ids), Inputs: ids, Labels: make([]int32, len(ids))})
					require.NoError(t, err)
					d, err := golden.Compare(got, want[i*len(got):][:len(got)])
					require.NoError(t, err)
					t.Log(d)
					require.NoError(t, golden.CheckClose(got, want[i*len(got):][:len(got)], 1e-5, 1e-5))
				}
				return m
			}
			m, to := check(folder), filepath.Join(t.TempDir(), "plain")
			require.NoError(t, m.Export(t.Context(), to, folder, aclnn.Float32, nil))
			config, err := os.ReadFile(filepath.Join(to, "config.json"))
			require.NoError(t, err)
			require.NotContains(t, string(config), "quant")
			again := check(to)
			require.Nil(t, again.Config.Quantization)
			require.Equal(t, baseValues(t, m), baseValues(t, again))
		})
	}
}

// TestQuantizedFolderRefusals: what does not fit the codes is named, and so is a module that the configuration leaves out.
func TestQuantizedFolderRefusals(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	for _, c := range []struct{ folder, without, from, to, want string }{
		{"fp8_moe", "model.layers.0.self_attn.q_proj.weight_scale_inv", "", "", "lacks model.layers.0.self_attn.q_proj.weight_scale"},
		{"fp8_moe", "", `"lm_head"`, `"self_attn.k_proj"`, "model.layers.0.self_attn.k_proj.weight: config.json's quantization_config leaves the module model.layers.0.self_attn.k_proj out"},
		{"fp8_blocks", "", "48", "40", "the codes and config.json's quantization_config need"},
		{"int8", "", `"re:.*o_proj$"`, `"re:.*self_attn.*"`, "leaves the module"},
		{"int8", "", `"int-quantized"`, `"marlin-24"`, "quantization_config.format is"},
		{"packed4", "model.layers.0.self_attn.q_proj.weight_zero_point", "", "", "lacks model.layers.0.self_attn.q_proj.weight_zero_point"},
		{"gptq4", "model.layers.1.mlp.up_proj.qzeros", "", "", "lacks model.layers.1.mlp.up_proj.qzeros"},
		{"gptq4", "", `+:.*v_proj`, `+:.*x_proj`, "v_proj"},
		{"gptq4", "", `"dynamic": {`, `"dynamic": {"+:.*": {"nobody_knows": 1}, `, "nobody_knows is 1"},
		{"int8", "", `"type": "int"`, `"type": "float"`, "says that its codes are"},
		{"gptq4", "", `"gptq"`, `"exl2"`, "quantization_config.quant_method is exl2"},
		{"awq4", "", `"gemm"`, `"gemv"`, "quantization_config.version"},
	} {
		source := filepath.Join(dir, "quantized", c.folder)
		text, err := os.ReadFile(filepath.Join(source, "config.json"))
		require.NoError(t, err)
		if c.from != "" {
			require.Contains(t, string(text), c.from)
		}
		to := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(to, "config.json"), []byte(strings.Replace(string(text), c.from, c.to, 1)), 0o600))
		f, err := safetensors.Open(source)
		require.NoError(t, err)
		var tensors []safetensors.Data
		for _, name := range f.Names() {
			tensor, err := f.Tensor(name)
			require.NoError(t, err)
			raw, err := tensor.Bytes()
			require.NoError(t, err)
			if name != c.without {
				tensors = append(tensors, safetensors.Data{Info: tensor.Info, Elements: raw})
			}
		}
		require.NoError(t, f.Close())
		require.NoError(t, safetensors.WriteFile(filepath.Join(to, "model.safetensors"), tensors, nil))
		st, reg := setUp(t)
		m, err := fromFolder(t.Context(), st, reg, to, aclnn.Float32, model.Parallel{})
		require.ErrorContains(t, err, c.want, "%v", c)
		if m != nil {
			require.NoError(t, m.Close())
		}
	}
}

// TestMXFP4Folder: a gpt-oss whose experts are in MXFP4, as it is published, has the logits of the folder with the numbers that the codes stand for.
func TestMXFP4Folder(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	source := filepath.Join(dir, "families", "gpt_oss")
	f, err := safetensors.Open(source)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	numbers := [8]float64{0, 0.5, 1, 1.5, 2, 3, 4, 6} // of FP4 (E2M1), OCP Microscaling Formats 1.0; the fourth bit is the sign
	random := rand.New(rand.NewPCG(5, 6))
	var plain, codes []safetensors.Data
	for _, name := range f.Names() {
		tensor, err := f.Tensor(name)
		require.NoError(t, err)
		if !strings.HasSuffix(name, "experts.gate_up_proj") && !strings.HasSuffix(name, "experts.down_proj") {
			raw, err := tensor.Bytes()
			require.NoError(t, err)
			one := safetensors.Data{Info: tensor.Info, Elements: raw}
			plain, codes = append(plain, one), append(codes, one)
			continue
		}
		experts, in, out := tensor.Shape[0], tensor.Shape[1], tensor.Shape[2]
		blocks, scales := make([]byte, experts*out*in/2), make([]byte, experts*out*in/32)
		values := make([]uint16, experts*in*out)
		for i := range scales {
			scales[i] = byte(127 - 6 + random.IntN(3))
		}
		for e := range experts {
			for o := range out {
				for i := range in {
					code := byte(random.IntN(16))
					at := (e*out+o)*in + i
					blocks[at/2] |= code << (4 * (at % 2))
					value := numbers[code&7] * math.Ldexp(1, int(scales[at/32])-127)
					if code > 7 {
						value = -value
					}
					values[(e*in+i)*out+o] = uint16(math.Float32bits(float32(value)) >> 16)
				}
			}
		}
		raw := make([]byte, 0, 2*len(values))
		for _, v := range values {
			raw = binary.LittleEndian.AppendUint16(raw, v)
		}
		plain = append(plain, safetensors.Data{Info: tensor.Info, Elements: raw})
		codes = append(codes,
			safetensors.Data{Info: safetensors.Info{Name: name + "_blocks", DType: aclnn.Uint8, Shape: []int{experts, out, in / 32, 16}}, Elements: blocks},
			safetensors.Data{Info: safetensors.Info{Name: name + "_scales", DType: aclnn.Uint8, Shape: []int{experts, out, in / 32}}, Elements: scales})
	}
	config, err := os.ReadFile(filepath.Join(source, "config.json"))
	require.NoError(t, err)
	logits := func(config string, tensors []safetensors.Data) []float32 {
		folder := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(folder, "config.json"), []byte(config), 0o600))
		require.NoError(t, safetensors.WriteFile(filepath.Join(folder, "model.safetensors"), tensors, nil))
		st, reg := setUp(t)
		m, err := fromFolder(t.Context(), st, reg, folder, aclnn.Float32, model.Parallel{})
		require.NoError(t, err)
		defer func() { require.NoError(t, m.Close()) }()
		unread, err := m.Unread(t.Context(), folder)
		require.NoError(t, err)
		require.Empty(t, unread)
		ids := []int32{3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26, 43, 38, 32, 79}
		got, err := m.Logits(t.Context(), model.Batch{Size: 1, Length: len(ids), Inputs: ids, Labels: make([]int32, len(ids))})
		require.NoError(t, err)
		return got
	}
	quantised := strings.Replace(string(config), "{", `{"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]},`, 1)
	require.Equal(t, logits(string(config), plain), logits(quantised, codes))
}
