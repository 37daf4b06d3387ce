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

// value returns what an answer has under a name, for each chip.
func value(t *testing.T, name string, args ...string) (values []string) {
	t.Helper()
	for _, l := range answer(t, args...) {
		if key, v, ok := strings.Cut(l, " : "); ok && strings.TrimSpace(key) == name {
			values = append(values, v)
		}
	}
	return values
}

// TestInfo: device plugins and scripts take fields by their names from what npu-smi says of a card or a chip.
func TestInfo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "health")
	t.Setenv("CANN_EMU_DEVICES", "4")
	t.Setenv("CANN_EMU_SOC", "Ascend910_9392")
	t.Setenv("CANN_EMU_MEMORY", "3G")
	t.Setenv("CANN_EMU_HEALTH", file)
	require.NoError(t, os.WriteFile(file, []byte("3 alarm=2 celsius=91 deciwatts=1234 fault=0x80e01801 fault=0x7\n"), 0o600))
	for _, c := range []struct {
		kind, name string
		want       []string // of the two chips of card 1
	}{
		{"board", "Chip Name", []string{"910_9392", "910_9392"}},
		{"board", "PCIe Bus Info", []string{"0000:03:00.0", "0000:04:00.0"}},
		{"board", "Board ID", []string{"0xb0", "0xb0"}},
		{"common", "Temperature(C)", []string{"40", "91"}},
		{"common", "Aicore Count", []string{"24", "24"}},
		{"usages", "HBM Capacity(MB)", []string{"3072", "3072"}},
		{"usages", "Aicore Usage Rate(%)", []string{"0", "0"}},
		{"memory", "HBM Clock Speed(MHz)", []string{"1600", "1600"}},
		{"memory", "HBM Capacity(MB)", []string{"3072", "3072"}},
		{"health", "Health", []string{"OK", "Alarm"}},
		{"health", "Error Code", []string{"NA", "0x80e01801 0x7"}},
		{"health", "Error Information", []string{"NA", "multi-bit ECC error of on-chip memory fault 0x7 of an emulated device"}},
		{"temp", "NPU Temperature (C)", []string{"40", "91"}},
		{"power", "NPU Real-time Power(W)", []string{"90.0", "123.4"}},
		{"product", "Product Type", []string{"NA", "NA"}},
		{"proc-mem", "Chip ID", []string{"0", "1"}},
	} {
		require.Equal(t, c.want, value(t, c.name, "info", "-t", c.kind, "-i", "1"), "%s of %s", c.name, c.kind)
		require.Equal(t, []string{"2"}, value(t, "Chip Count", "info", "-t", c.kind, "-i", "1"))
		if c.name != "Chip ID" {
			require.Equal(t, c.want[1:], value(t, c.name, "info", "-i", "1", "-c", "1", "-t", c.kind), "%s of %s of a chip", c.name, c.kind)
		}
		require.Equal(t, []string{"1"}, value(t, "Chip ID", "info", "-t", c.kind, "-i", "1", "-c", "1"))
		require.Equal(t, []string{"1"}, value(t, "NPU ID", "info", "-t", c.kind, "-i", "1", "-c", "1"))
	}
	require.Contains(t, squeezed(answer(t, "info", "-t", "proc-mem", "-i", "0", "-c", "0")), "No process in device.")
	for text, args := range map[string]string{
		`-t "topo" is not emulated`: "info -t topo -i 0", "needs -i": "info -t board", "no card 2": "info -t board -i 2", "no chip 2, it has 2": "info -t board -i 1 -c 2",
		`"-c" has no value`: "info -t board -i 0 -c", `"x" is no number`: "info -t board -i x", "-i is given twice": "info -t board -i 0 -i 1", `"-q" is unknown`: "info -q 1 -t board",
	} {
		require.ErrorContains(t, run(new(strings.Builder), strings.Fields(args)), text)
	}
}
