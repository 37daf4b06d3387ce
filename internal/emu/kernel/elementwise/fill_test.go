package elementwise_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// Long rows are filled one by one.
func TestFillAtRows(t *testing.T) {
	const n = 300
	for _, layout := range kerneltest.Layouts {
		v := kerneltest.New(t, dtype.BFloat16, layout, []int64{3, n}, make([]float64, 3*n))
		require.NoError(t, indexing.FillAt(v, elementwise.Real(2), 0, []int64{-1, 0, 0}))
		for i, x := range kerneltest.Values(v) {
			require.Equal(t, []float64{2, 0, 2}[i/n], x, "%v %d", layout, i)
		}
		require.Error(t, indexing.FillAt(v, elementwise.Real(2), 0, []int64{3}))
	}
}

// Runs of one element, and bytes in reverse order, have loops of their own.
func TestCopyRuns(t *testing.T) {
	const n = 29
	for _, d := range []dtype.Type{dtype.Uint8, dtype.Int16, dtype.Float32, dtype.Int64, dtype.Complex128} {
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(i)
		}
		x := kerneltest.New(t, d, kerneltest.Contiguous, []int64{n}, values)
		out := kerneltest.New(t, d, kerneltest.Contiguous, []int64{n}, nil)
		back := x.Select(0, n-1)
		back.Shape, back.Strides = []int64{n}, []int64{-1}
		require.NoError(t, elementwise.Copy(out, back))
		for i, v := range kerneltest.Values(out) {
			require.EqualValues(t, n-1-i, v, "%v", d)
		}
		one := x.Select(0, 7)
		one.Shape, one.Strides = []int64{n}, []int64{0}
		require.NoError(t, elementwise.Copy(out, one))
		for _, v := range kerneltest.Values(out) {
			require.EqualValues(t, 7, v, "%v", d)
		}
	}
}
