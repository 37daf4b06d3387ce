package model_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/internal/testing/golden"
)

// TestPages: sequences that are read in pieces of random lengths, several in one pass and each with
// random blocks, get the logits of one forward pass.
func TestPages(t *testing.T) {
	const size, tokens, block = 2, 64, 16
	for _, name := range []string{"qwen3", "qwen3_moe", "qwen3_next", "qwen3_5"} {
		t.Run(name, func(t *testing.T) {
			st, reg := setUp(t)
			m, run := newModel(t, st, reg, name, aclnn.Float32)
			ids, vocab := run.Int64("ids"), m.Config.VocabSize
			b := model.Batch{Size: size, Length: tokens}
			for i := range size * tokens {
				b.Inputs, b.Labels = append(b.Inputs, int32(ids[i])), append(b.Labels, -1)
			}
			want, err := m.Logits(t.Context(), b)
			require.NoError(t, err)
			const sequences = 5 // rows 0, 1, 0, 1, 0 of the batch
			g, err := m.NewPages(model.PageSizes{Blocks: sequences * tokens / block, Block: block, States: sequences})
			require.NoError(t, err)
			defer func() { require.NoError(t, g.Close()) }()
			rng := rand.New(rand.NewPCG(1, 2))
			order := rng.Perm(sequences * tokens / block)
			read, blocks := [sequences]int{}, [sequences][]int32{}
			for i, at := range order {
				blocks[i%sequences] = append(blocks[i%sequences], int32(at))
			}
			for range 200 {
				var pieces []model.Piece
				for _, s := range rng.Perm(sequences) {
					n := min(tokens-read[s], []int{0, 1, 1, 1, 2, 17}[rng.IntN(6)])
					if n > 0 {
						pieces = append(pieces, model.Piece{Tokens: b.Inputs[s%size*tokens+read[s]:][:n], From: read[s], Blocks: blocks[s], State: s})
						read[s] += n
					}
				}
				if len(pieces) == 0 {
					continue
				}
				logits, err := m.Advance(t.Context(), g, pieces)
				require.NoError(t, err)
				for i, x := range pieces {
					at := (x.State%size*tokens + read[x.State] - 1) * vocab
					require.LessOrEqual(t, farthest(logits[i*vocab:][:vocab], want[at:at+vocab]), 1e-4, "sequence %d after %d tokens", x.State, read[x.State])
				}
			}
			require.Equal(t, [sequences]int{tokens, tokens, tokens, tokens, tokens}, read)
		})
	}
}

// TestPagesInBF16: with blocks of 128 tokens CANN's kernels read the pages, and the logits stay close to
// those of a forward pass.
func TestPagesInBF16(t *testing.T) {
	for _, name := range []string{"qwen3", "qwen3_next"} {
		t.Run(name, func(t *testing.T) {
			st, reg := setUp(t)
			m, run := newModel(t, st, reg, name, aclnn.BFloat16)
			b := model.Batch{Size: 1, Length: 12}
			for _, id := range run.Int64("ids")[:b.Length] {
				b.Inputs, b.Labels = append(b.Inputs, int32(id)), append(b.Labels, -1)
			}
			want, err := m.Logits(t.Context(), b)
			require.NoError(t, err)
			g, err := m.NewPages(model.PageSizes{Blocks: 3, Block: 128, States: 2})
			require.NoError(t, err)
			defer func() { require.NoError(t, g.Close()) }()
			last := func(logits []float32, end int) {
				require.NoError(t, golden.CheckRMS(logits, want[(end-1)*m.Config.VocabSize:][:m.Config.VocabSize], 5e-2), "after %d tokens", end)
			}
			for at := 0; at < b.Length; at += 3 {
				logits, err := m.Advance(t.Context(), g, []model.Piece{{Tokens: b.Inputs[at : at+3], From: at, Blocks: []int32{2}}})
				require.NoError(t, err)
				last(logits, at+3)
			}
			// A second sequence shares a copy of the block, and reads its last token again.
			if name == "qwen3" {
				require.NoError(t, g.CopyBlock(0, 2))
				logits, err := m.Advance(t.Context(), g, []model.Piece{{Tokens: b.Inputs[11:], From: 11, Blocks: []int32{0}, State: 1}})
				require.NoError(t, err)
				last(logits, 12)
			}
		})
	}
}

func TestPageRefusals(t *testing.T) {
	st, reg := setUp(t)
	m, _ := newModel(t, st, reg, "qwen3_5", aclnn.Float32)
	other, _ := newModel(t, st, reg, "qwen3", aclnn.Float32)
	for _, s := range []model.PageSizes{{0, 16, 1}, {1, 0, 1}, {1, 16, 0}, {1 << 30, 16, 1}} {
		_, err := m.NewPages(s)
		require.ErrorContains(t, err, "all must be positive")
	}
	g, err := m.NewPages(model.PageSizes{Blocks: 4, Block: 4, States: 2})
	require.NoError(t, err)
	good := model.Piece{Tokens: []int32{1, 2}, Blocks: []int32{1}}
	_, err = other.Advance(t.Context(), g, []model.Piece{good})
	require.ErrorContains(t, err, "another model")
	for text, pieces := range map[string][]model.Piece{
		"no pieces":                            nil,
		"piece 0 has 0 tokens":                 {{Blocks: []int32{1}}},
		"from -1 on":                           {{Tokens: []int32{1}, From: -1, Blocks: []int32{1}}},
		"ends at token 5; its 1 blocks":        {{Tokens: []int32{1, 2}, From: 3, Blocks: []int32{1}}},
		"piece 1 has state 0 of 2; another":    {good, good},
		"has state 2 of 2":                     {{Tokens: []int32{1}, Blocks: []int32{1}, State: 2}},
		"has block 4 of 4":                     {{Tokens: []int32{1}, Blocks: []int32{4}}},
		"piece 0: model: token 1 is 128; the ": {{Tokens: []int32{1, 128}, Blocks: []int32{1}}},
	} {
		_, err := m.Advance(t.Context(), g, pieces)
		require.ErrorContains(t, err, text)
	}
	require.ErrorContains(t, g.CopyBlock(4, 0), "block 0 to 4")
	before, err := m.Advance(t.Context(), g, []model.Piece{good})
	require.NoError(t, err)

	// A pass that fails leaves nothing that a sequence would see that starts anew.
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = m.Advance(ended, g, []model.Piece{{Tokens: []int32{3}, From: 2, Blocks: []int32{1}}})
	require.ErrorIs(t, err, context.Canceled)
	again, err := m.Advance(t.Context(), g, []model.Piece{good})
	require.NoError(t, err)
	require.Equal(t, before, again)
	require.NoError(t, g.Close())
	_, err = m.Advance(t.Context(), g, []model.Piece{good})
	require.ErrorContains(t, err, "closed")
	require.ErrorContains(t, g.CopyBlock(0, 1), "closed")
}
