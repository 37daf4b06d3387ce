package model_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/internal/testing/golden"
)

// TestGoldenLongLogits compares the logits behind the length that a scaled rotation began with.
func TestGoldenLongLogits(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	folders, err := filepath.Glob(filepath.Join(dir, "families", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	for _, path := range folders {
		t.Run(filepath.Base(path), func(t *testing.T) {
			var want struct {
				LongIDs    [][]int32            `json:"long_ids"`
				LongLogits map[string][]float32 `json:"long_logits"`
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
			ids := want.LongIDs[0]
			logits, err := m.Logits(t.Context(), model.Batch{Size: 1, Length: len(ids), Inputs: ids, Labels: ids})
			require.NoError(t, err)
			require.NotEmpty(t, want.LongLogits)
			for at, row := range want.LongLogits {
				n, err := strconv.Atoi(at)
				require.NoError(t, err)
				for i, l := range row {
					require.InDelta(t, l, logits[n*cfg.VocabSize+i], 2e-5, "position %d, token %d", n, i)
				}
			}
		})
	}
}
