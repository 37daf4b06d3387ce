package model_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/cost"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/parallel"
)

// TestCopiedBytes: the bytes that copies of weights move in a step of shards are those that package cost
// estimates, in each form of the experts' weights, and the losses are the same.
func TestCopiedBytes(t *testing.T) {
	const ranks = 2
	run := golden.Model(t, "qwen3_moe")
	var losses []float64
	experts := func(role parallel.WeightRole) []parallel.ShardRule {
		return []parallel.ShardRule{{Module: "mlp.experts", Weight: "*", Role: role}}
	}
	for _, c := range []struct {
		format cost.Format
		rules  []parallel.ShardRule
	}{
		{cost.ND, nil}, {cost.ND, experts(parallel.GroupedWeight)}, {cost.NZ, nil}, {cost.Cast, experts(parallel.PlainWeight)},
	} {
		for _, align := range []int64{0, parallel.ShardAlignment} {
			var copied int64
			onRanks(t, ranks, model.Layout{}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) (err error) {
				cfg, err := model.ParseConfig(run.Config.Raw)
				if err != nil {
					return err
				}
				cfg.GroupedNZ = c.format != cost.ND
				par := ranks.Parallel
				par.Shard, par.ShardAlign, par.ShardRules = true, align, c.rules
				m, err := model.NewParallel(st, reg, cfg, aclnn.BFloat16, par)
				if err != nil {
					return err
				}
				defer closing(&err, m)
				if err := m.Init(ctx, 1); err != nil {
					return err
				}
				b := batch(run, 0)
				rows := b.Size / ranks.Parts
				loss, err := m.Gradients(ctx, b.Rows(ranks.Index*rows, rows))
				if ranks.Group.Rank() == 0 {
					copied, losses = m.CopiedBytes(), append(losses, loss)
				}
				return err
			})
			cfg, err := model.ParseConfig(run.Config.Raw)
			require.NoError(t, err)
			chip, err := cost.ChipOf("Ascend910B2")
			require.NoError(t, err)
			step, err := cost.Run{Config: cfg, Devices: ranks, Tokens: 1, ElementBytes: 2, Format: c.format}.On(chip)
			require.NoError(t, err)
			want := step.Term(cost.CopyOut).Bytes + step.Term(cost.CastOver).Bytes
			what := fmt.Sprintf("%s, %v, alignment %d", c.format, c.rules, align)
			if align == 0 {
				require.EqualValues(t, want, copied, what)
			} else { // parts of shards are filled up
				require.Greater(t, copied, int64(want), what)
			}
		}
	}
	for _, loss := range losses {
		require.Equal(t, losses[0], loss)
	}
}
