//go:build emu

package qwen_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/qwen"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/internal/golden"
	"github.com/goascend/cann/ops"
)

// spread is a way to train on several ranks.
type spread struct {
	model    string
	ranks    int
	layout   hccl.Layout
	sequence bool
	shard    bool
	micros   int
}

func (s spread) String() string {
	name := fmt.Sprintf("%s/%d ranks", s.model, s.ranks)
	for _, axis := range []struct {
		name string
		size int
	}{{"tp", s.layout.TP}, {"cp", s.layout.CP}, {"ep", s.layout.EP}, {"pp", s.layout.PP}} {
		if axis.size > 1 {
			name += fmt.Sprintf(" %s%d", axis.name, axis.size)
		}
	}
	for flag, on := range map[string]bool{" sequence": s.sequence, " sharded": s.shard, fmt.Sprintf(" %d micro-batches", s.micros): s.micros > 1} {
		if on {
			name += flag
		}
	}
	return name
}

// TestParallelTraining: however a model is spread over ranks, it trains as PyTorch trains it
// on one.
func TestParallelTraining(t *testing.T) {
	for _, s := range []spread{
		{model: "qwen3", ranks: 8},
		{model: "qwen3", ranks: 8, shard: true},
		{model: "qwen3", ranks: 8, layout: hccl.Layout{TP: 2, PP: 2}, micros: 2},
		{model: "qwen3", ranks: 8, layout: hccl.Layout{TP: 2, PP: 2}, sequence: true},
		{model: "qwen3", ranks: 2, layout: hccl.Layout{TP: 2}},
		{model: "qwen3", ranks: 1, micros: 4},
		{model: "qwen3", ranks: 1, shard: true, micros: 2},
		{model: "qwen3", ranks: 3, layout: hccl.Layout{}},
		{model: "qwen3", ranks: 4, layout: hccl.Layout{CP: 2}},
		{model: "qwen3", ranks: 4, layout: hccl.Layout{CP: 2, TP: 2}, sequence: true, shard: true},
		{model: "qwen3_padded", ranks: 4, layout: hccl.Layout{CP: 2}},
		{model: "qwen3_moe", ranks: 8, layout: hccl.Layout{EP: 4}},
		{model: "qwen3_moe", ranks: 8, layout: hccl.Layout{EP: 4}, shard: true},
		{model: "qwen3_moe", ranks: 8, layout: hccl.Layout{TP: 2, CP: 2, EP: 2}, sequence: true},
		{model: "qwen3_moe", ranks: 4, layout: hccl.Layout{PP: 2, EP: 2}, micros: 2},
		{model: "qwen3_next", ranks: 4, layout: hccl.Layout{PP: 2, EP: 2}},
		{model: "qwen3_next", ranks: 2, shard: true},
		{model: "qwen3_5", ranks: 4, shard: true},
	} {
		t.Run(s.String(), func(t *testing.T) {
			run := golden.Model(t, s.model)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			groups, err := hccl.LocalGroups(ctx, s.ranks, hccl.GroupConfig{})
			require.NoError(t, err)
			rt, err := acl.Open(acl.Config{})
			require.NoError(t, err)
			var wg sync.WaitGroup
			for i, g := range groups {
				wg.Go(func() {
					defer func() { assert.NoError(t, g.Close()) }()
					assert.NoError(t, trainRank(ctx, t, run, s, rt, g, i))
				})
			}
			wg.Wait()
			require.NoError(t, rt.Close())
			require.Empty(t, acl.Live())
		})
	}
}

// repeats is how often a batch holds each row of the run, with other labels each time, so that
// every rank and micro-batch has rows.
func (s spread) repeats(run *golden.Training, parts int) int {
	n := 1
	for n*run.Batch%(parts*max(s.micros, 1)) != 0 {
		n++
	}
	return n
}

// repeated is a batch with each row n times: of its labels, copy c has those at c, c+n, ….
// All together have the loss of the batch.
func repeated(b qwen.Batch, n int) qwen.Batch {
	out := qwen.Batch{Size: n * b.Size, Length: b.Length}
	for c := range n {
		out.Inputs = append(out.Inputs, b.Inputs...)
		out.Lengths = append(out.Lengths, b.Lengths...)
		for i, l := range b.Labels {
			if i%n != c {
				l = -1
			}
			out.Labels = append(out.Labels, l)
		}
	}
	for _, l := range out.Labels {
		if l >= 0 {
			out.Targets++
		}
	}
	return out
}

// trainRank is one rank of a run. Losses are those of all ranks, weights this rank's part.
func trainRank(ctx context.Context, t *testing.T, run *golden.Training, s spread, rt *acl.Runtime, g *hccl.Group, device int) (err error) {
	dev, err := rt.Device(device)
	if err != nil {
		return err
	}
	defer closing(&err, dev)
	st, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer closing(&err, st)
	reg, err := ops.NewRegistry(ops.EnvOf(dev))
	if err != nil {
		return err
	}
	defer closing(&err, reg)
	ranks, err := qwen.Join(ctx, st, g, s.layout)
	if err != nil {
		return err
	}
	defer closing(&err, ranks)
	par := ranks.Parallel
	par.Sequence, par.Shard, par.MicroBatches = s.sequence, s.shard, s.micros
	cfg, err := qwen.ParseConfig(run.Config.Raw)
	if err != nil {
		return err
	}
	m, err := qwen.NewParallel(st, reg, cfg, aclnn.Float32, par)
	if err != nil {
		return err
	}
	defer closing(&err, m)
	for _, p := range m.Parameters() {
		if err := m.Set(ctx, p, run.Sub("init").Float32(p.Name)); err != nil {
			return err
		}
	}
	opt, err := qwen.NewOptimizer(m, qwen.AdamW{
		LR: run.Optimizer.LR, Beta1: run.Optimizer.Betas[0], Beta2: run.Optimizer.Betas[1], Epsilon: run.Optimizer.Eps,
		WeightDecay: run.Optimizer.WeightDecay, MaxNorm: run.Optimizer.ClipGradNorm,
	})
	if err != nil {
		return err
	}
	defer closing(&err, opt)
	for step := range run.Losses {
		b := repeated(batch(run, step), s.repeats(run, ranks.Parts))
		rows := b.Size / ranks.Parts
		loss, err := m.Gradients(ctx, b.Rows(ranks.Index*rows, rows))
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		assert.InEpsilon(t, run.Losses[step], loss, 5e-5, "loss of step %d", step)
		norm, err := opt.Step(ctx)
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		assert.InEpsilon(t, run.GradNorms[step], norm, 1e-4, "gradient norm of step %d", step)
	}
	for _, p := range m.Parameters() {
		got, err := m.Get(ctx, p)
		if err != nil {
			return err
		}
		want := p.Part(run.Sub("final").Float32(p.Name))
		known := knownGradient(p.Name, p.Part(run.Sub("grad0").Float32(p.Name)))
		if !assert.Len(t, got, len(want), p.Name) {
			continue
		}
		sum, n := 0.0, 0
		for i := range got {
			if known(i) {
				d := float64(got[i]) - float64(want[i])
				sum, n = sum+d*d, n+1
			}
		}
		assert.LessOrEqual(t, math.Sqrt(sum/float64(n)), 2e-5, "weights of %s", p.Name)
	}
	return nil
}

// closing closes c and adds its error to that of the function that defers it.
func closing(err *error, c interface{ Close() error }) {
	if e := c.Close(); *err == nil {
		*err = e
	}
}
