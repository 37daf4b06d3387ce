package model_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
)

// TestDetectAnomalies: the first layer with NaN or infinite numbers is named, and without any the
// step is as before.
func TestDetectAnomalies(t *testing.T) {
	for _, dt := range []aclnn.DType{aclnn.Float32, aclnn.BFloat16} {
		for weight, want := range map[string]string{
			"":                                       "",
			"model.embed_tokens.weight":              "the embedding",
			"model.layers.0.self_attn.o_proj.weight": "layer 0, after its attention or delta net",
			"model.layers.1.mlp.down_proj.weight":    "layer 1, its feed-forward part",
			"lm_head.weight":                         "the logits",
		} {
			st, reg := setUp(t)
			m, run := newModel(t, st, reg, "qwen3", dt)
			b := batch(run, 0)
			plain, err := m.Gradients(t.Context(), b)
			require.NoError(t, err)
			for _, bad := range []float64{math.NaN(), math.Inf(1)} {
				for _, p := range m.Parameters() {
					if p.Name == weight {
						values, err := m.Get(t.Context(), p)
						require.NoError(t, err)
						for i := range values { // also in the row of every token
							values[i] = float32(bad)
						}
						require.NoError(t, m.Set(t.Context(), p, values))
					}
				}
				m.DetectAnomalies(true)
				loss, err := m.Gradients(t.Context(), b)
				if want == "" {
					require.NoError(t, err)
					require.Equal(t, plain, loss)
					continue
				}
				require.ErrorIs(t, err, model.ErrAnomaly)
				require.ErrorContains(t, err, want)
			}
		}
	}
}
