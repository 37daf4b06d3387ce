package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/ops"
)

// predictorFolder joins a golden model and the layer that predicts a further token.
func predictorFolder(t *testing.T, model string) string {
	golden := filepath.Join(folder(t, ""), "..")
	var all []safetensors.Data
	for _, part := range []string{model, "predictor/" + filepath.Base(model) + ".safetensors"} {
		f, err := safetensors.Open(filepath.Join(golden, part))
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
	path := t.TempDir()
	require.NoError(t, safetensors.WriteFile(filepath.Join(path, "model.safetensors"), all, nil))
	text, err := os.ReadFile(filepath.Join(golden, model, "config.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(path, "config.json"), text, 0o600))
	return path
}

// TestPredictedDrafts: tokens that the model's own layer drafts change no text, under load, with shared blocks and preemption, by graphs, and on two ranks.
func TestPredictedDrafts(t *testing.T) {
	for _, model := range []string{"families/deepseek_v3", "families/glm4_moe", "hub/qwen3_next", "hub/qwen3_5"} {
		t.Run(filepath.Base(model), func(t *testing.T) { testPredictedDrafts(t, model) })
	}
}

func testPredictedDrafts(t *testing.T, name string) {
	path := predictorFolder(t, name)
	load := func(ctx context.Context, st *acl.Stream, reg *ops.Registry, par model.Parallel) (*model.Model, error) {
		cfg, err := model.ReadConfig(filepath.Join(path, "config.json"))
		if err != nil {
			return nil, err
		}
		cfg.Frozen, cfg.Predict = true, true
		m, err := model.NewParallel(st, reg, cfg, aclnn.Float32, par)
		if err != nil {
			return nil, err
		}
		return m, m.Load(ctx, path)
	}
	const tokens = 24
	texts := prompts(expectedOf(t, filepath.Join("..", name)), 12)
	var plain [][]int32
	for _, o := range []engine.Options{
		{Blocks: 60, BlockSize: 8, Sequences: 6, Budget: 24}, {Blocks: 60, BlockSize: 8, Sequences: 6, Budget: 24, Speculate: 2},
		{Blocks: 24, BlockSize: 8, Sequences: 6, Budget: 24, Speculate: 1, Graph: true}, {Blocks: 60, BlockSize: 8, Sequences: 6, Budget: 24, Speculate: 2, Tensor: 2},
	} {
		e, err := engine.Open(t.Context(), acltest.Open(t), 0, load, o)
		require.NoError(t, err)
		var all []*engine.Generation
		for _, p := range texts {
			g, err := e.Submit(t.Context(), engine.Request{Prompt: p, MaxTokens: tokens, Sampling: greedy})
			require.NoError(t, err)
			all = append(all, g)
		}
		for i, g := range all {
			got, err := collect(g)
			require.NoError(t, err)
			if o.Speculate == 0 {
				plain = append(plain, got)
			} else {
				require.Equal(t, plain[i], got, "%+v, request %d", o, i)
			}
		}
		s := e.Stats()
		t.Logf("%d tokens in %d steps; %d of %d drafts were accepted", s.GeneratedTokens, s.Steps, s.Accepted, s.Drafted)
		if o.Speculate > 0 {
			least := s.GeneratedTokens / 2
			if len(name) > 3 && name[:3] == "hub" { // delta nets read what was accepted again
				least = s.GeneratedTokens / 3
			}
			require.Greater(t, s.Drafted, least, "most steps have a draft")
		}
		require.NoError(t, e.Close())
	}
}
