package gemm_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/fractal"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// TestGemmReadsNZ checks that a product with a weight in FRACTAL_NZ storage has the same bits as
// one with the weight in plain rows, for the stored matrix and for its transpose.
func TestGemmReadsNZ(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 9))
		for _, c := range []struct {
			d, out dtype.Type
			c0     int64
		}{{dtype.BFloat16, dtype.BFloat16, 16}, {dtype.Float16, dtype.Float32, 16}, {dtype.Float32, dtype.Float32, 8}, {dtype.Float32, dtype.Float32, 16}, {dtype.Int8, dtype.Int32, 32}} {
			for _, s := range []struct{ batch, m, k, n int64 }{{1, 1, 16, 16}, {3, 5, 20, 40}, {2, 33, 300, 70}, {2, 7, 31, 3}} {
				for _, swapped := range []bool{false, true} {
					rows, cols := s.k, s.n
					if swapped {
						rows, cols = s.n, s.k
					}
					w := kerneltest.New(t, c.d, kerneltest.Contiguous, []int64{s.batch, rows, cols}, numbers(r, c.d, s.batch*rows*cols))
					nz := kerneltest.New(t, c.d, kerneltest.Contiguous, []int64{s.batch * fractal.Layout{Rows: rows, Cols: cols, C0: c.c0}.Len()}, nil)
					require.NoError(t, fractal.Pack(nz.Data, c.c0, w))
					if swapped {
						w.Shape[1], w.Shape[2] = w.Shape[2], w.Shape[1]
						w.Strides[1], w.Strides[2] = w.Strides[2], w.Strides[1]
					}
					x := kerneltest.New(t, c.d, kerneltest.Contiguous, []int64{s.batch, s.m, s.k}, numbers(r, c.d, s.batch*s.m*s.k))
					out := func() kernel.View {
						return kerneltest.New(t, c.out, kerneltest.Contiguous, []int64{s.batch, s.m, s.n}, nil)
					}
					plain, tiled := out(), out()
					require.NoError(t, gemm.Gemm(gemm.Product{Out: plain, A: x, B: w, Alpha: 1}))
					require.NoError(t, gemm.Gemm(gemm.Product{
						Out: tiled, A: x, Alpha: 1, NZ: c.c0,
						B: kernel.View{Data: nz.Data, DType: c.d, Shape: w.Shape, Strides: w.Strides},
					}))
					require.Equal(t, kerneltest.Values(plain), kerneltest.Values(tiled), "%v %v swapped %v", c, s, swapped)
				}
			}
		}
	})
}
