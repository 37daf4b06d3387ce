package engine_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/serve/engine"
)

// TestPromptLogProbs: the probabilities of a prompt's tokens are those of transformers' loss, in steps of any size, when
// sequences share starts, and when there are too few blocks for all. What is generated after them is the same as without.
func TestPromptLogProbs(t *testing.T) {
	for _, name := range []string{"qwen3", "qwen3_moe", "qwen3_5"} {
		for what, o := range map[string]engine.Options{
			"whole": {Blocks: 16, BlockSize: 16}, "pieces": {Blocks: 16, BlockSize: 16, Budget: 7, Sequences: 4}, "preempted": {Blocks: 4, BlockSize: 16, MaxLength: 60},
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				want := expectedOf(t, name)
				e := open(t, name, o)
				ctx := t.Context()
				plain, err := e.Submit(ctx, engine.Request{Prompt: want.IDs[0], MaxTokens: 6, Sampling: greedy})
				require.NoError(t, err)
				tokens, err := collect(plain)
				require.NoError(t, err)
				require.Nil(t, plain.Prompt())
				var all []*engine.Generation
				for i := range 6 {
					r := engine.Request{Prompt: want.IDs[i%2], Sampling: greedy, PromptLogProbs: true, Top: 3, ReadOnly: i > 1}
					if !r.ReadOnly {
						r.MaxTokens = 6
					}
					g, err := e.Submit(ctx, r)
					require.NoError(t, err)
					all = append(all, g)
				}
				var sum float64
				for i, g := range all {
					got, err := collect(g)
					require.NoError(t, err)
					require.Equal(t, engine.TooLong, g.Reason())
					switch i {
					case 0:
						require.Equal(t, tokens, got)
					case 1:
						require.Len(t, got, 6)
					default:
						require.Empty(t, got)
					}
					prompt := g.Prompt()
					require.Len(t, prompt, len(want.IDs[i%2]))
					require.Equal(t, engine.Token{ID: want.IDs[i%2][0]}, prompt[0])
					for at, x := range prompt[1:] {
						require.Equal(t, want.IDs[i%2][at+1], x.ID)
						require.Len(t, x.Top, 3)
						if x.ID == x.Top[0].ID {
							require.Equal(t, x.Top[0].Value, x.LogProb)
						}
						require.LessOrEqual(t, x.LogProb, x.Top[0].Value)
						sum -= x.LogProb
					}
				}
				mean := sum / float64(3*(len(want.IDs[0])+len(want.IDs[1])-2))
				require.InDelta(t, want.Loss, mean, 1e-5)
			})
		}
	}
}

// TestReadOnly: a prompt of all tokens that fit is read, and what a request that generates nothing cannot have is refused.
func TestReadOnly(t *testing.T) {
	e := open(t, "qwen3", engine.Options{Blocks: 8, BlockSize: 16, MaxLength: 20})
	ids := expectedOf(t, "qwen3").IDs[0]
	g, err := e.Submit(t.Context(), engine.Request{Prompt: ids[:20], Sampling: greedy, ReadOnly: true, PromptLogProbs: true})
	require.NoError(t, err)
	none, err := collect(g)
	require.NoError(t, err)
	require.Empty(t, none)
	require.Len(t, g.Prompt(), 20)
	one, err := e.Submit(t.Context(), engine.Request{Prompt: ids[:1], Sampling: greedy, ReadOnly: true, PromptLogProbs: true})
	require.NoError(t, err)
	_, err = collect(one)
	require.NoError(t, err)
	require.Equal(t, []engine.Token{{ID: ids[0]}}, one.Prompt())
	for _, r := range []engine.Request{{Prompt: ids[:21]}, {Prompt: ids[:2], MaxTokens: 1}, {Prompt: ids[:2], Done: ids[2:3]}, {}} {
		r.Sampling, r.ReadOnly = greedy, true
		_, err := e.Submit(t.Context(), r)
		require.ErrorIs(t, err, engine.ErrRequest)
	}
}

// TestEndLogProb: with probabilities, the token that ends a text is the last of the generation.
func TestEndLogProb(t *testing.T) {
	e := open(t, "qwen3", engine.Options{Blocks: 8, BlockSize: 16})
	want := expectedOf(t, "qwen3")
	for _, logProbs := range []bool{false, true} {
		g, err := e.Submit(t.Context(), engine.Request{Prompt: want.Prompt, MaxTokens: 8, Sampling: greedy, Ends: want.Greedy[3:4], LogProbs: logProbs, Top: 1})
		require.NoError(t, err)
		var got []engine.Token
		for {
			x, err := g.Next()
			if err != nil {
				break
			}
			got = append(got, x)
		}
		require.Equal(t, engine.Stopped, g.Reason())
		first := slices.Index(want.Greedy, want.Greedy[3])
		if !logProbs {
			require.Len(t, got, first)
			continue
		}
		require.Len(t, got, first+1)
		for i, x := range got {
			require.Equal(t, i == first, x.End)
			require.Equal(t, want.Greedy[i], x.ID)
			require.True(t, x.LogProb < 0 && !math.IsInf(x.LogProb, 0))
			require.Equal(t, x.ID, x.Top[0].ID)
		}
	}
}
