package ops_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
)

func TestClipGradNorm(t *testing.T) {
	reg, err := ops.NewRegistry(ops.Env{})
	require.NoError(t, err)
	wide := []aclnn.DType{aclnn.Float32}
	for _, kernel := range reg.ClipGradNorm().Kernels() {
		for _, c := range []struct {
			name   string
			dtypes []aclnn.DType
			shapes [][]int64
			max    float64
		}{
			{"clipped", wide, [][]int64{{3, 4}, {7}, {}, {0}, {2, 1, 5}}, 1},
			{"within", wide, [][]int64{{3, 4}, {7}}, 1e3},
			{"norm only", wide, [][]int64{{3, 4}}, 0},
			{"nothing", wide, nil, 1},
			{"empty", wide, [][]int64{{0}, {3, 0}}, 1},
			{"mixed", opstest.FloatTypes, [][]int64{{3, 4}, {7}, {40}, {5}}, 1},
			{"many", wide, make([][]int64, 101), 0.5},
		} {
			t.Run(kernel+"/"+c.name, func(t *testing.T) {
				b := opstest.New(t)
				require.NoError(t, b.ClipGradNorm().Pin(kernel))
				a := &ops.ClipGradNormArgs{MaxNorm: c.max, Norm: b.Empty(aclnn.Float32)}
				var values [][]float32
				square := 0.0
				for i, shape := range c.shapes {
					g, v := b.Input(c.dtypes[i%len(c.dtypes)], uint64(i), shape...)
					a.Grads, values = append(a.Grads, g), append(values, v)
					for _, x := range v {
						square += float64(x) * float64(x)
					}
				}
				if kernel == "ForeachNorm" && len(c.dtypes) > 1 {
					require.ErrorIs(t, b.ClipGradNorm().Run(t.Context(), b.Stream, a), ops.ErrNoKernel)
					require.ErrorContains(t, b.ClipGradNorm().Run(t.Context(), b.Stream, a), "would round its norm to 16 bits")
					return
				}
				opstest.Run(b, b.ClipGradNorm(), a)
				norm := math.Sqrt(square)
				require.InDelta(t, norm, b.Read(a.Norm)[0], 1e-5*norm)
				factor := 1.0
				if c.max > 0 {
					factor = min(1, c.max/(norm+1e-6))
				}
				for i, g := range a.Grads {
					want := opstest.Convert(values[i], func(x float32) float32 { return float32(float64(x) * factor) })
					b.Near(fmt.Sprint(g), g, want, opstest.Tolerance(g.DType()))
				}
			})
		}
	}
}

// TestClipGradNormViews checks that gradients may be views, and that Norm may have one dimension or
// be nil.
func TestClipGradNormViews(t *testing.T) {
	b := opstest.New(t)
	whole, values := b.Input(aclnn.Float32, 1, 6, 4)
	part := whole.Narrow(0, 2, 3)
	norm := b.Empty(aclnn.Float32, 1)
	opstest.Run(b, b.ClipGradNorm(), &ops.ClipGradNormArgs{Grads: []*aclnn.Tensor{part}, MaxNorm: 0.1, Norm: norm})
	square := 0.0
	for _, x := range values[8:20] {
		square += float64(x) * float64(x)
	}
	require.InDelta(t, math.Sqrt(square), b.Read(norm)[0], 1e-5)
	got := b.Read(whole)
	require.Equal(t, values[:8], got[:8], "rows outside of the view stay")
	require.Equal(t, values[20:], got[20:])
	opstest.Run(b, b.ClipGradNorm(), &ops.ClipGradNormArgs{Grads: []*aclnn.Tensor{part}, MaxNorm: 1})
	square = 0
	for _, x := range b.Read(part) {
		square += float64(x) * float64(x)
	}
	require.InDelta(t, 0.1, math.Sqrt(square), 1e-5, "a small norm stays")
}
