package main

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/examples/checkpoint"
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
	{"fsdp+ulysses", "qwen3_5", []string{"-fsdp", "-replicas", "2", "-cp", "2", "-ulysses"}, "tp1 cp2 dp4 pp1, 2 replicas"},
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
				closeSets(t, filepath.Join(dir, "one"), filepath.Join(dir, "eight"), 2e-5)
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

// closeSets compares the weights of two checkpoints.
func closeSets(t *testing.T, a, b string, limit float64) {
	read := func(path string) map[string][]float32 {
		set, err := checkpoint.Open(path)
		require.NoError(t, err)
		defer func() { require.NoError(t, set.Close()) }()
		all := map[string][]float32{}
		for _, p := range set.Tensors() {
			if !strings.HasPrefix(p.Name, "optimizer.") {
				all[p.Name], err = set.Read(p)
				require.NoError(t, err)
			}
		}
		return all
	}
	want, got := read(a), read(b)
	require.Len(t, got, len(want))
	require.NotEmpty(t, want)
	for name, values := range want {
		require.Len(t, got[name], len(values), name)
		sum := 0.0
		for i := range values {
			d := float64(values[i]) - float64(got[name][i])
			sum += d * d
		}
		require.LessOrEqual(t, math.Sqrt(sum/float64(len(values))), limit, name)
	}
}
