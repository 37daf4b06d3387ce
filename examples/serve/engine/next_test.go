package engine

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNext: only tokens that may come next keep their logits; a folder may name ends of a text that the model does not have.
func TestNext(t *testing.T) {
	never := float32(math.Inf(-1))
	for _, c := range []struct {
		next Next
		want []float32
		some bool
	}{
		{Next{Tokens: []uint64{0b101}}, []float32{1, never, 3, never}, true},
		{Next{Tokens: []uint64{0b101}, End: true}, []float32{1, never, 3, 4}, true},
		{Next{End: true}, []float32{never, never, never, 4}, true},
		{Next{}, []float32{never, never, never, never}, false},
	} {
		logits := []float32{1, 2, 3, 4}
		require.Equal(t, c.some, c.next.apply(logits, []int32{-1, 3, 4, 1 << 30}))
		require.Equal(t, c.want, logits)
	}
	require.False(t, Next{Tokens: []uint64{1}}.Has(-1))
	require.False(t, Next{Tokens: []uint64{1}}.Has(64))
}
