package model_test

import (
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/internal/testing/golden"
)

// TestGoldenTraining repeats training runs of Hugging Face's Qwen3 in PyTorch and compares the
// losses of every step, the gradients of the first, and the weights after the last.
func TestGoldenTraining(t *testing.T) {
	for _, architecture := range []string{"Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "Qwen3NextForCausalLM", "Qwen3_5ForCausalLM"} {
		for _, name := range golden.Models(t, architecture) {
			t.Run(name, func(t *testing.T) { train(t, golden.Model(t, name), false) })
		}
	}
}

// TestGoldenTrainingNZ does the same with products of experts that read FRACTAL_NZ weights.
func TestGoldenTrainingNZ(t *testing.T) {
	needNZ(t)
	train(t, golden.Model(t, "qwen3_moe"), true)
}

func needNZ(t *testing.T) {
	if os.Getenv("CANN_EMU_API") != "" {
		t.Skip("CANN 8.1 has no product with FRACTAL_NZ weights of float32")
	}
}

func train(t *testing.T, run *golden.Training, groupedNZ bool) {
	ctx := t.Context()
	st, reg := setUp(t)
	cfg, err := model.ParseConfig(run.Config.Raw)
	require.NoError(t, err)
	cfg.GroupedNZ = groupedNZ
	m, err := model.New(st, reg, cfg, aclnn.Float32)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	weights := int64(0)
	for _, p := range m.Parameters() {
		require.NoError(t, m.Set(ctx, p, run.Sub("init").Float32(p.Name)))
		weights += p.Value.Len()
	}
	require.EqualValues(t, cfg.Parameters(), weights)
	opt, err := model.NewOptimizer(m, model.AdamW{
		LR: run.Optimizer.LR, Beta1: run.Optimizer.Betas[0], Beta2: run.Optimizer.Betas[1], Epsilon: run.Optimizer.Eps,
		WeightDecay: run.Optimizer.WeightDecay, MaxNorm: run.Optimizer.ClipGradNorm,
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, opt.Close()) }()

	for step := range run.Losses {
		b := batch(run, step)
		if step == 0 {
			logits, err := m.Logits(ctx, b)
			require.NoError(t, err)
			require.NoError(t, compareValid(run, logits))
		}
		loss, err := m.Gradients(ctx, b)
		require.NoError(t, err)
		require.InEpsilon(t, run.Losses[step], loss, 1e-6, "loss of step %d", step)
		if step == 0 {
			for _, p := range m.Parameters() {
				require.NoError(t, golden.CheckRMS(download(t, st, p.Grad), run.Sub("grad0").Float32(p.Name), 2e-6), p.Name)
			}
		}
		norm, err := opt.Step(ctx)
		require.NoError(t, err)
		require.InEpsilon(t, run.GradNorms[step], norm, 1e-4, "gradient norm of step %d", step)
	}
	for _, p := range m.Parameters() {
		got, err := m.Get(ctx, p)
		require.NoError(t, err)
		want := run.Sub("final").Float32(p.Name)
		require.Len(t, got, len(want))
		sum := 0.0
		for i := range got {
			d := float64(got[i]) - float64(want[i])
			sum += d * d
		}
		require.LessOrEqual(t, math.Sqrt(sum/float64(len(want))), 1e-5, "weights of %s after %d steps", p.Name, len(run.Losses))
	}
}

// batch returns a step's data. The labels of the reference are not shifted: our label i is its
// label i+1.
func batch(run *golden.Training, step int) model.Batch {
	b := model.Batch{Size: run.Batch, Length: run.Seq}
	ids, labels := run.Int64("ids"), run.Int64("labels")
	n := run.Batch * run.Seq
	for i := step * n; i < (step+1)*n; i++ {
		b.Inputs = append(b.Inputs, int32(ids[i]))
		label := int32(-100)
		if (i+1)%run.Seq != 0 {
			label = int32(labels[i+1])
		}
		b.Labels = append(b.Labels, label)
	}
	if len(run.Lengths) > 0 {
		for _, l := range run.Lengths {
			b.Lengths = append(b.Lengths, int64(l))
		}
	}
	return b
}

// compareValid compares the logits of the positions that are not padding.
func compareValid(run *golden.Training, logits []float32) error {
	want := run.Float32("logits0")
	if len(run.Lengths) == 0 {
		return golden.CheckRMS(logits, want, 2e-5)
	}
	row := run.Seq * run.Config.VocabSize
	for b, l := range run.Lengths {
		n := l * run.Config.VocabSize
		if err := golden.CheckRMS(logits[b*row:b*row+n], want[b*row:b*row+n], 2e-5); err != nil {
			return fmt.Errorf("row %d: %w", b, err)
		}
	}
	return nil
}

// TestDTypesAgree checks that training in 16 bits follows float32 within their precision.
func TestDTypesAgree(t *testing.T) {
	for _, name := range []string{"qwen3", "qwen3_moe", "qwen3_next", "qwen3_5"} {
		for dt, limit := range map[aclnn.DType]float64{aclnn.BFloat16: 5e-3, aclnn.Float16: 1e-3} {
			t.Run(fmt.Sprint(name, " ", dt), func(t *testing.T) { trainNarrow(t, golden.Model(t, name), dt, limit) })
		}
	}
}

func trainNarrow(t *testing.T, run *golden.Training, dt aclnn.DType, limit float64) {
	ctx := t.Context()
	st, reg := setUp(t)
	cfg, err := model.ParseConfig(run.Config.Raw)
	require.NoError(t, err)
	m, err := model.New(st, reg, cfg, dt)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	for _, p := range m.Parameters() {
		require.NoError(t, m.Set(ctx, p, run.Sub("init").Float32(p.Name)))
	}
	opt, err := model.NewOptimizer(m, model.AdamW{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, WeightDecay: 0.1, MaxNorm: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, opt.Close()) }()
	for opt.Steps() < len(run.Losses) { // float16 drops steps until its scale fits
		step := opt.Steps()
		loss, err := m.Gradients(ctx, batch(run, step))
		require.NoError(t, err)
		require.InEpsilon(t, run.Losses[step], loss, limit, "loss of step %d", step)
		_, err = opt.Step(ctx)
		require.NoError(t, err)
		require.True(t, opt.Steps() > step || m.LossScale() >= 4096, "the scale is %v", m.LossScale())
	}
	require.False(t, slices.ContainsFunc(download(t, st, m.Parameters()[0].Master), func(x float32) bool { return x != x }), "NaN in the weights")
}
