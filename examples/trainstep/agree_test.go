package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/examples/job"
	"github.com/goascend/cann/hccl/world"
)

// TestRanksAgree: what differs between ranks is named with its values and ranks, on all of them; what may differ does not count.
func TestRanksAgree(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	one, copied, other := write("one.txt", "a text"), write("copied.txt", "a text"), write("other.txt", "another text")
	lines, more := write("lines.jsonl", `{"text": "a"}`), write("more.jsonl", `{"text": "a text"}`)
	model, same, edited := filepath.Dir(write("a/config.json", "{}")), filepath.Dir(write("b/config.json", "{}")), filepath.Dir(write("c/config.json", "{ }"))
	for _, c := range []struct {
		first, second string // flags of ranks 0 and 2, and of rank 1
		names         string // what the error says; nothing without one
	}{
		{"", "", ""},
		{"-log a -v", "-tensorboard b -metrics c.prom -profile d -flight e -device 3", ""},
		{"-data " + one, "-data " + copied, ""},
		{"-model " + model, "-model " + same, ""},
		{"-lr 0.002", "", `-lr is "0.002" on ranks 0, 2, "0" on rank 1`},
		{"-seed 2", "-seed 3", `-seed is "2" on ranks 0, 2, "3" on rank 1`},
		{"-steps 5", "-steps 6", "-steps is"},
		{"-seq 8", "-seq 16", "-seq is"},
		{"-batch 4", "-batch 8", "-batch is"},
		{"-layers 1", "-layers 2", "-layers is"},
		{"-tp 2", "-pp 2", `-pp is "1" on ranks 0, 2, "2" on rank 1; -tp is "2" on ranks 0, 2, "1" on rank 1`},
		{"-ep 2 -etp 2", "-ep 4", `-ep is "2" on ranks 0, 2, "4" on rank 1; -etp is "2" on ranks 0, 2, "1" on rank 1`},
		{"-dtype bf16", "-dtype fp32", "-dtype is"},
		{"-schedule linear", "", "-schedule is"},
		{"-warmup 3", "", "-warmup is"},
		{"-save a", "-save b", "-save is"},
		{"-model qwen3", "-model qwen3_moe", `the type in -model is "qwen3" on ranks 0, 2, "qwen3_moe" on rank 1`},
		{"-model " + model, "-model " + edited, "the files of -model is"},
		{"-model " + model, "-model qwen3", "the type in -model is"},
		{"-data " + one, "-data " + other, "the tokens of -data is"},
		{"-data " + lines, "-data " + more, "-data is"},
		{"-eval " + lines, "-eval " + more, "the files of -eval is"},
		{"-eval " + lines, "", "the files of -eval is"},
	} {
		t.Run(c.first+" and "+c.second, func(t *testing.T) {
			groups, err := world.LocalGroups(t.Context(), 3, world.GroupConfig{})
			require.NoError(t, err)
			errs := make([]error, 3)
			var all sync.WaitGroup
			for rank, g := range groups {
				all.Go(func() {
					flags := strings.Fields(c.first)
					if rank == 1 {
						flags = strings.Fields(c.second)
					}
					o, err := parseFlags(flags, t.Output())
					if !assert.NoError(t, err) {
						return
					}
					text, err := o.loadText()
					if !assert.NoError(t, err) {
						return
					}
					facts, err := o.facts(text)
					assert.NoError(t, err)
					errs[rank] = job.Agree(t.Context(), g, facts)
					assert.NoError(t, text.Close())
				})
			}
			all.Wait()
			for rank, g := range groups {
				require.NoError(t, g.Close())
				if c.names == "" {
					require.NoError(t, errs[rank])
					continue
				}
				require.ErrorIs(t, errs[rank], acl.ErrInvalidArgument)
				require.ErrorContains(t, errs[rank], c.names)
			}
		})
	}
}

// TestRanksDisagree: a job whose ranks have other flags ends before the first step.
func TestRanksDisagree(t *testing.T) {
	acltest.Need(t)
	ranks := startRanks(t, 2, smallFlags("-steps", "3", "-seed", "1RANK"))
	for i, r := range ranks {
		require.Error(t, r.Wait())
		require.Contains(t, r.out.String(), `all ranks must have the same: -seed is "10" on rank 0, "11" on rank 1`, fmt.Sprint(i))
		require.NotContains(t, r.out.String(), "step 1/")
	}
}

// TestUsualRate: a new model, a model from a folder and an adapter get learning rates of their own unless -lr is given.
func TestUsualRate(t *testing.T) {
	for _, c := range []struct {
		flags, origin string
		want          float64
	}{{"", "", 3e-3}, {"", "Qwen3-0.6B", 2e-5}, {"-model . -lora 8", "Qwen3-0.6B", 2e-4}} {
		o, err := parseFlags(strings.Fields(c.flags), t.Output())
		require.NoError(t, err)
		require.True(t, o.usualLR)
		require.Equal(t, c.want, o.usual(c.origin))
	}
	o, err := parseFlags([]string{"-lr", "0"}, t.Output())
	require.NoError(t, err)
	require.False(t, o.usualLR)
}
