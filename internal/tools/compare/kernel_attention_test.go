package compare_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	attentionkernel "github.com/goascend/cann/internal/emu/kernel/attention"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// attention is a case of flash attention with float32 statistics.
type attention struct {
	d                   dtype.Type
	heads, keys         int64 // query heads, and those of keys and values
	rows, columns, dims int64
	causal              bool
}

func (c attention) String() string {
	return fmt.Sprintf("%s/%v/N%d:%d/S%dx%d/D%d", map[bool]string{false: "full", true: "causal"}[c.causal], c.d, c.heads, c.keys, c.rows, c.columns, c.dims)
}

func (c attention) random(b *testing.B, shape ...int64) kernel.View {
	r := rand.New(rand.NewPCG(1, 2))
	values := make([]float64, 1013)
	for i := range values {
		values[i] = r.NormFloat64()
	}
	return newView(b, c.d, kerneltest.Contiguous, shape, values)
}

func (c attention) item(b *testing.B) attentionkernel.Attention {
	stats := func() kernel.View {
		return newView(b, dtype.Float32, kerneltest.Contiguous, []int64{c.heads, c.rows, attentionkernel.AttentionStatCopies}, nil)
	}
	a := attentionkernel.Attention{
		Query: c.random(b, c.heads, c.rows, c.dims), Key: c.random(b, c.keys, c.columns, c.dims), Value: c.random(b, c.keys, c.columns, c.dims),
		Out: c.random(b, c.heads, c.rows, c.dims), Max: stats(), Sum: stats(),
		Scale: float32(1 / math.Sqrt(float64(c.dims))), First: -attentionkernel.Unlimited, Last: attentionkernel.Unlimited,
	}
	if c.causal {
		a.Last = 0
	}
	return a
}

// BenchmarkFlashAttention reports the rate of flash attention. It counts only the visible half of
// a causal score matrix, with two products forward and five backward.
func BenchmarkFlashAttention(b *testing.B) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16} {
		for _, causal := range []bool{false, true} {
			for _, dims := range []int64{64, 128} {
				c := attention{d, 8, 8, 1024, 1024, dims, causal}
				b.Run(fmt.Sprintf("forward/%v", c), c.forward)
				b.Run(fmt.Sprintf("backward/%v", c), c.backward)
			}
		}
	}
}

func (c attention) report(b *testing.B, products float64) {
	cells := float64(c.heads * c.rows * c.columns)
	if c.causal {
		cells /= 2
	}
	seconds := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(2*cells*float64(c.dims)*products/seconds/1e9, "GFLOP/s")
	b.ReportMetric(float64(c.rows)/seconds, "tokens/s")
}

func (c attention) forward(b *testing.B) {
	items := []attentionkernel.Attention{c.item(b)}
	for b.Loop() {
		require.NoError(b, attentionkernel.FlashAttention(items))
	}
	c.report(b, 2)
}

func (c attention) backward(b *testing.B) {
	a := c.item(b)
	items := []attentionkernel.Attention{a}
	require.NoError(b, attentionkernel.FlashAttention(items))
	like := func(v kernel.View) kernel.View { return c.random(b, v.Shape...) }
	grads := []attentionkernel.AttentionGrad{{OutGrad: like(a.Out), QueryGrad: like(a.Query), KeyGrad: like(a.Key), ValueGrad: like(a.Value)}}
	n, err := attentionkernel.FlashAttentionGradWorkspace(items)
	require.NoError(b, err)
	w := newView(b, dtype.Uint8, kerneltest.Contiguous, []int64{n}, nil)
	for b.Loop() {
		require.NoError(b, attentionkernel.FlashAttentionGrad(items, grads, w.Data))
	}
	c.report(b, 5)
}

// BenchmarkCachedAttention measures one new token of a sequence, whose four query heads share a key head, over a
// long cache. It reports the rate at which keys and values are read.
func BenchmarkCachedAttention(b *testing.B) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16} {
		for _, tokens := range []int64{512, 32768} {
			c := attention{d, 8, 2, 1, tokens, 128, false}
			b.Run(c.String(), func(b *testing.B) {
				items := []attentionkernel.Attention{c.item(b)}
				b.SetBytes((items[0].Key.Len() + items[0].Value.Len()) * int64(d.Size()))
				for b.Loop() {
					require.NoError(b, attentionkernel.FlashAttention(items))
				}
			})
		}
	}
}
