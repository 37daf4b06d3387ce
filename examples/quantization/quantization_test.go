package quantization_test

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/quantization"
	"github.com/goascend/cann/internal/testing/golden"
)

// raw returns the quantization_config of a folder.
func raw(t *testing.T, folder string) json.RawMessage {
	var c struct {
		Q json.RawMessage `json:"quantization_config"`
	}
	text, err := os.ReadFile(filepath.Join(folder, "config.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &c))
	return c.Q
}

func folders(t *testing.T) (paths []string) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	entries, err := os.ReadDir(filepath.Join(dir, "quantized"))
	require.NoError(t, err)
	for _, e := range entries {
		if e.IsDir() {
			paths = append(paths, filepath.Join(dir, "quantized", e.Name()))
		}
	}
	require.Len(t, paths, 9)
	return paths
}

// view opens a folder through a configuration.
func view(t *testing.T, folder string, config []byte) (*safetensors.File, error) {
	c, err := quantization.Parse(config)
	if err != nil {
		return nil, err
	}
	f, err := safetensors.Open(folder)
	require.NoError(t, err)
	v, err := c.View(f)
	if err != nil {
		require.NoError(t, f.Close())
		return nil, err
	}
	t.Cleanup(func() { require.NoError(t, v.Close()) })
	return v, nil
}

// TestGolden compares dequantised weights with those that PyTorch computes in float64, read as a whole, by rows and by columns.
func TestGolden(t *testing.T) {
	for _, folder := range folders(t) {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			v, err := view(t, folder, raw(t, folder))
			require.NoError(t, err)
			expected, err := safetensors.Open(filepath.Join(folder, "expected.safetensors.golden"))
			require.NoError(t, err)
			defer func() { require.NoError(t, expected.Close()) }()
			read := func(name string) safetensors.Tensor {
				tensor, err := expected.Tensor(name)
				require.NoError(t, err)
				return tensor
			}
			count := 0
			for _, name := range expected.Names() {
				name, ok := strings.CutSuffix(name, "/at")
				if !ok {
					continue
				}
				count++
				weight, err := v.Tensor(name)
				require.NoError(t, err)
				got, err := safetensors.Values[float32](weight)
				require.NoError(t, err)
				at, err := safetensors.Values[int](read(name + "/at"))
				require.NoError(t, err)
				want, err := safetensors.Values[float32](read(name + "/values"))
				require.NoError(t, err)
				for i, flat := range at {
					require.InDelta(t, want[i], got[flat], 1e-6*math.Abs(float64(want[i])), "%s[%d]", name, flat)
				}
				var squares float64
				for _, x := range got {
					squares += float64(x) * float64(x)
				}
				rms, err := safetensors.Values[float32](read(name + "/rms"))
				require.NoError(t, err)
				require.InEpsilon(t, rms[0], math.Sqrt(squares/float64(len(got))), 1e-6, name)

				for axis, size := range weight.Shape {
					part, err := weight.Narrow(axis, size/3, size/2)
					require.NoError(t, err)
					some, err := safetensors.Values[float32](part)
					require.NoError(t, err)
					inner := 1
					for _, d := range weight.Shape[axis+1:] {
						inner *= d
					}
					for i, x := range some {
						block := size / 2 * inner
						require.Equal(t, got[i/block*size*inner+size/3*inner+i%block], x, "%s: axis %d", name, axis)
					}
				}
			}
			require.Positive(t, count)
			for _, name := range v.Names() { // nothing of the codes is left
				require.False(t, slices.ContainsFunc([]string{"scale", "qweight", "qzeros", "g_idx", "packed", "zero_point", "shape", "blocks"}, func(s string) bool { return strings.Contains(name, s) }), name)
			}
		})
	}
}

// change replaces keys of a configuration, which may be inside of objects.
func change(t *testing.T, config []byte, path string, value string) []byte {
	var all map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(config, &all))
	name, rest, inner := strings.Cut(path, ".")
	if inner {
		if name == "group_0" || all[name] != nil {
			all[name] = change(t, all[name], rest, value)
		}
	} else {
		all[name] = json.RawMessage(value)
	}
	text, err := json.Marshal(all)
	require.NoError(t, err)
	return text
}

// all returns every weight of a view, or the error of a configuration.
func all(t *testing.T, folder string, config []byte) (map[string][]float32, error) {
	v, err := view(t, folder, config)
	if err != nil {
		return nil, err
	}
	values := map[string][]float32{}
	for _, name := range v.Names() {
		tensor, err := v.Tensor(name)
		require.NoError(t, err)
		if values[name], err = safetensors.Values[float32](tensor); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// TestEveryKey changes each key of each method to another legal value. That changes the weights, or they do not fit any more; or
// the key is on the list without effect, and then it changes nothing; or it is refused by name.
func TestEveryKey(t *testing.T) {
	honoured := map[string]string{ // other values
		"weight_block_size": "[32,32]", "modules_to_not_convert": `["model"]`, "bits": "2", "group_size": "8", "checkpoint_format": `"gptq_v2"`, "dynamic": "{}",
		"config_groups": "{}", "ignore": `["Linear"]`, "quant_method": `"bitsandbytes"`,
		"targets": `["re:nothing"]`, "weights.num_bits": "5", "weights.type": `"half"`, "weights.symmetric": "false", "weights.strategy": `"tensor"`,
		"weights.group_size": "64", "weights.block_structure": `"4x4"`,
	}
	base := map[string]string{"fp8": "fp8_moe", "compressed-tensors": "packed4", "gptq": "gptq4", "awq": "awq4", "mxfp4": "mxfp4"}
	for _, folder := range folders(t) {
		config := raw(t, folder)
		method := ""
		for m, f := range base {
			if f == filepath.Base(folder) {
				method = m
			}
		}
		if method == "" {
			continue
		}
		t.Run(method, func(t *testing.T) {
			want, err := all(t, folder, config)
			require.NoError(t, err)
			check := func(table, prefix string) {
				keys := quantization.Table(method).Keys
				if prefix != "" {
					keys = quantization.Group.Keys
				}
				for _, k := range keys {
					name := strings.TrimPrefix(k.Name, "quantization_config.")
					value, ok := honoured[name]
					if !ok {
						require.NotEqual(t, "honoured", k.Kind.String(), "%s has no other value here", name)
						value = "7"
					}
					from := config
					if name == "weights.block_structure" { // counts with the strategy block
						from = change(t, from, prefix+"weights.strategy", `"block"`)
						from = change(t, from, prefix+"weights.block_structure", `"1x32"`)
					}
					got, err := all(t, folder, change(t, from, prefix+name, value))
					switch k.Kind.String() {
					case "without effect":
						require.NoError(t, err, name)
						require.Equal(t, want, got, name)
					case "refused":
						require.ErrorContains(t, err, name+" is "+value)
						for _, neutral := range k.Neutral { // which other keys may contradict
							if _, err := all(t, folder, change(t, from, prefix+name, neutral)); err != nil {
								require.NotContains(t, err.Error(), name+" is ")
							}
						}
					default:
						require.True(t, err != nil || !maps.EqualFunc(want, got, slices.Equal), "%s is honoured, and another value changes nothing", name)
					}
				}
			}
			check(method, "")
			if method == "compressed-tensors" {
				check(method, "config_groups.group_1.")
			}
			_, err = all(t, folder, change(t, config, "nobody_knows", "1"))
			require.ErrorContains(t, err, "nobody_knows is 1")
		})
	}
}
