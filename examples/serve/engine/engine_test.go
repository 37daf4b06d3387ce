package engine_test

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/sampling"
	"github.com/goascend/cann/examples/serve/engine"
)

// TestGoldenHubFolders: one request at a time gets the tokens that transformers generates.
func TestGoldenHubFolders(t *testing.T) {
	folders, err := os.ReadDir(folder(t, ""))
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	for _, f := range folders {
		t.Run(f.Name(), func(t *testing.T) {
			want := expectedOf(t, f.Name())
			if len(want.Greedy) == 0 {
				t.Skip("the folder has no greedy tokens")
			}
			e := open(t, f.Name(), engine.Options{Blocks: 8, BlockSize: 16})
			for range 2 { // the second time some of the prompt is in the cache
				g, err := e.Submit(t.Context(), engine.Request{Prompt: want.Prompt, MaxTokens: len(want.Greedy), Sampling: greedy})
				require.NoError(t, err)
				got, err := collect(g)
				require.NoError(t, err)
				require.Equal(t, want.Greedy, got)
				require.Equal(t, engine.TooLong, g.Reason())
			}
		})
	}
}

// prompts cuts prompts of different lengths out of the texts of a folder. Many begin alike.
func prompts(want expected, n int) (all [][]int32) {
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range n {
		text := want.IDs[i%len(want.IDs)]
		prompt := append([]int32(nil), text[:1+rng.IntN(len(text)-1)]...)
		if i%3 == 0 {
			prompt[len(prompt)-1] = int32(i)
		}
		all = append(all, prompt)
	}
	return all
}

// TestUnderLoad: requests get the same tokens in a full batch as alone, with shared blocks, chunks of prompts,
// and too few blocks for all of them.
func TestUnderLoad(t *testing.T) {
	const n = 18
	for name, c := range map[string]struct {
		engine.Options
		preempted, shared bool
	}{
		"qwen3":       {engine.Options{Blocks: 40, BlockSize: 4, Sequences: 8, Budget: 20}, true, true},
		"qwen3_tied":  {engine.Options{Blocks: 200, BlockSize: 8, Sequences: 16, Budget: 16}, false, true},
		"qwen3_moe":   {engine.Options{Blocks: 18, BlockSize: 16, Sequences: 12, Budget: 64}, true, true},
		"qwen3_next":  {engine.Options{Blocks: 18, BlockSize: 16, Sequences: 12, Budget: 64}, true, false},
		"qwen3_5":     {engine.Options{Blocks: 100, BlockSize: 4, Sequences: 6, Budget: 6}, false, false},
		"qwen3_5_moe": {engine.Options{Blocks: 100, BlockSize: 16, Sequences: 24, Budget: 200}, false, false},

		"qwen3 on two":      {engine.Options{Blocks: 40, BlockSize: 4, Sequences: 8, Budget: 20, Tensor: 2}, true, true},
		"qwen3_moe on two":  {engine.Options{Blocks: 18, BlockSize: 16, Sequences: 12, Budget: 64, Tensor: 2}, true, true},
		"qwen3_next on two": {engine.Options{Blocks: 18, BlockSize: 16, Sequences: 12, Budget: 64, Tensor: 2}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			const tokens = 16
			name, _, _ := strings.Cut(name, " ")
			texts := prompts(expectedOf(t, name), n)
			want := alone(t, name, texts, tokens)
			e := open(t, name, c.Options)
			var all []*engine.Generation
			for _, p := range texts {
				g, err := e.Submit(t.Context(), engine.Request{Prompt: p, MaxTokens: tokens, Sampling: greedy})
				require.NoError(t, err)
				all = append(all, g)
			}
			for i, g := range all {
				got, err := collect(g)
				require.NoError(t, err)
				require.Equal(t, want[i], got, "request %d", i)
			}
			stats := e.Stats()
			require.Equal(t, n*tokens, stats.GeneratedTokens)
			require.Equal(t, c.preempted, stats.Preemptions > 0, "%d preemptions", stats.Preemptions)
			require.Equal(t, c.shared, stats.PrefixHits > 0, "%d tokens shared", stats.PrefixHits)
			t.Logf("%+v", stats)
		})
	}
}

// TestSpeculation: draft tokens save steps and change no text, in a full batch, with few blocks, and with sampling.
func TestSpeculation(t *testing.T) {
	const n, tokens = 12, 40
	for _, name := range []string{"qwen3", "qwen3_moe", "qwen3_next"} {
		t.Run(name, func(t *testing.T) {
			texts := prompts(expectedOf(t, name), n)
			for i := range texts { // texts that repeat themselves
				texts[i] = slices.Concat(texts[i], texts[i])[:min(2*len(texts[i]), 40)]
			}
			var plain [][]int32
			for _, speculate := range []int{0, 5} {
				e := open(t, name, engine.Options{Blocks: 60, BlockSize: 8, Sequences: 6, Budget: 24, Speculate: speculate})
				var all []*engine.Generation
				for i, p := range texts {
					r := engine.Request{Prompt: p, MaxTokens: tokens, Sampling: greedy}
					if i%3 == 0 {
						r.Sampling = sampling.Options{Temperature: .3, TopP: 1, Seed: uint64(i), Frequency: .1}
					}
					g, err := e.Submit(t.Context(), r)
					require.NoError(t, err)
					all = append(all, g)
				}
				for i, g := range all {
					got, err := collect(g)
					require.NoError(t, err)
					if speculate == 0 {
						plain = append(plain, got)
					} else {
						require.Equal(t, plain[i], got, "request %d", i)
					}
				}
				s := e.Stats()
				t.Logf("%d tokens in %d steps; %d of %d drafts were accepted", s.GeneratedTokens, s.Steps, s.Accepted, s.Drafted)
				require.Equal(t, speculate > 0, s.Accepted > 0)
				require.LessOrEqual(t, s.Accepted, s.Drafted)
			}
		})
	}
}

// TestEnds: a token that ends the text is not part of it.
func TestEnds(t *testing.T) {
	want := expectedOf(t, "qwen3")
	e := open(t, "qwen3", engine.Options{Blocks: 8, BlockSize: 16})
	end := want.Greedy[3]
	g, err := e.Submit(t.Context(), engine.Request{Prompt: want.Prompt, Sampling: greedy, Ends: []int32{1000, end}})
	require.NoError(t, err)
	got, err := collect(g)
	require.NoError(t, err)
	require.Equal(t, want.Greedy[:3], got)
	require.Equal(t, engine.Stopped, g.Reason())
}

// TestSampling: a request draws the same tokens with the same seed, whatever runs beside it, and its
// probabilities are those of the model.
func TestSampling(t *testing.T) {
	want := expectedOf(t, "qwen3")
	e := open(t, "qwen3", engine.Options{Blocks: 32, BlockSize: 16})
	draw := func(seed uint64) *engine.Generation {
		g, err := e.Submit(t.Context(), engine.Request{
			Prompt: want.Prompt, MaxTokens: 20, Sampling: sampling.Options{Temperature: 1, TopK: 50, TopP: .95, Seed: seed}, LogProbs: true, Top: 3,
		})
		require.NoError(t, err)
		return g
	}
	var all []*engine.Generation
	for i := range 12 {
		all = append(all, draw(uint64(i%2)))
	}
	texts := map[int][]int32{}
	for i, g := range all {
		var ids []int32
		for range 20 {
			token, err := g.Next()
			require.NoError(t, err)
			ids = append(ids, token.ID)
			require.Len(t, token.Top, 3)
			require.LessOrEqual(t, token.LogProb, token.Top[0].Value)
			require.Less(t, token.LogProb, 0.)
		}
		if texts[i%2] == nil {
			texts[i%2] = ids
		}
		require.Equal(t, texts[i%2], ids)
	}
	require.NotEqual(t, texts[0], texts[1])
}

// TestCancel: a request whose context ends leaves its blocks, whether it runs or waits, and others go on.
func TestCancel(t *testing.T) {
	want := expectedOf(t, "qwen3")
	e := open(t, "qwen3", engine.Options{Blocks: 32, BlockSize: 16, Sequences: 2})
	leaving, leave := context.WithCancelCause(t.Context())
	submit := func(ctx context.Context, n int) *engine.Generation {
		g, err := e.Submit(ctx, engine.Request{Prompt: want.Prompt, MaxTokens: n, Sampling: greedy})
		require.NoError(t, err)
		return g
	}
	runs, waits := submit(leaving, 400), submit(leaving, 400)
	stays, also := submit(t.Context(), len(want.Greedy)), submit(leaving, 400)
	_, err := runs.Next()
	require.NoError(t, err)
	leave(os.ErrPermission)
	for _, g := range []*engine.Generation{runs, waits, also} {
		_, err := collect(g)
		require.ErrorIs(t, err, os.ErrPermission)
	}
	got, err := collect(stays)
	require.NoError(t, err)
	require.Equal(t, want.Greedy, got)
	_, err = e.Submit(leaving, engine.Request{Prompt: want.Prompt, Sampling: greedy})
	require.ErrorIs(t, err, os.ErrPermission)
	require.Eventually(t, func() bool { return e.Stats().Used == 0 }, time.Minute, time.Millisecond)
}

// TestLimits: the queue has a bound, a draining engine finishes what it has, and a closed one ends it.
func TestLimits(t *testing.T) {
	want := expectedOf(t, "qwen3")
	e := open(t, "qwen3", engine.Options{Blocks: 32, BlockSize: 16, Sequences: 1, Queue: 2})
	request := engine.Request{Prompt: want.Prompt, Sampling: greedy}
	first, err := e.Submit(t.Context(), request)
	require.NoError(t, err)
	_, err = first.Next() // it runs
	require.NoError(t, err)
	var all []*engine.Generation
	for range 2 {
		g, err := e.Submit(t.Context(), request)
		require.NoError(t, err)
		all = append(all, g)
	}
	_, err = e.Submit(t.Context(), request)
	require.ErrorIs(t, err, engine.ErrBusy)
	require.NoError(t, e.Ready())

	soon, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, e.Drain(soon), context.Canceled)
	require.ErrorIs(t, e.Ready(), engine.ErrClosed)
	_, err = e.Submit(t.Context(), request)
	require.ErrorIs(t, err, engine.ErrClosed)
	_, err = collect(first)
	require.NoError(t, err, "draining lets it end")
	require.NoError(t, e.Close())
	for _, g := range all {
		_, err := collect(g)
		require.ErrorIs(t, err, engine.ErrClosed)
	}
	require.NoError(t, e.Drain(t.Context()))
	require.NoError(t, e.Close())
}

func TestRefusals(t *testing.T) {
	e := open(t, "qwen3", engine.Options{Blocks: 2, BlockSize: 16, MaxLength: 20})
	require.Equal(t, 20, e.MaxLength())
	for text, r := range map[string]engine.Request{
		"the prompt is empty":          {},
		"the prompt has 20 tokens":     {Prompt: make([]int32, 20)},
		"token 1 of the prompt is 160": {Prompt: []int32{1, 160}},
		"-1 tokens":                    {Prompt: []int32{1}, MaxTokens: -1},
		"top-p 0":                      {Prompt: []int32{1}},
	} {
		_, err := e.Submit(t.Context(), r)
		require.ErrorIs(t, err, engine.ErrRequest)
		require.ErrorContains(t, err, text)
	}
	g, err := e.Submit(t.Context(), engine.Request{Prompt: make([]int32, 19), MaxTokens: 9, Sampling: greedy})
	require.NoError(t, err)
	got, err := collect(g)
	require.NoError(t, err)
	require.Len(t, got, 1, "there is room for one")
	for text, o := range map[string]engine.Options{
		"Blocks is -1": {Blocks: -1}, "MaxLength is 1;": {MaxLength: 1}, "MaxLength is 65; it must be from 2 to 64": {Blocks: 4, BlockSize: 16, MaxLength: 65},
		"Budget is 3": {Budget: 3, Sequences: 4},
	} {
		_, err := engine.Open(t.Context(), nil, 0, nil, o)
		require.ErrorContains(t, err, text)
	}
}
