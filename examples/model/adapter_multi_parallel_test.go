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
	"github.com/goascend/cann/ops"
)

// TestParallelMultipleAdapters checks that two adapters in one pass train with every parallelism of their base as
// PEFT trains each on one device. Where ranks have different samples, most have those of one adapter only.
func TestParallelMultipleAdapters(t *testing.T) {
	for _, s := range []spread{
		{model: "qwen3", ranks: 4, layout: world.Layout{TP: 2}},
		{model: "qwen3", ranks: 4, layout: world.Layout{TP: 2, PP: 2}, sequence: true, micros: 2},
		{model: "qwen3", ranks: 4, layout: world.Layout{CP: 2}},
		{model: "qwen3", ranks: 2, shard: true},
		{model: "qwen3_moe", ranks: 4, layout: world.Layout{TP: 2, EP: 2}, sequence: true},
		{model: "qwen3_5", ranks: 4, layout: world.Layout{CP: 2}, ulysses: 2, shard: true},
	} {
		t.Run(s.String(), func(t *testing.T) {
			r := openAdapterRun(t, s.model)
			onRanks(t, s.ranks, s.whole(), func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) error {
				return r.trainTogether(ctx, t, s, st, reg, ranks)
			})
		})
	}
}

func (r *adapterRun) trainTogether(ctx context.Context, t *testing.T, s spread, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) (err error) {
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
	names := []string{"a", "b"}
	adapters, optimizers := make([]*model.Adapter, 2), make([]*model.Optimizer, 2)
	for i, which := range names {
		if adapters[i], err = model.NewAdapter(ctx, m, r.lora, 1); err != nil {
			return err
		}
		defer closing(&err, adapters[i])
		for _, p := range adapters[i].Parameters() {
			if err := adapters[i].Set(ctx, p, r.values(t, which+"/init/"+p.Name)); err != nil {
				return err
			}
		}
		if optimizers[i], err = adapters[i].NewOptimizer(r.optimizer); err != nil {
			return err
		}
		defer closing(&err, optimizers[i])
	}
	if err := m.UseEach(adapters...); err != nil {
		return err
	}
	for step := range r.steps {
		losses, err := m.GradientsEach(ctx, r.togetherShare(t, step, ranks, s))
		if err != nil {
			return err
		}
		for i, which := range names {
			norm, err := optimizers[i].Step(ctx)
			if err != nil {
				return err
			}
			if math.Abs(losses[i+1]-r.losses[which][step]) > 5e-6 || math.Abs(norm-r.norms[which][step]) > 1e-4 {
				return fmt.Errorf("step %d of %s: loss %v and norm %v, want %v and %v", step, which, losses[i+1], norm, r.losses[which][step], r.norms[which][step])
			}
		}
	}
	for i, which := range names {
		for _, p := range adapters[i].Parameters() {
			got, err := adapters[i].Get(ctx, p)
			if err != nil {
				return err
			}
			if err := within(got, p.Part(r.values(t, which+"/final/"+p.Name)), 2e-5); err != nil {
				return fmt.Errorf("%s of %s: %w", p.Name, which, err)
			}
		}
	}
	return nil
}

// togetherShare returns a rank's rows of a step: those of b are the first of all rows, and those of a the last.
func (r *adapterRun) togetherShare(t *testing.T, step int, ranks *model.Ranks, s spread) model.Batch {
	a, b := r.batch(t, "a", step), r.batch(t, "b", step)
	n := 1
	for n*(a.Size+b.Size)%(ranks.Parts*max(s.micros, 1)) != 0 {
		n++
	}
	a, b = repeated(a, n), repeated(b, n)
	numbers := make([]int, a.Size+b.Size)
	for i := range numbers {
		if numbers[i] = 1; i < b.Size {
			numbers[i] = 2
		}
	}
	all := mixed(numbers, model.Batch{Length: a.Length}, a, b)
	all.AdapterTargets = []int{0, a.Targets, b.Targets}
	rows := all.Size / ranks.Parts
	return all.Rows(ranks.Index*rows, rows)
}
