package model_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/checkpoint"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
)

// TestCheckpointInAnotherLayout: a checkpoint that goes through several layouts, each of which reads
// that of the one before, has the same weights and moments at the end, bit by bit. No rank reads a tenth
// more bytes than it keeps.
func TestCheckpointInAnotherLayout(t *testing.T) {
	run := golden.Model(t, "qwen3_moe")
	dir := t.TempDir()
	layouts := []spread{
		{ranks: 4, layout: world.Layout{TP: 2, EP: 2}, sequence: true},
		{ranks: 1},
		{ranks: 4, layout: world.Layout{TP: 2, EP: 2, ExpertTP: 2}, sequence: true},
		{ranks: 4, layout: world.Layout{EP: 4}, shard: true},
		{ranks: 4, layout: world.Layout{ExpertTP: 2}, shard: true, nz: true},
		{ranks: 4, layout: world.Layout{PP: 2, TP: 2}, sequence: true},
		{ranks: 2, shard: true, nz: true},
		{ranks: 4, layout: world.Layout{PP: 2, EP: 2}, dist: true},
		{ranks: 2, shard: true},
		{ranks: 4, layout: world.Layout{PP: 2}, shard: true},
		{ranks: 3, shard: true, nz: true},
		{ranks: 4, layout: world.Layout{CP: 2, TP: 2}, sequence: true, shard: true},
		{ranks: 4, layout: world.Layout{TP: 2, EP: 2}, sequence: true},
	}
	var parts []checkpoint.Part // whole weights
	at := func(i int) string { return filepath.Join(dir, fmt.Sprint(i)) }
	for i, s := range layouts {
		onRanks(t, s.ranks, s.whole(), func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) (err error) {
			par := ranks.Parallel
			par.Shard, par.Sequence, par.DistributedOptimizer = s.shard, s.sequence, s.dist
			cfg, err := model.ParseConfig(run.Config.Raw)
			if err != nil {
				return err
			}
			cfg.TieWordEmbeddings, cfg.GroupedNZ = false, s.nz
			m, err := model.NewParallel(st, reg, cfg, aclnn.BFloat16, par)
			if err != nil {
				return err
			}
			defer closing(&err, m)
			opt, err := model.NewOptimizer(m, model.AdamW{LR: 1e-2, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, WeightDecay: 0.1, MaxNorm: 1})
			if err != nil {
				return err
			}
			defer closing(&err, opt)
			if s.ranks == 1 {
				for _, p := range m.Parameters() {
					parts = append(parts, checkpoint.Part{Name: p.Name, Shape: p.Shape()})
				}
			}
			if i > 0 {
				limit := 1.1
				if s.nz { // rows of 32 and 64 elements are cut, whose segments have 16
					limit = 1.2
				}
				if err := restoredOwn(ctx, at(i-1), m, opt, par, limit); err != nil {
					return err
				}
				return saved(ctx, at(i), m, opt, ranks)
			}
			if err := m.Init(ctx, 7); err != nil {
				return err
			}
			b := repeated(batch(run, 0), 2)
			rows := b.Size / ranks.Parts
			if _, err := m.Gradients(ctx, b.Rows(ranks.Index*rows, rows)); err != nil {
				return err
			}
			if _, err := opt.Step(ctx); err != nil {
				return err
			}
			return saved(ctx, at(i), m, opt, ranks)
		})
		if t.Failed() {
			t.Fatalf("layout %d", i)
		}
	}
	first, err := checkpoint.Open(at(0))
	require.NoError(t, err)
	defer first.Close()
	require.Equal(t, 1, first.About().Step)
	anyMoments := false
	for i := range layouts {
		set, err := checkpoint.Open(at(i))
		require.NoError(t, err)
		for _, p := range parts {
			name := p.Name
			for _, prefix := range []string{"", "optimizer.exp_avg.", "optimizer.exp_avg_sq."} {
				p.Name = prefix + name
				want, err := first.Read(p)
				require.NoError(t, err)
				got, err := set.Read(p)
				require.NoError(t, err)
				require.Equal(t, want, got, "%v of layout %d", p, i)
				anyMoments = anyMoments || prefix != "" && want[0] != 0
			}
		}
		require.NoError(t, set.Close())
	}
	require.NotEmpty(t, parts)
	require.True(t, anyMoments, "moments")
}

// restoredOwn reads the newest checkpoint, and hardly more of it than this rank keeps.
func restoredOwn(ctx context.Context, dir string, m *model.Model, o *model.Optimizer, par model.Parallel, limit float64) (err error) {
	set, err := checkpoint.Open(dir)
	if err != nil {
		return err
	}
	defer closing(&err, set)
	if err := model.Restore(ctx, set, o); err != nil {
		return err
	}
	kept := 0
	for _, p := range m.Parameters() {
		n := int64(1)
		for _, d := range p.Shape() {
			n *= d
		}
		ranks := 1
		if group := par.Data; par.Shard || par.DistributedOptimizer {
			if strings.Contains(p.Name, ".experts.") {
				group = par.ExpertData
			}
			if group != nil {
				ranks = group.Size()
			}
		}
		kept += 3 * 4 * (len(p.Part(make([]float32, n))) + ranks - 1) / ranks // the weight and two moments
	}
	if read := set.BytesRead(); float64(read) > limit*float64(kept) {
		return fmt.Errorf("%d bytes were read for %d", read, kept)
	}
	return nil
}
