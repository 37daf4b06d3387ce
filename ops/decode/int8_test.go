package decode_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/decode"
)

// coded writes all keys and values of a problem into a cache of int8, in blocks of a mixed order if it has blocks, and replaces them by what the cache
// then stands for.
func (p *problem) coded(b *bench, dt aclnn.DType) *decode.AttentionArgs {
	q, shape := arrange(p.layout, p.query, p.batch, p.queries, p.heads, p.dim)
	a := &decode.AttentionArgs{Query: b.floats(dt, q, shape...), Layout: p.layout, Heads: int(p.heads), Lengths: p.lengths, Scale: 1.0 / 8, Window: p.window, Out: b.empty(dt, shape...)}
	if p.sunk {
		a.Sinks = b.floats(aclnn.Float32, p.sinks, p.heads)
	}
	rows, places, ids := p.batch, p.places, []int32(nil)
	if p.block > 0 {
		columns := p.places / p.block
		rows, places, ids = p.batch*columns+1, p.block, make([]int32, p.batch*columns)
		for i := range ids {
			ids[i] = int32(len(ids) - i) // block 0 is of nobody, its scales are NaN
		}
		a.Blocks = put(b, aclnn.Int32, ids, p.batch, columns)
	}
	slot := func(token int64) int32 {
		if p.block == 0 {
			return int32(token)
		}
		return ids[token/p.block]*int32(p.block) + int32(token%p.block)
	}
	headMajor := p.headMajor || p.block == 0 && p.layout == ops.BNSD
	form := []int64{rows, places, p.keyHeads * p.dim}
	if headMajor {
		form = []int64{rows, p.keyHeads, places, p.dim}
	}
	tokens := p.batch * p.places
	slots := make([]int32, tokens)
	for i := range slots {
		slots[i] = slot(int64(i))
	}
	w := &decode.WriteArgs{Slots: put(b, aclnn.Int32, slots, tokens)}
	w.Keys, w.Values = b.floats(dt, p.keys, tokens, p.keyHeads, p.dim), b.floats(dt, p.values, tokens, p.keyHeads, p.dim)
	w.KeyCache, w.ValueCache = b.empty(aclnn.Int8, form...), b.empty(aclnn.Int8, form...)
	w.KeyScales, w.ValueScales = b.empty(aclnn.Float32, rows, p.keyHeads, places), b.empty(aclnn.Float32, rows, p.keyHeads, places)
	require.NoError(b.t, b.Write().Run(b.t.Context(), b.st, w), "%v", p)
	for _, c := range []struct {
		values        []float32
		codes, scales *aclnn.Tensor
	}{{p.keys, w.KeyCache, w.KeyScales}, {p.values, w.ValueCache, w.ValueScales}} {
		codes, scales := b.read(c.codes), b.read(c.scales)
		for token := range tokens {
			row, place := int64(slots[token])/places, int64(slots[token])%places
			for h := range p.keyHeads {
				at, scale := ((row*places+place)*p.keyHeads+h)*p.dim, scales[(row*p.keyHeads+h)*places+place]
				if headMajor {
					at = ((row*p.keyHeads+h)*places + place) * p.dim
				}
				values, most := c.values[(token*p.keyHeads+h)*p.dim:][:p.dim], 0.0
				for _, x := range values {
					most = max(most, math.Abs(float64(x)))
				}
				require.InEpsilon(b.t, most/127, scale, 1e-5, "token %d, head %d", token, h)
				for d := range values {
					x := codes[at+int64(d)] * scale
					require.InDelta(b.t, values[d], x, float64(scale)*0.51, "token %d, head %d, feature %d", token, h, d)
					values[d] = x
				}
			}
		}
	}
	a.Keys, a.Values, a.KeyScales, a.ValueScales = w.KeyCache, w.ValueCache, w.KeyScales, w.ValueScales
	if p.block == 0 && p.layout == ops.BSND {
		a.Keys, a.Values = a.Keys.Unflatten(2, p.keyHeads, p.dim), a.Values.Unflatten(2, p.keyHeads, p.dim)
	}
	return a
}

// TestInt8: every kernel of Write stores keys and values to half of a step of their scales, and every kernel of Attention that takes such a cache
// computes with exactly what it stands for.
func TestInt8(t *testing.T) {
	acltest.Need(t)
	for _, write := range newBench(t).Write().Kernels() {
		t.Run(write, func(t *testing.T) {
			ran := map[string]int{}
			for _, layout := range []ops.Layout{ops.BSH, ops.BSND, ops.BNSD} {
				for _, block := range []int64{0, 16, 32, 128} {
					for _, headMajor := range []bool{false, true} {
						if headMajor && (block == 0 || write == "ScatterPaKvCache") {
							continue // it has no such form
						}
						if block == 0 && layout == ops.BNSD && write == "ScatterPaKvCache" {
							continue
						}
						for i, p := range []problem{
							{batch: 2, queries: 1, heads: 4, keyHeads: 2, dim: 32, places: 128, lengths: []int64{77, 128}},
							{batch: 2, queries: 1, heads: 4, keyHeads: 2, dim: 16, places: 128, lengths: []int64{19, 100}, window: 12},
							{batch: 1, queries: 3, heads: 4, keyHeads: 4, dim: 16, places: 128, lengths: []int64{53}},
							{batch: 2, queries: 1, heads: 2, keyHeads: 1, dim: 16, places: 128, lengths: []int64{99}, sunk: true},
						} {
							b := newBench(t)
							require.NoError(t, b.Write().Pin(write))
							p.layout, p.block, p.headMajor = layout, block, headMajor
							p.fill()
							dt := []aclnn.DType{aclnn.BFloat16, aclnn.Float16}[i%2]
							a := p.coded(b, dt)
							want, _ := arrange(layout, p.want(), p.batch, p.queries, p.heads, p.dim)
							for _, kernel := range b.Attention().Kernels() {
								require.NoError(t, b.Attention().Pin(kernel))
								if b.Attention().Explain(a).Kernel != "" {
									require.NoError(t, b.Attention().Run(t.Context(), b.st, a), "%s %v", kernel, p)
									require.NoError(t, golden.CheckRMS(b.read(a.Out), want, limits[dt]), "%s %v", kernel, p)
									ran[kernel]++
								}
								require.NoError(t, b.Attention().Unpin())
							}
						}
					}
				}
			}
			for _, kernel := range []string{"FusedInferAttentionScoreV4", "FusedInferAttentionScoreV3", "FusedInferAttentionScoreV2", "gathered"} {
				require.Greater(t, ran[kernel], 10, kernel)
			}
			require.Len(t, ran, 4)
		})
	}
}

// TestInt8Choice: the reasons name what a kernel lacks, and wrong arguments are refused.
func TestInt8Choice(t *testing.T) {
	b := newBench(t)
	args := func(queries, block int64) *decode.AttentionArgs {
		return &decode.AttentionArgs{
			Query: b.empty(aclnn.BFloat16, 2, queries, 4, 32), Layout: ops.BSND, Keys: b.empty(aclnn.Int8, 9, block, 64), Values: b.empty(aclnn.Int8, 9, block, 64),
			KeyScales: b.empty(aclnn.Float32, 9, 2, block), ValueScales: b.empty(aclnn.Float32, 9, 2, block), Blocks: b.empty(aclnn.Int32, 2, 4), Lengths: []int64{5},
			Scale: 1, Out: b.empty(aclnn.BFloat16, 2, queries, 4, 32),
		}
	}
	require.Equal(t, "FusedInferAttentionScoreV4", b.Attention().Explain(args(1, 32)).Kernel)
	several := b.Attention().Explain(args(3, 128))
	require.Equal(t, "gathered", several.Kernel)
	require.Contains(t, several.String(), "not FusedInferAttentionScoreV2: it takes a cache of int8 for one new token of each sequence")
	require.Contains(t, several.String(), "not FusedInferAttentionScore: it takes no cache of int8 with scales for each token and head")
	require.Contains(t, b.Attention().Explain(args(1, 16)).String(), "blocks of 16 tokens are not a multiple of 32")
	for text, change := range map[string]func(a *decode.AttentionArgs){
		"ValueScales is nil":         func(a *decode.AttentionArgs) { a.ValueScales = nil },
		"its shape must be [9 2 32]": func(a *decode.AttentionArgs) { a.KeyScales = b.empty(aclnn.Float32, 9, 32, 2) },
		"Keys is bfloat16":           func(a *decode.AttentionArgs) { a.Keys = b.empty(aclnn.BFloat16, 9, 32, 64) },
		"takes no features besides": func(a *decode.AttentionArgs) {
			a.QueryRope, a.KeyRope = b.empty(aclnn.BFloat16, 2, 1, 4, 16), b.empty(aclnn.BFloat16, 9, 32, 32)
		},
	} {
		a := args(1, 32)
		change(a)
		err := b.Attention().Run(t.Context(), b.st, a)
		require.ErrorIs(t, err, ops.ErrInvalid, text)
		require.ErrorContains(t, err, text)
	}
	w := &decode.WriteArgs{
		Keys: b.empty(aclnn.Float32, 3, 2, 32), Values: b.empty(aclnn.Float32, 3, 2, 32), KeyCache: b.empty(aclnn.Int8, 9, 32, 64), ValueCache: b.empty(aclnn.Int8, 9, 32, 64),
		KeyScales: b.empty(aclnn.Float32, 9, 2, 32), ValueScales: b.empty(aclnn.Float32, 9, 2, 32), Slots: b.empty(aclnn.Int32, 3),
	}
	require.ErrorContains(t, b.Write().Run(t.Context(), b.st, w), "Keys is float32")
	w.Keys, w.Values, w.KeyScales = b.empty(aclnn.Float16, 3, 2, 32), b.empty(aclnn.Float16, 3, 2, 32), nil
	require.ErrorContains(t, b.Write().Run(t.Context(), b.st, w), "KeyScales is nil")
	require.Equal(t, "cache_write: ScatterPaKvCache", fmt.Sprint(b.Write().Explain(&decode.WriteArgs{
		Keys: w.Keys, Values: w.Values, KeyCache: w.KeyCache, ValueCache: w.ValueCache, KeyScales: w.ValueScales, ValueScales: w.ValueScales, Slots: w.Slots,
	}))[:29])
}
