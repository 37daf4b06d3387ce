package decode_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/decode"
)

// problem is attention to a cache, with its values in float32 that all dtypes represent.
type problem struct {
	layout                                       ops.Layout
	batch, queries, heads, keyHeads, dim, places int64
	block                                        int64 // tokens of a block, 0 without blocks
	headMajor                                    bool
	lengths                                      []int64
	hidden                                       bool      // whether a mask is given
	window                                       int64     // tokens that a token sees, 0 for all
	rope                                         int64     // features besides, of queries and keys
	sunk                                         bool      // whether heads have sinks
	query, keys, values                          []float32 // [batch, tokens, heads, features]
	queryRope, keyRope, sinks                    []float32
	mask                                         []uint8 // [batch, queries, places]
}

func (p problem) String() string {
	return fmt.Sprintf("%s %d×%d heads %d/%d of %d, %d places, blocks %d %v, lengths %v, hidden %v, window %d, rope %d, sinks %v", p.layout, p.batch, p.queries, p.heads, p.keyHeads, p.dim, p.places, p.block, p.headMajor, p.lengths, p.hidden, p.window, p.rope, p.sunk)
}

func (p *problem) fill() {
	rng := rand.New(rand.NewPCG(1, 2))
	p.query = eighths(rng, p.batch*p.queries*p.heads*p.dim)
	p.keys, p.values = eighths(rng, p.batch*p.places*p.keyHeads*p.dim), eighths(rng, p.batch*p.places*p.keyHeads*p.dim)
	p.queryRope, p.keyRope = eighths(rng, p.batch*p.queries*p.heads*p.rope), eighths(rng, p.batch*p.places*p.keyHeads*p.rope)
	if p.sinks = nil; p.sunk {
		p.sinks = eighths(rng, p.heads)
	}
	p.mask = make([]uint8, p.batch*p.queries*p.places)
	for i := range p.mask {
		if int64(i)%p.places > 0 && rng.IntN(3) == 0 {
			p.mask[i] = 1
		}
	}
}

// length is the number of tokens of a sequence.
func (p *problem) length(b int64) int64 {
	switch len(p.lengths) {
	case 0:
		return p.places
	case 1:
		return p.lengths[0]
	}
	return p.lengths[b]
}

// want computes the definition in float64, [batch, queries, heads, features].
func (p *problem) want() []float32 {
	out := make([]float32, len(p.query))
	for b := range p.batch {
		for i := range p.queries {
			for h := range p.heads {
				q := ((b*p.queries+i)*p.heads + h) * p.dim
				weights, total := make([]float64, p.length(b)), 0.0
				for j := range weights {
					last := p.length(b) - p.queries + i
					seen := int64(j) <= last && (p.window == 0 || int64(j) > last-p.window)
					if p.hidden {
						seen = p.mask[(b*p.queries+i)*p.places+int64(j)] == 0
					}
					if !seen {
						continue
					}
					k := p.keyAt(b, int64(j), h)
					for d := range p.dim {
						weights[j] += float64(p.query[q+d]) * float64(p.keys[k+d])
					}
					for d := range p.rope {
						weights[j] += float64(p.queryRope[q/p.dim*p.rope+d]) * float64(p.keyRope[k/p.dim*p.rope+d])
					}
					weights[j] = math.Exp(weights[j] / 8)
					total += weights[j]
				}
				if p.sunk {
					total += math.Exp(float64(p.sinks[h]))
				}
				for j, w := range weights {
					if total == 0 {
						break
					}
					k := p.keyAt(b, int64(j), h)
					for d := range p.dim {
						out[q+d] += float32(w / total * float64(p.values[k+d]))
					}
				}
			}
		}
	}
	return out
}

// keyAt is the place of the key that a query head reads.
func (p *problem) keyAt(b, token, head int64) int64 {
	return ((b*p.places+token)*p.keyHeads + head/(p.heads/p.keyHeads)) * p.dim
}

// arrange orders [batch, tokens, heads, features] as the layout does.
func arrange(l ops.Layout, x []float32, batch, tokens, heads, dim int64) ([]float32, []int64) {
	switch l {
	case ops.BSH:
		return x, []int64{batch, tokens, heads * dim}
	case ops.BSND:
		return x, []int64{batch, tokens, heads, dim}
	}
	out := make([]float32, 0, len(x))
	for b := range batch {
		for h := range heads {
			for s := range tokens {
				out = append(out, x[((b*tokens+s)*heads+h)*dim:][:dim]...)
			}
		}
	}
	return out, []int64{batch, heads, tokens, dim}
}

// cache puts keys or values into blocks in a mixed order.
func (p *problem) cache(b *bench, dt aclnn.DType, x []float32, dim int64) (cache, table *aclnn.Tensor) {
	if p.block == 0 {
		y, shape := arrange(p.layout, x, p.batch, p.places, p.keyHeads, dim)
		return b.floats(dt, y, shape...), nil
	}
	columns := p.places / p.block
	blocks, width := p.batch*columns+1, p.keyHeads*dim
	ids, store := make([]int32, p.batch*columns), make([]float32, blocks*p.block*width)
	for i := range ids {
		ids[i] = int32(len(ids) - i) // block 0 is of nobody
		from := x[int64(i)*p.block*width:][:p.block*width]
		if p.headMajor {
			from, _ = arrange(ops.BNSD, from, 1, p.block, p.keyHeads, dim)
		}
		copy(store[int64(ids[i])*p.block*width:], from)
	}
	shape := []int64{blocks, p.block, width}
	if p.headMajor {
		shape = []int64{blocks, p.keyHeads, p.block, dim}
	}
	return b.floats(dt, store, shape...), put(b, aclnn.Int32, ids, p.batch, columns)
}

func (p *problem) args(b *bench, dt aclnn.DType) *decode.AttentionArgs {
	q, shape := arrange(p.layout, p.query, p.batch, p.queries, p.heads, p.dim)
	a := &decode.AttentionArgs{Query: b.floats(dt, q, shape...), Layout: p.layout, Heads: int(p.heads), Lengths: p.lengths, Scale: 1.0 / 8, Window: p.window, Out: b.empty(dt, shape...)}
	a.Keys, a.Blocks = p.cache(b, dt, p.keys, p.dim)
	a.Values, _ = p.cache(b, dt, p.values, p.dim)
	if p.rope > 0 {
		q, shape := arrange(p.layout, p.queryRope, p.batch, p.queries, p.heads, p.rope)
		a.QueryRope = b.floats(dt, q, shape...)
		a.KeyRope, _ = p.cache(b, dt, p.keyRope, p.rope)
	}
	if p.sunk {
		a.Sinks = b.floats(aclnn.Float32, p.sinks, p.heads)
	}
	if p.hidden {
		a.Hidden = put(b, aclnn.Uint8, p.mask, p.batch, 1, p.queries, p.places)
	}
	return a
}

// problems are decoding and reading of prompts, in every form of a cache.
func problems() (all []problem) {
	for _, layout := range []ops.Layout{ops.BSH, ops.BSND, ops.BNSD} {
		for _, form := range []struct {
			block     int64
			headMajor bool
		}{{}, {block: 16}, {block: 16, headMajor: true}, {block: 128}, {block: 128, headMajor: true}} {
			for _, p := range []problem{
				{batch: 1, queries: 1, heads: 1, keyHeads: 1, dim: 16, places: 128, lengths: []int64{1}},
				{batch: 2, queries: 1, heads: 6, keyHeads: 2, dim: 16, places: 256, lengths: []int64{131, 17}},
				{batch: 3, queries: 1, heads: 4, keyHeads: 4, dim: 24, places: 128, lengths: []int64{128}},
				{batch: 2, queries: 1, heads: 4, keyHeads: 1, dim: 32, places: 128, lengths: []int64{100, 0}},
				{batch: 2, queries: 1, heads: 4, keyHeads: 2, dim: 16, places: 128, lengths: []int64{77}, hidden: true},
				{batch: 2, queries: 1, heads: 4, keyHeads: 2, dim: 16, places: 128, lengths: []int64{19, 128}, hidden: true},
				{batch: 2, queries: 3, heads: 4, keyHeads: 2, dim: 16, places: 128, lengths: []int64{53}},
				{batch: 2, queries: 5, heads: 4, keyHeads: 2, dim: 16, places: 128, lengths: []int64{5, 128}},
				{batch: 1, queries: 2, heads: 2, keyHeads: 2, dim: 32, places: 128, lengths: []int64{99}, hidden: true},
				{batch: 2, queries: 4, heads: 2, keyHeads: 1, dim: 16, places: 128, lengths: []int64{101, 4}, hidden: true},
				{batch: 2, queries: 1, heads: 4, keyHeads: 2, dim: 16, places: 128, lengths: []int64{77}, window: 1},
				{batch: 2, queries: 1, heads: 4, keyHeads: 2, dim: 16, places: 128, lengths: []int64{19, 128}, window: 12},
				{batch: 2, queries: 5, heads: 4, keyHeads: 2, dim: 16, places: 128, lengths: []int64{128}, window: 12},
				{batch: 2, queries: 4, heads: 2, keyHeads: 1, dim: 16, places: 128, lengths: []int64{101, 4}, window: 3},
				{batch: 1, queries: 3, heads: 2, keyHeads: 1, dim: 16, places: 128, lengths: []int64{9}, window: 200},
				{batch: 2, queries: 1, heads: 4, keyHeads: 2, dim: 16, places: 128, lengths: []int64{19, 100}, sunk: true},
				{batch: 2, queries: 3, heads: 4, keyHeads: 2, dim: 16, places: 128, lengths: []int64{53}, window: 12, sunk: true},
				{batch: 2, queries: 1, heads: 4, keyHeads: 1, dim: 16, places: 128, lengths: []int64{19, 100}, rope: 8},
				{batch: 2, queries: 3, heads: 4, keyHeads: 2, dim: 16, places: 128, lengths: []int64{53}, rope: 24, sunk: true},
				{batch: 2, queries: 1, heads: 4, keyHeads: 1, dim: 512, places: 128, lengths: []int64{128, 77}, rope: 64},
				{batch: 1, queries: 3, heads: 2, keyHeads: 1, dim: 512, places: 128, lengths: []int64{60}, rope: 64},
				{batch: 0, queries: 1, heads: 2, keyHeads: 1, dim: 16, places: 128, lengths: []int64{1}},
				{batch: 2, queries: 0, heads: 2, keyHeads: 1, dim: 16, places: 128, lengths: []int64{1}},
				{batch: 2, queries: 1, heads: 2, keyHeads: 1, dim: 16, places: 128, lengths: []int64{0}},
			} {
				p.layout, p.block, p.headMajor = layout, form.block, form.headMajor
				all = append(all, p)
			}
		}
		all = append(all, problem{layout: layout, batch: 2, queries: 1, heads: 2, keyHeads: 1, dim: 16, places: 33}, problem{layout: layout, batch: 2, queries: 1, heads: 2, keyHeads: 1, dim: 16, places: 33, window: 8})
	}
	return all
}

var limits = map[aclnn.DType]float64{aclnn.Float32: 1e-5, aclnn.Float16: 1e-3, aclnn.BFloat16: 6e-3}

// TestAttention compares every kernel with the definition.
func TestAttention(t *testing.T) {
	acltest.Need(t)
	names := newBench(t).Attention().Kernels()
	require.Equal(t, []string{"FusedInferAttentionScoreV4", "FusedInferAttentionScoreV3", "FusedInferAttentionScoreV2", "FusedInferAttentionScore", "IncreFlashAttentionV4", "gathered"}, names)
	for _, kernel := range names {
		t.Run(kernel, func(t *testing.T) {
			b := newBench(t)
			require.NoError(t, b.Attention().Pin(kernel))
			ran := 0
			for _, p := range problems() {
				p.fill()
				want := p.want()
				want, _ = arrange(p.layout, want, p.batch, p.queries, p.heads, p.dim)
				for dt, limit := range limits {
					a := p.args(b, dt)
					if e := b.Attention().Explain(a); e.Kernel == "" {
						require.ErrorIs(t, b.Attention().Run(t.Context(), b.st, a), ops.ErrNoKernel, "%v", p)
						continue
					}
					require.NoError(t, b.Attention().Run(t.Context(), b.st, a), "%v %v", dt, p)
					require.NoError(t, golden.CheckRMS(b.read(a.Out), want, limit), "%v %v", dt, p)
					ran++
				}
			}
			require.Greater(t, ran, 50)
		})
	}
}

// TestAttentionChoice holds which kernel arguments get, and why they do not get others.
func TestAttentionChoice(t *testing.T) {
	b := newBench(t)
	of := func(p problem, dt aclnn.DType) *decode.AttentionArgs {
		p.layout = ops.BSND
		p.fill()
		return p.args(b, dt)
	}
	one := problem{batch: 2, queries: 1, heads: 4, keyHeads: 2, dim: 16, places: 128, lengths: []int64{3}}
	with := func(change func(p *problem)) problem {
		p := one
		change(&p)
		return p
	}
	for _, c := range []struct {
		p      problem
		dt     aclnn.DType
		kernel string
		text   string
	}{
		{one, aclnn.BFloat16, "FusedInferAttentionScoreV4", "gathered comes after it"},
		{one, aclnn.Float32, "gathered", "not FusedInferAttentionScoreV4: it computes in 16 bits only"},
		{with(func(p *problem) { p.queries = 3 }), aclnn.Float16, "FusedInferAttentionScoreV4", "FusedInferAttentionScoreV3 comes after it"},
		{with(func(p *problem) { p.dim = 24 }), aclnn.Float16, "gathered", "head dimension 24 is not a multiple of 16 up to 512"},
		{with(func(p *problem) { p.block = 8 }), aclnn.Float16, "gathered", "blocks of 8 tokens are not a multiple of 16 up to 512"},
		{with(func(p *problem) { p.block, p.queries = 16, 3 }), aclnn.Float16, "gathered", "blocks of 16 tokens are not a multiple of 128 up to 512"},
		{with(func(p *problem) { p.block, p.headMajor = 16, true }), aclnn.Float16, "FusedInferAttentionScoreV4", "comes after it"},
		{with(func(p *problem) { p.block, p.headMajor, p.queries = 128, true, 2 }), aclnn.Float16, "gathered", "layout BSND with blocks [heads, tokens, features] is for one new token"},
		{with(func(p *problem) { p.heads, p.keyHeads = 65, 1 }), aclnn.Float16, "gathered", "65 query heads on 1 key heads are more than 256, or more than 64 on one"},
		{with(func(p *problem) { p.sunk = true }), aclnn.Float16, "gathered", "not FusedInferAttentionScoreV4: it computes no sinks"},
		{with(func(p *problem) { p.keyHeads, p.dim, p.rope, p.block = 1, 512, 64, 16 }), aclnn.BFloat16, "FusedInferAttentionScoreV4", "FusedInferAttentionScoreV3 comes after it"},
		{with(func(p *problem) { p.rope = 8 }), aclnn.BFloat16, "gathered", "it takes one key head of 512 features with 64 besides; there are 2 of 16 with 8"},
		{with(func(p *problem) { p.heads, p.keyHeads, p.dim, p.rope = 6, 1, 512, 64 }), aclnn.BFloat16, "gathered", "6 query heads are not 1, 2, 4 or more up to 128"},
		{with(func(p *problem) { p.keyHeads, p.dim, p.rope, p.queries = 1, 512, 64, 17 }), aclnn.BFloat16, "gathered", "more than 16 new tokens of a sequence"},
	} {
		e := b.Attention().Explain(of(c.p, c.dt))
		require.Equal(t, c.kernel, e.Kernel, "%v", e)
		require.Contains(t, e.String(), c.text)
	}
	strided := of(one, aclnn.BFloat16)
	strided.Keys, strided.Values, strided.Lengths = strided.Keys.Narrow(1, 0, 64), strided.Values.Narrow(1, 0, 64), nil
	require.Contains(t, b.Attention().Explain(strided).String(), "it takes contiguous tensors only")
	require.NoError(t, b.Attention().Pin("IncreFlashAttentionV4"))
	require.Contains(t, b.Attention().Explain(of(with(func(p *problem) { p.queries = 2 }), aclnn.Float16)).String(), "it takes one new token of each sequence")
}

// TestOlderCANN checks that CANN 8.1, which lacks the fourth version, takes the third.
func TestOlderCANN(t *testing.T) {
	if !cshim.Emulated {
		t.Skip("only the emulator plays an older CANN: go test -tags emu")
	}
	acltest.Rerun(t, func(t *testing.T) {
		b := newBench(t)
		p := problem{layout: ops.BSND, batch: 1, queries: 1, heads: 2, keyHeads: 1, dim: 16, places: 128, block: 16, lengths: []int64{40}}
		p.fill()
		a := p.args(b, aclnn.BFloat16)
		e := b.Attention().Explain(a)
		require.Equal(t, "FusedInferAttentionScoreV3", e.Kernel)
		require.Contains(t, e.String(), "not FusedInferAttentionScoreV4: this CANN has no aclnnFusedInferAttentionScoreV4")
		require.NoError(t, b.Attention().Run(t.Context(), b.st, a))
		require.NoError(t, golden.CheckRMS(b.read(a.Out), p.want(), limits[aclnn.BFloat16]))
	}, "CANN_EMU_API="+abi.V81RC1)
}

// TestAttentionRefusals checks that wrong arguments are refused before a launch.
func TestAttentionRefusals(t *testing.T) {
	b := newBench(t)
	base := problem{layout: ops.BSND, batch: 2, queries: 1, heads: 4, keyHeads: 2, dim: 16, places: 32, block: 16, lengths: []int64{3, 32}}
	base.fill()
	f := func(shape ...int64) *aclnn.Tensor { return b.empty(aclnn.Float16, shape...) }
	for _, c := range []struct {
		change func(a *decode.AttentionArgs)
		text   string
	}{
		{func(a *decode.AttentionArgs) { a.Query = nil }, "Query is nil"},
		{func(a *decode.AttentionArgs) { a.Query = b.empty(aclnn.Int32, 2, 1, 4, 16) }, "its dtype must be one of"},
		{func(a *decode.AttentionArgs) { a.Layout = ops.TND }, `Layout is "TND"; use BSH, BSND or BNSD`},
		{func(a *decode.AttentionArgs) { a.Layout = ops.BSH }, "layout BSH has 3 dimensions"},
		{func(a *decode.AttentionArgs) { a.Layout, a.Query, a.Heads = ops.BSH, f(2, 1, 64), 0 }, "does not show the number of query heads"},
		{func(a *decode.AttentionArgs) { a.Layout, a.Query, a.Heads = ops.BSH, f(2, 1, 64), 3 }, "not a multiple of 3 heads"},
		{func(a *decode.AttentionArgs) { a.Heads = 3 }, "Heads is 3, but Query is"},
		{func(a *decode.AttentionArgs) { a.Query, a.Heads = f(2, 1, 0, 16), 0 }, "no heads"},
		{func(a *decode.AttentionArgs) { a.Query, a.Heads = f(2, 1, 3, 16), 0 }, "3 query heads and 2 key heads"},
		{func(a *decode.AttentionArgs) { a.Keys = nil }, "Keys is nil"},
		{func(a *decode.AttentionArgs) { a.Values = f(5, 16, 16) }, "their shapes must be equal"},
		{func(a *decode.AttentionArgs) { a.Keys, a.Values = f(5, 16), f(5, 16) }, "with Blocks it must be"},
		{func(a *decode.AttentionArgs) { a.Keys, a.Values = f(5, 0, 32), f(5, 0, 32) }, "its blocks hold no tokens"},
		{func(a *decode.AttentionArgs) { a.Keys, a.Values = f(5, 16, 33), f(5, 16, 33) }, "does not divide into heads of 16"},
		{func(a *decode.AttentionArgs) { a.Keys, a.Values = f(5, 2, 16, 8), f(5, 2, 16, 8) }, "their head dimensions must be equal"},
		{func(a *decode.AttentionArgs) { a.Blocks = b.empty(aclnn.Int64, 2, 2) }, "its dtype must be one of [int32]"},
		{func(a *decode.AttentionArgs) { a.Blocks = b.empty(aclnn.Int32, 3, 2) }, "a row for each of 2 sequences"},
		{func(a *decode.AttentionArgs) { a.Blocks = nil }, "without Blocks it must be like Query"},
		{func(a *decode.AttentionArgs) { a.Lengths = nil }, "a cache in blocks needs the tokens of each sequence"},
		{func(a *decode.AttentionArgs) { a.Lengths = []int64{1, 2, 3} }, "there are 3 Lengths"},
		{func(a *decode.AttentionArgs) { a.Lengths = []int64{33} }, "Lengths[0] is 33; a sequence has 32 places"},
		{func(a *decode.AttentionArgs) { a.Lengths = []int64{1, -1} }, "Lengths[1] is -1"},
		{func(a *decode.AttentionArgs) { a.Hidden = b.empty(aclnn.Bool, 1, 1, 1, 32) }, "its shape must be [2 1 1 32]"},
		{func(a *decode.AttentionArgs) { a.Hidden = b.empty(aclnn.Int32, 2, 1, 1, 32) }, "its dtype must be one of"},
		{func(a *decode.AttentionArgs) { a.Window = -1 }, "Window is -1"},
		{func(a *decode.AttentionArgs) { a.Window, a.Hidden = 4, b.empty(aclnn.Bool, 2, 1, 1, 32) }, "Window is 4"},
		{func(a *decode.AttentionArgs) { a.QueryRope = f(2, 1, 4, 8) }, "KeyRope is nil"},
		{func(a *decode.AttentionArgs) { a.QueryRope, a.KeyRope = f(2, 1, 4, 8), f(5, 16, 8) }, "KeyRope is float16[5,16,8]"},
		{func(a *decode.AttentionArgs) { a.QueryRope, a.KeyRope = f(2, 1, 3, 8), f(5, 16, 16) }, "QueryRope is float16[2,1,3,8]"},
		{func(a *decode.AttentionArgs) { a.Sinks = b.empty(aclnn.Float32, 3) }, "Sinks is float32[3]"},
		{func(a *decode.AttentionArgs) { a.Out = f(2, 1, 4, 8) }, "their shapes must be equal"},
		{func(a *decode.AttentionArgs) { a.Out = nil }, "Out is nil"},
	} {
		a := base.args(b, aclnn.Float16)
		c.change(a)
		err := b.Attention().Run(t.Context(), b.st, a)
		require.ErrorIs(t, err, ops.ErrInvalid, c.text)
		require.ErrorContains(t, err, c.text)
		require.ErrorIs(t, b.Attention().Explain(a).Invalid, ops.ErrInvalid)
	}
}

// TestPinnedByEnvironment checks the variable of an operator, and that a wrong one is refused.
func TestPinnedByEnvironment(t *testing.T) {
	acltest.Need(t)
	reg, err := ops.NewRegistry(ops.Env{})
	require.NoError(t, err)
	t.Setenv("CANN_OPS_DECODE_ATTENTION", "gathered")
	dec, err := decode.New(reg)
	require.NoError(t, err)
	require.ErrorIs(t, dec.Attention().Pin("IncreFlashAttentionV4"), ops.ErrPinned)
	t.Setenv("CANN_OPS_CACHE_WRITE", "none")
	_, err = decode.New(reg)
	require.ErrorIs(t, err, ops.ErrUnknownKernel)
	require.True(t, slices.Contains(dec.Write().Kernels(), "ScatterNdUpdate"))
}
