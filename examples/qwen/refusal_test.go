package qwen_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/qwen"
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
		par   qwen.Parallel
	}{
		"num_key_value_heads 2 is not a multiple of the 4": {"qwen3", qwen.Parallel{Tensor: on(4)}},
		"3 stages for 2 layers":                            {"qwen3", qwen.Parallel{Pipeline: on(3)}},
		"use one of the two":                               {"qwen3", qwen.Parallel{Pipeline: on(2), Shard: true}},
		"2 ranks of experts, and qwen3 has none":           {"qwen3", qwen.Parallel{Experts: on(2)}},
		"is not a multiple of the 3 ranks of experts":      {"qwen3_moe", qwen.Parallel{Experts: on(3)}},
		"need sequence parallelism":                        {"qwen3_moe", qwen.Parallel{Tensor: on(2)}},
		"C11: every rank needs as many key heads":          {"qwen3_next", qwen.Parallel{Context: on(3), Ulysses: true}},
		"3 ranks of Ulysses cannot share out":              {"qwen3", qwen.Parallel{Context: on(3), Ulysses: true}},
	} {
		cfg, err := qwen.ParseConfig(golden.Model(t, c.model).Config.Raw)
		require.NoError(t, err)
		_, err = qwen.NewParallel(st, reg, cfg, aclnn.Float32, c.par)
		require.ErrorContains(t, err, want)
	}
	cfg, err := qwen.ParseConfig(golden.Model(t, "qwen3_5").Config.Raw)
	require.NoError(t, err)
	cfg.LinearKeyHeads = 1
	_, err = qwen.NewParallel(st, reg, cfg, aclnn.Float32, qwen.Parallel{Tensor: on(2)})
	require.ErrorContains(t, err, "C11: every rank needs as many key heads")
	cfg, err = qwen.ParseConfig(golden.Model(t, "qwen3").Config.Raw)
	require.NoError(t, err)
	m, err := qwen.NewParallel(st, reg, cfg, aclnn.Float32, qwen.Parallel{MicroBatches: 2})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	_, err = m.Gradients(t.Context(), qwen.Batch{Size: 1, Length: 1, Inputs: []int32{1}, Labels: []int32{1}})
	require.ErrorContains(t, err, "1 rows are not a multiple of 2 micro-batches")
}
