package rowwise_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
)

// TestReduceIgnoresThreads checks that the bits of sums do not depend on the number of threads, in
// every layout and mode.
func TestReduceIgnoresThreads(t *testing.T) {
	shape := []int64{70, 3001}
	x := kerneltest.Sample(dtype.Float32, 1, kerneltest.Count(shape), -1, 1)
	for _, l := range kerneltest.Layouts {
		in := kerneltest.New(t, dtype.Float32, l, shape, x)
		for _, axes := range [][]int{{0}, {1}, {0, 1}} {
			kept, _ := groups(shape, x, axes)
			var want []float64
			for _, threads := range []int{1, 2, 3, 8} {
				kerneltest.Threads(t, threads)
				out := kerneltest.New(t, dtype.Float64, kerneltest.Contiguous, kept, nil)
				require.NoError(t, rowwise.Reduce(rowwise.ReduceSum, out, in, axes, 0))
				if want == nil {
					want = kerneltest.Values(out)
				}
				require.Equal(t, want, kerneltest.Values(out), "%v over %v with %d threads", l, axes, threads)
			}
		}
	}
}

// TestStridedHistories adds random views, a piece of a permuted tensor and a broadcast one, into a
// third layout, and compares the sum with element-by-element indexing.
func TestStridedHistories(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rank := rapid.IntRange(1, 5).Draw(r, "rank")
		shape := rapid.SliceOfN(rapid.Int64Range(0, 9), rank, rank).Draw(r, "shape")
		order := rapid.Permutation([]int{0, 1, 2, 3, 4}[:rank]).Draw(r, "order")
		layout := rapid.SampledFrom(kerneltest.Layouts)
		d := rapid.SampledFrom([]dtype.Type{dtype.Int8, dtype.Float16, dtype.Int32, dtype.Int64}).Draw(r, "dtype")

		values := kerneltest.Iota(max(kerneltest.Count(shape), 1))
		for i := range values {
			values[i] = float64(int(values[i]) % 50)
		}
		x := kerneltest.New(t, d, layout.Draw(r, "in"), shape, values).Permuted(order)
		axis := rapid.IntRange(0, rank-1).Draw(r, "axis")
		if n := x.Shape[axis]; n > 1 {
			first := rapid.Int64Range(0, n-1).Draw(r, "first")
			x = x.Narrow(axis, first, rapid.Int64Range(0, n-first).Draw(r, "length"))
		}
		small := slices.Clone(x.Shape)
		small[axis] = 1
		y := kerneltest.New(t, dtype.Int32, layout.Draw(r, "other"), small, []float64{3, 1, 4, 1, 5})
		wide, err := y.Broadcast(x.Shape)
		if err != nil {
			r.Fatal(err)
		}
		out := kerneltest.New(t, dtype.Int64, layout.Draw(r, "out"), x.Shape, nil)
		if err := elementwise.Map(elementwise.Add, dtype.Int64, out, []elementwise.Input{elementwise.Of(x), elementwise.Of(y)}, elementwise.Whole(2)); err != nil {
			r.Fatal(err)
		}
		a, b := kerneltest.Values(x), kerneltest.Values(wide)
		for i, got := range kerneltest.Values(out) {
			if got != a[i]+2*b[i] {
				r.Fatalf("element %d is %v, want %v + 2 * %v", i, got, a[i], b[i])
			}
		}
	})
}
