package chips_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/chips"
)

func TestChips(t *testing.T) {
	for _, name := range chips.Names() {
		c, err := chips.Named(name)
		require.NoError(t, err)
		assert.Equal(t, name, c.Name)
		assert.Positive(t, min(c.CubeCores, c.VectorCores, c.Megahertz), name)
		assert.Positive(t, min(c.L2, c.Memory, c.UnifiedBuffer), name)
	}
	a2, err := chips.Named("Ascend910B1")
	require.NoError(t, err)
	assert.Equal(t, chips.Chip{
		Name: "Ascend910B1", CubeCores: 24, VectorCores: 48, Megahertz: 1850, L2: 192 << 20, Memory: 64 << 30, UnifiedBuffer: 192 << 10, BFloat16: true, WaitsAcross: true,
	}, a2)
	_, err = chips.Named("Ascend1")
	require.ErrorContains(t, err, `unknown chip "Ascend1"; known are [Ascend310P1 `)
}

func TestOperators(t *testing.T) {
	a2, err := chips.Named("Ascend910B1")
	require.NoError(t, err)
	p3, err := chips.Named("Ascend310P3")
	require.NoError(t, err)
	on, public := a2.Operator("Abs")
	require.True(t, public)
	assert.Contains(t, on.Types["self"], aclnn.BFloat16)
	on, _ = p3.Operator("Abs")
	assert.False(t, on.Missing)
	assert.NotContains(t, on.Types["self"], aclnn.BFloat16)
	a1, err := chips.Named("Ascend910A")
	require.NoError(t, err)
	on, public = a1.Operator("InstanceNorm")
	assert.True(t, public && on.Missing)
	on, public = a2.Operator("MrgbaCustom")
	assert.True(t, !public && on.Missing)
	_, public = a1.Operator("NoSuchOperator")
	assert.False(t, public)
	assert.Subset(t, chips.Operators(), []string{"Abs", "MrgbaCustom"})
}
