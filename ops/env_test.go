package ops

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
)

// A chip that is not known has no fused operators, and the refusal names it: nothing takes it for the known chip whose name
// begins most alike.
func TestUnknownChip(t *testing.T) {
	norm := &aclnn.RmsNormParams{}
	for soc, text := range map[string]string{
		"Ascend910B9":      `unknown chip "Ascend910B9"; known are [`,
		"Ascend910_9399":   `unknown chip "Ascend910_9399"; known are [`,
		"Ascend950PR_9589": `unknown chip "Ascend950PR_9589"; known are [`,
		"Ascend310P3":      "Ascend310P3 has no RmsNorm; Atlas A2 and A3 do",
	} {
		env := &Env{SoC: soc}
		require.ErrorContains(t, env.Has(norm), text)
		require.Error(t, env.accelerates())
		if soc != "Ascend310P3" {
			require.ErrorContains(t, linearAttentionChip(env), text)
		}
	}
	acltest.Need(t)
	require.NoError(t, (&Env{SoC: "Ascend910B4-1"}).Has(norm))
}
