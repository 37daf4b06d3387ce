package model_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/internal/testing/golden"
)

// TestPaddingFree checks that sequences as padded rows and packed into one row have the same loss
// and gradients, and that packed sequences do not see each other.
func TestPaddingFree(t *testing.T) {
	lengths := []int64{9, 1, 70, 64} // around the chunks of the delta rule
	const longest = 70
	for _, name := range []string{"qwen3", "qwen3_moe", "qwen3_next", "qwen3_5"} {
		t.Run(name, func(t *testing.T) {
			st, reg := setUp(t)
			m, run := newModel(t, st, reg, name, aclnn.Float32)
			ids := run.Int64("ids")
			padded := model.Batch{Size: len(lengths), Length: longest, Lengths: lengths}
			packed := model.Batch{Size: 1, CuSeqLens: []int64{0}}
			for row, n := range lengths {
				for i := range longest {
					id, label := int32(ids[row*longest+i]), int32(ids[row*longest+i+1])
					if i >= int(n) {
						padded.Inputs, padded.Labels = append(padded.Inputs, id), append(padded.Labels, -1)
						continue
					}
					padded.Inputs, padded.Labels = append(padded.Inputs, id), append(padded.Labels, label)
					packed.Inputs, packed.Labels = append(packed.Inputs, id), append(packed.Labels, label)
				}
				packed.Length += int(n)
				packed.CuSeqLens = append(packed.CuSeqLens, int64(packed.Length))
			}
			want, err := m.Gradients(t.Context(), padded)
			require.NoError(t, err)
			grads := map[string][]float32{}
			for _, p := range m.Parameters() {
				grads[p.Name] = download(t, st, p.Grad)
			}
			got, err := m.Gradients(t.Context(), packed)
			require.NoError(t, err)
			require.InEpsilon(t, want, got, 1e-6)
			for _, p := range m.Parameters() {
				require.NoError(t, golden.CheckRMS(download(t, st, p.Grad), grads[p.Name], 1e-5), p.Name)
			}

			// Without boundaries the row has a different loss, so the boundaries matter.
			packed.CuSeqLens = nil
			joined, err := m.Gradients(t.Context(), packed)
			require.NoError(t, err)
			require.Greater(t, math.Abs(joined-want), 1e-5)
		})
	}
}

func TestPackedRefusals(t *testing.T) {
	st, reg := setUp(t)
	m, _ := newModel(t, st, reg, "qwen3_5", aclnn.Float32)
	for text, b := range map[string]model.Batch{
		"this one has 2 rows and 0 lengths": {Size: 2, Length: 2, CuSeqLens: []int64{0, 2}},
		"this one has 1 rows and 1 lengths": {Size: 1, Length: 4, CuSeqLens: []int64{0, 4}, Lengths: []int64{4}},
		"CuSeqLens is [0 3]":                {Size: 1, Length: 4, CuSeqLens: []int64{0, 3}},
		"CuSeqLens is [1 4]":                {Size: 1, Length: 4, CuSeqLens: []int64{1, 4}},
		"CuSeqLens is []":                   {Size: 1, Length: 4, CuSeqLens: []int64{}},
		"CuSeqLens is [0 2 2 4]":            {Size: 1, Length: 4, CuSeqLens: []int64{0, 2, 2, 4}},
	} {
		b.Inputs, b.Labels = make([]int32, 4), make([]int32, 4)
		_, err := m.Gradients(t.Context(), b)
		require.ErrorContains(t, err, text)
	}
}
