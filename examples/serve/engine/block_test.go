package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goascend/cann/examples/sampling"
)

// TestBlocks: whatever sequences begin, grow and end, each reads blocks that hold its own tokens, no
// block that is written belongs to two of them, and none gets lost. With a window, blocks before it are let go as soon as no token sees them.
func TestBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 4
		reach := rapid.IntRange(0, 9).Draw(t, "reach")
		c := newBlocks(rapid.IntRange(1, 12).Draw(t, "blocks"), size, reach, rapid.Bool().Draw(t, "share"))
		var all []*sequence
		content := map[int32][]int32{} // what the device has in each block
		check := func() {
			readers := map[*block]int{}
			for _, s := range all {
				for i, b := range s.blocks {
					last := (i+1)*size - 1 // token of the block, which the next one sees or not
					require.Equal(t, reach > 0 && last <= s.computed-reach && s.next > 0, b == nil, "block %d of %d tokens", i, s.computed)
					if b == nil {
						continue
					}
					readers[b]++
					end := min(size, s.computed-i*size)
					if end > 0 {
						require.Equal(t, s.tokens[i*size:][:end], content[b.id][:end], "block %d of a sequence", i)
					}
					if end < size {
						require.Equal(t, 1, b.refs, "a block that is still written")
					}
				}
			}
			idle := 0
			for i := range c.all {
				b := &c.all[i]
				require.Equal(t, readers[b], b.refs)
				if b.idle != nil {
					require.Zero(t, b.refs)
					idle++
				}
				if b.parent != nil {
					require.Contains(t, b.parent.children, b)
					require.GreaterOrEqual(t, len(content[b.id]), len(b.tokens))
					require.Equal(t, b.tokens, content[b.id][:len(b.tokens)])
				}
			}
			require.Equal(t, idle, c.idle.Len())
			require.Equal(t, len(c.all), len(readers)+idle+len(c.free))
			require.Equal(t, len(readers), c.used())
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				tokens := rapid.SliceOfN(rapid.Int32Range(0, 1), 1, 14).Draw(t, "tokens")
				s := newSequence(t.Context(), Request{Prompt: tokens, Sampling: sampling.Options{TopP: 1}})
				from, to := c.adopt(s)
				if from != nil {
					content[to.id] = append([]int32(nil), content[from.id]...)
				}
				require.Less(t, s.computed, len(tokens))
				all = append(all, s)
			},
			"compute": func(t *rapid.T) {
				if len(all) == 0 {
					t.Skip("none")
				}
				s := rapid.SampledFrom(all).Draw(t, "sequence")
				if s.left() == 0 {
					s.tokens = append(s.tokens, rapid.Int32Range(0, 1).Draw(t, "token"))
				}
				n := rapid.IntRange(1, s.left()).Draw(t, "n")
				if !c.extend(s, s.computed+n) {
					t.Skip("no blocks")
				}
				s.next = n
				for i := s.computed; i < s.computed+n; i++ {
					id := s.blocks[i/size].id
					content[id] = append(append([]int32(nil), content[id]...)[:i%size], s.tokens[i])
				}
				s.computed += n
				c.fill(s)
				c.pass(s)
			},
			"end": func(t *rapid.T) {
				if len(all) == 0 {
					t.Skip("none")
				}
				i := rapid.IntRange(0, len(all)-1).Draw(t, "sequence")
				c.drop(all[i])
				all = append(all[:i], all[i+1:]...)
			},
			"": func(*rapid.T) { check() },
		})
		for _, s := range all {
			c.drop(s)
		}
		all = nil
		check()
		require.Equal(t, len(c.all), c.available())
	})
}
