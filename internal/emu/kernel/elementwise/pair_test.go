package elementwise_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// TestPair checks that Pair gives the same results as Map, for each type and in place, and that it
// does not allocate.
func TestPair(t *testing.T) {
	ops := map[string]elementwise.Op{"add": elementwise.Add, "mul": elementwise.Mul, "max": elementwise.Max, "min": elementwise.Min}
	for name, op := range ops {
		for _, d := range append(kerneltest.Floats, kerneltest.Integers...) {
			p, err := elementwise.NewPair(op, d)
			require.NoError(t, err)
			for _, n := range []int{1, 7, 3000} {
				vector := func(seed int) kernel.View {
					return kerneltest.New(t, d, kerneltest.Contiguous, []int64{int64(n)}, kerneltest.Sample(d, seed, n, 0, 10))
				}
				x, y, want, got := vector(1), vector(2), vector(3), vector(4)
				row := func(v kernel.View) elementwise.Row { return elementwise.Row{Data: v.Data, DType: d} }
				require.NoError(t, elementwise.Map(op, d, want, []elementwise.Input{elementwise.Of(x), elementwise.Of(y)}, elementwise.Whole(1)))
				require.Zero(t, testing.AllocsPerRun(100, func() { p.Run(row(got), row(x), row(y), int64(n)) }))
				kerneltest.Within(t, d, 0, kerneltest.Values(want), kerneltest.Values(got), name)
				p.Run(row(x), row(x), row(y), int64(n))
				kerneltest.Within(t, d, 0, kerneltest.Values(want), kerneltest.Values(x), name+" in place")
			}
		}
	}
	_, err := elementwise.NewPair(elementwise.Erfinv, dtype.Int32)
	require.ErrorContains(t, err, "not defined")
}
