package kernel_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// BenchmarkFlashAttention reports the rate of flash attention. It counts only the visible half of
// a causal score matrix, with two products forward and five backward.
func BenchmarkFlashAttention(b *testing.B) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16} {
		for _, rule := range []attentionCase{full, causal} {
			for _, dim := range []int64{64, 128} {
				c := rule
				c.dtype, c.heads, c.keyHeads, c.rows, c.cols, c.dim, c.valueDim = d, 8, 8, 1024, 1024, dim, dim
				b.Run(fmt.Sprintf("forward/%v", c), func(b *testing.B) { benchmarkForward(b, c) })
				b.Run(fmt.Sprintf("backward/%v", c), func(b *testing.B) { benchmarkBackward(b, c) })
			}
		}
	}
}

func report(b *testing.B, c attentionCase, products float64) {
	cells := float64(c.heads * c.rows * c.cols)
	if c.name == causal.name {
		cells /= 2
	}
	seconds := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(2*cells*float64(c.dim)*products/seconds/1e9, "GFLOP/s")
	b.ReportMetric(float64(c.rows)/seconds, "tokens/s")
}

func benchmarkForward(b *testing.B, c attentionCase) {
	items := []kernel.Attention{c.item(b, rand.New(rand.NewPCG(1, 2)))}
	for b.Loop() {
		require.NoError(b, kernel.FlashAttention(items))
	}
	report(b, c, 2)
}

func benchmarkBackward(b *testing.B, c attentionCase) {
	r := rand.New(rand.NewPCG(1, 2))
	a := c.item(b, r)
	items := []kernel.Attention{a}
	require.NoError(b, kernel.FlashAttention(items))
	like := func(v kernel.View) kernel.View {
		return kerneltest.New(b, c.dtype, kerneltest.Contiguous, v.Shape, random(r, v.Len()))
	}
	grads := []kernel.AttentionGrad{{OutGrad: like(a.Out), QueryGrad: like(a.Query), KeyGrad: like(a.Key), ValueGrad: like(a.Value)}}
	n, err := kernel.FlashAttentionGradWorkspace(items)
	require.NoError(b, err)
	w := kerneltest.New(b, dtype.Uint8, kerneltest.Contiguous, []int64{n}, nil)
	for b.Loop() {
		require.NoError(b, kernel.FlashAttentionGrad(items, grads, w.Data))
	}
	report(b, c, 5)
}

// BenchmarkDecodingAttention measures one new token of a sequence, whose four query heads share a key head, over a
// long cache. It reports the rate at which keys and values are read.
func BenchmarkDecodingAttention(b *testing.B) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16} {
		for _, tokens := range []int64{512, 32768} {
			c := full
			c.dtype, c.heads, c.keyHeads, c.rows, c.cols, c.dim, c.valueDim = d, 8, 2, 1, tokens, 128, 128
			b.Run(c.String(), func(b *testing.B) {
				items := []kernel.Attention{c.item(b, rand.New(rand.NewPCG(1, 2)))}
				b.SetBytes((items[0].Key.Len() + items[0].Value.Len()) * int64(d.Size()))
				for b.Loop() {
					require.NoError(b, kernel.FlashAttention(items))
				}
			})
		}
	}
}
