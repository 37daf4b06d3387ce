package abi_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// The list names operators of the table, each once and in order.
func TestIndividual(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	text, err := os.ReadFile("individual.txt")
	require.NoError(t, err)
	last, n := "", 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, name := range strings.Fields(line) {
			_, ok := table.Operator(name)
			assert.True(t, ok, name)
			assert.Less(t, last, name)
			assert.True(t, abi.Individual(name), name)
			last, n = name, n+1
		}
	}
	assert.Greater(t, n, 100)
	for _, name := range []string{"Add", "FlashAttentionScore", ""} {
		assert.False(t, abi.Individual(name), name)
	}
}
