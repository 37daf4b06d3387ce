package model_test

import (
	"context"
	"fmt"
	"sync"
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

// TestTiedPipeline: a tied embedding on both ends of a pipeline trains as it does on one rank, and
// both ends have the same embedding, bit by bit.
func TestTiedPipeline(t *testing.T) {
	cfg, err := model.ParseConfig(golden.Model(t, "qwen3").Config.Raw)
	require.NoError(t, err)
	cfg.TieWordEmbeddings, cfg.Layers = true, 3
	ids := golden.Model(t, "qwen3").Int64("ids")
	const micros = 2
	train := func(ranks int, layout world.Layout) (losses []float64, embeddings [][]float32) {
		var mu sync.Mutex
		onRanks(t, ranks, model.Layout{Layout: layout}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, r *model.Ranks) (err error) {
			par := r.Parallel
			par.MicroBatches = micros
			m, err := model.NewParallel(st, reg, cfg, aclnn.Float32, par)
			if err != nil {
				return err
			}
			defer closing(&err, m)
			o, err := model.NewOptimizer(m, model.AdamW{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, WeightDecay: 0.1, MaxNorm: 0.5})
			if err != nil {
				return err
			}
			defer closing(&err, o)
			if err := m.Init(ctx, 5); err != nil {
				return err
			}
			for step := range 4 {
				b := batchOf(ids, 2*micros, 16, step)
				b.Targets = b.Size * b.Length
				rows := b.Size / r.Parts
				loss, err := m.Gradients(ctx, b.Rows(r.Index*rows, rows))
				if err != nil {
					return err
				}
				norm, err := o.Step(ctx)
				if err != nil {
					return err
				}
				if r.World == nil || r.World.Rank() == 0 {
					losses = append(losses, loss, norm)
				}
			}
			for _, p := range m.Parameters() {
				if p.Name != "model.embed_tokens.weight" {
					continue
				}
				values, err := m.Get(ctx, p)
				if err != nil {
					return err
				}
				mu.Lock()
				embeddings = append(embeddings, values)
				mu.Unlock()
			}
			return nil
		})
		return losses, embeddings
	}
	want, one := train(1, world.Layout{})
	require.Len(t, want, 8)
	for stages, ranks := range map[int]int{2: 4, 3: 3} {
		t.Run(fmt.Sprintf("%d stages", stages), func(t *testing.T) {
			got, embeddings := train(ranks, world.Layout{PP: stages})
			require.InEpsilonSlice(t, want, got, 2e-5)
			require.Len(t, embeddings, 2*ranks/stages)
			for _, e := range embeddings {
				assert.Equal(t, embeddings[0], e)
			}
			require.NoError(t, within(embeddings[0], one[0], 2e-5))
		})
	}
}
