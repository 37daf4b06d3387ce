package soc_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/soc"
)

func TestNamed(t *testing.T) {
	for _, name := range soc.Names() {
		c, err := soc.Named(name)
		require.NoError(t, err)
		assert.Positive(t, c.UnifiedBuffer, name)
	}
	for _, name := range []string{"", "Ascend910B9", "Ascend950PR_9589", "ascend910b1"} {
		c, err := soc.Named(name)
		require.ErrorContains(t, err, `unknown chip "`+name+`"; known are [Ascend310P1 `)
		assert.Zero(t, c)
	}
}
