package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func answer(t *testing.T, args ...string) []string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, run(&b, args))
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// Build systems read field 3 of line 7 and put Ascend before it.
func TestChipOfTheFirstDevice(t *testing.T) {
	t.Setenv("CANN_EMU_DEVICES", "2")
	t.Setenv("CANN_EMU_MEMORY", "3G")
	require.Equal(t, "910B1", strings.Fields(answer(t, "info")[6])[2])
	t.Setenv("CANN_EMU_SOC", "Ascend910B4-1")
	lines := answer(t, "info")
	require.Equal(t, "910B4-1", strings.Fields(lines[6])[2])
	require.Equal(t, []string{"|", "1", "910B4-1", "|", "OK"}, strings.Fields(lines[9])[:5])
	require.Contains(t, lines[7], "/ 3072")
	for _, l := range lines {
		require.Len(t, l, len(lines[0]), "%s", l)
	}
}

func TestLists(t *testing.T) {
	t.Setenv("CANN_EMU_DEVICES", "2")
	require.Equal(t, "Total Count : 2  NPU ID : 0 Chip Count : 1  NPU ID : 1 Chip Count : 1", squeezed(answer(t, "info", "-l")))
	require.Equal(t, "NPU ID Chip ID Chip Logic ID Chip Name 0 0 0 Ascend 910B1 1 0 1 Ascend 910B1", squeezed(answer(t, "info", "-m")))
}

func squeezed(lines []string) string {
	for i, l := range lines {
		lines[i] = strings.Join(strings.Fields(l), " ")
	}
	return strings.Join(lines, " ")
}

func TestRefusals(t *testing.T) {
	var b strings.Builder
	require.ErrorContains(t, run(&b, []string{"set", "-t"}), `"set -t" is not emulated`)
	t.Setenv("CANN_EMU_SOC", "Ascend1")
	require.ErrorContains(t, run(&b, []string{"info"}), "CANN_EMU_SOC")
	require.Empty(t, b.String())
}
