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

// TestAdamWWithSchedule: rates on the device give the update of the same rates on the host.
func TestAdamWWithSchedule(t *testing.T) {
	for _, shape := range [][]int64{{37}, {3, 5}, {}} {
		for _, dt := range opstest.FloatTypes {
			t.Run(fmt.Sprint(dt, shape), func(t *testing.T) {
				b := opstest.New(t)
				count := int64(1)
				for _, n := range shape {
					count *= n
				}
				zero := make([]float32, count)
				var params [2]*aclnn.Tensor
				for i, scheduled := range []bool{false, true} {
					param, _ := b.Input(dt, 1, shape...)
					params[i] = param
					a := ops.AdamWArgs{
						Param: param, ExpAvg: b.Floats(dt, zero, shape...), ExpAvgSq: b.Floats(dt, zero, shape...),
						LR: 0.01, Beta1: 0.9, Beta2: 0.98, Epsilon: 1e-6, WeightDecay: 0.1,
					}
					for step := 1; step <= 3; step++ {
						a.Grad, _ = b.Input(dt, uint64(10*step), shape...)
						a.Step, a.Schedule = step, nil
						if scheduled {
							rates := a.Rates()
							a.Schedule = b.Floats(aclnn.Float32, rates[:], 3)
							a.Step = 0
							require.Equal(t, "composite", b.AdamW().Explain(&a).Kernel)
						}
						opstest.Run(b, b.AdamW(), &a)
					}
				}
				b.Near("param", params[1], b.Read(params[0]), 3*opstest.Tolerance(dt))
			})
		}
	}
	b := opstest.New(t)
	param, _ := b.Input(aclnn.Float32, 1, 4)
	state := func() *aclnn.Tensor { return b.Floats(aclnn.Float32, make([]float32, 4), 4) }
	a := &ops.AdamWArgs{Param: param, Grad: state(), ExpAvg: state(), ExpAvgSq: state(), Schedule: state(), Beta2: .999, Epsilon: 1e-8}
	require.ErrorContains(t, b.AdamW().Run(t.Context(), b.Stream, a), "3 values of Rates")
}

func TestAdamW(t *testing.T) {
	reg, err := ops.NewRegistry(ops.Env{})
	require.NoError(t, err)
	for _, kernel := range reg.AdamW().Kernels() {
		for _, dt := range opstest.FloatTypes {
			for _, gradient := range opstest.FloatTypes {
				for _, c := range []struct {
					n                 int64
					amsgrad, maximize bool
				}{{1, false, false}, {37, true, false}, {64, false, true}, {0, false, false}} {
					t.Run(fmt.Sprintf("%s/%v/%v/%v", kernel, dt, gradient, c), func(t *testing.T) {
						b := opstest.New(t)
						require.NoError(t, b.AdamW().Pin(kernel))
						const lr, b1, b2, eps, decay = 0.01, 0.9, 0.98, 1e-6, 0.1
						param, p := b.Input(dt, 1, c.n)
						zero := make([]float32, c.n)
						a := &ops.AdamWArgs{
							Param: param, ExpAvg: b.Floats(dt, zero, c.n), ExpAvgSq: b.Floats(dt, zero, c.n),
							Copy: b.Empty(aclnn.BFloat16, c.n), LR: lr, Beta1: b1, Beta2: b2, Epsilon: eps, WeightDecay: decay, Maximize: c.maximize,
						}
						if c.amsgrad {
							a.MaxExpAvgSq = b.Floats(dt, zero, c.n)
						}
						m, v, top := make([]float64, c.n), make([]float64, c.n), make([]float64, c.n)
						for step := 1; step <= 3; step++ {
							grad, g := b.Input(gradient, uint64(10*step), c.n)
							a.Step, a.Grad = step, grad
							if kernel == "ApplyAdamWV2" && gradient != dt && (dt != aclnn.Float32 || c.amsgrad) {
								require.ErrorIs(t, b.AdamW().Run(t.Context(), b.Stream, a), ops.ErrNoKernel)
								return
							}
							opstest.Run(b, b.AdamW(), a)
							for i := range p {
								x := float64(g[i])
								if c.maximize {
									x = -x
								}
								m[i] = b1*m[i] + (1-b1)*x
								v[i] = b2*v[i] + (1-b2)*x*x
								top[i] = max(top[i], v[i])
								second := v[i]
								if c.amsgrad {
									second = top[i]
								}
								bias1, bias2 := 1-math.Pow(b1, float64(step)), 1-math.Pow(b2, float64(step))
								w := float64(p[i]) * (1 - lr*decay)
								p[i] = float32(w - lr/bias1*m[i]/(math.Sqrt(second)/math.Sqrt(bias2)+eps))
							}
							// 16-bit state is rounded at each step.
							limit := float64(step) * opstest.Tolerance(dt)
							b.Near("param", a.Param, p, limit)
							b.Near("m", a.ExpAvg, opstest.Convert(m, func(x float64) float32 { return float32(x) }), limit)
							b.Near("v", a.ExpAvgSq, opstest.Convert(v, func(x float64) float32 { return float32(x) }), limit)
							b.Near("copy", a.Copy, b.Read(a.Param), opstest.Tolerance(aclnn.BFloat16))
							if c.amsgrad {
								b.Near("max", a.MaxExpAvgSq, opstest.Convert(top, func(x float64) float32 { return float32(x) }), limit)
							}
						}
					})
				}
			}
		}
	}
}
