package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/examples/simulate"
)

// alone runs the program in a process of its own, because the emulator's settings are those of a process.
func alone(t *testing.T, flags string) (out string, p *os.ProcessState, err error) {
	t.Helper()
	needEmulator(t)
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), argumentsVariable+"="+flags)
	b, err := c.CombinedOutput()
	return string(b), c.ProcessState, err
}

// needEmulator skips a test of schedules where CANN is a library, which computes.
func needEmulator(t *testing.T) {
	t.Helper()
	rt := acltest.Open(t)
	if !rt.Emulated() {
		t.Skip("a device computes")
	}
	require.NoError(t, rt.Close())
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
		"experts, ranks":   "-model qwen3_moe -layers 2 -seq 128 -batch 4 -ranks 2 -ep 2",
		"experts, divided": "-model qwen3_moe -layers 2 -seq 128 -batch 4 -ranks 4 -tp 2 -sp -ep 2 -etp 2",
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

// TestPlansShardsOfExperts: with each of Mixtral's experts over 8 of 64 dies, a die needs less memory for the rows of its experts, and as much for weights as with whole
// experts whose moments are sharded. Rows that are sent to shards are planned on 512 dies too.
func TestPlansShardsOfExperts(t *testing.T) {
	plan := func(flags string) (row []float64) {
		out, _, err := alone(t, "-plan Ascend910_93 -seq 4096 -recompute block -distributed-optimizer -sp -model "+testModels+flags)
		require.NoError(t, err, out)
		return numbers(t, out, "GiB of rank")
	}
	const weights, moments, backward, exchange = 1, 4, 7, 8
	whole := plan("mixtral-8x7b -world 64 -batch 64 -tp 8 -ep 8")
	shards := plan("mixtral-8x7b -world 64 -batch 64 -tp 8 -ep 8 -etp 8")
	for i := weights; i <= moments; i++ {
		require.InEpsilon(t, whole[i], shards[i], 0.01)
	}
	require.Less(t, shards[backward], whole[backward]/2)
	require.Less(t, shards[exchange], whole[exchange]/8)
	one := plan("qwen3-235b -world 512 -batch 512 -tp 2 -ep 128")
	two := plan("qwen3-235b -world 512 -batch 512 -tp 2 -ep 128 -etp 2")
	require.InEpsilon(t, one[weights], two[weights], 0.01)
	require.Less(t, two[exchange], one[exchange])
}

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

// traced holds the intervals of a trace of one rank in which kernels and exchanges ran, in microseconds.
type traced struct {
	kernels   []interval // one after another
	streams   map[int]bool
	exchanges []exchanged
}

type interval struct{ from, to float64 }

// exchanged is a collective, or messages, on a stream.
type exchanged struct {
	interval
	name   string
	stream int
}

// trace simulates a training and reads the trace of its second step.
func trace(t *testing.T, flags string) (r traced) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "trace.json")
	out, _, err := alone(t, "-simulate-trace "+file+" "+flags)
	require.NoError(t, err, out)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var events struct {
		TraceEvents []struct {
			Name, Cat string
			Tid       int
			Ts, Dur   float64
		}
	}
	require.NoError(t, json.Unmarshal(text, &events))
	r.streams = map[int]bool{}
	for _, e := range events.TraceEvents {
		x := interval{e.Ts, e.Ts + e.Dur}
		switch e.Cat {
		case "kernel":
			r.kernels = append(r.kernels, x)
			r.streams[e.Tid] = true
		case "exchange":
			r.exchanges = append(r.exchanges, exchanged{x, e.Name, e.Tid})
		}
	}
	slices.SortFunc(r.kernels, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	return r
}

// under returns which part of the time of some exchanges lies under kernels.
func (r traced) under(t *testing.T, some func(exchanged) bool) float64 {
	t.Helper()
	all, covered := 0.0, 0.0
	for _, x := range r.exchanges {
		if !some(x) {
			continue
		}
		all += x.to - x.from
		until := x.from
		for _, k := range r.kernels {
			if k.from >= x.to {
				break
			}
			covered += max(0, min(x.to, k.to)-max(until, k.from))
			until = max(until, k.to)
		}
	}
	require.NotZero(t, all, "no such exchange")
	return covered / all
}

// TestSimulationGathersBesideSharedExperts: with the shapes of Qwen3-Next-80B on 8 dies, half of the time in which tokens and their gradients are gathered and summed for the experts
// lies under the kernels of the shared expert, on a stream of its own. With rows that are sent all of it is between kernels.
func TestSimulationGathersBesideSharedExperts(t *testing.T) {
	const flags = "-simulate Ascend910_93 -world 8 -batch 8 -seq 4096 -ep 8 -model " + testModels + "qwen3-next-80b"
	gathered := trace(t, flags)
	require.Greater(t, gathered.under(t, func(x exchanged) bool { return !gathered.streams[x.stream] }), 0.5)
	sent := trace(t, flags+" -expert-capacity 0")
	require.Less(t, sent.under(t, func(x exchanged) bool { return strings.HasPrefix(x.name, "HcclAlltoAllV") }), 0.01)
}

// TestSimulationExchangesUnderKernels: with the shapes of Qwen3-8B and 32,768 tokens on each rank, nearly all of the time in which keys, values and their gradients go around
// a ring lies under the kernels of attention, and so do four fifths of the gathers and reductions of shards.
func TestSimulationExchangesUnderKernels(t *testing.T) {
	for _, ranks := range []int{2, 8} {
		r := trace(t, fmt.Sprintf("-simulate Ascend910B2 -world %d -cp %d -batch 1 -seq %d -fsdp -model %sqwen3-8b", ranks, ranks, ranks*32768, testModels))
		for name, least := range map[string]float64{"HcclSend": 0.98, "HcclAllGather": 0.8, "HcclReduceScatter": 0.8, "": 0.8} {
			part := r.under(t, func(x exchanged) bool { return strings.HasPrefix(x.name, name) })
			t.Logf("%d ranks, %s: %.1f %% under kernels", ranks, cmp.Or(name, "all"), 100*part)
			require.Greater(t, part, least, "%d ranks, %s", ranks, name)
		}
	}
}

// TestSimulationHeadExchangesUnderKernels: nine tenths of all exchanges lie under kernels where groups of ranks exchange heads for positions (Ulysses), alone or in a ring of such groups, if each
// rank has several key heads. With one key head on each, no group can be sent ahead; then three quarters lie beside projections.
func TestSimulationHeadExchangesUnderKernels(t *testing.T) {
	for _, s := range []struct {
		ranks, ulysses int
		least          float64
	}{{4, 2, 0.9}, {8, 4, 0.9}, {8, 2, 0.9}, {4, 4, 0.9}, {8, 8, 0.75}} {
		r := trace(t, fmt.Sprintf("-simulate Ascend910B2 -world %d -cp %d -ulysses %d -batch 1 -seq %d -fsdp -model %sqwen3-8b", s.ranks, s.ranks, s.ulysses, s.ranks*32768, testModels))
		for name, least := range map[string]float64{"HcclAlltoAll": s.least, "": max(s.least, 0.8)} {
			part := r.under(t, func(x exchanged) bool { return strings.HasPrefix(x.name, name) })
			t.Logf("%d ranks, heads over %d, %s: %.1f %% under kernels", s.ranks, s.ulysses, cmp.Or(name, "all"), 100*part)
			require.Greater(t, part, least, "%d ranks, heads over %d, %s", s.ranks, s.ulysses, name)
		}
	}
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

// TestSearchFindsTheBest: the layouts that -search lists are the fastest ones of all that fit, and their times are those of whole steps within a twentieth, though it follows few
// layers and few micro-batches of most.
func TestSearchFindsTheBest(t *testing.T) {
	const child = "TRAINSTEP_TEST_SEARCH" // the emulator's settings are those of a process
	if os.Getenv(child) == "" {
		needEmulator(t)
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
		c.Env = append(os.Environ(), child+"=1")
		out, err := c.CombinedOutput()
		require.NoError(t, err, string(out))
		t.Log(string(out))
		return
	}
	o, err := parseFlags(strings.Fields("-search -simulate Ascend910B2 -world 4 -batch 4 -seq 1024 -layers 6 -full-interval 1 -hidden 512 -heads 8 -kv-heads 4 -head-dim 64 -intermediate 1536"), t.Output())
	require.NoError(t, err)
	chip, err := simulate.ReadChip(o.simulation.chip)
	require.NoError(t, err)
	chip.Communicator, chip.Capacity = 1<<20, 230<<20
	s, err := newSimulator(chip, mostStages, 2*chip.Capacity)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, s.search(t.Context(), o, &out, t.Output()))
	var all []*price
	large := 0
	for _, c := range o.layouts() {
		for _, saving := range savings {
			c.memory.Recompute = saving
			p, err := s.whole(t.Context(), c)
			if err == nil {
				all = append(all, p)
				break
			}
			if !errors.Is(err, errTooLarge) {
				break
			}
			large++
		}
	}
	// Memory does not depend on when streams end what they were given.
	for range 2 {
		for _, p := range all {
			again, err := s.whole(t.Context(), p.options)
			require.NoError(t, err)
			require.Equal(t, p.needed, again.needed, layoutFlags(p.options))
		}
	}
	require.NoError(t, s.Close())
	slices.SortFunc(all, func(a, b *price) int { return cmp.Compare(a.seconds, b.seconds) })
	found := regexp.MustCompile(`(?m)^([0-9.]+) .*-recompute`).FindAllStringSubmatch(out.String(), -1)
	t.Log(out.String(), len(all), large)
	require.Len(t, found, min(listed, len(all)))
	require.NotZero(t, large, "some layouts must not fit")
	for i, row := range found {
		require.InEpsilon(t, all[i].seconds, float(t, row[1]), 0.05, "row %d, of %s", i, layoutFlags(all[i].options))
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
