package model_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/internal/testing/golden"
)

// TestAdapterBank: sequences with different adapters, and with none, get in one pass the logits that each adapter
// gives alone.
func TestAdapterBank(t *testing.T) {
	for _, name := range adapterModels {
		t.Run(name, func(t *testing.T) {
			st, reg := setUp(t)
			r := openAdapterRun(t, name)
			m := r.base(t, st, reg, aclnn.Float32, model.Parallel{})
			b := r.batch(t, "a", 0)
			tokens := b.Inputs[:12]
			folders := []string{"", filepath.Join(r.folder, "a"), r.other(t, m)}
			var want [][]float32
			for _, folder := range folders {
				var a *model.Adapter
				if folder != "" {
					var err error
					a, err = model.LoadAdapter(t.Context(), m, folder, 1)
					require.NoError(t, err)
				}
				require.NoError(t, m.Use(a))
				cache, err := m.NewCache(1, len(tokens))
				require.NoError(t, err)
				logits, err := m.Extend(t.Context(), cache, tokens)
				require.NoError(t, err)
				want = append(want, logits)
				require.NoError(t, cache.Close())
				require.NoError(t, a.Close())
			}
			require.Error(t, golden.CheckRMS(want[1], want[0], 1e-3), "the adapter changes nothing")
			require.Error(t, golden.CheckRMS(want[2], want[1], 1e-3), "the adapters are alike")

			bank, err := m.NewAdapterBank(3, 16)
			require.NoError(t, err)
			defer func() { require.NoError(t, bank.Close()) }()
			g, err := m.NewPages(model.PageSizes{Blocks: 5, Block: 16, States: 5})
			require.NoError(t, err)
			defer func() { require.NoError(t, g.Close()) }()
			g.Adapters = bank
			require.NoError(t, bank.Load(t.Context(), 2, folders[1]))
			require.NoError(t, bank.Load(t.Context(), 0, folders[1]))
			require.NoError(t, bank.Load(t.Context(), 0, folders[2])) // in place of the other
			adapters := []int{0, 3, 1, 3, 0}
			of := map[int]int{0: 0, 3: 1, 1: 2}
			for _, cut := range []int{len(tokens) - 1, len(tokens)} { // most at once, then the last
				var pieces []model.Piece
				for i, a := range adapters {
					x := model.Piece{Tokens: tokens[:cut], Blocks: []int32{int32(i)}, State: i, Adapter: a}
					if cut == len(tokens) {
						x.Tokens, x.From = tokens[cut-1:], cut-1
					}
					pieces = append(pieces, x)
				}
				logits, err := m.Advance(t.Context(), g, pieces)
				require.NoError(t, err)
				if cut < len(tokens) {
					continue
				}
				for i, a := range adapters {
					got := logits[i*m.Config.VocabSize:][:m.Config.VocabSize]
					require.LessOrEqual(t, farthest(got, want[of[a]]), 1e-4, "sequence %d with adapter %d", i, a)
				}
			}
			adapterBankRefusals(t, m, g, folders[1])
		})
	}
}

// other writes an adapter of another rank, of some layers only.
func (r *adapterRun) other(t *testing.T, m *model.Model) string {
	a, err := model.NewAdapter(t.Context(), m, model.LoRA{Rank: 3, Alpha: 5, Targets: []string{"o_proj", "up_proj"}}, 4)
	if r.name == "qwen3_moe" { // its feed-forward layers are experts
		a, err = model.NewAdapter(t.Context(), m, model.LoRA{Rank: 3, Alpha: 5, Targets: []string{"o_proj", "v_proj"}}, 4)
	}
	require.NoError(t, err)
	for _, p := range a.Parameters() {
		values := make([]float32, p.Shape()[0]*p.Shape()[1])
		for i := range values {
			values[i] = float32(i%7-3) / 20
		}
		require.NoError(t, a.Set(t.Context(), p, values))
	}
	folder := t.TempDir()
	require.NoError(t, a.Save(t.Context(), folder, "base", nil))
	require.NoError(t, a.Close())
	return folder
}

func adapterBankRefusals(t *testing.T, m *model.Model, g *model.Pages, folder string) {
	require.ErrorContains(t, g.Adapters.Load(t.Context(), 3, folder), "slot 3 of an adapter bank of 3")
	require.Error(t, g.Adapters.Load(t.Context(), 0, t.TempDir()))
	_, err := m.NewAdapterBank(0, 1)
	require.ErrorContains(t, err, "0 slots")
	_, err = m.Advance(t.Context(), g, []model.Piece{{Tokens: []int32{1}, Blocks: []int32{0}, Adapter: 4}})
	require.ErrorContains(t, err, "adapter 4")
	small, err := m.NewAdapterBank(1, 1)
	require.NoError(t, err)
	require.ErrorContains(t, small.Load(t.Context(), 0, folder), "the adapter bank takes up to 1")
	require.NoError(t, small.Close())
	bank := g.Adapters
	defer func() { g.Adapters = bank }()
	g.Adapters = small
	_, err = m.Advance(t.Context(), g, []model.Piece{{Tokens: []int32{1}, Blocks: []int32{0}}})
	require.ErrorContains(t, err, "it is closed")
}
