package parallel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
)

// TestStaysOnAICore checks that no operator of the parallel layers would leave the AI Core of a 910B
// for the AI CPU.
func TestStaysOnAICore(t *testing.T) {
	acltest.Trace(t, func(t *testing.T) {
		TestVocabularyParallelEmbedding(t)
		TestVocabularyParallelCrossEntropy(t)
		TestExpertParallel(t)
	}, func(t *testing.T, calls []acltest.Call) {
		require.Greater(t, len(calls), 100)
		for _, c := range calls {
			require.Empty(t, c.AICPU, c.Name)
		}
	})
}
