package model_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/internal/testing/golden"
)

// TestQuantize: with int8 weights and inputs a golden model gives nearly the logits of bfloat16, and the loss of its
// texts rises by less than a hundredth. The memory of the weights is freed.
func TestQuantize(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	for _, name := range []string{"qwen3", "qwen3_5", "qwen3_next"} {
		t.Run(name, func(t *testing.T) {
			st, reg := setUp(t)
			folder := filepath.Join(dir, "hub", name)
			cfg, err := model.ReadConfig(filepath.Join(folder, "config.json"))
			require.NoError(t, err)
			cfg.Frozen = true
			m, err := model.New(st, reg, cfg, aclnn.BFloat16)
			require.NoError(t, err)
			defer func() { require.NoError(t, m.Close()) }()
			require.NoError(t, m.Load(t.Context(), folder))
			var text struct{ IDs [][]int32 }
			raw, err := os.ReadFile(filepath.Join(folder, "expected.json"))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(raw, &text))

			logits := func() (all [][]float32) {
				for _, ids := range text.IDs {
					out, err := m.Logits(t.Context(), model.Batch{Size: 1, Length: len(ids), Inputs: ids, Labels: make([]int32, len(ids))})
					require.NoError(t, err)
					for at := 0; at < len(out); at += cfg.VocabSize {
						all = append(all, out[at:][:cfg.VocabSize])
					}
				}
				return all
			}
			want := logits()
			used := st.Device().Allocator().Stats().InUse
			saved, err := m.Quantize(t.Context())
			require.NoError(t, err)
			require.InDelta(t, saved, used-st.Device().Allocator().Stats().InUse, 1<<13, "but for rounding of allocations")
			got := logits()

			same, least, row := 0, 1., 0
			var before, after float64
			labels := 0
			for _, ids := range text.IDs {
				for i := range ids {
					w, g := want[row], got[row]
					least = min(least, cosine(w, g))
					if likeliest(w) == likeliest(g) {
						same++
					}
					if i+1 < len(ids) {
						before, after, labels = before+surprise(w, ids[i+1]), after+surprise(g, ids[i+1]), labels+1
					}
					row++
				}
			}
			t.Logf("%d bytes saved of %d; cosine at least %.5f; %d of %d likeliest tokens are the same; loss %.4f, before %.4f", saved, used, least, same, row, after/float64(labels), before/float64(labels))
			require.Greater(t, least, .99)
			require.Greater(t, float64(same), .9*float64(row))
			require.Less(t, math.Abs(after/before-1), .01)

			_, err = m.Quantize(t.Context())
			require.ErrorContains(t, err, "quantised")
		})
	}
}

// TestQuantizeRefusals: weights that are trained, or of 32 bits, stay as they are.
func TestQuantizeRefusals(t *testing.T) {
	st, reg := setUp(t)
	m, _ := newModel(t, st, reg, "qwen3", aclnn.Float32)
	_, err := m.Quantize(t.Context())
	require.ErrorContains(t, err, "a dtype of 16 bits")
}

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab, aa, bb = ab+float64(a[i])*float64(b[i]), aa+float64(a[i])*float64(a[i]), bb+float64(b[i])*float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}

func likeliest(logits []float32) (best int) {
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	return best
}

// surprise is the negative logarithm of a token's probability.
func surprise(logits []float32, token int32) float64 {
	sum := 0.
	for _, v := range logits {
		sum += math.Exp(float64(v))
	}
	return math.Log(sum) - float64(logits[token])
}
