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

// TestGoldenHubFolders loads folders as transformers writes them and compares the loss of a batch
// and the greedy tokens after a prompt.
func TestGoldenHubFolders(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	folders, err := filepath.Glob(filepath.Join(dir, "hub", "*"))
	require.NoError(t, err)
	families, err := filepath.Glob(filepath.Join(dir, "families", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	for _, path := range append(folders, families...) {
		t.Run(filepath.Base(path), func(t *testing.T) {
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
		next = []int32{int32(likeliest(logits))}
		tokens = append(tokens, next...)
	}
	return tokens
}
