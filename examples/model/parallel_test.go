package model_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/checkpoint"
	"github.com/goascend/cann/examples/job"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/internal/testing/freeport"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/parallel"
)

// spread is one way to distribute the training over ranks.
type spread struct {
	model    string
	ranks    int
	layout   world.Layout
	sequence bool
	shard    bool
	micros   int
	ulysses  int
	replicas int
	nz       bool
	zero     bool    // zero-bubble
	dist     bool    // distributed optimiser
	capacity float64 // of experts
	rules    []parallel.ShardRule
}

func (s spread) String() string {
	name := fmt.Sprintf("%s/%d ranks", s.model, s.ranks)
	for _, axis := range []struct {
		name string
		size int
	}{{"tp", s.layout.TP}, {"cp", s.layout.CP}, {"ep", s.layout.EP}, {"etp", s.layout.ExpertTP}, {"pp", s.layout.PP}} {
		if axis.size > 1 {
			name += fmt.Sprintf(" %s%d", axis.name, axis.size)
		}
	}
	for flag, on := range map[string]bool{fmt.Sprintf(" capacity %g", s.capacity): s.capacity > 0, " NZ": s.nz, " zero-bubble": s.zero, " distributed optimiser": s.dist, " rules": s.rules != nil, fmt.Sprintf(" ulysses%d", s.ulysses): s.ulysses > 1, " sequence": s.sequence, " sharded": s.shard, fmt.Sprintf(" %d micro-batches", s.micros): s.micros > 1, fmt.Sprintf(" %d replicas", s.replicas): s.replicas > 1} {
		if on {
			name += flag
		}
	}
	return name
}

// whole returns the layout with everything that Join needs.
func (s spread) whole() model.Layout {
	return model.Layout{Layout: s.layout, Ulysses: s.ulysses, Replicas: s.replicas}
}

// processSpreads is how many of spreads run as processes too.
const processSpreads = 6

// spreads are the runs to try on a new node too, and small ones.
var spreads = []spread{
	{model: "qwen3", ranks: 8, layout: world.Layout{TP: 2, PP: 2}, micros: 2},
	{model: "qwen3", ranks: 8},
	{model: "qwen3", ranks: 8, shard: true},
	{model: "qwen3_moe", ranks: 8, layout: world.Layout{EP: 4}},
	{model: "qwen3_moe", ranks: 8, layout: world.Layout{TP: 2, CP: 2, EP: 2}, sequence: true},

	{model: "qwen3_next", ranks: 8, layout: world.Layout{CP: 4, EP: 2}, ulysses: 4},

	{model: "qwen3", ranks: 8, layout: world.Layout{TP: 2, PP: 2}, sequence: true},
	{model: "qwen3", ranks: 2, layout: world.Layout{CP: 2}, ulysses: 2},
	{model: "qwen3", ranks: 4, layout: world.Layout{CP: 4}, ulysses: 4},
	{model: "qwen3_moe", ranks: 4, layout: world.Layout{CP: 2, TP: 2, EP: 2}, sequence: true, ulysses: 2},
	{model: "qwen3_next", ranks: 2, layout: world.Layout{CP: 2}, ulysses: 2},
	{model: "qwen3_5", ranks: 2, layout: world.Layout{CP: 2}, ulysses: 2, micros: 2},
	{model: "qwen3_5", ranks: 4, layout: world.Layout{CP: 4}, ulysses: 4, shard: true},
	{model: "qwen3_5_padded", ranks: 4, layout: world.Layout{CP: 4}, ulysses: 4},
	{model: "qwen3_5", ranks: 4, layout: world.Layout{CP: 2}},
	{model: "qwen3", ranks: 4, layout: world.Layout{CP: 4}, ulysses: 2},
	{model: "qwen3_5", ranks: 4, layout: world.Layout{CP: 4}, ulysses: 2, shard: true},
	{model: "qwen3_5_padded", ranks: 4, layout: world.Layout{CP: 4}},
	{model: "qwen3_padded", ranks: 8, layout: world.Layout{CP: 8}, ulysses: 2},
	{model: "qwen3_next", ranks: 4, layout: world.Layout{CP: 4}},
	{model: "qwen3", ranks: 2, layout: world.Layout{TP: 2}},
	{model: "qwen3", ranks: 1, micros: 4},
	{model: "qwen3", ranks: 1, shard: true, micros: 2},
	{model: "qwen3", ranks: 3},
	{model: "qwen3", ranks: 4, layout: world.Layout{CP: 2}},
	{model: "qwen3", ranks: 4, layout: world.Layout{CP: 2, TP: 2}, sequence: true, shard: true},
	{model: "qwen3_padded", ranks: 4, layout: world.Layout{CP: 2}},
	{model: "qwen3_moe", ranks: 8, layout: world.Layout{EP: 4}, shard: true},
	{model: "qwen3_moe", ranks: 4, layout: world.Layout{PP: 2, EP: 2}, micros: 2},
	{model: "qwen3_next", ranks: 4, layout: world.Layout{PP: 2, EP: 2}},
	{model: "qwen3", ranks: 4, layout: world.Layout{TP: 2, PP: 2}, sequence: true, micros: 4, zero: true},
	{model: "qwen3_moe", ranks: 4, layout: world.Layout{PP: 2, EP: 2}, micros: 2, zero: true},
	{model: "qwen3_5", ranks: 2, layout: world.Layout{PP: 2}, micros: 4, zero: true},
	{model: "qwen3", ranks: 8, layout: world.Layout{TP: 2, PP: 2}, sequence: true, micros: 2, zero: true, dist: true},
	{model: "qwen3_moe", ranks: 4, layout: world.Layout{EP: 2}, micros: 2, dist: true},
	{model: "qwen3_5", ranks: 4, layout: world.Layout{CP: 2}, dist: true},
	{model: "qwen3", ranks: 4, layout: world.Layout{PP: 2}, micros: 2, shard: true},
	{model: "qwen3_next", ranks: 4, layout: world.Layout{PP: 2, EP: 2}, micros: 2, shard: true},
	{model: "qwen3_moe", ranks: 4, layout: world.Layout{EP: 2}, shard: true, rules: []parallel.ShardRule{
		{Module: "self_attn.*", Weight: "weight", Role: parallel.WholeWeight}, {Module: "experts", Weight: "down_proj", Role: parallel.WholeWeight}, {Module: "*norm", Weight: "weight", Role: parallel.WholeWeight},
	}},
	{model: "qwen3_next", ranks: 2, shard: true},
	{model: "qwen3_5", ranks: 4, shard: true},
	{model: "qwen3_5", ranks: 4, layout: world.Layout{TP: 2}, shard: true},
	{model: "qwen3_5", ranks: 8, layout: world.Layout{TP: 2, CP: 2, PP: 2}, sequence: true, ulysses: 2},
	{model: "qwen3_5_padded", ranks: 2, layout: world.Layout{TP: 2}},
	{model: "qwen3_5", ranks: 8, layout: world.Layout{CP: 2}, ulysses: 2, shard: true, replicas: 2},
	{model: "qwen3_moe", ranks: 8, layout: world.Layout{EP: 4}, shard: true, replicas: 2},
	{model: "qwen3_moe", ranks: 3, shard: true, nz: true},
	{model: "qwen3_next", ranks: 4, layout: world.Layout{TP: 2, EP: 2}, sequence: true},
	{model: "qwen3_moe", ranks: 8, layout: world.Layout{EP: 4}, capacity: 2},
	{model: "qwen3_moe", ranks: 4, layout: world.Layout{EP: 2}, capacity: 1, micros: 2},
	{model: "qwen3_moe", ranks: 4, layout: world.Layout{TP: 2, EP: 2}, sequence: true, capacity: 4},
	{model: "qwen3_moe", ranks: 4, layout: world.Layout{PP: 2, EP: 2}, micros: 2, zero: true, capacity: 1.5},
	{model: "qwen3_next", ranks: 4, layout: world.Layout{PP: 2, EP: 2}, micros: 2, shard: true, capacity: 2},
	{model: "qwen3_next", ranks: 4, layout: world.Layout{TP: 2, EP: 2}, sequence: true, capacity: 2},
	{model: "qwen3_moe", ranks: 4, layout: world.Layout{TP: 2, EP: 2, ExpertTP: 2}, sequence: true},
	{model: "qwen3_moe", ranks: 4, layout: world.Layout{TP: 2, EP: 2, ExpertTP: 2}, sequence: true, capacity: 2},
	{model: "qwen3_moe", ranks: 2, layout: world.Layout{ExpertTP: 2}, capacity: 1, micros: 2},
	{model: "qwen3_moe", ranks: 8, layout: world.Layout{EP: 2, ExpertTP: 2}, shard: true, nz: true},
	{model: "qwen3_next", ranks: 8, layout: world.Layout{PP: 2, ExpertTP: 2}, micros: 2, dist: true, capacity: 2},
}

// TestParallelTraining checks that a model trains with every parallelism as PyTorch trains it on
// one device. The ranks are goroutines.
func TestParallelTraining(t *testing.T) {
	for _, s := range spreads {
		t.Run(s.String(), func(t *testing.T) {
			if s.ranks > 4 && testing.Short() {
				t.Skip("many ranks")
			}
			if s.nz {
				needNZ(t)
			}
			run := golden.Model(t, s.model)
			onRanks(t, s.ranks, s.whole(), func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) error {
				return trainGolden(ctx, t, run, s, st, reg, ranks)
			})
		})
	}
}

// envSpread is set in the processes that TestParallelProcesses starts: which of spreads to run.
const envSpread = "QWEN_TEST_SPREAD"

// TestParallelProcesses does the same with one process per rank.
func TestParallelProcesses(t *testing.T) {
	if number := os.Getenv(envSpread); number != "" {
		i, err := strconv.Atoi(number)
		require.NoError(t, err)
		trainProcess(t, spreads[i])
		return
	}
	if testing.Short() {
		t.Skip("many processes")
	}
	acltest.Need(t)
	for i, s := range spreads[:processSpreads] {
		t.Run(s.String(), func(t *testing.T) {
			number := freeport.Number(t, freeport.Free(t))
			var wg sync.WaitGroup
			for rank := range s.ranks {
				wg.Go(func() {
					c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestParallelProcesses$")
					c.Env = append(os.Environ(), envSpread+"="+strconv.Itoa(i), "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+number,
						fmt.Sprint("RANK=", rank), fmt.Sprint("LOCAL_RANK=", rank), fmt.Sprint("WORLD_SIZE=", s.ranks), fmt.Sprint("LOCAL_WORLD_SIZE=", s.ranks))
					out, err := c.CombinedOutput()
					assert.NoError(t, err, "rank %d: %s", rank, out)
				})
			}
			wg.Wait()
		})
	}
}

// trainProcess is this process's rank.
func trainProcess(t *testing.T, s spread) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	place, err := world.Detect()
	require.NoError(t, err)
	g, err := world.Join(ctx, place, world.GroupConfig{})
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Close()) }()
	rt, err := acl.Open(acl.Config{})
	require.NoError(t, err)
	run := golden.Model(t, s.model)
	require.NoError(t, onRank(ctx, rt, g, place.Device, s.whole(), func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) error {
		return trainGolden(ctx, t, run, s, st, reg, ranks)
	}))
	require.NoError(t, rt.Close())
	require.Empty(t, acl.Live())
}

// repeats is how often a batch contains each row of the run, with different labels each time, so
// that every rank and micro-batch has rows.
func (s spread) repeats(run *golden.Training, parts int) int {
	n := 1
	for n*run.Batch%(parts*max(s.micros, 1)) != 0 {
		n++
	}
	return n
}

// repeated returns a batch with each row n times: copy c keeps the labels at c, c+n, …. Together
// the copies have the loss of the batch.
func repeated(b model.Batch, n int) model.Batch {
	out := model.Batch{Size: n * b.Size, Length: b.Length}
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

// work is the code that a rank runs with its device and its place.
type work func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) error

// onRanks runs f on ranks of this process, each with what a model needs.
func onRanks(t *testing.T, n int, layout model.Layout, f work) {
	rt := acltest.Open(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	groups, err := world.LocalGroups(ctx, n, world.GroupConfig{})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i, g := range groups {
		wg.Go(func() {
			defer func() { assert.NoError(t, g.Close()) }()
			assert.NoError(t, onRank(ctx, rt, g, i, layout, f))
		})
	}
	wg.Wait()
}

// onRank opens a device and joins the others.
func onRank(ctx context.Context, rt *acl.Runtime, g *world.Group, device int, layout model.Layout, f work) (err error) {
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
	ranks, err := model.Join(ctx, st, g, layout)
	if err != nil {
		return err
	}
	defer closing(&err, ranks)
	return f(ctx, st, reg, ranks)
}

// TestParallelCheckpoints checks that training continues unchanged after ranks stop and resume,
// with replicated and with sharded weights.
func TestParallelCheckpoints(t *testing.T) {
	run := golden.Model(t, "qwen3_moe")
	for _, shard := range []bool{false, true} {
		for _, dt := range []aclnn.DType{aclnn.Float32, aclnn.BFloat16} {
			t.Run(fmt.Sprintf("sharded %t/%v", shard, dt), func(t *testing.T) {
				dir := t.TempDir()
				var mu sync.Mutex
				straight := map[string][]float32{} // by rank and weight
				train := func(from, to int, check bool) {
					onRanks(t, 4, model.Layout{Layout: world.Layout{EP: 2}}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) (err error) {
						par := ranks.Parallel
						par.Shard = shard
						cfg, err := model.ParseConfig(run.Config.Raw)
						if err != nil {
							return err
						}
						m, err := model.NewParallel(st, reg, cfg, dt, par)
						if err != nil {
							return err
						}
						defer closing(&err, m)
						opt, err := model.NewOptimizer(m, model.AdamW{LR: 1e-2, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, WeightDecay: 0.1, MaxNorm: 1})
						if err != nil {
							return err
						}
						defer closing(&err, opt)
						if from == 0 {
							err = m.Init(ctx, 7)
						} else {
							err = restored(ctx, dir, m, opt)
						}
						if err != nil {
							return err
						}
						for step := from; step < to; step++ {
							b := repeated(batch(run, step), 2)
							if _, err := m.Gradients(ctx, b.Rows(ranks.Index, 1)); err != nil {
								return err
							}
							if _, err := opt.Step(ctx); err != nil {
								return err
							}
						}
						if from == 0 && to < len(run.Losses) {
							return saved(ctx, dir, m, opt, ranks)
						}
						for _, p := range m.Parameters() {
							values, err := m.Get(ctx, p)
							if err != nil {
								return err
							}
							key := fmt.Sprint(ranks.Index, p.Name)
							mu.Lock()
							if check {
								assert.Equal(t, straight[key], values, p.Name)
							} else {
								straight[key] = values
							}
							mu.Unlock()
						}
						return nil
					})
				}
				train(0, len(run.Losses), false)
				train(0, 2, false)
				train(2, len(run.Losses), true)
				require.NotEmpty(t, straight)
			})
		}
	}
}

// trainGolden trains one rank of a run. It returns the losses over all ranks and this rank's parts
// of the weights.
func trainGolden(ctx context.Context, t *testing.T, run *golden.Training, s spread, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) (err error) {
	par := ranks.Parallel
	par.Sequence, par.Shard, par.MicroBatches, par.ZeroBubble = s.sequence, s.shard, s.micros, s.zero
	par.DistributedOptimizer, par.ShardRules, par.ExpertCapacity = s.dist, s.rules, s.capacity
	cfg, err := model.ParseConfig(run.Config.Raw)
	if err != nil {
		return err
	}
	cfg.GroupedNZ = s.nz
	m, err := model.NewParallel(st, reg, cfg, aclnn.Float32, par)
	if err != nil {
		return err
	}
	defer closing(&err, m)
	for _, p := range m.Parameters() {
		if err := m.Set(ctx, p, run.Sub("init").Float32(p.Name)); err != nil {
			return err
		}
	}
	opt, err := model.NewOptimizer(m, model.AdamW{
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
		if !assert.Len(t, got, len(want), p.Name) {
			continue
		}
		sum := 0.0
		for i := range got {
			d := float64(got[i]) - float64(want[i])
			sum += d * d
		}
		assert.LessOrEqual(t, math.Sqrt(sum/float64(len(want))), 2e-5, "weights of %s", p.Name)
	}
	return nil
}

// saved writes a checkpoint and waits for it.
func saved(ctx context.Context, dir string, m *model.Model, o *model.Optimizer, ranks *model.Ranks) (err error) {
	group, err := job.Whole(ctx, ranks.Group, "checkpoint")
	if err != nil {
		return err
	}
	s, err := checkpoint.NewSaver(ctx, group, dir, 1)
	if err != nil {
		return err
	}
	defer closing(&err, s)
	about, err := model.About(o)
	if err != nil {
		return err
	}
	tensors, err := model.Snapshot(ctx, o)
	if err != nil {
		return err
	}
	return s.Save(ctx, about, tensors)
}

// restored reads the newest checkpoint.
func restored(ctx context.Context, dir string, m *model.Model, o *model.Optimizer) (err error) {
	set, err := checkpoint.Open(dir)
	if err != nil {
		return err
	}
	defer closing(&err, set)
	return model.Restore(ctx, set, o)
}

// closing closes c and adds its error to that of the function that defers it.
func closing(err *error, c interface{ Close() error }) {
	if e := c.Close(); *err == nil {
		*err = e
	}
}

// TestPackedContext checks that packed sequences may be cut anywhere, by both kinds of context
// parallelism.
func TestPackedContext(t *testing.T) {
	for _, name := range []string{"qwen3", "qwen3_5"} {
		for _, ulysses := range []int{1, 2, 4} {
			t.Run(fmt.Sprintf("%s/ulysses %d", name, ulysses), func(t *testing.T) { trainPacked(t, name, ulysses) })
		}
	}
}

func trainPacked(t *testing.T, name string, ulysses int) {
	run := golden.Model(t, name)
	ids := run.Int64("ids")
	b := model.Batch{Size: 1, CuSeqLens: []int64{0, 9, 10, 80, 144}, Length: 144}
	for i := range b.Length {
		b.Inputs, b.Labels = append(b.Inputs, int32(ids[i])), append(b.Labels, int32(ids[i+1]))
	}
	b.Targets = b.Length
	train := func(ranks int) (losses []float64) {
		onRanks(t, ranks, model.Layout{Layout: world.Layout{CP: ranks}, Ulysses: min(ulysses, ranks)}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, r *model.Ranks) (err error) {
			cfg, err := model.ParseConfig(run.Config.Raw)
			if err != nil {
				return err
			}
			m, err := model.NewParallel(st, reg, cfg, aclnn.Float32, r.Parallel)
			if err != nil {
				return err
			}
			defer closing(&err, m)
			opt, err := model.NewOptimizer(m, model.AdamW{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8})
			if err != nil {
				return err
			}
			defer closing(&err, opt)
			if err := m.Init(ctx, 3); err != nil {
				return err
			}
			for range 3 {
				loss, err := m.Gradients(ctx, b)
				if err != nil {
					return err
				}
				if r.World == nil || r.World.Rank() == 0 {
					losses = append(losses, loss)
				}
				if _, err := opt.Step(ctx); err != nil {
					return err
				}
			}
			return nil
		})
		return losses
	}
	one := train(1)
	for _, ranks := range []int{2, 4} {
		require.InEpsilonSlice(t, one, train(ranks), 5e-5, "%d ranks", ranks)
	}
}
