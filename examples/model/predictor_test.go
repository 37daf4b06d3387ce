package model_test

import (
	"context"
	"encoding/json"
	"fmt"
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

// predictorFolder joins a golden model and the golden layer that predicts a further token, as hub folders have it.
func predictorFolder(t *testing.T, model string) (path string) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	var all []safetensors.Data
	for _, part := range []string{model, "predictor/" + filepath.Base(model) + ".safetensors"} {
		f, err := safetensors.Open(filepath.Join(dir, part))
		require.NoError(t, err)
		for _, name := range f.Names() {
			tensor, err := f.Tensor(name)
			require.NoError(t, err)
			raw, err := tensor.Bytes()
			require.NoError(t, err)
			all = append(all, safetensors.Data{Info: tensor.Info, Elements: slices.Clone(raw)})
		}
		require.NoError(t, f.Close())
	}
	path = t.TempDir()
	require.NoError(t, safetensors.WriteFile(filepath.Join(path, "model.safetensors"), all, nil))
	text, err := os.ReadFile(filepath.Join(dir, model, "config.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(path, "config.json"), text, 0o600))
	return path
}

// TestPredict compares the logits of a layer that predicts a further token with those in float64, when it reads a text at once, in parts,
// and token by token, by graphs and without, and on two ranks.
func TestPredict(t *testing.T) {
	for _, model := range []string{"families/deepseek_v3", "families/glm4_moe", "hub/qwen3_next", "hub/qwen3_5"} {
		t.Run(filepath.Base(model), func(t *testing.T) { testPredict(t, model) })
	}
}

func testPredict(t *testing.T, name string) {
	folder := predictorFolder(t, name)
	dir, err := golden.Dir()
	require.NoError(t, err)
	var want struct {
		IDs    []int32
		Logits [][]float32
	}
	text, err := os.ReadFile(filepath.Join(dir, "predictor", filepath.Base(name)+".json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &want))
	for _, c := range []struct {
		ranks int
		graph bool
		parts []int // tokens of each pass
	}{{1, false, []int{len(want.IDs) - 1}}, {1, false, []int{7, 20, 1, 1}}, {1, true, []int{3, 1, 1, 1, 1, 1}}, {2, false, []int{9, 1, 5}}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			onRanks(t, c.ranks, model.Layout{Layout: world.Layout{TP: c.ranks}}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, r *model.Ranks) (err error) {
				cfg, err := model.ReadConfig(filepath.Join(folder, "config.json"))
				if err != nil {
					return err
				}
				cfg.Frozen = true
				if cfg.Predict, err = cfg.HasPredictor(folder); err != nil || !cfg.Predict {
					return fmt.Errorf("the folder has no layer that predicts: %w", err)
				}
				m, err := model.NewParallel(st, reg, cfg, aclnn.Float32, r.Parallel)
				if err != nil {
					return err
				}
				defer closing(&err, m)
				if err := m.Load(ctx, folder); err != nil {
					return err
				}
				g, err := m.NewPages(model.PageSizes{Blocks: 4, Block: 16, States: 1})
				if err != nil {
					return err
				}
				defer closing(&err, g)
				if c.graph {
					steps, err := g.NewSteps()
					if err != nil {
						return err
					}
					defer closing(&err, steps)
				}
				from := 0
				for _, n := range c.parts {
					pieces := []model.Piece{{Tokens: want.IDs[from:][:n], From: from, Blocks: []int32{2, 0, 3}}}
					if _, err := m.Advance(ctx, g, pieces); err != nil {
						return err
					}
					logits, err := m.Predict(ctx, g, pieces, [][]int32{want.IDs[from+1:][:n]})
					if err != nil {
						return err
					}
					from += n
					for i, x := range logits {
						if d := float64(x - want.Logits[from-1][i]); d > 2e-5 || d < -2e-5 {
							return fmt.Errorf("after %d tokens logit %d is %v, want %v", from, i, x, want.Logits[from-1][i])
						}
					}
					if len(logits) == 0 && (r.Tensor == nil || r.Tensor.Rank() == 0) {
						return fmt.Errorf("no logits after %d tokens", from)
					}
				}
				return nil
			})
		})
	}
}

// TestPredictRefusals: what the layer cannot do is named.
func TestPredictRefusals(t *testing.T) {
	folder := predictorFolder(t, "families/deepseek_v3")
	cfg, err := model.ReadConfig(filepath.Join(folder, "config.json"))
	require.NoError(t, err)
	cfg.Predict = true
	require.ErrorContains(t, cfg.Validate(), "Predict needs Config.Frozen")
	cfg.Frozen, cfg.NextLayers = true, 0
	require.ErrorContains(t, cfg.Validate(), "num_nextn_predict_layers is 0")
	has, err := cfg.HasPredictor(folder)
	require.NoError(t, err)
	require.False(t, has)
	cfg.Predict, cfg.NextLayers = false, 1
	st, reg := setUp(t)
	m, err := model.New(st, reg, cfg, aclnn.Float32)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	left, err := m.Unread(t.Context(), folder)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Contains(t, left[0], "layers that predict further tokens: ")
	g, err := m.NewPages(model.PageSizes{Blocks: 4, Block: 16, States: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Close()) }()
	_, err = m.Predict(t.Context(), g, nil, nil)
	require.ErrorContains(t, err, "Config.Predict")
}
