package compare_test

import (
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// benchmarkBytes reports the memory throughput of f, which reads and writes 4096 x 1024 elements.
func benchmarkBytes(b *testing.B, bytes int, f func() error) {
	b.SetBytes(int64(bytes) << 22)
	for b.Loop() {
		if err := f(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMap(b *testing.B) {
	shape := []int64{4096, 1024}
	for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16, dtype.Float16} {
		x := newView(b, d, kerneltest.Contiguous, shape, []float64{1, 2, .5})
		y := newView(b, d, kerneltest.Contiguous, shape, []float64{3, 2, .25, 7})
		z := newView(b, d, kerneltest.Contiguous, shape, nil)
		turned := newView(b, d, kerneltest.Transposed, shape, []float64{1, 2})
		row := newView(b, d, kerneltest.Contiguous, []int64{1024}, nil)
		n := d.Size()
		b.Run("copy/"+d.String(), func(b *testing.B) { benchmarkBytes(b, 2*n, func() error { return kernel.Copy(z, x) }) })
		b.Run("transpose/"+d.String(), func(b *testing.B) { benchmarkBytes(b, 2*n, func() error { return kernel.Copy(z, turned) }) })
		b.Run("add/"+d.String(), func(b *testing.B) {
			benchmarkBytes(b, 3*n, func() error {
				return kernel.Map(kernel.Add, d, z, []kernel.Input{kernel.Of(x), kernel.Of(y)}, kernel.Real(1))
			})
		})
		for name, op := range map[string]kernel.Op{"exp": kernel.Exp, "silu": kernel.Swish, "gelu": kernel.Gelu, "tanh": kernel.Tanh, "log": kernel.Log, "sin": kernel.Sin} {
			b.Run(name+"/"+d.String(), func(b *testing.B) {
				benchmarkBytes(b, 2*n, func() error { return kernel.Map(op, d, z, []kernel.Input{kernel.Of(x)}, kernel.Real(1)) })
			})
		}
		b.Run("sum rows/"+d.String(), func(b *testing.B) {
			out := newView(b, d, kerneltest.Contiguous, []int64{4096}, nil)
			benchmarkBytes(b, n, func() error { return kernel.Reduce(kernel.ReduceSum, out, x, []int{1}, 0) })
		})
		b.Run("sum columns/"+d.String(), func(b *testing.B) {
			benchmarkBytes(b, n, func() error { return kernel.Reduce(kernel.ReduceSum, row, x, []int{0}, 0) })
		})
	}
}
