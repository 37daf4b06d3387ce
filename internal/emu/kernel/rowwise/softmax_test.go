package rowwise_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
)

// Rows may be longer than the buffers of the kernels, have any strides and be replaced by the result.
func TestSoftmaxRows(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		for _, shape := range [][]int64{{3, 1}, {5, 33}, {2, 3, 2500}, {2, 1024}, {1, 1025}, {600, 64}} {
			for _, l := range kerneltest.Layouts {
				testSoftmax(t, dtype.Float32, l, shape, 1e-6)
				testSoftmax(t, dtype.BFloat16, l, shape, 4e-3)
			}
		}
	})
}

func testSoftmax(t *testing.T, d dtype.Type, l kerneltest.Layout, shape []int64, allowed float64) {
	n, axis := kernel.View{Shape: shape}.Len(), len(shape)-1
	width := shape[axis]
	view := func(values []float64) kernel.View { return kerneltest.New(t, d, l, shape, values) }
	numbers := waves(n, 1)
	for i := range numbers {
		numbers[i] = 20*numbers[i] + float64(int64(i)/width*100)
		if i%7 == 3 {
			numbers[i] = math.Inf(-1)
		}
	}
	x, dy := view(numbers), view(waves(n, 2))
	in, grad := kerneltest.Values(x), kerneltest.Values(dy)
	want, wantLog := make([]float64, n), make([]float64, n)
	for r := int64(0); r < n; r += width {
		top, sum := math.Inf(-1), 0.0
		for _, v := range in[r : r+width] {
			top = max(top, v)
		}
		for _, v := range in[r : r+width] {
			sum += math.Exp(v - top)
		}
		for i, v := range in[r : r+width] {
			want[r+int64(i)], wantLog[r+int64(i)] = math.Exp(v-top)/sum, v-top-math.Log(sum)
		}
	}
	near := func(want []float64, v kernel.View, what string) {
		for i, got := range kerneltest.Values(v) {
			if want[i] != got { // both may be infinite
				require.InDelta(t, want[i], got, allowed*(1+math.Abs(want[i])), "%s of %v %v %v at %d", what, d, l, shape, i)
			}
		}
	}
	y, logs, same := view(nil), view(nil), view(in)
	require.NoError(t, rowwise.Softmax(y, x, axis))
	require.NoError(t, rowwise.LogSoftmax(logs, x, axis))
	require.NoError(t, rowwise.Softmax(same, same, axis))
	near(want, y, "softmax")
	near(wantLog, logs, "its logarithm")
	near(want, same, "softmax in place")

	got, gotLogs := kerneltest.Values(y), kerneltest.Values(logs)
	for r := int64(0); r < n; r += width {
		dot, sum := 0.0, 0.0
		for i := r; i < r+width; i++ {
			dot += grad[i] * got[i]
			sum += grad[i]
		}
		for i := r; i < r+width; i++ {
			want[i], wantLog[i] = (grad[i]-dot)*got[i], grad[i]-math.Exp(gotLogs[i])*sum
		}
	}
	dx := view(nil)
	require.NoError(t, rowwise.SoftmaxGrad(dx, dy, y, axis))
	near(want, dx, "gradient")
	require.NoError(t, rowwise.LogSoftmaxGrad(dy, dy, logs, axis))
	near(wantLog, dy, "gradient of the logarithm in place")
}

// A row without a finite number, or with an infinite one or NaN, has no softmax.
func TestSoftmaxWithoutResult(t *testing.T) {
	for _, bad := range []float64{math.Inf(1), math.NaN()} {
		x := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{2, 3}, []float64{1, bad, 2, math.Inf(-1), math.Inf(-1), math.Inf(-1)})
		require.NoError(t, rowwise.Softmax(x, x, 1))
		for i, v := range kerneltest.Values(x) {
			assert.True(t, math.IsNaN(v), "%v at %d", v, i)
		}
	}
}
