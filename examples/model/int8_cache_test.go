package model_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/ops"
)

// inBF16 loads a golden folder in bfloat16.
func (k kindFolder) inBF16(t *testing.T, st *acl.Stream, reg *ops.Registry, int8Cache bool) *model.Model {
	cfg := k.config(t)
	cfg.Frozen, cfg.Int8Cache = true, int8Cache
	m, err := model.New(st, reg, cfg, aclnn.BFloat16)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	require.NoError(t, m.Load(t.Context(), k.path))
	return m
}

// throughPages reads the prompt and then the golden tokens one by one, and returns the logits after each, of several sequences with graphs or of one without.
func (k kindFolder) throughPages(t *testing.T, m *model.Model, graphs bool) (all [][]float32) {
	blocks := (len(k.Prompt)+len(k.Greedy))/128 + 1
	g, err := m.NewPages(model.PageSizes{Blocks: blocks, Block: 128, States: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Close()) }()
	if graphs {
		s, err := g.NewSteps()
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		defer func() { require.NotZero(t, s.Replays()) }()
	}
	x := model.Piece{Tokens: k.Prompt}
	for i := range blocks {
		x.Blocks = append(x.Blocks, int32(i))
	}
	for i := range k.Greedy {
		logits, err := m.Advance(t.Context(), g, []model.Piece{x})
		require.NoError(t, err)
		all = append(all, logits)
		x.From, x.Tokens = x.From+len(x.Tokens), k.Greedy[i:i+1]
	}
	return all
}

// throughCache does so with a cache, and a decoder of it.
func (k kindFolder) throughCache(t *testing.T, m *model.Model) (all [][]float32) {
	c, err := m.NewCache(1, len(k.Prompt)+len(k.Greedy))
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	d, err := m.NewDecoder(t.Context(), c)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	logits, err := m.Extend(t.Context(), c, k.Prompt)
	for i := range k.Greedy {
		require.NoError(t, err)
		all = append(all, logits)
		if i%2 == 0 {
			logits, err = d.Next(t.Context(), k.Greedy[i:i+1])
		} else {
			logits, err = m.Extend(t.Context(), c, k.Greedy[i:i+1])
		}
	}
	require.NoError(t, err)
	return all
}

// TestInt8Cache: with keys and values in int8 the logits of every step have a cosine of 0.999 with those of the cache in bfloat16, and the likeliest
// token is the same in nine of ten steps (the golden models are random, so that many tokens are nearly as likely), through pages, graphs, a cache and its decoder, with windows and with sinks.
func TestInt8Cache(t *testing.T) {
	eachKind(t, func(t *testing.T, k kindFolder) {
		if k.config(t).ModelType == "phi3" || len(k.Greedy) < 2 {
			return // its rotation changes on the way, which reads all tokens again
		}
		st, reg := setUp(t)
		coded := k.inBF16(t, st, reg, true)
		if coded.Config.KVRank > 0 {
			_, err := coded.NewPages(model.PageSizes{Blocks: 1, Block: 128, States: 1})
			require.ErrorContains(t, err, "Int8Cache with model_type "+coded.Config.ModelType+": CANN's attention takes no latents in int8")
			_, err = coded.NewCache(1, 8)
			require.ErrorContains(t, err, "takes no latents in int8")
			return
		}
		plain := k.throughPages(t, k.inBF16(t, st, reg, false), false)
		least, equal, n := 1.0, 0, 0
		for _, all := range [][][]float32{k.throughPages(t, coded, false), k.throughPages(t, coded, true), k.throughCache(t, coded)} {
			for i, logits := range all {
				least = min(least, cosine(logits, plain[i]))
				if n++; slices.Index(logits, slices.Max(logits)) == slices.Index(plain[i], slices.Max(plain[i])) {
					equal++
				}
				require.NotEqual(t, plain[i], logits, "the cache has rounded nothing")
			}
		}
		t.Logf("cosine %.5f, tokens %d of %d", least, equal, n)
		require.Greater(t, least, 0.999)
		require.GreaterOrEqual(t, 10*equal, 9*n)
	})
}

// TestInt8CacheMemory: a token takes a byte for each feature and four for the scale of each head, in place of two bytes for each feature.
func TestInt8CacheMemory(t *testing.T) {
	eachKind(t, func(t *testing.T, k kindFolder) {
		cfg := k.config(t)
		if cfg.ModelType != "llama" {
			return
		}
		st, reg := setUp(t)
		used := func(int8Cache bool) float64 {
			m := k.inBF16(t, st, reg, int8Cache)
			before := st.Device().Allocator().Stats().InUse
			g, err := m.NewPages(model.PageSizes{Blocks: 63, Block: 128, States: 1})
			require.NoError(t, err)
			defer func() { require.NoError(t, g.Close()) }()
			return float64(st.Device().Allocator().Stats().InUse - before)
		}
		d := float64(cfg.HeadDim)
		require.InEpsilon(t, float64(cfg.Layers*2*64*128*cfg.KVHeads)*2*d, used(false), 0.01)
		require.InEpsilon(t, float64(cfg.Layers*2*64*128*cfg.KVHeads)*(d+4), used(true), 0.01)
	})
}

// TestInt8CacheKernels: CANN's attention reads the codes, in pages and in a cache, and a model in float32 is refused.
func TestInt8CacheKernels(t *testing.T) {
	acltest.Trace(t, func(t *testing.T) {
		eachKind(t, func(t *testing.T, k kindFolder) {
			if k.config(t).ModelType != "llama" {
				return
			}
			st, reg := setUp(t)
			m := k.inBF16(t, st, reg, true)
			k.throughPages(t, m, false)
			wide := k.load(t, st, reg, func(c *model.Config) { c.Int8Cache = true })
			_, err := wide.NewCache(1, 8)
			require.ErrorContains(t, err, "Int8Cache needs a dtype of 16 bits")
		})
	}, func(t *testing.T, calls []acltest.Call) {
		count := map[string]int{}
		for _, c := range calls {
			count[c.Name]++
			require.Empty(t, c.AICPU, c.Name)
		}
		for _, name := range []string{"FusedInferAttentionScoreV4", "DynamicQuant", "ScatterPaKvCache", "ScatterNdUpdate"} {
			require.NotZero(t, count["aclnn"+name], "%s in %v", name, count)
		}
	})
}
