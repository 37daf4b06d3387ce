package model_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
)

// TestHeadGroups: the bits of a training do not depend on the number of groups in which heads are exchanged beside attention: with keys that rotate and gates, with delta nets, over rings,
// with sharded weights, with packed rows, and with recomputed attention.
func TestHeadGroups(t *testing.T) {
	for _, s := range []struct {
		model            string
		ranks, ulysses   int
		shard, recompute bool
		packed           bool
	}{
		{model: "qwen3", ranks: 2, ulysses: 2, recompute: true}, {model: "qwen3", ranks: 4, ulysses: 2, shard: true}, {model: "qwen3", ranks: 4, ulysses: 2, packed: true},
		{model: "qwen3_5", ranks: 2, ulysses: 2},
	} {
		t.Run(fmt.Sprintf("%+v", s), func(t *testing.T) {
			run := golden.Model(t, s.model)
			cfg, err := model.ParseConfig(run.Config.Raw)
			require.NoError(t, err)
			cfg.Heads, cfg.KVHeads, cfg.HeadDim = 8, 4, 16
			ids := run.Int64("ids")
			trained := func(groups int) (result string) {
				onRanks(t, s.ranks, model.Layout{Layout: world.Layout{CP: s.ranks}, Ulysses: s.ulysses}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, r *model.Ranks) (err error) {
					par := r.Parallel
					par.Shard, par.HeadGroups = s.shard, groups
					m, err := model.NewParallel(st, reg, cfg, aclnn.BFloat16, par)
					if err != nil {
						return err
					}
					defer closing(&err, m)
					opt, err := model.NewOptimizer(m, model.AdamW{LR: 1e-2, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, MaxNorm: 1})
					if err != nil {
						return err
					}
					defer closing(&err, opt)
					if err := m.Init(ctx, 3); err != nil {
						return err
					}
					if s.recompute {
						if err := m.SetMemory(model.Memory{Recompute: model.RecomputeAttention}); err != nil {
							return err
						}
					}
					b := batchOf(ids, 1, 32, 0)
					b.Targets = b.Length
					if s.packed {
						b.CuSeqLens = []int64{0, 5, 6, 23, 32}
					}
					var own string
					for range 2 {
						loss, err := m.Gradients(ctx, b)
						if err != nil {
							return err
						}
						norm, err := opt.Step(ctx)
						if err != nil {
							return err
						}
						own += fmt.Sprintf("loss %x norm %x\n", loss, norm)
					}
					for _, p := range m.Parameters() {
						values, err := m.Get(ctx, p)
						if err != nil {
							return err
						}
						own += fmt.Sprintf("%s %x\n", p.Name, values)
					}
					if r.Group.Rank() == s.ranks-1 {
						result = own
					}
					return nil
				})
				return result
			}
			require.True(t, assert.ObjectsAreEqual(trained(1), trained(2)))
		})
	}
}

// TestHeadGroupsRefusals: numbers of groups that cannot be, or would do nothing, are refused by name.
func TestHeadGroupsRefusals(t *testing.T) {
	cfg, err := model.ParseConfig(golden.Model(t, "qwen3").Config.Raw)
	require.NoError(t, err)
	_, err = model.NewParallel(nil, nil, cfg, aclnn.BFloat16, model.Parallel{HeadGroups: 2})
	require.ErrorContains(t, err, "HeadGroups is 2; groups of heads are exchanged by the ranks of Heads, which are 1")
	onRanks(t, 2, model.Layout{Layout: world.Layout{CP: 2}, Ulysses: 2}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, r *model.Ranks) error {
		par := r.Parallel
		par.HeadGroups = 3
		_, err := model.NewParallel(st, reg, cfg, aclnn.BFloat16, par)
		if assert.Error(t, err) {
			assert.ErrorContains(t, err, "HeadGroups is 3; it must divide")
		}
		return nil
	})
}
