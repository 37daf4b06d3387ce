package model_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/parallel"
)

// TestCopiedBytes: a step of shards copies each weight out of what was gathered, once in each pass, except for the table of which the forward
// pass looks up rows; the weights of experts once more if a second operator brings them into FRACTAL_NZ. The losses are the same in all forms.
func TestCopiedBytes(t *testing.T) {
	const ranks = 2
	run := golden.Model(t, "qwen3_moe")
	var losses []float64
	experts := func(role parallel.WeightRole) []parallel.ShardRule {
		return []parallel.ShardRule{{Module: "mlp.experts", Weight: "*", Role: role}}
	}
	for _, c := range []struct {
		format string
		rules  []parallel.ShardRule
	}{
		{"nd", nil}, {"nd", experts(parallel.GroupedWeight)}, {"nz", nil}, {"nz by a cast", experts(parallel.PlainWeight)},
	} {
		for _, align := range []int64{0, parallel.ShardAlignment} {
			var copied int64
			onRanks(t, ranks, model.Layout{}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) (err error) {
				cfg, err := model.ParseConfig(run.Config.Raw)
				if err != nil {
					return err
				}
				cfg.GroupedNZ = c.format != "nd"
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
			const passes, readAndWritten, elementBytes = 2, 2, 2
			elements := passes * cfg.Parameters()
			if !cfg.TieWordEmbeddings {
				elements -= cfg.VocabSize * cfg.HiddenSize
			}
			if c.format == "nz by a cast" {
				elements += passes * cfg.ExpertParameters()
			}
			want := readAndWritten * elementBytes * elements
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
