package model_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
)

// TestDecayOfMatrices: with DecayMatrices the decay leaves vectors alone and changes all else, in
// launched and in captured steps, of whole and of sharded weights.
func TestDecayOfMatrices(t *testing.T) {
	for _, name := range []string{"qwen3", "qwen3_next"} {
		for _, shard := range []bool{false, true} {
			for _, graph := range []bool{false, true} {
				step := func(decay float64) (weights map[string][]float32, vectors map[string]bool) {
					weights, vectors = map[string][]float32{}, map[string]bool{}
					onRanks(t, 1, model.Layout{}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) (err error) {
						run := golden.Model(t, name)
						cfg, err := model.ParseConfig(run.Config.Raw)
						if err != nil {
							return err
						}
						par := ranks.Parallel
						par.Shard = shard
						m, err := model.NewParallel(st, reg, cfg, aclnn.Float32, par)
						if err != nil {
							return err
						}
						defer closing(&err, m)
						if err := m.Init(ctx, 1); err != nil {
							return err
						}
						o, err := model.NewOptimizer(m, model.AdamW{LR: 0.1, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, WeightDecay: decay, DecayMatrices: true})
						if err != nil {
							return err
						}
						defer closing(&err, o)
						tr, err := model.NewTrainer(m, o)
						if err != nil {
							return err
						}
						defer closing(&err, tr)
						b := batchOf(run.Int64("ids"), 1, 8, 0)
						if graph {
							_, _, err = tr.Step(ctx, b)
						} else if _, err = m.Gradients(ctx, b); err == nil {
							_, err = o.Step(ctx)
						}
						if err != nil {
							return err
						}
						for _, p := range m.Parameters() {
							values, err := m.Get(ctx, p)
							if err != nil {
								return err
							}
							weights[p.Name], vectors[p.Name] = values, len(p.Shape()) == 1
						}
						return nil
					})
					return weights, vectors
				}
				plain, vectors := step(0)
				decayed, _ := step(0.5)
				require.NotEmpty(t, plain)
				for name, values := range plain {
					assert.Equal(t, vectors[name], assert.ObjectsAreEqual(values, decayed[name]), name)
				}
			}
		}
	}
}
