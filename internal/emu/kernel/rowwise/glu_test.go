package rowwise_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
)

// SwiGLU takes any shape and may replace its operand. A gradient that overlaps an operand in another way
// is computed by a chain of maps.
func TestSwiGLU(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		for _, shape := range [][]int64{{3, 2}, {5, 34}, {2, 3, 2050}, {1, 2048}, {700, 62}} {
			for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16} {
				for _, l := range kerneltest.Layouts {
					testSwiGLU(t, d, l, shape)
				}
			}
		}
	})
}

func testSwiGLU(t *testing.T, d dtype.Type, l kerneltest.Layout, shape []int64) {
	axis := len(shape) - 1
	half := append([]int64(nil), shape...)
	half[axis] /= 2
	count := kernel.View{Shape: shape}.Len()
	numbers := waves(count, 1)
	for i := range numbers {
		numbers[i] *= 9
	}
	x, dy := kerneltest.New(t, d, l, shape, numbers), kerneltest.New(t, d, l, half, waves(count/2, 2))
	in, grad := kerneltest.Values(x), kerneltest.Values(dy)
	wantOut, wantGrad := make([]float64, count/2), make([]float64, count)
	n := half[axis]
	for i := range wantOut {
		a := int64(i)/n*2*n + int64(i)%n
		s := 1 / (1 + math.Exp(-in[a]))
		wantOut[i] = in[a] * s * in[a+n]
		wantGrad[a], wantGrad[a+n] = grad[i]*in[a+n]*s*(1+in[a]*(1-s)), grad[i]*in[a]*s
	}
	allowed := map[dtype.Type]float64{dtype.Float32: 2e-6, dtype.Float16: 1e-3, dtype.BFloat16: 8e-3}[d]
	near := func(want []float64, v kernel.View, what string) {
		for i, got := range kerneltest.Values(v) {
			require.InDelta(t, want[i], got, allowed*(1+math.Abs(want[i])), "%s of %v %v %v at %d", what, d, l, shape, i)
		}
	}
	out, dx := kerneltest.New(t, d, l, half, nil), kerneltest.New(t, d, l, shape, nil)
	require.NoError(t, rowwise.SwishGate.Forward(out, kernel.View{}, x, axis))
	near(wantOut, out, "result")
	activated := kerneltest.New(t, d, l, half, nil)
	require.NoError(t, rowwise.SwishGate.Forward(out, activated, x, axis))
	near(wantOut, out, "result beside the activation")
	require.NoError(t, rowwise.SwishGate.Backward(dx, dy, x, axis))
	near(wantGrad, dx, "gradient")
	copied := kerneltest.New(t, d, l, shape, in)
	require.NoError(t, rowwise.SwishGate.Backward(copied, dy, copied, axis))
	near(wantGrad, copied, "gradient in place")
	over := kerneltest.New(t, d, kerneltest.Contiguous, shape, nil)
	part := over.Part(axis, 0, n, 1)
	require.NoError(t, elementwise.Map(elementwise.Identity, d, part, []elementwise.Input{elementwise.Of(dy)}))
	require.NoError(t, rowwise.SwishGate.Backward(over, part, x, axis))
	near(wantGrad, over, "gradient over that of the result")
	assert.Equal(t, in, kerneltest.Values(x))
}
