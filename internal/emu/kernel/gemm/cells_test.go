package gemm_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// TestGemmCells checks products whose elements an instruction multiplies in groups, with rows, columns and K that
// fill no block. A row alone has the same bits. It is small enough for an emulated CPU.
func TestGemmCells(t *testing.T) {
	sizes := []struct{ m, n, k int64 }{{13, 9, 1}, {2, 17, 3}, {14, 8, 4}, {5, 24, 21}, {27, 40, 40}, {3, 18, 1050}, {100, 17, 9}}
	view := func(d dtype.Type, l kerneltest.Layout, rows, cols int64, v []float64) kernel.View {
		return kerneltest.New(t, d, l, []int64{rows, cols}, v)
	}
	kerneltest.EachVariant(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(13, 14))
		for i, s := range sizes {
			for j, l := range kerneltest.Layouts {
				lb := kerneltest.Layouts[(i+j)%4]
				for _, d := range []struct{ a, b, out dtype.Type }{
					{dtype.BFloat16, dtype.BFloat16, dtype.BFloat16},
					{dtype.Int8, dtype.Int8, dtype.Int32},
					{dtype.Uint8, dtype.Uint8, dtype.Int32},
					{dtype.Uint8, dtype.Int8, dtype.Int32},
				} {
					gemmCase{m: s.m, n: s.n, k: s.k, a: d.a, b: d.b, out: d.out, la: l, lb: lb, alpha: 1}.check(t, r)
				}
				a := view(dtype.BFloat16, l, s.m, s.k, numbers(r, dtype.BFloat16, s.m*s.k))
				b := view(dtype.BFloat16, lb, s.k, s.n, numbers(r, dtype.BFloat16, s.k*s.n))
				whole := view(dtype.Float32, kerneltest.Contiguous, s.m, s.n, nil)
				require.NoError(t, gemm.Gemm(gemm.Product{Out: whole, A: a, B: b, Alpha: 1}))
				for _, row := range []int64{0, 1, s.m - 1} {
					alone := view(dtype.Float32, kerneltest.Contiguous, 1, s.n, nil)
					require.NoError(t, gemm.Gemm(gemm.Product{Out: alone, A: a.Narrow(0, row, 1), B: b, Alpha: 1}))
					require.Equal(t, kerneltest.Values(whole)[row*s.n:][:s.n], kerneltest.Values(alone), "%v %v, row %d", s, l, row)
				}
			}
		}
	})
}

// TestGemmSubnormal checks which variants take subnormal bfloat16 numbers for zero: those that multiply with an
// instruction for bfloat16. So it also checks that they do.
func TestGemmSubnormal(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		const least, large, other = 0x1p-133, 0x1p100, 0x1p-40
		a := kerneltest.New(t, dtype.BFloat16, kerneltest.Contiguous, []int64{1, 2}, []float64{least, 1})
		b := kerneltest.New(t, dtype.BFloat16, kerneltest.Contiguous, []int64{2, 1}, []float64{large, other})
		out := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{1, 1}, nil)
		require.NoError(t, gemm.Gemm(gemm.Product{Out: out, A: a, B: b, Alpha: 1}))
		want := least*large + other
		if kernel.Fast() && slices.Contains([]string{"amx", "avx512bf16"}, kernel.Variant()) {
			want = other
		}
		require.Equal(t, []float64{want}, kerneltest.Values(out))
	})
}
