package model_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/internal/testing/golden"
)

// faraway is a communicator of several ranks that is never used.
type faraway struct {
	*hccl.Comm
	size int
}

func (f faraway) Rank() int { return 0 }
func (f faraway) Size() int { return f.size }

// TestParallelRefusals checks that an impossible division of a model is refused before anything is
// allocated.
func TestParallelRefusals(t *testing.T) {
	st, reg := setUp(t)
	on := func(n int) faraway { return faraway{size: n} }
	for want, c := range map[string]struct {
		model string
		par   model.Parallel
	}{
		"num_key_value_heads 2 is not a multiple of the 4": {"qwen3", model.Parallel{Tensor: on(4)}},
		"3 stages for 2 layers":                            {"qwen3", model.Parallel{Pipeline: on(3)}},
		"2 ranks of experts, and qwen3 has none":           {"qwen3", model.Parallel{Experts: on(2)}},
		"is not a multiple of the 3 ranks":                 {"qwen3_moe", model.Parallel{Experts: on(3)}},
		"ExpertTP is 2; so many of the 3 ranks":            {"qwen3_moe", model.Parallel{Experts: on(3), ExpertTP: 2}},
		"ExpertTP is -1":                                   {"qwen3_moe", model.Parallel{ExpertTP: -1}},
		"is not a multiple of the 5 ranks, or groups":      {"qwen3_moe", model.Parallel{Experts: on(10), ExpertTP: 2}},
		"not a multiple of the 3 ranks that share it":      {"qwen3_moe", model.Parallel{Experts: on(3), ExpertTP: 3}},
		"need sequence parallelism":                        {"qwen3_moe", model.Parallel{Tensor: on(2)}},
		"C11: every rank needs as many key heads":          {"qwen3_next", model.Parallel{Heads: on(3)}},
		"3 ranks of Ulysses cannot share out":              {"qwen3", model.Parallel{Heads: on(3)}},
	} {
		cfg, err := model.ParseConfig(golden.Model(t, c.model).Config.Raw)
		require.NoError(t, err)
		_, err = model.NewParallel(st, reg, cfg, aclnn.Float32, c.par)
		require.ErrorContains(t, err, want)
	}
	cfg, err := model.ParseConfig(golden.Model(t, "qwen3_5").Config.Raw)
	require.NoError(t, err)
	cfg.LinearKeyHeads = 1
	_, err = model.NewParallel(st, reg, cfg, aclnn.Float32, model.Parallel{Tensor: on(2)})
	require.ErrorContains(t, err, "C11: every rank needs as many key heads")
	dir, err := golden.Dir()
	require.NoError(t, err)
	cfg, err = model.ReadConfig(filepath.Join(dir, "families", "gpt_oss", "config.json"))
	require.NoError(t, err)
	_, err = model.NewParallel(st, reg, cfg, aclnn.Float32, model.Parallel{Experts: on(2), ExpertTP: 2})
	require.ErrorContains(t, err, "the experts of gpt_oss have biases")
	cfg, err = model.ParseConfig(golden.Model(t, "qwen3").Config.Raw)
	require.NoError(t, err)
	m, err := model.NewParallel(st, reg, cfg, aclnn.Float32, model.Parallel{MicroBatches: 2})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	_, err = m.Gradients(t.Context(), model.Batch{Size: 1, Length: 1, Inputs: []int32{1}, Labels: []int32{1}})
	require.ErrorContains(t, err, "1 rows are not a multiple of 2 micro-batches")
}
