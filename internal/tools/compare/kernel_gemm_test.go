package compare_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// BenchmarkGEMM reports the rate of matrix products, [m,k]·[k,n]. B is transposed in the
// cases marked so, as the weight of a linear layer is.
func BenchmarkGEMM(b *testing.B) {
	for _, variant := range variants(b) {
		for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16, dtype.Float16, dtype.Float64, dtype.Int8} {
			for _, c := range []struct {
				m, n, k    int64
				transposed bool
			}{
				{1024, 1024, 1024, false}, {1024, 1024, 1024, true}, {512, 3072, 768, true}, {128, 128, 128, false},
				{32, 32, 32, false}, {1, 4096, 1024, false}, {1, 4096, 1024, true}, {4, 4096, 1024, true},
				{4096, 1, 1024, false}, {1024, 1024, 8, false}, {64, 64, 16384, false},
			} {
				b.Run(fmt.Sprintf("%s/%v/%dx%dx%d%s", variant, d, c.m, c.n, c.k, map[bool]string{true: "T"}[c.transposed]), func(b *testing.B) {
					require.NoError(b, kernel.Select(variant))
					defer func() { _ = kernel.Select("") }()
					layout := kerneltest.Contiguous
					if c.transposed {
						layout = kerneltest.Transposed
					}
					out := d
					if d == dtype.Int8 {
						out = dtype.Int32
					}
					p := gemm.Product{
						Out:   newView(b, out, kerneltest.Contiguous, []int64{c.m, c.n}, nil),
						A:     newView(b, d, kerneltest.Contiguous, []int64{c.m, c.k}, []float64{1, 2, 3}),
						B:     newView(b, d, layout, []int64{c.k, c.n}, []float64{1, -1, 2}),
						Alpha: 1,
					}
					b.ReportAllocs()
					for b.Loop() {
						if err := gemm.Gemm(p); err != nil {
							b.Fatal(err)
						}
					}
					flops := 2 * float64(c.m) * float64(c.n) * float64(c.k) * float64(b.N)
					b.ReportMetric(flops/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				})
			}
		}
	}
}

// variants lists the kernel variants this CPU can run.
func variants(t testing.TB) (names []string) {
	t.Helper()
	for _, v := range kernel.Variants {
		if kernel.Select(v) == nil {
			names = append(names, v)
		}
	}
	require.NoError(t, kernel.Select(""))
	return names
}
