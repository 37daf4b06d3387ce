package model_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
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

// TestExpertsDoNotWait: with one rank, and with gathered tokens, a training step waits as often with four layers of experts as with two. With rows that are sent it waits in
// each layer.
func TestExpertsDoNotWait(t *testing.T) {
	run := golden.Model(t, "qwen3_moe")
	waits := func(t *testing.T, ranks, layers int, capacity float64) (n int64) {
		var count atomic.Int64
		onRanks(t, ranks, model.Layout{Layout: world.Layout{EP: ranks}}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, r *model.Ranks) (err error) {
			cfg, err := model.ParseConfig(run.Config.Raw)
			if err != nil {
				return err
			}
			cfg.Layers, cfg.LayerTypes = layers, nil
			par := r.Parallel
			par.ExpertCapacity = capacity
			m, err := model.NewParallel(st, reg, cfg, aclnn.Float32, par)
			if err != nil {
				return err
			}
			defer closing(&err, m)
			if err := m.Init(ctx, 3); err != nil {
				return err
			}
			opt, err := model.NewOptimizer(m, model.AdamW{LR: 1e-3, Beta1: .9, Beta2: .95, Epsilon: 1e-8, MaxNorm: 1})
			if err != nil {
				return err
			}
			defer closing(&err, opt)
			b := repeated(batch(run, 0), ranks)
			for step := range 2 { // the first one makes tables
				var stop func()
				if step == 1 && r.Index == 0 {
					if stop, err = st.Device().Runtime().Observe(func(c acl.Call) {
						waits := c.Kind == acl.CallWait || c.Kind == acl.CallCopy && !strings.HasPrefix(c.Name, "Stream.")
						if waits && c.Device == st.Device().ID() {
							count.Add(1)
						}
					}); err != nil {
						return err
					}
				}
				_, err = m.Gradients(ctx, b.Rows(r.Index, 1))
				if err == nil {
					_, err = opt.Step(ctx)
				}
				if stop != nil {
					stop()
				}
				if err != nil {
					return err
				}
			}
			twice, _ := m.Overflows()
			assert.Zero(t, twice)
			return nil
		})
		return count.Load()
	}
	for name, c := range map[string]struct {
		ranks    int
		capacity float64
	}{"one rank": {1, 0}, "gathered": {2, 8}} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, waits(t, c.ranks, 2, c.capacity), waits(t, c.ranks, 4, c.capacity))
		})
	}
	t.Run("sent", func(t *testing.T) {
		require.GreaterOrEqual(t, waits(t, 2, 4, 0), waits(t, 2, 2, 0)+2)
	})
}

// TestExpertOverflow: steps in which experts have no room for their rows are computed once more, and give the losses and weights of rows that are sent, bit by bit.
func TestExpertOverflow(t *testing.T) {
	run := golden.Model(t, "qwen3_moe")
	type result struct {
		losses  []float64
		weights [][]float32
	}
	train := func(t *testing.T, capacity float64) (all [2]result, twice int) {
		onRanks(t, 2, model.Layout{Layout: world.Layout{EP: 2}}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, r *model.Ranks) (err error) {
			cfg, err := model.ParseConfig(run.Config.Raw)
			if err != nil {
				return err
			}
			par := r.Parallel
			par.ExpertCapacity = capacity
			m, err := model.NewParallel(st, reg, cfg, aclnn.Float32, par)
			if err != nil {
				return err
			}
			defer closing(&err, m)
			for _, p := range m.Parameters() {
				values := run.Sub("init").Float32(p.Name)
				if strings.HasSuffix(p.Name, "mlp.gate.weight") { // the first experts get most tokens, or hardly any
					for i := range len(values) / 4 {
						values[i] *= 30
					}
				}
				if err := m.Set(ctx, p, values); err != nil {
					return err
				}
			}
			opt, err := model.NewOptimizer(m, model.AdamW{LR: 1e-3, Beta1: .9, Beta2: .95, Epsilon: 1e-8, MaxNorm: 1})
			if err != nil {
				return err
			}
			defer closing(&err, opt)
			for step := range 3 {
				loss, err := m.Gradients(ctx, repeated(batch(run, step), 2).Rows(r.Index, 1))
				if err != nil {
					return err
				}
				if _, err := opt.Step(ctx); err != nil {
					return err
				}
				all[r.Index].losses = append(all[r.Index].losses, loss)
			}
			for _, p := range m.Parameters() {
				values, err := m.Get(ctx, p)
				if err != nil {
					return err
				}
				all[r.Index].weights = append(all[r.Index].weights, values)
			}
			n, rows := m.Overflows()
			assert.Equal(t, n > 0, rows > 0)
			if r.Index == 0 {
				twice = n
			}
			return nil
		})
		return all, twice
	}
	want, none := train(t, 0)
	require.Zero(t, none)
	got, twice := train(t, 1) // where they are not balanced exactly, one of two ranks gets more than its half
	require.Equal(t, 3, twice)
	require.Equal(t, want, got)
	roomy, none := train(t, 1e6)
	require.Zero(t, none)
	for i, loss := range roomy[0].losses {
		require.InEpsilon(t, want[0].losses[i], loss, 1e-6)
	}
}

// TestBalanceExperts: a bias moves against the load of its expert, by the rate alone, so that loads even out while no weight changes. Layouts of ranks agree bit by bit, and so
// does a training that is resumed.
func TestBalanceExperts(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	const rate, steps = 0.004, 32
	for _, kind := range []string{"deepseek_v3", "glm4_moe"} {
		k := kindFolder{path: filepath.Join(dir, "families", kind)}
		cfg := k.config(t)
		b := model.Batch{Size: 4, Length: 16, Targets: 4 * 16}
		for i := range b.Size * b.Length {
			b.Inputs, b.Labels = append(b.Inputs, int32(7+i*37%97)), append(b.Labels, int32(3+i%5))
		}
		train := func(t *testing.T, s spread, from, to int, checkpoint string) (biases [][]float32, spreads []float64) {
			onRanks(t, max(s.ranks, 1), s.whole(), func(ctx context.Context, st *acl.Stream, reg *ops.Registry, r *model.Ranks) (err error) {
				par := r.Parallel
				par.Shard, par.MicroBatches, par.ExpertCapacity, par.DistributedOptimizer, par.Sequence = s.shard, s.micros, s.capacity, s.dist, s.sequence
				m, err := model.NewParallel(st, reg, cfg, aclnn.Float32, par)
				if err != nil {
					return err
				}
				defer closing(&err, m)
				if err := m.BalanceExperts(rate); err != nil {
					return err
				}
				opt, err := model.NewOptimizer(m, model.AdamW{Beta1: .9, Beta2: .95, Epsilon: 1e-8, MaxNorm: 1})
				if err != nil {
					return err
				}
				defer closing(&err, opt)
				if from == 0 {
					err = m.Init(ctx, 5)
				} else {
					err = restored(ctx, checkpoint, m, opt)
				}
				if err != nil {
					return err
				}
				first := r.World == nil || r.World.Rank() == 0
				alone := r.World == nil && s.micros < 2
				for range to - from {
					rows := b.Size / r.Parts
					if _, err := m.Gradients(ctx, b.Rows(r.Index*rows, rows)); err != nil {
						return err
					}
					most := 0.0
					var want [][]float32
					for _, p := range m.Parameters() {
						if !alone || !isBias(p) {
							continue
						}
						load := make([]float32, p.Shape()[0])
						if err := aclnn.CopyFromDevice(ctx, st, load, p.Grad); err != nil {
							return err
						}
						values, err := m.Get(ctx, p)
						if err != nil {
							return err
						}
						sum := float32(0)
						for i, l := range load {
							most = max(most, float64(l))
							sum += l
							switch {
							case l > 0:
								values[i] -= rate
							case l < 0:
								values[i] += rate
							}
						}
						assert.InDelta(t, 0, sum, 1e-3, "loads less their mean")
						want = append(want, values)
					}
					if first {
						spreads = append(spreads, most)
					}
					if _, err := opt.Step(ctx); err != nil {
						return err
					}
					for _, p := range m.Parameters() {
						if alone && isBias(p) {
							values, err := m.Get(ctx, p)
							if err != nil {
								return err
							}
							assert.InDeltaSlice(t, want[0], values, 1e-6)
							want = want[1:]
						}
					}
				}
				for _, p := range m.Parameters() {
					if isBias(p) {
						values, err := m.Get(ctx, p)
						if err != nil {
							return err
						}
						if first {
							biases = append(biases, values)
						}
					}
				}
				if checkpoint != "" && from == 0 {
					return saved(ctx, checkpoint, m, opt, r)
				}
				return nil
			})
			return biases, spreads
		}
		t.Run(kind, func(t *testing.T) {
			want, spreads := train(t, spread{}, 0, steps, "")
			require.NotEmpty(t, want)
			require.LessOrEqual(t, slices.Max(spreads[steps/2:]), spreads[0]/2, "%v", spreads)
			for _, s := range []spread{
				{ranks: 1, micros: 2}, {ranks: 2}, {ranks: 2, shard: true}, {ranks: 2, layout: world.Layout{EP: 2}, capacity: 2}, {ranks: 2, layout: world.Layout{EP: 2}, dist: true},
			} {
				s.model = kind
				t.Run(s.String(), func(t *testing.T) {
					got, _ := train(t, s, 0, 4, "")
					first, _ := train(t, spread{}, 0, 4, "")
					require.Equal(t, first, got)
				})
			}
			t.Run("resumed", func(t *testing.T) {
				path := t.TempDir()
				train(t, spread{ranks: 2, shard: true}, 0, 3, path)
				got, _ := train(t, spread{}, 3, steps, path)
				require.Equal(t, want, got)
			})
		})
	}
	st, reg := setUp(t)
	m, _ := newModel(t, st, reg, "qwen3_moe", aclnn.Float32)
	require.ErrorContains(t, m.BalanceExperts(0.001), "qwen3_moe has no bias of the choice of experts")
	require.ErrorIs(t, m.BalanceExperts(-1), acl.ErrInvalidArgument)
	require.NoError(t, m.BalanceExperts(0))
}

func isBias(p *model.Parameter) bool { return filepath.Ext(p.Name) == ".e_score_correction_bias" }

// TestExpertCapacityRefused: less than a balanced routing needs is no capacity, and a graph needs one.
func TestExpertCapacityRefused(t *testing.T) {
	run := golden.Model(t, "qwen3_moe")
	onRanks(t, 2, model.Layout{Layout: world.Layout{EP: 2}}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, r *model.Ranks) (err error) {
		cfg, err := model.ParseConfig(run.Config.Raw)
		if err != nil {
			return err
		}
		par := r.Parallel
		par.ExpertCapacity = 0.5
		if _, err := model.NewParallel(st, reg, cfg, aclnn.Float32, par); err == nil {
			return fmt.Errorf("capacity 0.5 is accepted")
		}
		m, err := model.NewParallel(st, reg, cfg, aclnn.Float32, r.Parallel)
		if err != nil {
			return err
		}
		defer closing(&err, m)
		opt, err := model.NewOptimizer(m, model.AdamW{LR: 1e-3, Beta1: .9, Beta2: .95, Epsilon: 1e-8, MaxNorm: 1})
		if err != nil {
			return err
		}
		defer closing(&err, opt)
		tr, err := model.NewTrainer(m, opt)
		if err != nil {
			return err
		}
		defer closing(&err, tr)
		_, _, err = tr.Step(ctx, repeated(batch(run, 0), 2).Rows(r.Index, 1))
		assert.ErrorContains(t, err, "ExpertCapacity")
		return nil
	})
}
