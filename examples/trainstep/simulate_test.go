package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
)

// alone runs the program in a process of its own, because the emulator's settings are those of a process.
func alone(t *testing.T, flags string) (out string, p *os.ProcessState, err error) {
	t.Helper()
	rt := acltest.Open(t)
	if !rt.Emulated() {
		t.Skip("a device computes")
	}
	require.NoError(t, rt.Close())
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), argumentsVariable+"="+flags)
	b, err := c.CombinedOutput()
	return string(b), c.ProcessState, err
}

// secondsOf returns the time of a step.
func secondsOf(t *testing.T, flags string) float64 {
	t.Helper()
	out, _, err := alone(t, flags)
	require.NoError(t, err, out)
	found := regexp.MustCompile(`(?m)^([0-9.]+) s a step`).FindStringSubmatch(out)
	require.NotNil(t, found, out)
	return float(t, found[1])
}

// numbers returns the row of the first rank of the table whose heading begins with a text.
func numbers(t *testing.T, out, heading string) (row []float64) {
	t.Helper()
	lines := strings.Split(out, "\n")
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), heading) {
			for _, field := range strings.Fields(lines[i+1]) {
				row = append(row, float(t, field))
			}
			return row
		}
	}
	t.Fatalf("no table %q in %s", heading, out)
	return nil
}

// TestPlannedMemory compares the memory that -plan prints for a rank with that of the allocator of a real training, by phase.
func TestPlannedMemory(t *testing.T) {
	acltest.Need(t)
	for name, flags := range map[string]string{
		"dense":            "-layers 3 -hidden 256 -seq 256 -batch 4 -ranks 1",
		"recomputed":       "-layers 4 -hidden 256 -seq 512 -batch 2 -ranks 1 -recompute block",
		"experts, shards":  "-model qwen3_moe -layers 2 -seq 128 -batch 4 -ranks 2 -fsdp",
		"stages":           "-layers 4 -seq 256 -batch 8 -ranks 2 -pp 2 -micro 4",
		"delta, sequences": "-model qwen3_next -layers 4 -seq 256 -batch 2 -ranks 2 -tp 2 -sp",
	} {
		t.Run(name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			o, err := parseFlags(strings.Fields("-data testdata/rhyme.txt -dtype bf16 -steps 2 -log "+log+" "+flags), t.Output())
			require.NoError(t, err)
			require.NoError(t, run(t.Context(), o, new(bytes.Buffer)))
			text, err := os.ReadFile(log)
			require.NoError(t, err)
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			var e entry
			require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &e))

			out, _, err := alone(t, "-plan Ascend910B2 -dtype bf16 "+strings.Replace(flags, "-ranks", "-world", 1))
			require.NoError(t, err, out)
			row := numbers(t, out, "GiB of rank")[1:]
			for i, held := range []int{e.Memory.Weights, e.Memory.Masters, e.Memory.Gradients, e.Memory.Moments} {
				require.InDelta(t, held, row[i]*(1<<30), 0.001*float64(held)+1, "what is held, %d: %s", i, out)
			}
			between := row[0] + row[1] + row[2] + row[3] + row[4]
			for i, peak := range []int{e.Memory.Forward, e.Memory.Backward, e.Memory.Exchange, e.Memory.Step} {
				require.InEpsilon(t, peak, (between+row[5+i])*(1<<30), 0.1, "phase %d: %s", i, out)
			}
		})
	}
}

const testModels = "../simulate/testdata/"

// TestSimulationLimits: 512 dies with Qwen3-235B-A22B and rows of 32k are followed in a minute of CPU time and 4 GiB, by one process.
func TestSimulationLimits(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace.json")
	out, p, err := alone(t, "-simulate Ascend910_93 -world 512 -batch 512 -seq 32768 -fsdp -recompute full -simulate-trace "+trace+" -model "+testModels+"qwen3-235b")
	require.NoError(t, err, out)
	require.Contains(t, out, "512 × Ascend910_93, tp1 cp1 dp512 pp1, 235.09 billion parameters in bf16, 16777216 tokens a step in rows of 32768")
	require.Less(t, p.UserTime()+p.SystemTime(), time.Minute)
	usage, ok := p.SysUsage().(*syscall.Rusage)
	require.True(t, ok)
	require.Less(t, usage.Maxrss, int64(4<<20), "KiB")
	text, err := os.ReadFile(trace)
	require.NoError(t, err)
	require.True(t, json.Valid(text))

	// The products of a step are those that MFU counts, and at least those of one more forward pass.
	found := regexp.MustCompile(`([0-9.]+) s a step, .* MFU ([0-9.]+) %`).FindStringSubmatch(out)
	require.NotNil(t, found, out)
	counted := float(t, found[1]) * float(t, found[2]) / 100
	cube := numbers(t, out, "seconds of rank")[2]
	require.Greater(t, cube, 4.0/3*counted)
	require.Less(t, cube, 5.5/3*counted)
}

func float(t *testing.T, text string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return x
}

// TestSimulationMonotone: more tokens take longer, more dies for the same tokens do not, and neither do faster links; other chips than the
// known ones are files.
func TestSimulationMonotone(t *testing.T) {
	const flags = "-fsdp -recompute block -model " + testModels + "qwen3-32b "
	at := func(chip string, world, batch, seq int) float64 {
		return secondsOf(t, flags+fmt.Sprintf("-simulate %s -world %d -batch %d -seq %d", chip, world, batch, seq))
	}
	few := at("Ascend910B2", 16, 16, 2048)
	require.Greater(t, at("Ascend910B2", 16, 16, 4096), few)
	require.Greater(t, at("Ascend910B2", 16, 32, 2048), few)
	// In one domain of HCCS: RoCE between more domains may cost more than the dies compute.
	require.Less(t, at("Ascend910_93", 32, 32, 2048), at("Ascend910_93", 16, 32, 2048))
	text, err := os.ReadFile("../simulate/chips/Ascend910B2.json")
	require.NoError(t, err)
	var chip map[string]any
	require.NoError(t, json.Unmarshal(text, &chip))
	chip["roce"].(map[string]any)["bandwidth"], chip["roce"].(map[string]any)["pair"] = 100e9, 100e9
	text, err = json.Marshal(chip)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "faster.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	require.Less(t, at(file, 16, 16, 2048), few)
}

// TestPlanRefuses: what does not fit is refused with its numbers, and what would fit is named.
func TestPlanRefuses(t *testing.T) {
	out, _, err := alone(t, "-plan Ascend910B2 -world 16 -batch 16 -seq 8192 -fsdp -model "+testModels+"qwen3-32b")
	require.Error(t, err)
	require.Regexp(t, `a rank needs [0-9.]+ GiB, and Ascend910B2 has 61`, out)
	require.Regexp(t, `(?m)^  -recompute (block|full)(| -offload): [0-9.]+ GiB$`, out)
	out, _, err = alone(t, "-plan Ascend910B2 -world 16 -batch 16 -seq 8192 -fsdp -recompute full -model "+testModels+"qwen3-32b")
	require.NoError(t, err, out)
	require.Contains(t, out, "it fits")
}

// TestSearch: -search lists layouts that fit, the fastest first.
func TestSearch(t *testing.T) {
	out, _, err := alone(t, "-search -simulate Ascend910B2 -world 4 -batch 4 -seq 512 -layers 2 -hidden 1024 -heads 8 -kv-heads 4 -head-dim 128 -intermediate 4096")
	require.NoError(t, err, out)
	rows := regexp.MustCompile(`(?m)^([0-9.]+) .*-recompute none$`).FindAllStringSubmatch(out, -1)
	require.GreaterOrEqual(t, len(rows), 5, out)
	require.LessOrEqual(t, len(rows), 10, out)
	last := 0.0
	for _, r := range rows {
		require.GreaterOrEqual(t, float(t, r[1]), last, out)
		last = float(t, r[1])
	}
}

// TestSimulationRefusals: flags that would do nothing, or that a schedule does not know, are refused.
func TestSimulationRefusals(t *testing.T) {
	for flags, want := range map[string]string{
		"-simulate Ascend31":                      "Ascend910B2",
		"-simulate missing.json":                  "no such file",
		"-simulate Ascend910B2 -plan Ascend910B2": "exclude each other",
		"-simulate Ascend910B2 -save somewhere":   "-save",
		"-simulate Ascend910B2 -log x -eval y":    "-eval",
		"-simulate Ascend910B2 -graph":            "-graph",
		"-simulate Ascend910B2 -ranks 2":          "-ranks",
		"-world 8":                                "-world needs",
		"-plan Ascend910B2 -search":               "-search",
		"-simulate Ascend910B2 -world 3 -pp 2":    "-world 3 is not a multiple of -pp 2",
		"-simulate Ascend910B2 -world 3 -tp 2":    "3 ranks are not a multiple",
	} {
		out, _, err := alone(t, flags)
		require.Error(t, err, flags)
		require.Contains(t, out, want, flags)
	}
}
