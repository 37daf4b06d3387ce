package model_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
)

// TestPositions: a batch that begins at a position has the logits of transformers there, with each kind of rotation, in a row, in packed rows and
// on two ranks that share its positions.
func TestPositions(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	f, err := safetensors.Open(filepath.Join(dir, "positions", "logits.safetensors.golden"))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	for _, name := range []string{
		"llama", "llama_linear", "llama_dynamic", "llama_llama3", "qwen3_yarn", "phi3_longrope", "gpt_oss", "deepseek_v2_yarn", "deepseek_v3_yarn", "gemma3", "gemma3_linear", "glm4",
	} {
		t.Run(name, func(t *testing.T) {
			k := kindFolder{path: filepath.Join(dir, "families", name)}
			if name == "gemma3_linear" { // the rotation of published ones, in layers without a window
				k.path = changedFolder(t, filepath.Join(dir, "families", "gemma3"), `{"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 1e6}, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}}`)
			}
			st, reg := setUp(t)
			m := k.load(t, st, reg, func(*model.Config) {})
			ids := read[int32](t, f, name+"/ids")
			rows := []int{0, 7, 15, 23}
			worst := 0.0
			check := func(want, got []float32, what string) error {
				for i, at := range rows {
					for j, w := range want[i*m.Config.VocabSize:][:m.Config.VocabSize] {
						d := float64(got[at*m.Config.VocabSize+j] - w)
						if worst = max(worst, d, -d); max(d, -d) > 2e-5 {
							return fmt.Errorf("%s: the logit of %d after token %d is %v too large", what, j, at, d)
						}
					}
				}
				return nil
			}
			for _, from := range []int{0, 1000, 40000} {
				want := read[float32](t, f, fmt.Sprint(name, "/", from))
				b := model.Batch{Size: 1, Length: len(ids), Inputs: ids, Labels: ids, From: from}
				got, err := m.Logits(t.Context(), b)
				require.NoError(t, err)
				require.NoError(t, check(want, got, fmt.Sprint("from ", from)))
				packed := b
				packed.Length, packed.Inputs, packed.CuSeqLens = 2*b.Length, slices.Concat(ids, ids), []int64{0, int64(b.Length), int64(2 * b.Length)}
				packed.Labels = packed.Inputs
				got, err = m.Logits(t.Context(), packed)
				require.NoError(t, err)
				require.NoError(t, check(want, got[b.Length*m.Config.VocabSize:], fmt.Sprint("packed, from ", from)))
			}
			t.Logf("largest difference %.1e", worst)
			b := model.Batch{Size: 1, Length: len(ids), Inputs: ids, Labels: append(slices.Clone(ids[1:]), -1), From: 40000}
			alone, err := m.Gradients(t.Context(), b)
			require.NoError(t, err)
			onRanks(t, 2, model.Layout{Layout: world.Layout{CP: 2}}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) (err error) {
				m, err := model.NewParallel(st, reg, k.config(t), aclnn.Float32, ranks.Parallel)
				if err != nil {
					return err
				}
				defer closing(&err, m)
				if err := m.Load(ctx, k.path); err != nil {
					return err
				}
				loss, err := m.Gradients(ctx, b)
				if err == nil && math.Abs(loss-alone) > 2e-6 {
					err = fmt.Errorf("loss %v, on one device %v", loss, alone)
				}
				return err
			})
		})
	}
	st, reg := setUp(t)
	m, _ := newModel(t, st, reg, "qwen3", aclnn.Float32)
	for _, from := range []int{-1, 1 << 25} {
		_, err := m.Logits(t.Context(), model.Batch{Size: 1, Length: 1, Inputs: []int32{1}, Labels: []int32{1}, From: from})
		require.ErrorContains(t, err, "begin at position")
	}
}

// changedFolder copies a folder with other keys in config.json.
func changedFolder(t *testing.T, from, keys string) (path string) {
	path = t.TempDir()
	require.NoError(t, os.CopyFS(path, os.DirFS(from)))
	var config map[string]any
	text, err := os.ReadFile(filepath.Join(from, "config.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &config))
	require.NoError(t, json.Unmarshal([]byte(keys), &config))
	text, err = json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(path, "config.json"), text, 0o600))
	return path
}
