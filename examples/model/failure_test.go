package model_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/key"
	"github.com/goascend/cann/ops/parallel"
)

var errBroken = errors.New("the collective failed")

// brittle is a communicator whose left-th collective from now fails.
type brittle struct {
	parallel.Communicator
	left atomic.Int32
}

func (b *brittle) fails() bool { return b.left.Add(-1) == 0 }

func (b *brittle) AllReduce(st *acl.Stream, send, recv *aclnn.Tensor, op hccl.ReduceOp) error {
	if b.fails() {
		return errBroken
	}
	return b.Communicator.AllReduce(st, send, recv, op)
}

func (b *brittle) AllGather(st *acl.Stream, send, recv *aclnn.Tensor) error {
	if b.fails() {
		return errBroken
	}
	return b.Communicator.AllGather(st, send, recv)
}

func (b *brittle) ReduceScatter(st *acl.Stream, send, recv *aclnn.Tensor, op hccl.ReduceOp) error {
	if b.fails() {
		return errBroken
	}
	return b.Communicator.ReduceScatter(st, send, recv, op)
}

// TestFailedSteps lets each collective of a step fail in turn: the step must return the error and
// free everything, and its repetition must give the original result.
func TestFailedSteps(t *testing.T) {
	for _, name := range []string{"qwen3", "qwen3_next"} {
		run := golden.Model(t, name)
		for _, shard := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/sharded %t", name, shard), func(t *testing.T) {
				onRanks(t, 2, model.Layout{}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) (err error) {
					cfg, err := model.ParseConfig(run.Config.Raw)
					if err != nil {
						return err
					}
					cfg.TieWordEmbeddings = true
					data := &brittle{Communicator: ranks.Data}
					par := ranks.Parallel
					par.Shard, par.Data = shard, data
					m, err := model.NewParallel(st, reg, cfg, aclnn.Float32, par)
					if err != nil {
						return err
					}
					defer closing(&err, m)
					if err := m.Init(ctx, 5); err != nil {
						return err
					}
					b := batch(run, 0)
					b.Targets = 2 * (run.Seq - 1)
					mine := b.Rows(ranks.Index, 1)
					want, err := m.Gradients(ctx, mine)
					if err != nil {
						return err
					}
					failures := 0
					for k := int32(1); ; k++ {
						data.left.Store(k)
						loss, err := m.Gradients(ctx, mine)
						if err == nil { // there are fewer collectives
							assert.Equal(t, want, loss)
							break
						}
						assert.ErrorIs(t, err, errBroken, "collective %d", k)
						failures++
						data.left.Store(0)
						loss, err = m.Gradients(ctx, mine)
						if err != nil {
							return fmt.Errorf("the step after collective %d failed: %w", k, err)
						}
						assert.Equal(t, want, loss, "the step after collective %d failed", k)
					}
					if shard {
						assert.Greater(t, failures, 2*cfg.Layers)
					} else {
						assert.NotZero(t, failures)
					}
					return nil
				})
			})
		}
	}
}

// TestFailedForward checks that the error of an operator is returned by the caller, that a cache
// must then be reset, and that a closed cache says so.
func TestFailedForward(t *testing.T) {
	st, reg := setUp(t)
	m, run := newModel(t, st, reg, "qwen3_next", aclnn.Float32)
	cache, err := m.NewCache(1, 8)
	require.NoError(t, err)
	b := batch(run, 0)
	want, err := m.Extend(t.Context(), cache, b.Inputs[:4])
	require.NoError(t, err)
	broken := true
	require.NoError(t, reg.SwiGLU().Register(ops.Kernel[ops.SwiGLUArgs, key.SwiGLU]{
		Name: "broken",
		Run: func(ctx context.Context, st *acl.Stream, a *ops.SwiGLUArgs) error {
			if broken {
				return errBroken
			}
			return aclnn.SwiGlu(st, aclnn.SwiGluParams{X: a.X, Dim: -1, Out: a.Out})
		},
	}))
	_, err = m.Logits(t.Context(), b)
	require.ErrorIs(t, err, errBroken)
	_, err = m.Extend(t.Context(), cache, b.Inputs[4:5])
	require.ErrorIs(t, err, errBroken)
	broken = false
	_, err = m.Extend(t.Context(), cache, b.Inputs[4:5])
	require.ErrorContains(t, err, "has to be Reset")
	cache.Reset()
	got, err := m.Extend(t.Context(), cache, b.Inputs[:4])
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, cache.Close())
	_, err = m.Extend(t.Context(), cache, b.Inputs[:1])
	require.ErrorContains(t, err, "closed")
}

// TestBalanceOverRanks checks that the balance of experts contributes equally to gradients for
// every division of equal rows over ranks and micro-batches; for equal rows the mean of the parts
// equals that of the whole.
func TestBalanceOverRanks(t *testing.T) {
	run := golden.Model(t, "qwen3_moe")
	train := func(s spread) (norms []float64) {
		onRanks(t, s.ranks, s.whole(), func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) (err error) {
			cfg, err := model.ParseConfig(run.Config.Raw)
			if err != nil {
				return err
			}
			cfg.RouterLoss, cfg.RouterLossScale = true, 10
			par := ranks.Parallel
			par.Sequence, par.MicroBatches = s.sequence, s.micros
			m, err := model.NewParallel(st, reg, cfg, aclnn.Float32, par)
			if err != nil {
				return err
			}
			defer closing(&err, m)
			opt, err := model.NewOptimizer(m, model.AdamW{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8})
			if err != nil {
				return err
			}
			defer closing(&err, opt)
			if err := m.Init(ctx, 5); err != nil {
				return err
			}
			one := batch(run, 0).Rows(0, 1)
			b := model.Batch{Size: 2, Length: one.Length, Inputs: append(one.Inputs[:one.Length:one.Length], one.Inputs...), Labels: append(one.Labels[:one.Length:one.Length], one.Labels...)}
			b.Targets = 2 * (run.Seq - 1)
			rows := b.Size / ranks.Parts
			for range 3 {
				loss, err := m.Gradients(ctx, b.Rows(ranks.Index*rows, rows))
				if err != nil {
					return err
				}
				norm, err := opt.Step(ctx)
				if err != nil {
					return err
				}
				if ranks.World == nil || ranks.World.Rank() == 0 {
					norms = append(norms, loss, norm)
				}
			}
			return nil
		})
		return norms
	}
	want := train(spread{model: "qwen3_moe", ranks: 1})
	for _, s := range []spread{
		{model: "qwen3_moe", ranks: 1, micros: 2},
		{model: "qwen3_moe", ranks: 2},
		{model: "qwen3_moe", ranks: 2, layout: world.Layout{EP: 2}},
		{model: "qwen3_moe", ranks: 2, layout: world.Layout{ExpertTP: 2}},
		{model: "qwen3_moe", ranks: 2, layout: world.Layout{TP: 2}, sequence: true},
	} {
		t.Run(s.String(), func(t *testing.T) {
			require.InEpsilonSlice(t, want, train(s), 1e-4)
		})
	}
}
