package model_test

import (
	"context"
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
	"github.com/goascend/cann/ops/parallel"
)

// TestDistributedOptimizer: float32 weights and moments of bfloat16 training with tensor and pipeline parallelism are divided over the data-parallel ranks, but for weights that
// stay whole by rule; losses, and weights of an embedding that is tied over a pipeline, are those of the optimiser that is not distributed.
func TestDistributedOptimizer(t *testing.T) {
	cfg, err := model.ParseConfig(golden.Model(t, "qwen3").Config.Raw)
	require.NoError(t, err)
	cfg.TieWordEmbeddings, cfg.Layers = true, 4
	ids := golden.Model(t, "qwen3").Int64("ids")
	const ranks, data, micros = 8, 2, 2
	type result struct {
		losses, norms    []float64
		weights, moments int64 // of all ranks
		embedding        []float32
	}
	train := func(t *testing.T, set func(*model.Parallel)) (all result) {
		var mu sync.Mutex
		onRanks(t, ranks, model.Layout{Layout: world.Layout{TP: 2, PP: 2}}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, r *model.Ranks) (err error) {
			par := r.Parallel
			par.MicroBatches = micros
			set(&par)
			m, err := model.NewParallel(st, reg, cfg, aclnn.BFloat16, par)
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
				b := batchOf(ids, data*micros, 16, step)
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
				if r.Group.Rank() == 0 {
					all.losses, all.norms = append(all.losses, loss), append(all.norms, norm)
				}
			}
			embedding, err := m.Get(ctx, m.Parameters()[0]) // that of the first stage, or a layer's
			if err != nil {
				return err
			}
			weights, moments := o.StateElements()
			mu.Lock()
			defer mu.Unlock()
			all.weights, all.moments = all.weights+weights, all.moments+moments
			if r.Group.Rank() == 0 {
				all.embedding = embedding
			}
			return nil
		})
		return all
	}
	plain := train(t, func(*model.Parallel) {})
	require.Equal(t, 2*plain.weights, plain.moments)
	for name, c := range map[string]struct {
		set func(*model.Parallel)
		of  func(n int64) int64 // what remains of the elements
	}{
		"distributed":              {func(p *model.Parallel) { p.DistributedOptimizer = true }, func(n int64) int64 { return n / data }},
		"distributed, zero-bubble": {func(p *model.Parallel) { p.DistributedOptimizer, p.ZeroBubble = true, true }, func(n int64) int64 { return n / data }},
		"shards":                   {func(p *model.Parallel) { p.Shard = true }, func(n int64) int64 { return n / data }},
		"shards, all whole": {func(p *model.Parallel) {
			p.Shard, p.ShardRules = true, []parallel.ShardRule{{Module: "*", Weight: "*", Role: parallel.WholeWeight}}
		}, func(n int64) int64 { return n }},
	} {
		t.Run(name, func(t *testing.T) {
			got := train(t, c.set)
			require.InEpsilonSlice(t, plain.losses, got.losses, 1e-4)
			require.InEpsilon(t, plain.norms[0], got.norms[0], 1e-5)
			require.InEpsilonSlice(t, plain.norms, got.norms, 5e-3) // of bfloat16 weights, which other orders of sums round otherwise
			require.NoError(t, within(got.embedding, plain.embedding, 2e-5))
			assert.InEpsilon(t, c.of(plain.moments), got.moments, 0.15) // whole weights begin at multiples of 512 elements
			assert.InEpsilon(t, c.of(plain.weights), got.weights, 0.15)
		})
	}
	_, err = model.NewParallel(nil, nil, cfg, aclnn.BFloat16, model.Parallel{DistributedOptimizer: true, Shard: true})
	require.ErrorContains(t, err, "not with Shard")
	_, err = model.NewParallel(nil, nil, cfg, aclnn.BFloat16, model.Parallel{ZeroBubble: true, Shard: true})
	require.ErrorContains(t, err, "zero-bubble schedule would gather")
}

// TestOneStreamEach: gradients and shards, which are exchanged beside the kernels, have another communicator than what is exchanged between kernels, also when all
// ranks share each sequence: HCCL runs a communicator's operators on one stream at a time.
func TestOneStreamEach(t *testing.T) {
	for _, layout := range []model.Layout{
		{Layout: world.Layout{CP: 2}}, {Layout: world.Layout{CP: 2}, Ulysses: 2}, {Layout: world.Layout{CP: 4}, Ulysses: 2},
		{Layout: world.Layout{TP: 2, CP: 2}}, {Layout: world.Layout{CP: 2, PP: 2}}, {},
	} {
		onRanks(t, 4, layout, func(_ context.Context, _ *acl.Stream, _ *ops.Registry, r *model.Ranks) error {
			for _, beside := range []parallel.Communicator{r.Data, r.Shards, r.ExpertData, r.ExpertShards} {
				for _, between := range []parallel.PeerCommunicator{r.Tensor, r.Context, r.Heads, r.Experts, r.Pipeline} {
					if beside != nil && between != nil {
						assert.NotSame(t, beside, between, "%+v", layout)
					}
				}
			}
			return nil
		})
	}
}
