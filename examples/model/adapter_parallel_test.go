package model_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/ops"
)

// TestParallelAdapters checks that adapters train with every parallelism of their base as PEFT
// trains them on one device.
func TestParallelAdapters(t *testing.T) {
	for _, s := range []spread{
		{model: "qwen3", ranks: 4, layout: world.Layout{TP: 2}},
		{model: "qwen3", ranks: 4, layout: world.Layout{TP: 2, PP: 2}, sequence: true, micros: 2},
		{model: "qwen3", ranks: 2, shard: true},
		{model: "qwen3_moe", ranks: 4, layout: world.Layout{TP: 2, EP: 2}, sequence: true},
		{model: "qwen3_moe", ranks: 2, layout: world.Layout{EP: 2}, shard: true},
		{model: "qwen3_5", ranks: 4, layout: world.Layout{CP: 2}, ulysses: 2, shard: true},
	} {
		t.Run(s.String(), func(t *testing.T) {
			r := openAdapterRun(t, s.model)
			onRanks(t, s.ranks, s.whole(), func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) error {
				return trainAdapter(ctx, t, r, s, st, reg, ranks)
			})
		})
	}
}

// onRank makes a rank's part of the base and of an adapter, whose weights fill sets, and hands them to train.
func (r *adapterRun) onRank(ctx context.Context, t *testing.T, s spread, lora model.LoRA, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks,
	fill func(*model.Adapter) error, train func(*model.Model, *model.Adapter, *model.Optimizer) error,
) (err error) {
	par := ranks.Parallel
	par.Sequence, par.Shard, par.MicroBatches = s.sequence, s.shard, s.micros
	m, err := model.NewParallel(st, reg, r.config, aclnn.Float32, par)
	if err != nil {
		return err
	}
	defer closing(&err, m)
	for _, p := range m.Parameters() {
		if err := m.Set(ctx, p, r.values(t, "base/"+r.baseName(p.Name))); err != nil {
			return err
		}
	}
	a, err := model.NewAdapter(ctx, m, lora, 1)
	if err != nil {
		return err
	}
	defer closing(&err, a)
	if err := fill(a); err != nil {
		return err
	}
	o, err := a.NewOptimizer(r.optimizer)
	if err != nil {
		return err
	}
	defer closing(&err, o)
	if err := m.Use(a); err != nil {
		return err
	}
	return train(m, a, o)
}

func trainAdapter(ctx context.Context, t *testing.T, r *adapterRun, s spread, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) error {
	fill := func(a *model.Adapter) error {
		for _, p := range a.Parameters() {
			if err := a.Set(ctx, p, r.values(t, "a/init/"+p.Name)); err != nil {
				return err
			}
		}
		return nil
	}
	return r.onRank(ctx, t, s, r.lora, st, reg, ranks, fill, func(m *model.Model, a *model.Adapter, o *model.Optimizer) error {
		for step := range r.steps {
			b := r.batch(t, "a", step)
			n := 1
			for n*b.Size%(ranks.Parts*max(s.micros, 1)) != 0 {
				n++
			}
			b = repeated(b, n)
			rows := b.Size / ranks.Parts
			loss, err := m.Gradients(ctx, b.Rows(ranks.Index*rows, rows))
			if err != nil {
				return err
			}
			if math.Abs(loss-r.losses["a"][step]) > 5e-6 {
				return fmt.Errorf("loss %v of step %d, want %v", loss, step, r.losses["a"][step])
			}
			norm, err := o.Step(ctx)
			if err != nil {
				return err
			}
			if math.Abs(norm-r.norms["a"][step]) > 1e-4 {
				return fmt.Errorf("norm %v of step %d, want %v", norm, step, r.norms["a"][step])
			}
		}
		for _, p := range a.Parameters() {
			got, err := a.Get(ctx, p)
			if err != nil {
				return err
			}
			if err := within(got, p.Part(r.values(t, "a/final/"+p.Name)), 2e-5); err != nil {
				return fmt.Errorf("%s: %w", p.Name, err)
			}
		}
		return nil
	})
}

// TestAdapterOfBFloat16 checks that an adapter of a base in bfloat16 follows the recorded losses,
// without masters or gradients of the base.
func TestAdapterOfBFloat16(t *testing.T) {
	st, reg := setUp(t)
	r := openAdapterRun(t, "qwen3")
	m := r.base(t, st, reg, aclnn.BFloat16, model.Parallel{})
	before := baseValues(t, m)
	a, o := r.adapter(t, m, "a")
	for step := range r.steps {
		loss, _ := r.train(t, m, a, o, "a", step, nil)
		require.InEpsilon(t, r.losses["a"][step], loss, 5e-3)
	}
	require.Equal(t, before, baseValues(t, m))
	for _, p := range m.Parameters() {
		require.Equal(t, aclnn.BFloat16, p.Master.DType())
	}
}

// TestAdapterDropout checks that dropout changes the training, in the same way each time and not
// outside of training, and that a graph refuses it.
func TestAdapterDropout(t *testing.T) {
	st, reg := setUp(t)
	r := openAdapterRun(t, "qwen3")
	m := r.base(t, st, reg, aclnn.Float32, model.Parallel{})
	run := func(dropout float64) (losses []float64, logits []float32) {
		r.lora.Dropout = dropout
		a, o := r.adapter(t, m, "a")
		for step := range 3 {
			loss, _ := r.train(t, m, a, o, "a", step, nil)
			losses = append(losses, loss)
		}
		for _, p := range a.Parameters() { // the adapter computes the same with other weights
			require.NoError(t, a.Set(t.Context(), p, r.values(t, "a/final/"+p.Name)))
		}
		logits, err := m.Logits(t.Context(), r.batch(t, "a", 0))
		require.NoError(t, err)
		return losses, logits
	}
	plain, logits := run(0)
	first, dropped := run(0.25)
	again, _ := run(0.25)
	require.Equal(t, first, again)
	for i := range plain {
		require.NotEqual(t, plain[i], first[i])
	}
	require.Equal(t, logits, dropped)

	a, o := r.adapter(t, m, "a")
	require.NoError(t, m.Use(a))
	tr, err := model.NewTrainer(m, o)
	require.NoError(t, err)
	defer func() { require.NoError(t, tr.Close()) }()
	_, _, err = tr.Step(t.Context(), r.batch(t, "a", 0))
	require.ErrorContains(t, err, "dropout")
	require.NoError(t, m.Use(nil))
	_, _, err = tr.Step(t.Context(), r.batch(t, "a", 0))
	require.ErrorContains(t, err, "another adapter")
}
