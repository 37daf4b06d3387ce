package model_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
)

// batchOf is the i-th batch of a golden run's tokens, shifted by i.
func batchOf(ids []int64, size, length, i int) model.Batch {
	b := model.Batch{Size: size, Length: length}
	for k := range size * length {
		at := (k + 7*i) % (len(ids) - 1)
		b.Inputs, b.Labels = append(b.Inputs, int32(ids[at])), append(b.Labels, int32(ids[at+1]))
	}
	return b
}

// TestTrainerEqualsEager: replays of a captured training step give the losses, norms and weights of
// the same steps launched operator by operator, bit by bit, and nearly those of Gradients and
// Optimizer.Step. The learning rate changes at every step, and the batch once.
func TestTrainerEqualsEager(t *testing.T) {
	const steps = 8
	options := model.AdamW{Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, WeightDecay: 0.1, MaxNorm: 1}
	for _, name := range []string{"qwen3", "qwen3_moe", "qwen3_next", "qwen3_5"} {
		for _, dt := range []aclnn.DType{aclnn.Float32, aclnn.BFloat16} {
			t.Run(name+" "+dt.String(), func(t *testing.T) {
				if testing.Short() && dt != aclnn.Float32 {
					t.Skip("short")
				}
				st, reg := setUp(t)
				train := func(step func(m *model.Model, o *model.Optimizer, tr *model.Trainer, b model.Batch) (loss, norm float64, err error)) (figures []float64, weights [][]float32) {
					m, run := newModel(t, st, reg, name, dt)
					o, err := model.NewOptimizer(m, options)
					require.NoError(t, err)
					defer func() { require.NoError(t, o.Close()) }()
					tr, err := model.NewTrainer(m, o)
					require.NoError(t, err)
					defer func() { require.NoError(t, tr.Close()) }()
					for i := range steps {
						length := 16
						if i > 4 {
							length = 11
						}
						o.Options.LR = 1e-3 / float64(i+1)
						loss, norm, err := step(m, o, tr, batchOf(run.Int64("ids"), 2, length, i))
						require.NoError(t, err, "step %d", i)
						require.Equal(t, i+1, o.Steps())
						figures = append(figures, loss, norm)
					}
					for _, p := range m.Parameters() {
						values, err := m.Get(t.Context(), p)
						require.NoError(t, err)
						weights = append(weights, values)
					}
					return figures, weights
				}
				replayed := func(eager bool) ([]float64, [][]float32) {
					return train(func(_ *model.Model, _ *model.Optimizer, tr *model.Trainer, b model.Batch) (float64, float64, error) {
						tr.Eager = eager
						return tr.Step(t.Context(), b)
					})
				}
				want, wantWeights := replayed(true)
				got, gotWeights := replayed(false)
				require.Equal(t, want, got, "losses and norms")
				require.Equal(t, wantWeights, gotWeights)
				plain, _ := train(func(m *model.Model, o *model.Optimizer, _ *model.Trainer, b model.Batch) (float64, float64, error) {
					loss, err := m.Gradients(t.Context(), b)
					require.NoError(t, err)
					norm, err := o.Step(t.Context())
					return loss, norm, err
				})
				limit := 1e-4
				if dt == aclnn.BFloat16 {
					limit = 5e-2
				}
				for i := range plain {
					require.LessOrEqual(t, math.Abs(plain[i]-got[i]), limit*math.Max(1, math.Abs(plain[i])), "figure %d", i)
				}
				require.Zero(t, acl.Live()[acl.KindGraph])
			})
		}
	}
}

func TestTrainerRefusals(t *testing.T) {
	st, reg := setUp(t)
	m, run := newModel(t, st, reg, "qwen3", aclnn.Float32)
	o, err := model.NewOptimizer(m, model.AdamW{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8})
	require.NoError(t, err)
	defer func() { require.NoError(t, o.Close()) }()
	_, err = model.NewTrainer(nil, o)
	require.Error(t, err)
	tr, err := model.NewTrainer(m, o)
	require.NoError(t, err)
	defer func() { require.NoError(t, tr.Close()) }()
	b := batchOf(run.Int64("ids"), 2, 8, 0)
	b.Lengths = []int64{8, 5}
	_, _, err = tr.Step(t.Context(), b)
	require.ErrorContains(t, err, "without padding")
	b.Lengths, b.Inputs[3] = nil, 1000
	_, _, err = tr.Step(t.Context(), b)
	require.ErrorContains(t, err, "vocabulary")
	require.Zero(t, o.Steps())
}

// TestTrainingReplaySparesTheHost: queueing a replay takes at most a tenth of the time of the
// launches.
func TestTrainingReplaySparesTheHost(t *testing.T) {
	st, reg := setUp(t)
	m, run := newModel(t, st, reg, "qwen3", aclnn.Float32)
	o, err := model.NewOptimizer(m, model.AdamW{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, MaxNorm: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, o.Close()) }()
	tr, err := model.NewTrainer(m, o)
	require.NoError(t, err)
	defer func() { require.NoError(t, tr.Close()) }()
	b := batchOf(run.Int64("ids"), 1, 4, 0)
	_, _, err = tr.Step(t.Context(), b)
	require.NoError(t, err)
	requireSpared(t, st, "training step", func(eager bool) error {
		tr.Eager = eager
		return tr.Queue(t.Context(), b)
	})
}
