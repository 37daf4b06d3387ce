package attention_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/attention"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// decoding are items with few rows and so many columns that threads share them.
func decoding(rule attentionCase, d dtype.Type, rows, cols int64) attentionCase {
	c := rule
	c.dtype, c.heads, c.keyHeads, c.rows, c.cols, c.dim, c.valueDim = d, 6, 2, rows, cols, 32, 32
	return c
}

// TestDecoding checks attention of few rows over many columns, and of rows that see nothing in some or
// all of the parts in which the columns are summed.
func TestDecoding(t *testing.T) {
	late := attentionCase{name: "late", first: 1000, last: attention.Unlimited}
	kerneltest.EachVariant(t, func(t *testing.T) {
		for _, rule := range []attentionCase{full, causal, late, dense, blind, zeroed} {
			for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16} {
				for i, rows := range []int64{1, 3, 26} {
					if rows > 3 && rule.mask != 0.3 { // too many for one block of several heads
						continue
					}
					c := decoding(rule, d, rows, 2000+2*rows)
					c.layout = kerneltest.Layouts[i%len(kerneltest.Layouts)]
					t.Run(c.String(), func(t *testing.T) { checkAttention(t, c) })
				}
			}
		}
	})
}

// TestDecodingBits checks that the bits of a head's result depend neither on the heads and rows that are
// computed with it nor on the number of threads.
func TestDecodingBits(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16} {
			for _, rule := range []attentionCase{full, causal, dense} {
				a := decoding(rule, d, 4, 3000).item(t, rand.New(rand.NewPCG(3, 4)))
				results := func(threads int, items ...attention.Attention) (all []float64) {
					kerneltest.Threads(t, threads)
					require.NoError(t, attention.FlashAttention(items))
					for _, v := range []kernel.View{a.Out, a.Max, a.Sum} {
						all = append(all, kerneltest.Values(v)...)
					}
					return all
				}
				var alone []attention.Attention
				for head := range a.Query.Shape[0] {
					for row := range a.Query.Shape[1] {
						alone = append(alone, one(a, head, row))
					}
				}
				want := results(1, alone...)
				require.Equal(t, want, results(1, a), "%v %v together", d, rule.name)
				for _, threads := range []int{2, 5} {
					require.Equal(t, want, results(threads, a), "%v %v with %d threads", d, rule.name, threads)
					require.Equal(t, want, results(threads, alone...), "%v %v alone with %d threads", d, rule.name, threads)
				}
			}
		}
	})
}

// one returns the item of one row of one head.
func one(a attention.Attention, head, row int64) attention.Attention {
	of := a
	for _, v := range []*kernel.View{&of.Query, &of.Out, &of.Max, &of.Sum, &of.Mask} {
		if v.Data != nil {
			*v = v.Narrow(0, head, 1).Narrow(1, row, 1)
		}
	}
	of.Key, of.Value = a.Key.Narrow(0, head/3, 1), a.Value.Narrow(0, head/3, 1)
	of.First, of.Last = a.First+row, a.Last+row
	return of
}

// TestDecodingPages checks that a cache in pages, in any order, gives the bits of a cache in one piece.
func TestDecodingPages(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16} {
			for _, block := range []int64{7, 16, 96, 128} {
				t.Run(fmt.Sprintf("%v/%d", d, block), func(t *testing.T) {
					r := rand.New(rand.NewPCG(uint64(block), 1))
					a := decoding(causal, d, 2, 1111).item(t, r)
					a.Last = 1109
					require.NoError(t, attention.FlashAttention([]attention.Attention{a}))
					want := kerneltest.Values(a.Out)
					paged := attention.Inference{Attention: a, Tokens: a.Key.Shape[1]}
					n := (paged.Tokens + block - 1) / block
					for _, p := range r.Perm(int(n)) {
						paged.Pages = append(paged.Pages, int64(p))
					}
					paged.Key, paged.Value = scattered(t, a.Key, paged.Pages, block), scattered(t, a.Value, paged.Pages, block)
					require.NoError(t, attention.Infer([]attention.Inference{paged}))
					require.Equal(t, want, kerneltest.Values(a.Out))
				})
			}
		}
	})
}

// scattered returns a cache [blocks, heads, block, dim] with the tokens of v [heads, tokens, dim].
func scattered(t *testing.T, v kernel.View, pages []int64, block int64) kernel.View {
	cache := kerneltest.New(t, v.DType, kerneltest.Contiguous, []int64{int64(len(pages)), v.Shape[0], block, v.Shape[2]}, []float64{99})
	for i, p := range pages {
		at := int64(i) * block
		n := min(block, v.Shape[1]-at)
		require.NoError(t, elementwise.Copy(cache.Select(0, p).Narrow(1, 0, n), v.Narrow(1, at, n)))
	}
	return cache
}

// TestInferenceRefusesPages checks that pages outside the cache are refused.
func TestInferenceRefusesPages(t *testing.T) {
	a := decoding(full, dtype.Float32, 1, 20).item(t, rand.New(rand.NewPCG(1, 1)))
	item := attention.Inference{Attention: a, Tokens: 20, Pages: []int64{1, 0}}
	item.Key, item.Value = scattered(t, a.Key, []int64{0, 1}, 16), scattered(t, a.Value, []int64{0, 1}, 16)
	require.NoError(t, attention.Infer([]attention.Inference{item}))
	for text, pages := range map[string][]int64{
		"20 tokens need 2 blocks of 16, the block table has 1":       {0},
		"block 1 of the sequence is 2; the cache has blocks 0 to 1":  {0, 2},
		"block 0 of the sequence is -1; the cache has blocks 0 to 1": {-1, 0},
	} {
		item.Pages = pages
		require.ErrorContains(t, attention.Infer([]attention.Inference{item}), text)
	}
	item.Pages = []int64{0, 1}
	item.Value = scattered(t, a.Value, []int64{0, 1, 2}, 10)
	require.ErrorContains(t, attention.Infer([]attention.Inference{item}), "the blocks of the caches have 16 and 10 tokens")
}
