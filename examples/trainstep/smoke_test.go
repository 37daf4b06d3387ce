package main

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
)

// smoke are the first runs on a new node, each on eight processes. With -model FOLDER and the data of
// the user they are the commands of the README.
var smoke = []struct {
	name, model string
	flags       []string
	says        string
}{
	{"tp", "qwen3_tied", []string{"-tp", "2", "-pp", "2", "-micro", "2"}, "tp2 cp1 dp2 pp2"},
	{"moe", "qwen3_moe", []string{"-tp", "2", "-pp", "2", "-ep", "2", "-micro", "2"}, "sequence parallelism (-sp) is on"},
	{"moe+cp", "qwen3_moe", []string{"-tp", "2", "-cp", "2", "-ep", "2", "-pp", "2", "-micro", "2"}, "sequence parallelism (-sp) is on"},
	{"fsdp+ulysses", "qwen3_5", []string{"-fsdp", "-replicas", "2", "-cp", "2", "-ulysses", "2"}, "tp1 cp2 dp4 pp1, 2 replicas"},
}

// TestSmokeRuns: each run, and the same with an adapter, has the losses and weights of one rank.
func TestSmokeRuns(t *testing.T) {
	acltest.Need(t)
	for _, s := range smoke {
		for _, adapter := range []string{"", "-lora 4"} {
			t.Run(s.name+adapter, func(t *testing.T) {
				if testing.Short() && (s.name != "tp" || adapter != "") {
					t.Skip("many processes")
				}
				folder, data := hubFolder(t, s.model)
				dir := t.TempDir()
				flags := func(name string, more ...string) []string {
					return append(append([]string{
						"-model", folder, "-data", data, "-dtype", "fp32", "-batch", "8", "-seq", "32", "-steps", "4", "-warmup", "0", "-lr", "1e-3",
						"-log", filepath.Join(dir, name+".jsonl"), "-save", filepath.Join(dir, name),
					}, more...), strings.Fields(adapter)...)
				}
				trained(t, flags("one")...)
				ranks := startRanks(t, 8, flags("eight", s.flags...))
				succeed(t, ranks)
				require.Contains(t, ranks[0].out.String(), s.says)
				want, got := logged(t, filepath.Join(dir, "one.jsonl")), logged(t, filepath.Join(dir, "eight.jsonl"))
				require.Len(t, got, len(want))
				for i := range want {
					require.InEpsilon(t, want[i].Loss, got[i].Loss, 5e-5, "step %d", i)
					require.InEpsilon(t, want[i].Norm, got[i].Norm, 1e-4, "step %d", i)
				}
				var report strings.Builder
				require.NoError(t, compare(filepath.Join(dir, "one"), filepath.Join(dir, "eight"), nil, &report))
				_, rms, found := strings.Cut(report.String(), "at most ")
				require.True(t, found, report.String())
				worst, err := strconv.ParseFloat(strings.Fields(rms)[0], 64)
				require.NoError(t, err)
				require.LessOrEqual(t, worst, 2e-5, report.String())
			})
		}
	}
}

// logged reads a log.
func logged(t *testing.T, path string) []entry {
	entries, err := readLog(path)
	require.NoError(t, err)
	return entries
}
