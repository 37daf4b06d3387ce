package engine_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/serve/engine"
)

// TestGraphs: with graphs requests get the same tokens, in a full batch, with shared blocks, chunks of prompts, too few
// blocks for all of them, and on two devices.
func TestGraphs(t *testing.T) {
	const n, tokens = 10, 80 // more than one graph has places for
	for name, o := range map[string]engine.Options{
		"qwen3": {Blocks: 50, BlockSize: 8, Sequences: 7, Budget: 20}, "qwen3_tied": {Blocks: 200, BlockSize: 16},
		"qwen3_moe": {Blocks: 32, BlockSize: 16, Sequences: 12, Budget: 64}, "qwen3_next": {Blocks: 200, BlockSize: 16, Sequences: 5, Budget: 64},
		"qwen3_5": {Blocks: 12, BlockSize: 128, Sequences: 8}, "qwen3_5_moe": {Blocks: 100, BlockSize: 16},
		"qwen3 on two": {Blocks: 50, BlockSize: 8, Sequences: 7, Budget: 20, Tensor: 2}, "qwen3_5_moe on two": {Blocks: 100, BlockSize: 16, Tensor: 2},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && o.Tensor > 1 {
				t.Skip("short")
			}
			name, _, _ := strings.Cut(name, " ")
			texts := prompts(expectedOf(t, name), n)
			var eager [][]int32
			for _, o.Graph = range []bool{false, true} {
				e := open(t, name, o)
				var all []*engine.Generation
				for _, p := range texts {
					g, err := e.Submit(t.Context(), engine.Request{Prompt: p, MaxTokens: tokens, Sampling: greedy})
					require.NoError(t, err)
					all = append(all, g)
				}
				for i, g := range all {
					got, err := collect(g)
					require.NoError(t, err)
					if !o.Graph {
						eager = append(eager, got)
						continue
					}
					require.Equal(t, eager[i], got, "request %d", i)
				}
				s := e.Stats()
				require.Equal(t, o.Graph, s.Replays > s.Steps/3, "%+v", s)
			}
		})
	}
}

// TestGraphsInBF16: CANN's kernels for caches give the golden tokens' start with graphs and without.
func TestGraphsInBF16(t *testing.T) {
	want := expectedOf(t, "qwen3")
	var eager []int32
	for _, graph := range []bool{false, true} {
		e, err := engine.Open(t.Context(), acltest.Open(t), 0, load(folder(t, "qwen3"), aclnn.BFloat16), engine.Options{Blocks: 8, Graph: graph})
		require.NoError(t, err)
		g, err := e.Submit(t.Context(), engine.Request{Prompt: want.Prompt, MaxTokens: 20, Sampling: greedy})
		require.NoError(t, err)
		got, err := collect(g)
		require.NoError(t, err)
		if eager == nil {
			eager = got
		}
		require.Equal(t, eager, got)
		require.NoError(t, e.Close())
	}
}

// TestNoGraphs: a CANN without graphs serves without, and the log says so once.
func TestNoGraphs(t *testing.T) {
	acltest.Faults(t, "aclmdlRICaptureBegin:1+=207000", func(t *testing.T) {
		var log bytes.Buffer
		s := goldenTokens(t, slog.New(slog.NewTextHandler(&log, nil)))
		require.Zero(t, s.Replays)
		require.Equal(t, 1, strings.Count(log.String(), "steps are not captured"), "%s", log.String())
		require.Contains(t, log.String(), "aclmdlRICaptureBegin")
	})
}

// TestFailedReplays: while replays fail, every request ends with the right tokens or with ErrDevice.
func TestFailedReplays(t *testing.T) {
	acltest.Faults(t, "aclmdlRIExecuteAsync:5%=507000", func(t *testing.T) {
		want := expectedOf(t, "qwen3")
		e := open(t, "qwen3", engine.Options{Blocks: 20, BlockSize: 8, Sequences: 4, Graph: true})
		for good, bad := 0, 0; good < 4 || bad < 4; {
			g, err := e.Submit(t.Context(), engine.Request{Prompt: want.Prompt, MaxTokens: 20, Sampling: greedy})
			require.NoError(t, err)
			got, err := collect(g)
			require.True(t, slices.Equal(want.Greedy[:len(got)], got), "%v", got)
			if err == nil {
				require.Len(t, got, 20)
				good++
				continue
			}
			require.ErrorIs(t, err, engine.ErrDevice)
			bad++
		}
		require.Positive(t, e.Stats().Replays)
	})
}

// TestGraphsOfOlderCANN: CANN 8.1.RC1 has other kernels, and graphs.
func TestGraphsOfOlderCANN(t *testing.T) {
	acltest.Rerun(t, func(t *testing.T) {
		require.Positive(t, goldenTokens(t, nil).Replays)
	}, "CANN_EMU_API=8.1.RC1")
}

// goldenTokens requires the golden tokens of an engine with graphs, twice.
func goldenTokens(t *testing.T, log *slog.Logger) engine.Stats {
	want := expectedOf(t, "qwen3")
	e := open(t, "qwen3", engine.Options{Blocks: 8, Graph: true, Logger: log})
	for range 2 {
		g, err := e.Submit(t.Context(), engine.Request{Prompt: want.Prompt, MaxTokens: len(want.Greedy), Sampling: greedy})
		require.NoError(t, err)
		got, err := collect(g)
		require.NoError(t, err)
		require.Equal(t, want.Greedy, got)
	}
	return e.Stats()
}
