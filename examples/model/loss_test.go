package model_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
)

// TestLoss: the loss of a forward pass is that of the recorded first step, with every parallelism,
// also of frozen weights.
func TestLoss(t *testing.T) {
	for _, s := range []spread{
		{model: "qwen3", ranks: 1}, {model: "qwen3_padded", ranks: 1}, {model: "qwen3", ranks: 4, layout: world.Layout{TP: 2}, micros: 2},
		{model: "qwen3_moe", ranks: 4, layout: world.Layout{EP: 2}, shard: true}, {model: "qwen3_5", ranks: 2, layout: world.Layout{CP: 2}, ulysses: 2},
		{model: "qwen3", ranks: 2, layout: world.Layout{PP: 2}}, {model: "qwen3", ranks: 8, layout: world.Layout{TP: 2, PP: 2}, sequence: true, micros: 2},
	} {
		t.Run(s.String(), func(t *testing.T) {
			run := golden.Model(t, s.model)
			onRanks(t, s.ranks, s.whole(), func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) (err error) {
				par := ranks.Parallel
				par.Shard, par.Sequence, par.MicroBatches = s.shard, s.sequence, s.micros
				cfg, err := model.ParseConfig(run.Config.Raw)
				if err != nil {
					return err
				}
				cfg.Frozen = true
				m, err := model.NewParallel(st, reg, cfg, aclnn.Float32, par)
				if err != nil {
					return err
				}
				defer closing(&err, m)
				for _, p := range m.Parameters() {
					if err := m.Set(ctx, p, run.Sub("init").Float32(p.Name)); err != nil {
						return err
					}
				}
				b := batch(run, 0)
				b = repeated(b, s.repeats(run, ranks.Parts))
				rows := b.Size / ranks.Parts
				loss, err := m.Loss(ctx, b.Rows(ranks.Index*rows, rows))
				if err == nil && math.Abs(loss-run.Losses[0]) > 5e-6 {
					err = fmt.Errorf("loss %v, want %v", loss, run.Losses[0])
				}
				return err
			})
		})
	}
}
