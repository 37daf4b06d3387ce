package main

import (
	"os"
	"path/filepath"
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

// TestHealth: the table shows the faults of a device, and cards of Atlas A3 have two chips.
func TestHealth(t *testing.T) {
	file := filepath.Join(t.TempDir(), "health")
	t.Setenv("CANN_EMU_DEVICES", "4")
	t.Setenv("CANN_EMU_SOC", "Ascend910_9392")
	t.Setenv("CANN_EMU_HEALTH", file)
	require.NoError(t, os.WriteFile(file, []byte("3 alarm=3 celsius=91\n"), 0o600))
	lines := answer(t, "info")
	require.Equal(t, []string{"|", "0", "910_9392", "|", "OK", "|", "90.0", "40"}, strings.Fields(lines[9])[:8])
	require.Equal(t, []string{"|", "1", "910_9392", "|", "Critical", "|", "90.0", "91"}, strings.Fields(lines[15])[:8])
	require.Equal(t, []string{"|", "1"}, strings.Fields(lines[16])[:2])
	require.Equal(t, "Total Count : 2  NPU ID : 0 Chip Count : 2  NPU ID : 1 Chip Count : 2", squeezed(answer(t, "info", "-l")))
	require.Contains(t, squeezed(answer(t, "info", "-m")), " 1 1 3 Ascend 910_9392")
	require.NoError(t, os.WriteFile(file, []byte("0 alarm=bad\n"), 0o600))
	require.ErrorContains(t, run(new(strings.Builder), []string{"info"}), `"alarm=bad"`)
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
