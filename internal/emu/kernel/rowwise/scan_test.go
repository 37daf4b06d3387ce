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

func TestScan(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		for n, shape := range append(kerneltest.Shapes, []int64{3, 700, 2}, []int64{600, 5}) {
			for axis := range max(len(shape), 1) {
				x := kerneltest.Sample(dtype.Float64, n, kerneltest.Count(shape), .9, 1.1)
				for _, reverse := range []bool{false, true} {
					in := kerneltest.New(t, dtype.Float64, kerneltest.Layouts[n%4], shape, x)
					out := kerneltest.New(t, dtype.Float64, kerneltest.Layouts[(n+1)%4], shape, nil)
					for r, join := range map[rowwise.Running]func(a, b float64) float64{
						rowwise.RunningSum: func(a, b float64) float64 { return a + b }, rowwise.RunningProd: func(a, b float64) float64 { return a * b },
						rowwise.RunningMax: math.Max, rowwise.RunningMin: math.Min,
					} {
						require.NoError(t, rowwise.Scan(r, out, kernel.View{}, in, axis, false, reverse))
						require.InDeltaSlice(t, scanned(shape, x, axis, reverse, join), kerneltest.Values(out), 1e-9, "%v axis %d", shape, axis)
					}
				}
			}
		}
	})
}

// scanned defines the running reduction of a row-major array.
func scanned(shape []int64, x []float64, axis int, reverse bool, join func(a, b float64) float64) []float64 {
	out := append([]float64(nil), x...)
	if len(shape) == 0 {
		return out
	}
	step := kerneltest.Count(shape[axis+1:])
	for k := range out {
		i := k
		if reverse {
			i = len(out) - 1 - k
		}
		at := i / step % int(shape[axis])
		if !reverse && at > 0 {
			out[i] = join(out[i-step], x[i])
		} else if reverse && at < int(shape[axis])-1 {
			out[i] = join(out[i+step], x[i])
		}
	}
	return out
}

func TestScanExclusiveAndIndex(t *testing.T) {
	x := kerneltest.New(t, dtype.Int32, kerneltest.Transposed, []int64{2, 4}, []float64{1, 2, 3, 4, 5, 6, 7, 8})
	out := kerneltest.New(t, dtype.Int64, kerneltest.Contiguous, []int64{2, 4}, nil)
	require.NoError(t, rowwise.Scan(rowwise.RunningSum, out, kernel.View{}, x, 1, true, false))
	assert.Equal(t, []float64{0, 1, 3, 6, 0, 5, 11, 18}, kerneltest.Values(out))
	require.NoError(t, rowwise.Scan(rowwise.RunningSum, out, kernel.View{}, x, 1, true, true))
	assert.Equal(t, []float64{9, 7, 4, 0, 21, 15, 8, 0}, kerneltest.Values(out))

	v := kerneltest.New(t, dtype.Float16, kerneltest.Contiguous, []int64{6}, []float64{1, 3, 3, 2, math.NaN(), 9})
	most, place := kerneltest.New(t, dtype.Float16, kerneltest.Contiguous, []int64{6}, nil), kerneltest.New(t, dtype.Int64, kerneltest.Gapped, []int64{6}, nil)
	require.NoError(t, rowwise.Scan(rowwise.RunningMax, most, place, v, 0, false, false))
	assert.Equal(t, []float64{1, 3, 3, 3}, kerneltest.Values(most)[:4])
	assert.True(t, math.IsNaN(kerneltest.Values(most)[5]))
	assert.Equal(t, []float64{0, 1, 2, 2, 4, 4}, kerneltest.Values(place))
	assert.ErrorContains(t, rowwise.Scan(rowwise.RunningSum, out, kernel.View{}, v, 0, false, false), "the same shape")
}
