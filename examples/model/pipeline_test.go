package model_test

import (
	"context"
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

// TestPipelineSchedules: interleaved and zero-bubble schedules train as 1F1B and one rank do, also when recomputing, and every schedule resumes from the
// checkpoint of another one. The zero-bubble schedule computes the same bits as 1F1B.
func TestPipelineSchedules(t *testing.T) {
	cfg, err := model.ParseConfig(golden.Model(t, "qwen3").Config.Raw)
	require.NoError(t, err)
	cfg.TieWordEmbeddings, cfg.Layers = true, 5
	ids := golden.Model(t, "qwen3").Int64("ids")
	const micros, steps = 4, 4
	type form struct {
		ranks, chunks int
		zero          bool
		recompute     model.Recompute
	}
	// train makes the steps from a number on, from the checkpoint in dir unless it is the first, and saves. It returns losses and norms.
	train := func(t *testing.T, dir string, from, to int, f form) (losses []float64, held float64) {
		onRanks(t, f.ranks, model.Layout{Layout: world.Layout{PP: f.ranks}}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, r *model.Ranks) (err error) {
			par := r.Parallel
			par.MicroBatches, par.Chunks, par.ZeroBubble = micros, f.chunks, f.zero
			m, err := model.NewParallel(st, reg, cfg, aclnn.Float32, par)
			if err != nil {
				return err
			}
			defer closing(&err, m)
			if err := m.SetMemory(model.Memory{Recompute: f.recompute}); err != nil {
				return err
			}
			o, err := model.NewOptimizer(m, model.AdamW{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, WeightDecay: 0.1, MaxNorm: 0.5})
			if err != nil {
				return err
			}
			defer closing(&err, o)
			if from == 0 {
				err = m.Init(ctx, 5)
			} else {
				err = restored(ctx, dir, m, o)
			}
			if err != nil {
				return err
			}
			for step := from; step < to; step++ {
				loss, err := m.Gradients(ctx, batchOf(ids, micros, 16, step))
				if err != nil {
					return err
				}
				norm, err := o.Step(ctx)
				if err != nil {
					return err
				}
				if r.Group.Rank() == 0 {
					losses = append(losses, loss, norm)
				}
			}
			loss, err := m.Loss(ctx, batchOf(ids, micros, 16, steps))
			if err != nil {
				return err
			}
			if r.Group.Rank() == 0 {
				held = loss
			}
			return saved(ctx, dir, m, o, r)
		})
		return losses, held
	}
	want, heldOut := train(t, t.TempDir(), 0, steps, form{ranks: 1})
	require.Len(t, want, 2*steps)
	plain, plainHeldOut := train(t, t.TempDir(), 0, steps, form{ranks: 2})
	dir := t.TempDir()
	for i, c := range []struct {
		name string
		form
	}{
		{"interleaved", form{ranks: 2, chunks: 2}}, {"zero-bubble", form{ranks: 2, zero: true}}, {"zero-bubble, recomputing", form{ranks: 2, zero: true, recompute: model.RecomputeBlock}},
		{"1F1B", form{ranks: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, held := train(t, t.TempDir(), 0, steps, c.form)
			require.InEpsilonSlice(t, want, got, 2e-5)
			require.InEpsilon(t, heldOut, held, 2e-5)
			if c.zero {
				assert.Equal(t, plain, got)
				assert.Equal(t, plainHeldOut, held)
			}
			got, _ = train(t, dir, i, i+1, c.form) // from the checkpoint of the case before
			require.InEpsilonSlice(t, want[2*i:2*i+2], got, 2e-5)
		})
	}
}
