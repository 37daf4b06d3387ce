package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/model"
)

// TestOperations holds the operations of a step against counts by hand: of a hidden size of 4 with one head of 2, 10 words, and 2 of 8 experts of size 3.
func TestOperations(t *testing.T) {
	c := model.Config{ModelType: "qwen3_moe", VocabSize: 10, HiddenSize: 4, Layers: 1, Heads: 1, KVHeads: 1, HeadDim: 2, Experts: 8, ExpertsPerToken: 2, MoEIntermediate: 3}
	weights := float64(c.Parameters() - 10*4 - 6*3*3*4) // without the table, and 6 experts
	pairs := func(n float64) float64 { return n * (n + 1) / 2 }
	require.Equal(t, 6*weights*5+12*2*pairs(5), c.Operations(5))
	require.Equal(t, c.Operations(5)+c.Operations(3), c.Operations(5, 3), "rows of a pack do not see each other")
	c.Frozen = true
	require.Equal(t, 4*weights*5+12*2*pairs(5), c.Operations(5), "no gradients of weights")
	c.Frozen, c.TieWordEmbeddings = false, true
	require.Equal(t, 6*weights*5+12*2*pairs(5), c.Operations(5), "the table is the head")

	w := model.Config{ModelType: "mistral", VocabSize: 10, HiddenSize: 4, IntermediateSize: 3, Layers: 1, Heads: 1, KVHeads: 1, HeadDim: 2, Window: 2}
	require.Equal(t, 6*float64(w.Parameters()-40)*5+12*2*(1+2*4), w.Operations(5), "a token sees two")

	h := model.Config{
		ModelType: "qwen3_next", VocabSize: 10, HiddenSize: 4, IntermediateSize: 3, Layers: 1, Heads: 1, KVHeads: 1, HeadDim: 2, LayerTypes: []string{"linear_attention"},
		LinearKeyHeads: 1, LinearValueHeads: 2, LinearKeyDim: 3, LinearValueDim: 5, LinearTaps: 4, Experts: 8, ExpertsPerToken: 2, MoEIntermediate: 3, SharedIntermediate: 3,
	}
	require.Equal(t, 2*h.Operations(5), h.Operations(10), "a delta net is linear in tokens")
	without := 6 * float64(h.Parameters()-h.IdleParameters()-40) * 5
	require.Equal(t, without+3*6*5*2*3*5, h.Operations(5))

	b := model.Batch{Size: 1, Length: 7, CuSeqLens: []int64{0, 3, 7}}
	require.Equal(t, []int64{3, 4}, b.Sequences())
	require.Equal(t, []int64{7, 7}, model.Batch{Size: 2, Length: 7}.Sequences())
	require.Equal(t, []int64{2, 1}, model.Batch{Size: 2, Length: 7, Lengths: []int64{2, 1}}.Sequences())
}
