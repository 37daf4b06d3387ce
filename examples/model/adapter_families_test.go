package model_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/internal/testing/golden"
)

// TestPEFTFamilies: adapters of PEFT for the layers of each family have its logits, and a folder that is saved from one has the same tensors and options,
// so that PEFT reads it back.
func TestPEFTFamilies(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	folders, err := filepath.Glob(filepath.Join(dir, "lora", "families", "*", "expected.json"))
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	for _, file := range folders {
		folder := filepath.Dir(file)
		name := filepath.Base(folder)
		t.Run(name, func(t *testing.T) {
			st, reg := setUp(t)
			k := kindFolder{path: filepath.Join(dir, "families", name)}
			m := k.load(t, st, reg, func(c *model.Config) { c.Frozen = true })
			a, err := model.LoadAdapter(t.Context(), m, folder, 1)
			require.NoError(t, err)
			defer func() { require.NoError(t, a.Close()) }()
			require.NoError(t, m.Use(a))
			var want struct {
				IDs    []int32
				Logits map[string][]float32
			}
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &want))
			check := func() {
				logits, err := m.Logits(t.Context(), model.Batch{Size: 1, Length: len(want.IDs), Inputs: want.IDs, Labels: want.IDs})
				require.NoError(t, err)
				for text, row := range want.Logits {
					at, err := strconv.Atoi(text)
					require.NoError(t, err)
					for i, l := range row {
						require.InDelta(t, l, logits[at*m.Config.VocabSize+i], 2e-5, "position %d, token %d", at, i)
					}
				}
			}
			check()
			to := t.TempDir()
			require.NoError(t, a.Save(t.Context(), to, "", nil))
			requireSameTensors(t, filepath.Join(folder, "adapter_model.safetensors"), filepath.Join(to, "adapter_model.safetensors"))
			requireSameOptions(t, folder, to)
			require.NoError(t, a.Merge(t.Context()))
			require.NoError(t, m.Use(nil))
			check()
		})
	}
}

// requireSameTensors compares the names and values of two files.
func requireSameTensors(t *testing.T, want, got string) {
	all := func(path string) map[string][]float32 {
		f, err := safetensors.Open(path)
		require.NoError(t, err)
		defer func() { require.NoError(t, f.Close()) }()
		tensors := map[string][]float32{}
		for _, name := range f.Names() {
			tensor, err := f.Tensor(name)
			require.NoError(t, err)
			require.Equal(t, aclnn.Float32, tensor.DType)
			tensors[name] = read[float32](t, f, name)
		}
		return tensors
	}
	require.Equal(t, all(want), all(got))
}

// requireSameOptions compares all keys of two adapter_config.json but the name of the model.
func requireSameOptions(t *testing.T, want, got string) {
	options := func(folder string) (all map[string]any) {
		text, err := os.ReadFile(filepath.Join(folder, "adapter_config.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &all))
		delete(all, "base_model_name_or_path")
		return all
	}
	require.Equal(t, options(want), options(got))
}
