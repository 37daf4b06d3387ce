package ops_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
)

// TestAddRMSNorm compares every kernel with the definition, whose norm is that of the rounded sum.
func TestAddRMSNorm(t *testing.T) {
	acltest.Need(t)
	for _, kernel := range []string{"AddRmsNorm", "separate"} {
		t.Run(kernel, func(t *testing.T) {
			b := opstest.New(t)
			require.NoError(t, b.AddRMSNorm().Pin(kernel))
			for _, dt := range []aclnn.DType{aclnn.Float32, aclnn.Float16, aclnn.BFloat16} {
				for _, shape := range [][]int64{{1, 1}, {3, 7}, {2, 1, 33}, {5, 128}, {0, 8}} {
					n, width := int64(1), shape[len(shape)-1]
					for _, d := range shape {
						n *= d
					}
					x, r, w := make([]float32, n), make([]float32, n), make([]float32, width)
					for i := range x {
						x[i], r[i] = float32(i*7%23-11)/8, float32(i*5%19-9)/4
					}
					for i := range w {
						w[i] = float32(i%5-2) / 2
					}
					stats := append(append([]int64{}, shape[:len(shape)-1]...), 1)
					a := &ops.AddRMSNormArgs{
						X: b.Floats(dt, x, shape...), Residual: b.Floats(dt, r, shape...), Weight: b.Floats(dt, w, width), Epsilon: 1e-6,
						Sum: b.Empty(dt, shape...), Out: b.Empty(dt, shape...), RStd: b.Empty(aclnn.Float32, stats...),
					}
					opstest.Run(b, b.AddRMSNorm(), a)
					var out, rstd []float32
					for row := int64(0); row < n; row += width {
						total := 0.0
						for i := row; i < row+width; i++ {
							x[i] += r[i]
							total += float64(x[i]) * float64(x[i])
						}
						scale := 1 / math.Sqrt(total/float64(width)+1e-6)
						rstd = append(rstd, float32(scale))
						for i := range width {
							out = append(out, float32(float64(x[row+i])*scale)*w[i])
						}
					}
					require.Equal(t, x, b.Read(a.Sum), "the sums are exact in every dtype")
					b.Near("out", a.Out, out, opstest.Tolerance(dt))
					b.Near("rstd", a.RStd, rstd, 1e-5)
					a.RStd = nil
					opstest.Run(b, b.AddRMSNorm(), a)
					b.Near("out without rstd", a.Out, out, opstest.Tolerance(dt))
				}
			}
		})
	}
	b := opstest.New(t)
	f := func(dt aclnn.DType, shape ...int64) *aclnn.Tensor { return b.Empty(dt, shape...) }
	a := &ops.AddRMSNormArgs{X: f(aclnn.BFloat16, 2, 8), Residual: f(aclnn.BFloat16, 2, 8), Weight: f(aclnn.Float32, 8), Sum: f(aclnn.BFloat16, 2, 8), Out: f(aclnn.BFloat16, 2, 8), Epsilon: 1e-6}
	require.Equal(t, "add_rms_norm: separate; not AddRmsNorm: the weight is float32 and the features bfloat16; AddRmsNorm takes one dtype", b.AddRMSNorm().Explain(a).String())
	opstest.Run(b, b.AddRMSNorm(), a)
	a.Residual = f(aclnn.BFloat16, 2, 7)
	require.ErrorIs(t, b.AddRMSNorm().Run(t.Context(), b.Stream, a), ops.ErrInvalid)
	a.Residual, a.Sum = a.X, f(aclnn.Float32, 2, 8)
	require.ErrorContains(t, b.AddRMSNorm().Run(t.Context(), b.Stream, a), "Sum is float32[2,8]ND")
	a.Sum, a.Out = a.X, nil
	require.ErrorContains(t, b.AddRMSNorm().Run(t.Context(), b.Stream, a), "Out is nil")
}
