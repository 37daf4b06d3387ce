package kernel_test

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
)

// noise returns normally distributed elements of type d.
func noise(b *testing.B, d dtype.Type, shape ...int64) kernel.View {
	v := kerneltest.New(b, d, kerneltest.Contiguous, shape, nil)
	r := rand.New(rand.NewPCG(1, 2))
	kerneltest.Each(v, func(p unsafe.Pointer) { kerneltest.Set(d, p, 1e3*r.NormFloat64()) })
	return v
}

// BenchmarkMillion measures kernels on a million elements, which users compare with PyTorch.
func BenchmarkMillion(b *testing.B) {
	const n, side = 1 << 20, 1 << 10
	x, y, out := noise(b, dtype.Float32, n), noise(b, dtype.Float32, n), noise(b, dtype.Float32, n)
	unit, whole := noise(b, dtype.Float32, n), noise(b, dtype.Int64, n)
	require.NoError(b, elementwise.Map(elementwise.Sin, dtype.Float32, unit, []elementwise.Input{elementwise.Of(x)}))
	square := func(v kernel.View) kernel.View {
		v.Shape, v.Strides = []int64{side, side}, []int64{side, 1}
		return v
	}
	run := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, f())
			}
		})
	}
	maps := func(name string, op elementwise.Op, in ...elementwise.Input) {
		run(name, func() error { return elementwise.Map(op, dtype.Float32, out, in) })
	}
	number := func(v float64) elementwise.Input { return elementwise.Const(elementwise.Real(v)) }
	maps("clamp", elementwise.Clamp, elementwise.Of(x), number(-100), number(100))
	maps("maximum", elementwise.Max, elementwise.Of(x), elementwise.Of(y))
	maps("remainder scalar", elementwise.Remainder, elementwise.Of(x), number(3))
	maps("fmod", elementwise.Fmod, elementwise.Of(x), elementwise.Of(y))
	maps("asin", elementwise.Asin, elementwise.Of(unit))
	maps("acos", elementwise.Acos, elementwise.Of(unit))
	maps("sqrt", elementwise.Sqrt, elementwise.Of(x))
	maps("rsqrt", elementwise.Rsqrt, elementwise.Of(x))
	row := noise(b, dtype.Float32, side)
	for axis, name := range []string{"columns", "rows"} {
		run("amax "+name, func() error { return rowwise.Reduce(rowwise.ReduceMax, row, square(x), []int{axis}, 0) })
		run("cumsum "+name, func() error {
			return rowwise.Scan(rowwise.RunningSum, square(out), kernel.View{}, square(x), axis, false, false)
		})
		run("log softmax "+name, func() error { return rowwise.LogSoftmax(square(out), square(x), axis) })
	}
	run("cumsum", func() error { return rowwise.Scan(rowwise.RunningSum, out, kernel.View{}, x, 0, false, false) })
	for _, k := range []int64{10, 100, n} {
		first := noise(b, dtype.Int64, k)
		run("order "+map[int64]string{10: "10", 100: "100", n: "all"}[k], func() error { return indexing.Order(first, x, 0, true) })
	}
	first := noise(b, dtype.Int64, side, 50)
	run("order 50 of rows", func() error { return indexing.Order(first, square(x), 1, true) })
	one, at := noise(b, dtype.Float32), noise(b, dtype.Int64)
	run("median", func() error {
		return indexing.Ranked(one, at, x, []int{0}, func(n, _ int64) int64 { return (n - 1) / 2 })
	})
	for name, v := range map[string]kernel.View{"float32": x, "int64": whole} {
		for _, runs := range []bool{false, true} {
			run("unique "+name+map[bool]string{true: " runs"}[runs], func() error {
				_, err := indexing.UniqueFlat(v, runs)
				return err
			})
		}
	}
	index := kerneltest.New(b, dtype.Int64, kerneltest.Contiguous, []int64{n}, []float64{5, 1, 7, 1000, 3, 900, 12})
	run("scatter add", func() error { return indexing.Scatter(indexing.ScatterAdd, out, x, 0, index) })
	for axis, name := range []string{"columns", "rows"} {
		run("scatter add "+name, func() error {
			return indexing.Scatter(indexing.ScatterAdd, square(out), square(x), axis, square(index))
		})
		run("fill "+name, func() error {
			return indexing.FillAt(square(out), elementwise.Whole(1), axis, []int64{1, 5, 9, 400, 401, 402, 403, 77, 1000, 1023})
		})
	}
}
