package compare_test

import (
	"testing"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
)

// BenchmarkRows measures the operators of a training step other than matrix products, on
// 4096 x 1024 elements. It reports the throughput in bytes of the operands.
func BenchmarkRows(b *testing.B) {
	const rows, width = 4096, 1024
	for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16} {
		n := d.Size()
		make := func(d dtype.Type, shape ...int64) kernel.View {
			return newView(b, d, kerneltest.Contiguous, shape, []float64{1, -2, .5, .25, -.75, 3, .125})
		}
		x, y, dy := make(d, rows, width), make(d, rows, width), make(d, rows, width)
		half, gamma := make(d, rows, width/2), make(d, width)
		mean, rstd, dgamma, dbeta := make(dtype.Float32, rows), make(dtype.Float32, rows), make(dtype.Float32, width), make(dtype.Float32, width)
		run := func(name string, bytes int, f func() error) {
			b.Run(name+"/"+d.String(), func(b *testing.B) { benchmarkBytes(b, bytes, f) })
		}
		run("rms norm", 2*n, func() error { return rowwise.RMSNorm(y, rstd, x, gamma, 1e-6) })
		run("rms norm grad", 3*n, func() error { return rowwise.RMSNormGrad(y, dgamma, dy, x, rstd, gamma) })
		run("layer norm", 2*n, func() error { return rowwise.LayerNorm(y, mean, rstd, x, 1, gamma, gamma, 1e-6) })
		run("layer norm grad", 3*n, func() error { return rowwise.LayerNormGrad(y, dgamma, dbeta, dy, x, 1, mean, rstd, gamma) })
		run("softmax", 2*n, func() error { return rowwise.Softmax(y, x, 1) })
		run("softmax grad", 3*n, func() error { return rowwise.SoftmaxGrad(y, dy, x, 1) })
		run("swiglu", 2*n, func() error { return rowwise.SwishGate.Forward(half, kernel.View{}, x, 1) })
		run("swiglu grad", 3*n, func() error { return rowwise.SwishGate.Backward(y, half, x, 1) })
		heads := func(v kernel.View) kernel.View {
			v.Shape, v.Strides = []int64{4, 1024, 16, 64}, []int64{1 << 20, 1 << 10, 64, 1}
			return v
		}
		angle := make(d, 1, 1024, 1, 64)
		run("rotary", 2*n, func() error { return rowwise.Rotary(heads(y), heads(x), angle, angle, rowwise.RotaryHalf) })
		e := &rowwise.CrossEntropy{Targets: make64(rows), Ignore: -100, Averaging: rowwise.MeanAveraging}
		loss := make(dtype.Float32, 1)
		run("cross-entropy", 2*n, func() error { return e.Forward(loss, y, x) })
		run("cross-entropy grad", 2*n, func() error { return e.Backward(y, loss, x) })
		m, v := make(dtype.Float32, rows, width), make(dtype.Float32, rows, width)
		w := make(dtype.Float32, rows, width)
		kerneltest.Each(v, func(p unsafe.Pointer) { kerneltest.Set(dtype.Float32, p, .5) })
		o := rowwise.AdamW{LR: 1e-3, Beta1: .9, Beta2: .99, WeightDecay: .1, Eps: 1e-8}.Updates(3)
		run("adamw", 24+n, func() error { return o.Update(w, m, v, kernel.View{}, x) })
	}
}

func make64(n int) []int64 {
	v := make([]int64, n)
	for i := range v {
		v[i] = int64(i*31) % 1024
	}
	return v
}
