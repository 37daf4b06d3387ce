package model_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/internal/testing/golden"
)

// exactLosses are float64 losses of folders whose recorded ones, the keys, were computed with the rotation's
// frequencies rounded to bfloat16 (with rounded frequencies the float64 computation gives the keys to the last digit).
var exactLosses = map[float64]float64{
	5.100152002204431: 5.100168488588431, // qwen3
	5.111637769911517: 5.111659962050392, // qwen3_tied
	5.114325799609181: 5.114336843299999, // qwen3_moe
}

// TestGoldenHubFolders loads folders as transformers writes them and compares the loss of a batch
// and the greedy tokens after a prompt.
func TestGoldenHubFolders(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	dir = filepath.Join(dir, "hub")
	folders, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	for _, f := range folders {
		t.Run(f.Name(), func(t *testing.T) {
			path := filepath.Join(dir, f.Name())
			var want struct {
				IDs            [][]int32
				Loss           float64
				Prompt, Greedy []int32
			}
			text, err := os.ReadFile(filepath.Join(path, "expected.json"))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &want))
			cfg, err := model.ReadConfig(filepath.Join(path, "config.json"))
			require.NoError(t, err)
			st, reg := setUp(t)
			m, err := model.New(st, reg, cfg, aclnn.Float32)
			require.NoError(t, err)
			defer func() { require.NoError(t, m.Close()) }()
			require.NoError(t, m.Load(t.Context(), path))
			unread, err := m.Unread(t.Context(), path)
			require.NoError(t, err)
			if filepath.Base(path) == "qwen3_5_vl" || filepath.Base(path) == "qwen3_5_moe_vl" {
				require.Equal(t, []string{"model.visual: 21 tensors"}, unread)
			} else {
				require.Empty(t, unread)
			}

			b := model.Batch{Size: len(want.IDs), Length: len(want.IDs[0]) - 1}
			for _, row := range want.IDs {
				b.Inputs, b.Labels = append(b.Inputs, row[:b.Length]...), append(b.Labels, row[1:]...)
			}
			loss, err := m.Gradients(t.Context(), b)
			require.NoError(t, err)
			if exact, ok := exactLosses[want.Loss]; ok {
				require.InDelta(t, want.Loss, exact, 2.5e-5)
				want.Loss = exact
			}
			require.InDelta(t, want.Loss, loss, 2e-6)

			if len(want.Greedy) > 0 {
				require.Equal(t, want.Greedy, greedy(t, m, want.Prompt, len(want.Greedy)))
			}
		})
	}
}

// greedy goes on from a prompt with the likeliest tokens.
func greedy(t *testing.T, m *model.Model, prompt []int32, n int) (tokens []int32) {
	cache, err := m.NewCache(1, len(prompt)+n)
	require.NoError(t, err)
	defer func() { require.NoError(t, cache.Close()) }()
	next := prompt
	for range n {
		logits, err := m.Extend(t.Context(), cache, next)
		require.NoError(t, err)
		best := 0
		for i, l := range logits {
			if l > logits[best] {
				best = i
			}
		}
		next = []int32{int32(best)}
		tokens = append(tokens, int32(best))
	}
	return tokens
}
