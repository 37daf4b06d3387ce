package soc_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/soc"
)

func TestLike(t *testing.T) {
	for _, name := range soc.Names() {
		c, err := soc.Named(name)
		require.NoError(t, err)
		assert.Equal(t, c, soc.Like(name), name)
	}
	for name, family := range map[string]string{
		"Ascend910B9":       "Ascend910B1",
		"Ascend910_9399":    "Ascend910_9391",
		"Ascend950PR_9589":  "Ascend950",
		"Ascend310P5":       "Ascend310P1",
		"Ascend910Premium1": "Ascend910ProA",
	} {
		_, err := soc.Named(name)
		require.Error(t, err)
		assert.Equal(t, soc.Like(family).UnifiedBuffer, soc.Like(name).UnifiedBuffer, name)
		assert.Equal(t, soc.Like(family).BFloat16, soc.Like(name).BFloat16, name)
	}
}
