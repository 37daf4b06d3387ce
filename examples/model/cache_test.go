package model_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
)

// newModel makes the model of a golden run with its weights.
func newModel(t *testing.T, st *acl.Stream, reg *ops.Registry, name string, dt aclnn.DType) (*model.Model, *golden.Training) {
	run := golden.Model(t, name)
	cfg, err := model.ParseConfig(run.Config.Raw)
	require.NoError(t, err)
	m, err := model.New(st, reg, cfg, dt)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	for _, p := range m.Parameters() {
		require.NoError(t, m.Set(t.Context(), p, run.Sub("init").Float32(p.Name)))
	}
	return m, run
}

// farthest returns the largest difference.
func farthest(a, b []float32) float64 {
	d := 0.0
	for i := range a {
		d = math.Max(d, math.Abs(float64(a[i])-float64(b[i])))
	}
	return d
}

// TestDecodeEqualsPrefill checks that reading two sequences token by token, or in pieces, gives the
// same logits as one forward pass.
func TestDecodeEqualsPrefill(t *testing.T) {
	const size, tokens = 2, 64
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
			cache, err := m.NewCache(size, tokens)
			require.NoError(t, err)
			defer func() { require.NoError(t, cache.Close()) }()
			for _, pieces := range [][]int{ones(tokens), {tokens}, {17, 1, 1, 30, 1, 14}} {
				cache.Reset()
				for _, n := range pieces {
					var next []int32
					for row := range size {
						next = append(next, b.Inputs[row*tokens+cache.Len():][:n]...)
					}
					got, err := m.Extend(t.Context(), cache, next)
					require.NoError(t, err)
					for row := range size {
						at := (row*tokens + cache.Len() - 1) * vocab
						require.LessOrEqual(t, farthest(got[row*vocab:][:vocab], want[at:at+vocab]), 1e-4, "token %d of row %d", cache.Len(), row)
					}
				}
				require.Equal(t, tokens, cache.Len())
			}
		})
	}
}

func ones(n int) []int {
	pieces := make([]int, n)
	for i := range pieces {
		pieces[i] = 1
	}
	return pieces
}

// TestDecodeInBF16 checks that decoding with 16-bit weights stays close to the forward pass.
func TestDecodeInBF16(t *testing.T) {
	for _, name := range []string{"qwen3_next", "qwen3_moe"} {
		t.Run(name, func(t *testing.T) {
			st, reg := setUp(t)
			m, run := newModel(t, st, reg, name, aclnn.BFloat16)
			b := model.Batch{Size: 1, Length: 12}
			for _, id := range run.Int64("ids")[:12] {
				b.Inputs, b.Labels = append(b.Inputs, int32(id)), append(b.Labels, -1)
			}
			want, err := m.Logits(t.Context(), b)
			require.NoError(t, err)
			cache, err := m.NewCache(1, 12)
			require.NoError(t, err)
			defer func() { require.NoError(t, cache.Close()) }()
			for i := range b.Inputs {
				got, err := m.Extend(t.Context(), cache, b.Inputs[i:i+1])
				require.NoError(t, err)
				require.NoError(t, golden.CheckRMS(got, want[i*m.Config.VocabSize:][:m.Config.VocabSize], 5e-2), "token %d", i)
			}
		})
	}
}

func TestCacheRefusals(t *testing.T) {
	st, reg := setUp(t)
	m, _ := newModel(t, st, reg, "qwen3_5", aclnn.Float32)
	other, _ := newModel(t, st, reg, "qwen3", aclnn.Float32)
	for _, c := range [][2]int{{0, 4}, {1, 0}, {-1, 4}} {
		_, err := m.NewCache(c[0], c[1])
		require.ErrorContains(t, err, "both must be positive")
	}
	cache, err := m.NewCache(2, 4)
	require.NoError(t, err)
	defer func() { require.NoError(t, cache.Close()) }()
	_, err = other.Extend(t.Context(), cache, []int32{1, 2})
	require.ErrorContains(t, err, "another model")
	for text, tokens := range map[string][]int32{
		"0 tokens for 2 sequences": {}, "3 tokens for 2 sequences": {1, 2, 3}, "10 tokens": nil, "token 1 is 128": {1, 128}, "token 0 is -1": {-1, 1},
	} {
		if tokens == nil {
			tokens, text = make([]int32, 10), "the cache has 0 of 4 tokens; 5 more do not fit"
		}
		_, err := m.Extend(t.Context(), cache, tokens)
		require.ErrorContains(t, err, text)
	}
	before, err := m.Extend(t.Context(), cache, []int32{1, 2})
	require.NoError(t, err, "refusals leave the cache as it was")

	// A failure in the middle of a pass has corrupted the states.
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = m.Extend(ended, cache, []int32{1, 2})
	require.ErrorIs(t, err, context.Canceled)
	_, err = m.Extend(t.Context(), cache, []int32{1, 2})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "Reset")
	cache.Reset()
	again, err := m.Extend(t.Context(), cache, []int32{1, 2})
	require.NoError(t, err)
	require.Equal(t, before, again)
}
