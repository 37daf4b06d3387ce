package model_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
)

// extended returns the logits after each of some passes over the first golden text with a cache, and those of the text as a whole.
func extended(t *testing.T, m *model.Model, ids []int32) (cached, whole [][]float32) {
	all, err := m.Logits(t.Context(), model.Batch{Size: 1, Length: len(ids), Inputs: ids, Labels: ids})
	require.NoError(t, err)
	cache, err := m.NewCache(1, len(ids))
	require.NoError(t, err)
	defer func() { require.NoError(t, cache.Close()) }()
	at, vocab := 0, m.Config.VocabSize
	for _, n := range []int{5, 1, 1, 4, 1} {
		logits, err := m.Extend(t.Context(), cache, ids[at:][:n])
		require.NoError(t, err)
		at += n
		cached, whole = append(cached, logits), append(whole, all[(at-1)*vocab:][:vocab])
	}
	return cached, whole
}

// TestLatentsAdapted: attention to latents reads the weight that an adapter in use changes, and an adapter bank, which has several, refuses it.
func TestLatentsAdapted(t *testing.T) {
	eachKind(t, func(t *testing.T, k kindFolder) {
		if k.config(t).KVRank == 0 {
			t.Skip("no latents")
		}
		st, reg := setUp(t)
		m := k.load(t, st, reg, func(c *model.Config) { c.Frozen = true })
		a, err := model.NewAdapter(t.Context(), m, model.LoRA{Rank: 4, Alpha: 8, Targets: []string{"kv_b_proj", "o_proj"}}, 1)
		require.NoError(t, err)
		defer func() { require.NoError(t, a.Close()) }()
		rng := rand.New(rand.NewPCG(1, 2))
		for _, p := range a.Parameters() {
			n := int64(1)
			for _, d := range p.Shape() {
				n *= d
			}
			values := make([]float32, n)
			for i := range values {
				values[i] = float32(rng.NormFloat64() / 8)
			}
			require.NoError(t, a.Set(t.Context(), p, values))
		}
		plain, _ := extended(t, m, k.IDs[0])
		require.NoError(t, m.Use(a))
		cached, whole := extended(t, m, k.IDs[0])
		for i := range cached {
			for j, x := range cached[i] {
				require.InDelta(t, whole[i][j], x, 2e-5, "pass %d, token %d", i, j)
			}
		}
		require.NotEqual(t, plain, cached)
		folder := t.TempDir()
		require.NoError(t, a.Save(t.Context(), folder, k.path, nil))
		bank, err := m.NewAdapterBank(1, 8)
		require.NoError(t, err)
		defer func() { require.NoError(t, bank.Close()) }()
		require.ErrorContains(t, bank.Load(t.Context(), 0, folder), "kv_b_proj")
	})
}

// TestLatentsQuantized: with int8 weights attention to latents still has the one that it reads itself.
func TestLatentsQuantized(t *testing.T) {
	eachKind(t, func(t *testing.T, k kindFolder) {
		cfg := k.config(t)
		if cfg.KVRank == 0 {
			t.Skip("no latents")
		}
		st, reg := setUp(t)
		cfg.Frozen = true
		m, err := model.New(st, reg, cfg, aclnn.BFloat16)
		require.NoError(t, err)
		defer func() { require.NoError(t, m.Close()) }()
		require.NoError(t, m.Load(t.Context(), k.path))
		_, want := extended(t, m, k.IDs[0])
		_, err = m.Quantize(t.Context())
		require.NoError(t, err)
		cached, whole := extended(t, m, k.IDs[0])
		for i := range cached {
			require.Greater(t, cosine(cached[i], whole[i]), 0.998, "pass %d", i)
			require.Greater(t, cosine(cached[i], want[i]), 0.99, "pass %d", i)
		}
	})
}
