package engine_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/ops"
)

// TestLongRotation: beyond the original length of LongRoPE all keys have other frequencies. Texts that grow across it, long prompts in pieces and prompts
// that share blocks have the tokens of a pass over the whole text, by graphs, with drafts, after preemption and on two ranks.
func TestLongRotation(t *testing.T) {
	const tokens = 40
	name := filepath.Join("..", "families", "phi3_longrope") // whose original length is 64
	want := expectedOf(t, name)
	words := slices.Concat(want.IDs[0], want.IDs[1], want.IDs[0])
	prompts := [][]int32{words[:40], words[:61], words[:64], words[:65], words[:90], slices.Concat(words[:88], []int32{1, 2, 3})}
	var whole [][]int32
	withModel(t, name, func(m *model.Model) {
		for _, p := range prompts {
			text := slices.Clone(p)
			for range tokens {
				logits, err := m.Logits(t.Context(), model.Batch{Size: 1, Length: len(text), Inputs: text, Labels: make([]int32, len(text))})
				require.NoError(t, err)
				best := 0
				last := logits[(len(text)-1)*m.Config.VocabSize:]
				for i, l := range last {
					if l > last[best] {
						best = i
					}
				}
				text = append(text, int32(best))
			}
			whole = append(whole, text[len(p):])
		}
		cached := generate(t, m, prompts, tokens)
		require.Equal(t, whole, cached, "a cache")
		for i, p := range prompts {
			cache, err := m.NewCache(2, len(p)+tokens)
			require.NoError(t, err)
			d, err := m.NewDecoder(t.Context(), cache)
			require.NoError(t, err)
			_, err = m.Extend(t.Context(), cache, slices.Concat(p, p))
			require.NoError(t, err)
			for at, id := range whole[i][:tokens-1] {
				logits, err := d.Next(t.Context(), []int32{id, id})
				require.NoError(t, err)
				for row := range 2 {
					own := logits[row*m.Config.VocabSize:][:m.Config.VocabSize]
					require.EqualValues(t, slices.Index(own, slices.Max(own)), whole[i][at+1], "a decoder, prompt %d, token %d", i, at+1)
				}
			}
			require.NoError(t, d.Close())
			require.NoError(t, cache.Close())
		}
	})
	path := folder(t, name)
	for _, o := range []engine.Options{
		{Blocks: 120, BlockSize: 8, Sequences: 6, Budget: 24}, {Blocks: 120, BlockSize: 8, Sequences: 6, Budget: 48, Speculate: 4},
		{Blocks: 40, BlockSize: 8, Sequences: 6, Budget: 32, Graph: true}, {Blocks: 120, BlockSize: 8, Sequences: 6, Budget: 24, Tensor: 2, Graph: true},
	} {
		e, err := engine.Open(t.Context(), acltest.Open(t), 0, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, par model.Parallel) (*model.Model, error) {
			return load(path, aclnn.Float32)(ctx, st, reg, par)
		}, o)
		require.NoError(t, err)
		var all []*engine.Generation
		for range 2 {
			for _, p := range prompts {
				g, err := e.Submit(t.Context(), engine.Request{Prompt: p, MaxTokens: tokens, Sampling: greedy})
				require.NoError(t, err)
				all = append(all, g)
			}
		}
		for i, g := range all {
			got, err := collect(g)
			require.NoError(t, err)
			require.Equal(t, whole[i%len(prompts)], got, "%+v, request %d", o, i)
		}
		s := e.Stats()
		t.Logf("%d steps, %d replays, %d preemptions, %d of %d drafts accepted, %d tokens shared", s.Steps, s.Replays, s.Preemptions, s.Accepted, s.Drafted, s.PrefixHits)
		require.NotZero(t, s.PrefixHits)
		require.Zero(t, s.Faults)
		require.NoError(t, e.Close())
	}
}
