package model_test

import (
	"context"
	"errors"
	"fmt"
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

// deep is a dense model of some layers and words.
func deep(layers, words int) model.Config {
	return model.Config{
		ModelType: "qwen3", VocabSize: words, HiddenSize: 64, IntermediateSize: 160, Layers: layers, Heads: 4, KVHeads: 2, HeadDim: 16,
		RMSNormEps: 1e-6, RopeTheta: 1e6, InitializerRange: 0.02,
	}
}

func deepBatch(words int) model.Batch {
	b := model.Batch{Size: 2, Length: 128}
	for i := range b.Size * b.Length {
		b.Inputs, b.Labels = append(b.Inputs, int32(i*7%words)), append(b.Labels, int32(i*5%words))
	}
	return b
}

// peak runs f once to warm up, and returns the most memory that it holds the second time beyond what was held before.
func peak(t *testing.T, st *acl.Stream, f func() error) int {
	require.NoError(t, f())
	require.NoError(t, st.Synchronize(t.Context()))
	memory := st.Device().Allocator()
	before := memory.Stats().InUse
	memory.ResetPeaks()
	require.NoError(t, f())
	require.NoError(t, st.Synchronize(t.Context()))
	require.Equal(t, before, memory.Stats().InUse, "something was not freed")
	return memory.Stats().PeakInUse - before
}

func deepModel(t *testing.T, cfg model.Config) (*model.Model, *acl.Stream) {
	st, reg := setUp(t)
	m, err := model.New(st, reg, cfg, aclnn.Float32)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	require.NoError(t, m.Init(t.Context(), 1))
	return m, st
}

// TestMemoryOfSteps: a training step needs hardly more memory than its forward pass, an evaluation no more with more layers, and recomputing and
// offloading less and less.
func TestMemoryOfSteps(t *testing.T) {
	const layers, words = 16, 300
	b := deepBatch(words)
	m, st := deepModel(t, deep(layers, words))
	step := func() error { return errorOf(m.Gradients(t.Context(), b)) }
	forward := peak(t, st, func() error { return m.ForwardAlone(t.Context(), b) })
	peaks := map[model.Recompute]int{}
	for _, r := range []model.Recompute{model.RecomputeNone, model.RecomputeAttention, model.RecomputeBlock, model.RecomputeFull} {
		require.NoError(t, m.SetMemory(model.Memory{Recompute: r}))
		peaks[r] = peak(t, st, step)
	}
	require.NoError(t, m.SetMemory(model.Memory{Recompute: model.RecomputeBlock, Offload: true}))
	offloaded := peak(t, st, step)
	evaluated := peak(t, st, func() error { return errorOf(m.Loss(t.Context(), b)) })
	shallow, st := deepModel(t, deep(2, words))
	few := peak(t, st, func() error { return errorOf(shallow.Loss(t.Context(), b)) })
	t.Logf("forward pass %d, step %v, offloaded %d, evaluation %d, of two layers %d", forward, peaks, offloaded, evaluated, few)
	assert.LessOrEqual(t, peaks[model.RecomputeNone], forward*110/100)
	assert.Less(t, peaks[model.RecomputeAttention], peaks[model.RecomputeNone]*3/4)
	assert.Less(t, peaks[model.RecomputeBlock], peaks[model.RecomputeNone]/4)
	assert.Less(t, peaks[model.RecomputeFull], peaks[model.RecomputeBlock])
	assert.Less(t, offloaded, peaks[model.RecomputeBlock])
	assert.LessOrEqual(t, evaluated, few*105/100)
}

// TestMemoryOfLogits: with logits in parts the peak of a step, and of an evaluation, above weights and gradients does not depend on the number of words, up to
// Qwen3's, and the losses and gradients are the same but for rounding.
func TestMemoryOfLogits(t *testing.T) {
	var steps, evaluations []int
	for _, words := range []int{4000, 151936} {
		b := deepBatch(words)
		for i := range 100 {
			b.Labels[i] = -100
		}
		narrow := deep(2, words)
		narrow.HiddenSize = 16
		m, st := deepModel(t, narrow)
		want, err := m.Gradients(t.Context(), b)
		require.NoError(t, err)
		var gradients [][]float32
		for _, p := range m.Parameters() {
			gradients = append(gradients, download(t, st, p.Grad))
		}
		require.NoError(t, m.SetMemory(model.Memory{LogitBytes: 1 << 20}))
		loss, err := m.Gradients(t.Context(), b)
		require.NoError(t, err)
		require.InEpsilon(t, want, loss, 1e-6)
		for i, p := range m.Parameters() {
			require.NoError(t, golden.CheckRMS(download(t, st, p.Grad), gradients[i], 2e-6), p.Name)
		}
		loss, err = m.Loss(t.Context(), b)
		require.NoError(t, err)
		require.InEpsilon(t, want, loss, 1e-6)
		steps = append(steps, peak(t, st, func() error { return errorOf(m.Gradients(t.Context(), b)) }))
		evaluations = append(evaluations, peak(t, st, func() error { return errorOf(m.Loss(t.Context(), b)) }))
	}
	t.Log(steps, evaluations)
	assert.LessOrEqual(t, steps[1], steps[0]*101/100)
	assert.LessOrEqual(t, evaluations[1], evaluations[0]*101/100)
}

// TestMemoryOfShards: shards take the gradients of each micro-batch, so that more micro-batches need no more memory than one.
func TestMemoryOfShards(t *testing.T) {
	const layers, words = 16, 300
	peaks := map[int]int{}
	for _, micros := range []int{1, 3} {
		onRanks(t, 2, model.Layout{}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) (err error) {
			par := ranks.Parallel
			par.Shard, par.MicroBatches = true, micros
			m, err := model.NewParallel(st, reg, deep(layers, words), aclnn.Float32, par)
			if err != nil {
				return err
			}
			defer closing(&err, m)
			if err := errors.Join(m.Init(ctx, 1), m.SetMemory(model.Memory{Recompute: model.RecomputeBlock})); err != nil {
				return err
			}
			b := model.Batch{Size: micros, Length: 32, Inputs: make([]int32, 32*micros), Labels: make([]int32, 32*micros), Targets: 64 * micros}
			before := st.Device().Allocator().Stats().InUse
			if _, err := m.Gradients(ctx, b); err != nil {
				return err
			}
			if ranks.Group.Rank() == 0 {
				peaks[micros] = m.Peaks().Largest() - before
			}
			return nil
		})
	}
	require.Less(t, peaks[3], peaks[1]*11/10, "%v", peaks)
}

// TestRecomputedGradients: no way to save memory changes a bit of what two steps train, in each family and layout; logits in parts change rounding.
func TestRecomputedGradients(t *testing.T) {
	modes := []model.Memory{{Recompute: model.RecomputeAttention}, {Recompute: model.RecomputeFull}, {Recompute: model.RecomputeBlock}, {Recompute: model.RecomputeBlock, Offload: true}}
	for _, s := range []spread{
		{model: "qwen3", ranks: 1, micros: 2}, {model: "qwen3_moe", ranks: 1, shard: true}, {model: "qwen3_next", ranks: 1}, {model: "qwen3_5_padded", ranks: 1},
		{model: "qwen3", ranks: 2, layout: world.Layout{PP: 2}, micros: 2}, {model: "qwen3_moe", ranks: 2, layout: world.Layout{EP: 2}, shard: true},
		{model: "qwen3", ranks: 2, layout: world.Layout{TP: 2}, sequence: true}, {model: "qwen3_5", ranks: 2, layout: world.Layout{CP: 2}, ulysses: 2},
	} {
		t.Run(s.String(), func(t *testing.T) {
			run := golden.Model(t, s.model)
			trained := func(o model.Memory) (result []string) {
				onRanks(t, s.ranks, s.whole(), func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) (err error) {
					cfg, err := model.ParseConfig(run.Config.Raw)
					if err != nil {
						return err
					}
					cfg.RouterLoss, cfg.RouterLossScale = cfg.Experts > 0, 0.1
					par := ranks.Parallel
					par.Shard, par.Sequence, par.MicroBatches = s.shard, s.sequence, s.micros
					m, err := model.NewParallel(st, reg, cfg, aclnn.Float32, par)
					if err != nil {
						return err
					}
					defer closing(&err, m)
					if err := m.Init(ctx, 3); err != nil {
						return err
					}
					opt, err := model.NewOptimizer(m, model.AdamW{LR: 1e-2, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, MaxNorm: 1})
					if err != nil {
						return err
					}
					defer closing(&err, opt)
					if err := m.SetMemory(o); err != nil {
						return err
					}
					var own string
					for step := range 2 {
						b := batch(run, step)
						b = repeated(b, s.repeats(run, ranks.Parts))
						rows := b.Size / ranks.Parts
						loss, err := m.Gradients(ctx, b.Rows(ranks.Index*rows, rows))
						if err != nil {
							return err
						}
						norm, err := opt.Step(ctx)
						if err != nil {
							return err
						}
						own += fmt.Sprintf("loss %x norm %x\n", loss, norm)
					}
					for _, p := range m.Parameters() {
						values, err := m.Get(ctx, p)
						if err != nil {
							return err
						}
						own += fmt.Sprintf("%s %x\n", p.Name, values)
					}
					if ranks.Group.Rank() == s.ranks-1 {
						result = append(result, own)
					}
					return nil
				})
				return result
			}
			want := trained(model.Memory{})
			for _, o := range modes {
				require.True(t, assert.ObjectsAreEqual(want, trained(o)), "%+v", o)
			}
		})
	}
}

// TestMemoryRefusals: what makes no sense is refused by name.
func TestMemoryRefusals(t *testing.T) {
	m, _ := deepModel(t, deep(1, 20))
	for text, o := range map[string]model.Memory{
		`recompute "all"`: {Recompute: "all"}, "use block": {Offload: true}, "LogitBytes is -1": {LogitBytes: -1},
	} {
		err := m.SetMemory(o)
		require.ErrorIs(t, err, acl.ErrInvalidArgument)
		require.ErrorContains(t, err, text)
	}
}

// TestLogitsInParts: with an adapter of the output head, with several adapters, and while anomalies are looked for, logits in parts have the same losses and gradients as whole
// ones but for rounding, and need less memory.
func TestLogitsInParts(t *testing.T) {
	r := openAdapterRun(t, "qwen3")
	lora := model.LoRA{Rank: 3, Alpha: 5, Targets: []string{"q_proj", "lm_head"}}
	adapted := func(t *testing.T, m *model.Model) *model.Adapter {
		a, err := model.NewAdapter(t.Context(), m, lora, 3)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, a.Close()) })
		require.NoError(t, random(t.Context(), a))
		return a
	}
	b := r.batch(t, "a", 0)
	for i := range 50 { // a part without labels, and one with some
		b.Labels[i] = -1
	}
	for name, prepare := range map[string]func(t *testing.T, m *model.Model) (adapters []*model.Adapter, step func() ([]float64, error)){
		"adapter of the head": func(t *testing.T, m *model.Model) ([]*model.Adapter, func() ([]float64, error)) {
			a := adapted(t, m)
			require.NoError(t, m.Use(a))
			return []*model.Adapter{a}, func() ([]float64, error) {
				loss, err := m.Gradients(t.Context(), b)
				return []float64{loss}, err
			}
		},
		"anomalies": func(t *testing.T, m *model.Model) ([]*model.Adapter, func() ([]float64, error)) {
			lora.Targets = []string{"q_proj"}
			a := adapted(t, m)
			require.NoError(t, m.Use(a))
			m.DetectAnomalies(true)
			return []*model.Adapter{a}, func() ([]float64, error) {
				loss, err := m.Gradients(t.Context(), b)
				return []float64{loss}, err
			}
		},
		"several adapters": func(t *testing.T, m *model.Model) ([]*model.Adapter, func() ([]float64, error)) {
			lora.Targets = []string{"q_proj", "lm_head"}
			first := adapted(t, m)
			lora.Targets = []string{"v_proj"}
			all := []*model.Adapter{first, adapted(t, m)}
			require.NoError(t, m.UseEach(all...))
			return all, func() ([]float64, error) {
				losses, err := m.GradientsEach(t.Context(), mixed([]int{1, 1, 2}, model.Batch{Length: 40}, b, r.batch(t, "b", 1)))
				return losses[1:], err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			st, reg := setUp(t)
			m := r.base(t, st, reg, aclnn.Float32, model.Parallel{})
			adapters, step := prepare(t, m)
			gradients := func() (all [][]float32) {
				for _, a := range adapters {
					for _, p := range a.Parameters() {
						all = append(all, download(t, st, p.Grad))
					}
				}
				return all
			}
			losses, err := step()
			require.NoError(t, err)
			want := gradients()
			whole := peak(t, st, func() error { _, err := step(); return err })
			require.NoError(t, m.SetMemory(model.Memory{LogitBytes: int64(7 * 4 * m.Config.VocabSize)}))
			parts, err := step()
			require.NoError(t, err)
			for i, loss := range losses {
				require.InEpsilon(t, loss, parts[i], 1e-6)
			}
			for i, g := range gradients() {
				require.NoError(t, golden.CheckRMS(g, want[i], 2e-6), "gradient %d", i)
			}
			require.Less(t, peak(t, st, func() error { _, err := step(); return err }), whole*19/20)
		})
	}
}
