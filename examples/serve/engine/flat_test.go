package engine_test

import (
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/serve/engine"
)

// TestWorkStaysFlat: after many requests with different prompts a step does not allocate more, and nothing
// that the engine keeps has grown. Times would depend on what else the machine does.
func TestWorkStaysFlat(t *testing.T) {
	const blocks = 48
	e := open(t, "qwen3", engine.Options{Blocks: blocks, BlockSize: 8, Sequences: 8, Queue: 100})
	rng := rand.New(rand.NewPCG(7, 8))
	round := func(requests int) (objects, bytes uint64) {
		counts := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}, {Name: "/gc/heap/allocs:bytes"}}
		metrics.Read(counts)
		first, size, before := counts[0].Value.Uint64(), counts[1].Value.Uint64(), e.Stats()
		var all []*engine.Generation
		for range requests {
			prompt := make([]int32, 1+rng.IntN(30))
			for i := range prompt {
				prompt[i] = rng.Int32N(150)
			}
			g, err := e.Submit(t.Context(), engine.Request{Prompt: prompt, MaxTokens: 10, Sampling: greedy})
			require.NoError(t, err)
			all = append(all, g)
		}
		for _, g := range all {
			_, err := collect(g)
			require.NoError(t, err)
		}
		metrics.Read(counts)
		s := e.Stats()
		require.LessOrEqual(t, s.Kept+s.Used, blocks, "nodes of the tree of prefixes")
		steps := uint64(s.Steps - before.Steps)
		return (counts[0].Value.Uint64() - first) / steps, (counts[1].Value.Uint64() - size) / steps
	}
	round(100) // fills the blocks, and the allocator's cache
	objects, bytes := round(100)
	live, goroutines := acl.Live(), runtime.NumGoroutine()
	rounds := 8
	if testing.Short() {
		rounds = 2
	}
	for range rounds {
		round(100)
	}
	after, size := round(100)
	t.Logf("a step allocates %d objects of %d bytes, and later %d of %d; goroutines %d, later %d; open %v, later %v", objects, bytes, after, size, goroutines, runtime.NumGoroutine(), live, acl.Live())
	require.Less(t, after, objects*5/4)
	require.Less(t, size, bytes*5/4)
	require.LessOrEqual(t, acl.Live()[acl.KindBuffer], live[acl.KindBuffer])
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+4)
}
