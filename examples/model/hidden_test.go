package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
)

// TestHidden: the head makes the logits of a pass out of its hidden states.
func TestHidden(t *testing.T) {
	st, reg := setUp(t)
	m, run := newModel(t, st, reg, "qwen3", aclnn.Float32)
	b := model.Batch{Size: 1, Length: 5, Labels: make([]int32, 5)}
	for _, id := range run.Int64("ids")[:5] {
		b.Inputs = append(b.Inputs, int32(id))
	}
	states, err := m.Hidden(t.Context(), b)
	require.NoError(t, err)
	logits, err := m.Logits(t.Context(), b)
	require.NoError(t, err)
	h, v := m.Config.HiddenSize, m.Config.VocabSize
	require.Len(t, states, b.Length*h)
	name := "lm_head.weight"
	if m.Config.TieWordEmbeddings {
		name = "model.embed_tokens.weight"
	}
	head := run.Sub("init").Float32(name)
	for row := range b.Length {
		for token := range v {
			sum := 0.0
			for i := range h {
				sum += float64(states[row*h+i]) * float64(head[token*h+i])
			}
			require.InDelta(t, sum, logits[row*v+token], 1e-4)
		}
	}
}
