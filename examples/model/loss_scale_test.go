package model_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/checkpoint"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/hccl/world"
)

// TestLossScale: gradients that float16 cannot hold change no weight and halve the scale until they
// fit; then the step is made, with the norm that float32 has. A checkpoint keeps the scale.
func TestLossScale(t *testing.T) {
	ctx := t.Context()
	st, reg := setUp(t)
	make := func(dt aclnn.DType) (*model.Model, *model.Optimizer, model.Batch) {
		m, run := newModel(t, st, reg, "qwen3", dt)
		for _, p := range m.Parameters() {
			if p.Name == "lm_head.weight" { // its gradient times these overflows
				values, err := m.Get(ctx, p)
				require.NoError(t, err)
				for i := range values {
					values[i] *= 200
				}
				require.NoError(t, m.Set(ctx, p, values))
			}
		}
		o, err := model.NewOptimizer(m, model.AdamW{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, MaxNorm: 1})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, o.Close()) })
		b := batch(run, 0)
		for i := range b.Labels {
			if i != 5 {
				b.Labels[i] = -100
			}
		}
		return m, o, b
	}
	wide, exact, b := make(aclnn.Float32)
	require.EqualValues(t, 1, wide.LossScale())
	want, err := wide.Gradients(ctx, b)
	require.NoError(t, err)
	wantNorm, err := exact.Step(ctx)
	require.NoError(t, err)

	m, o, b := make(aclnn.Float16)
	before, err := m.Get(ctx, m.Parameters()[3])
	require.NoError(t, err)
	scale := 65536.
	for o.Steps() == 0 {
		require.Equal(t, scale, m.LossScale())
		loss, err := m.Gradients(ctx, b)
		require.NoError(t, err)
		require.InEpsilon(t, want, loss, 2e-2)
		norm, err := o.Step(ctx)
		require.NoError(t, err)
		values, err := m.Get(ctx, m.Parameters()[3])
		require.NoError(t, err)
		if o.Steps() == 1 {
			require.InEpsilon(t, wantNorm, norm, 2e-2)
			require.NotEqual(t, before, values)
			break
		}
		require.True(t, math.IsInf(norm, 1))
		require.Equal(t, before, values)
		scale /= 2
	}
	require.Less(t, scale, 65536., "the first gradients fit")

	about, err := model.About(o)
	require.NoError(t, err)
	require.NotEmpty(t, about.Data)
	dir := t.TempDir()
	tensors, err := model.Snapshot(ctx, o)
	require.NoError(t, err)
	groups, err := world.LocalGroups(ctx, 1, world.GroupConfig{})
	require.NoError(t, err)
	s, err := checkpoint.NewSaver(ctx, groups[0], dir, 1)
	require.NoError(t, err)
	require.NoError(t, s.Save(ctx, about, tensors))
	require.NoError(t, s.Close())
	other, again, _ := make(aclnn.Float16)
	require.NoError(t, restored(ctx, dir, other, again))
	require.Equal(t, scale, other.LossScale())
	require.NoError(t, restored(ctx, dir, wide, exact))
	require.EqualValues(t, 1, wide.LossScale())
	tr, err := model.NewTrainer(m, o)
	require.NoError(t, err)
	_, _, err = tr.Step(ctx, b)
	require.ErrorContains(t, err, "loss scale")
	require.NoError(t, tr.Close())
}
