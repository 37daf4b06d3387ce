package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSchedules(t *testing.T) {
	for _, c := range []struct {
		schedule string
		cooldown int
		want     map[int]float64 // by step
	}{
		{"cosine", 0, map[int]float64{0: 0.1, 8: 0.9, 10: 1, 55: 0.6, 100: 0.2}},
		{"linear", 0, map[int]float64{0: 0.1, 10: 1, 55: 0.6, 100: 0.2}},
		{"constant", 0, map[int]float64{0: 0.1, 10: 1, 99: 1}},
		{"wsd", 0, map[int]float64{0: 0.1, 10: 1, 90: 1, 95: 0.6, 100: 0.2}},
		{"wsd", 50, map[int]float64{10: 1, 50: 1, 75: 0.6, 100: 0.2}},
	} {
		o := options{schedule: c.schedule, cooldown: c.cooldown, lr: 1, minLR: 0.2, warmup: 10, steps: 100}
		require.NoError(t, o.checkSchedule())
		for step, want := range c.want {
			require.InDelta(t, want, o.rate(step), 1e-12, "%s at %d", c.schedule, step)
		}
	}
	for _, flags := range [][]string{{"-schedule", "step"}, {"-min-lr", "2"}, {"-cooldown", "-1"}, {"-weight-decay", "-1"}} {
		_, err := parseFlags(flags, t.Output())
		require.ErrorContains(t, err, flags[0])
	}
}

// TestLog: each step has its line, and a resumed run appends.
func TestLog(t *testing.T) {
	dir := t.TempDir()
	path, saved, board := filepath.Join(dir, "run.jsonl"), filepath.Join(dir, "saved"), filepath.Join(dir, "board")
	trained(t, smallFlags("-steps", "2", "-log", path, "-save", saved, "-tensorboard", board)...)
	began := time.Now()
	out, last := trained(t, smallFlags("-steps", "4", "-log", path, "-resume", saved, "-ranks", "2", "-tensorboard", board)...)
	took := time.Since(began).Seconds()
	require.Len(t, regexp.MustCompile(`tokens/s  kernels \d+%, communication \d+%, waiting \d+%(, slowest rank \d \(\+\d+%\))?\n`).FindAllString(out, -1), 2)
	events, err := filepath.Glob(filepath.Join(board, "events.out.tfevents.*"))
	require.NoError(t, err)
	require.Len(t, events, 2, "each run has its file")
	for _, name := range events {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, chart := range []string{"loss/training", "gradient norm", "learning rate", "seconds/kernels", "seconds/communication", "seconds/waiting", "memory peak, bytes"} {
			require.Equal(t, 2, bytes.Count(content, []byte(chart)), chart)
		}
	}
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	var entries []entry
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e entry
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		entries = append(entries, e)
	}
	require.Len(t, entries, 4)
	var resumed [2]float64 // seconds of the ranks of the second run
	for i, e := range entries {
		require.Equal(t, i+1, e.Step)
		require.Equal(t, 4*64, e.Tokens)
		require.Positive(t, e.Norm)
		require.Positive(t, e.LR)
		require.Positive(t, e.TokensPerSecond)
		require.Positive(t, e.MemoryPeak)
		require.Zero(t, e.MFU, "the emulator is not a chip")
		require.Len(t, e.Ranks, 1+i/2)
		for rank, r := range e.Ranks {
			require.Positive(t, r.Kernels)
			require.Equal(t, i >= 2, r.Communication > 0)
			sum := r.Kernels + r.Communication + r.Waiting
			if rank == 0 { // the log has the time of rank 0; another rank may begin a step later
				require.InDelta(t, e.Seconds, sum, 1e-3)
			}
			if i >= 2 {
				resumed[rank] += sum
			}
		}
	}
	for rank, seconds := range resumed {
		require.Less(t, seconds, took, "rank %d", rank)
	}
	require.InDelta(t, last, entries[3].Loss, 1e-4)
	require.InDelta(t, entries[3].TokensPerSecond/2, entries[3].PerDevice, 1e-6)
}

// TestDecisions: with -v each choice of a kernel is written once.
func TestDecisions(t *testing.T) {
	out, _ := trained(t, smallFlags("-steps", "3", "-ranks", "2", "-v")...)
	lines := strings.Split(out, "\n")
	for _, operator := range []string{"attention", "attention_grad", "linear", "rms_norm", "clip_grad_norm"} {
		written := map[string]bool{}
		for _, l := range lines {
			if strings.HasPrefix(l, operator+": ") {
				require.False(t, written[l], l)
				written[l] = true
			}
		}
		require.NotEmpty(t, written, "%s: %s", operator, out)
	}
	out, _ = trained(t, smallFlags("-steps", "1")...)
	require.NotContains(t, out, "attention: ")
}
