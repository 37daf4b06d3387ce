package rt_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// aclInit refuses a machine that the environment describes wrongly, and names the variable.
func TestMachineOfTheEnvironment(t *testing.T) {
	for variable, value := range map[string]string{
		"CANN_EMU_MEMROY": "1G", "CANN_EMU_SOC": "bogus", "CANN_EMU_API": "7.0", "CANN_EMU_CUBE": "float64", "CANN_EMU_DEVICES": "many", "CANN_EMU_MEMORY": "much",
	} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, value)
			p, thread := rttest.Of(t, rt.New()), new(rt.Thread)
			assert.EqualValues(t, 500000, p.Call(thread, "aclInit", 0))
			assert.Contains(t, rttest.Text(thread), variable)
			assert.EqualValues(t, 500000, p.Call(thread, "aclrtSetDevice", 0))
		})
	}
	for value, name := range map[string]string{"Ascend310P3": "Ascend310P3", "910B2": "Ascend910B2", "910A": "Ascend910A", "310P1": "Ascend310P1", "950": "Ascend950"} {
		t.Setenv("CANN_EMU_SOC", value)
		c, err := rt.ConfigFromEnv()
		require.NoError(t, err)
		assert.Equal(t, name, c.SoC)
	}
}
