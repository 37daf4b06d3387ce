package compare_test

import (
	"testing"

	"github.com/goascend/cann/internal/dtype"
	elementwisekernel "github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
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
		transposed := newView(b, d, kerneltest.Transposed, shape, []float64{1, 2})
		row := newView(b, d, kerneltest.Contiguous, []int64{1024}, nil)
		n := d.Size()
		b.Run("copy/"+d.String(), func(b *testing.B) { benchmarkBytes(b, 2*n, func() error { return elementwisekernel.Copy(z, x) }) })
		b.Run("transpose/"+d.String(), func(b *testing.B) {
			benchmarkBytes(b, 2*n, func() error { return elementwisekernel.Copy(z, transposed) })
		})
		b.Run("add/"+d.String(), func(b *testing.B) {
			benchmarkBytes(b, 3*n, func() error {
				return elementwisekernel.Map(elementwisekernel.Add, d, z, []elementwisekernel.Input{elementwisekernel.Of(x), elementwisekernel.Of(y)}, elementwisekernel.Real(1))
			})
		})
		for name, op := range map[string]elementwisekernel.Op{"exp": elementwisekernel.Exp, "silu": elementwisekernel.Swish, "gelu": elementwisekernel.Gelu, "tanh": elementwisekernel.Tanh, "log": elementwisekernel.Log, "sin": elementwisekernel.Sin} {
			b.Run(name+"/"+d.String(), func(b *testing.B) {
				benchmarkBytes(b, 2*n, func() error {
					return elementwisekernel.Map(op, d, z, []elementwisekernel.Input{elementwisekernel.Of(x)}, elementwisekernel.Real(1))
				})
			})
		}
		b.Run("sum rows/"+d.String(), func(b *testing.B) {
			out := newView(b, d, kerneltest.Contiguous, []int64{4096}, nil)
			benchmarkBytes(b, n, func() error { return rowwise.Reduce(rowwise.ReduceSum, out, x, []int{1}, 0) })
		})
		b.Run("sum columns/"+d.String(), func(b *testing.B) {
			benchmarkBytes(b, n, func() error { return rowwise.Reduce(rowwise.ReduceSum, row, x, []int{0}, 0) })
		})
	}
}
