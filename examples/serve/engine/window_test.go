package engine_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/serve/engine"
)

// TestWindow: where every layer has a window, a long answer keeps the blocks of its window only, and has the tokens of a cache that keeps all. The
// blocks of a model in which some layers see all tokens stay, since a block has the keys of all layers.
func TestWindow(t *testing.T) {
	const tokens, block, window = 120, 4, 12
	for _, c := range []struct {
		name  string
		reach int
	}{{"mistral", window}, {"gpt_oss", 0}} {
		t.Run(c.name, func(t *testing.T) {
			name := filepath.Join("..", "families", c.name)
			words := expectedOf(t, name).IDs[0]
			prompts := [][]int32{words[:5], words[2:12], words[:9]}
			var want [][]int32
			withModel(t, name, func(m *model.Model) {
				require.Equal(t, c.reach, m.Config.Reach())
				want = generate(t, m, prompts, tokens)
			})
			for _, o := range []engine.Options{{Budget: 24}, {Budget: 24, Graph: true}, {Budget: 24, Speculate: 3}} {
				o.Blocks, o.BlockSize, o.Sequences = 36, block, len(prompts)
				e := open(t, name, o)
				var all []*engine.Generation
				for _, p := range prompts {
					g, err := e.Submit(t.Context(), engine.Request{Prompt: p, MaxTokens: tokens, Sampling: greedy})
					require.NoError(t, err)
					all = append(all, g)
				}
				for i, g := range all {
					for at, id := range want[i] {
						got, err := g.Next()
						require.NoError(t, err)
						require.Equal(t, id, got.ID, "prompt %d, token %d", i, at)
						if c.reach > 0 { // a window, which may begin and end within a block, and what a step adds
							require.LessOrEqual(t, e.Stats().Used, len(prompts)*(window/block+1+(o.Speculate+block)/block), "after %d tokens", at)
						}
					}
				}
				// Three texts of 120 tokens have room in 144 places only if each keeps no more than its window.
				require.Equal(t, c.reach > 0, e.Stats().Preemptions == 0, "%d preemptions", e.Stats().Preemptions)
			}
		})
	}
}

// TestPositions: requests are no longer than max_position_embeddings, and no option makes them so.
func TestPositions(t *testing.T) {
	name := filepath.Join("..", "families", "llama")
	positions := 0
	withModel(t, name, func(m *model.Model) { positions = m.Config.MaxPositions })
	require.Equal(t, 256, positions)
	e := open(t, name, engine.Options{Blocks: 64, BlockSize: 16})
	require.Equal(t, positions, e.MaxLength())
	_, err := e.Submit(t.Context(), engine.Request{Prompt: make([]int32, positions), MaxTokens: 1, Sampling: greedy})
	require.ErrorIs(t, err, engine.ErrLength)
	_, err = engine.Open(t.Context(), acltest.Open(t), 0, load(folder(t, name), aclnn.Float32), engine.Options{Blocks: 64, BlockSize: 16, MaxLength: positions + 1})
	require.ErrorContains(t, err, "MaxLength is 257; the model's max_position_embeddings is 256")
}
