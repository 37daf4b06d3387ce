package engine_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/serve/engine"
)

// makeAdapters writes adapters of different ranks and layers for a hub folder, and returns what a model with
// each of them generates alone, first that without.
func makeAdapters(t *testing.T, name string, texts [][]int32, n int) (folders []string, want [][][]int32) {
	folders = append(folders, "")
	withModel(t, name, func(m *model.Model) {
		want = append(want, generate(t, m, texts, n))
		for i, targets := range [][]string{{model.AllLinear}, {"o_proj", "q_proj"}} {
			a, err := model.NewAdapter(t.Context(), m, model.LoRA{Rank: 2 + 3*i, Alpha: 4, Targets: targets}, uint64(i))
			require.NoError(t, err)
			rng := rand.New(rand.NewPCG(9, uint64(i)))
			for _, p := range a.Parameters() {
				values := make([]float32, p.Shape()[0]*p.Shape()[1])
				for i := range values {
					values[i] = float32(rng.NormFloat64()) / 8
				}
				require.NoError(t, a.Set(t.Context(), p, values))
			}
			require.NoError(t, m.Use(a))
			want = append(want, generate(t, m, texts, n))
			folder := filepath.Join(t.TempDir(), fmt.Sprint("adapter", i))
			require.NoError(t, a.Save(t.Context(), folder, name, nil))
			require.NoError(t, a.Close())
			folders = append(folders, folder)
		}
	})
	require.NotEqual(t, want[0], want[1])
	require.NotEqual(t, want[1], want[2])
	return folders, want
}

func nameOf(i int) string {
	if i == 0 {
		return ""
	}
	return fmt.Sprint("adapter", i)
}

// TestAdapters: requests with different adapters run in the same steps and get the tokens that each adapter
// gives alone. Adapters come and go meanwhile.
func TestAdapters(t *testing.T) {
	for _, name := range []string{"qwen3", "qwen3_next", "qwen3_moe", "qwen3 on two", "qwen3_next on two"} {
		t.Run(name, func(t *testing.T) {
			const n, tokens = 6, 10
			name, several, _ := strings.Cut(name, " ")
			devices := 1 + min(len(several), 1)
			texts := prompts(expectedOf(t, name), n)
			folders, want := makeAdapters(t, name, texts, tokens)
			e := open(t, name, engine.Options{Blocks: 40, BlockSize: 4, Sequences: 8, Budget: 40, Adapters: 2, AdapterRank: 5, Tensor: devices})
			require.Empty(t, e.Adapters())
			ask := func(i, adapter int) *engine.Generation {
				g, err := e.Submit(t.Context(), engine.Request{Prompt: texts[i], MaxTokens: tokens, Sampling: greedy, Adapter: nameOf(adapter)})
				require.NoError(t, err)
				return g
			}
			for i := 1; i < len(folders); i++ {
				require.NoError(t, e.LoadAdapter(t.Context(), nameOf(i), folders[i]))
			}
			require.Equal(t, []string{"adapter1", "adapter2"}, e.Adapters())
			require.ErrorIs(t, e.LoadAdapter(t.Context(), "adapter1", folders[1]), engine.ErrAdapter)
			require.ErrorContains(t, e.LoadAdapter(t.Context(), "third", folders[1]), "all 2 slots are taken")
			var all []*engine.Generation
			for i := range texts {
				for a := range want {
					all = append(all, ask(i, a))
				}
			}
			require.NoError(t, e.UnloadAdapter("adapter1"), "those that run go on")
			_, err := e.Submit(t.Context(), engine.Request{Prompt: texts[0], Sampling: greedy, Adapter: "adapter1"})
			require.ErrorContains(t, err, "there is no adapter adapter1")
			for i, g := range all {
				got, err := collect(g)
				require.NoError(t, err)
				require.Equal(t, want[i%3][i/3], got, "text %d with adapter %d", i/3, i%3)
			}
			require.Equal(t, []string{"adapter2"}, e.Adapters())
			require.ErrorIs(t, e.UnloadAdapter("adapter1"), engine.ErrAdapter)
			require.NoError(t, e.LoadAdapter(t.Context(), "adapter1", folders[2]), "its slot is free, and takes another")
			got, err := collect(ask(0, 1))
			require.NoError(t, err)
			require.Equal(t, want[2][0], got)
			require.ErrorIs(t, e.UnloadAdapter("none"), engine.ErrAdapter)
			require.NoError(t, e.UnloadAdapter("adapter1"))
			require.ErrorIs(t, e.LoadAdapter(t.Context(), "empty", t.TempDir()), engine.ErrAdapter)
			require.Equal(t, []string{"adapter2"}, e.Adapters(), "the slot is free again")
		})
	}
}

// TestAdaptersOfLostDevice: adapters are loaded again with the model.
func TestAdaptersOfLostDevice(t *testing.T) {
	acltest.Faults(t, "run/aclnnAddRmsNorm:400=507054", func(t *testing.T) {
		want := expectedOf(t, "qwen3")
		folders, alone := makeAdapters(t, "qwen3", [][]int32{want.Prompt}, 10)
		e := open(t, "qwen3", engine.Options{Blocks: 20, BlockSize: 8, Adapters: 1})
		require.NoError(t, e.LoadAdapter(t.Context(), "one", folders[1]))
		for e.Stats().Faults == 0 {
			g, err := e.Submit(t.Context(), engine.Request{Prompt: want.Prompt, MaxTokens: 10, Sampling: greedy, Adapter: "one"})
			require.NoError(t, err)
			got, err := collect(g)
			require.NoError(t, err)
			require.Equal(t, alone[1][0], got)
		}
	})
}
