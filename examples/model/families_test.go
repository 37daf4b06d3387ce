package model_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/internal/testing/golden"
)

// TestGoldenFamilies compares gradients, and the logits behind the length that a scaled rotation began with.
func TestGoldenFamilies(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	folders, err := filepath.Glob(filepath.Join(dir, "families", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	for _, path := range folders {
		t.Run(filepath.Base(path), func(t *testing.T) {
			var want struct {
				LongIDs    [][]int32            `json:"long_ids"`
				LongLogits map[string][]float32 `json:"long_logits"`
			}
			text, err := os.ReadFile(filepath.Join(path, "expected.json"))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &want))
			cfg, err := model.ReadConfig(filepath.Join(path, "config.json"))
			require.NoError(t, err)
			st, reg := setUp(t)
			m, err := model.New(st, reg, cfg, aclnn.Float32)
			require.NoError(t, err)
			defer func() { require.NoError(t, m.Close()) }()
			require.NoError(t, m.Load(t.Context(), path))
			compareGradients(t, st, m, path)
			ids := want.LongIDs[0]
			logits, err := m.Logits(t.Context(), model.Batch{Size: 1, Length: len(ids), Inputs: ids, Labels: ids})
			require.NoError(t, err)
			require.NotEmpty(t, want.LongLogits)
			for at, row := range want.LongLogits {
				n, err := strconv.Atoi(at)
				require.NoError(t, err)
				for i, l := range row {
					require.InDelta(t, l, logits[n*cfg.VocabSize+i], 2e-5, "position %d, token %d", n, i)
				}
			}
		})
	}
}

// compareGradients compares samples of each weight's gradient with those in float64.
func compareGradients(t *testing.T, st *acl.Stream, m *model.Model, path string) {
	f, err := safetensors.Open(filepath.Join(path, "grad0.safetensors.golden"))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	var want struct{ IDs [][]int32 }
	text, err := os.ReadFile(filepath.Join(path, "expected.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &want))
	b := model.Batch{Size: len(want.IDs), Length: len(want.IDs[0]) - 1}
	for _, row := range want.IDs {
		b.Inputs, b.Labels = append(b.Inputs, row[:b.Length]...), append(b.Labels, row[1:]...)
	}
	_, err = m.Gradients(t.Context(), b)
	require.NoError(t, err)
	for _, p := range m.Parameters() {
		if strings.HasSuffix(p.Name, "e_score_correction_bias") { // training leaves it as it is
			require.Equal(t, make([]float32, p.Grad.Len()), download(t, st, p.Grad), p.Name)
			continue
		}
		at, values, rms := read[int64](t, f, p.Name+"/at"), read[float32](t, f, p.Name+"/values"), read[float32](t, f, p.Name+"/rms")
		got, sum := download(t, st, p.Grad), 0.0
		for i, where := range at {
			d := float64(got[where] - values[i])
			sum += d * d
		}
		require.LessOrEqual(t, math.Sqrt(sum/float64(len(at))), 2e-6*float64(rms[0]), p.Name)
	}
}

func read[T safetensors.Element](t *testing.T, f *safetensors.File, name string) []T {
	tensor, err := f.Tensor(name)
	require.NoError(t, err)
	values, err := safetensors.Values[T](tensor)
	require.NoError(t, err)
	return values
}
