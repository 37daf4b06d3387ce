package resampling

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// TestThreeInterpolateBackward compares with the difference quotients of interpolation.
func TestThreeInterpolateBackward(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16} {
		for _, l := range kerneltest.Layouts {
			for _, whole := range []dtype.Type{dtype.Int32, dtype.Int64} {
				for _, s := range [][4]int64{{1, 1, 1, 1}, {2, 3, 5, 7}, {3, 17, 9, 4}, {1, 2, 33, 3}} {
					b, c, n, m := s[0], s[1], s[2], s[3]
					var places []float64
					for i := range b * n * 3 {
						places = append(places, float64((i*i+3*i)%m))
					}
					index := optest.TensorIn(t, whole, l, []int64{b, n, 3}, places...)
					weight := optest.Filled(t, 2, d, l, []int64{b, n, 3})
					w := optest.Values(weight)
					for _, chip := range []acceptance.Chip{acceptance.Ascend910B, acceptance.Ascend950} {
						from, to := []int64{b, c, n, 1}, []int64{b, c, m, 1}
						if chip == acceptance.Ascend950 {
							from, to = from[:3], to[:3]
						}
						dy, dx := optest.Filled(t, 1, d, l, from), optest.TensorIn(t, d, l, to)
						a := optest.Args{"grad_x": dy, "idx": index, "weight": weight, "m": m, "grad_y": dx}
						if chip == acceptance.Ascend950 {
							optest.RunOn(t, chip, "ThreeInterpolateBackward", a)
						} else {
							asNCHW(dy)
							asNCHW(dx)
							optest.Run(t, "ThreeInterpolateBackward", a)
						}
						interpolate := func(x []float64) (y []float64) {
							for i := range b * c * n {
								v := 0.0
								for k := range int64(3) {
									at := (i/n/c*n+i%n)*3 + k
									v += w[at] * x[i/n*m+int64(places[at])]
								}
								y = append(y, v)
							}
							return y
						}
						want := optest.Gradient(interpolate, optest.Values(dy), optest.Normal(3, dtype.Float32, b*c*m))
						optest.CloseTo(t, fmt.Sprint(d, l, whole, s, chip), want, optest.Values(dx), optest.ResultLimit(d))
					}
				}
			}
		}
	}
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return asNCHW(optest.Tensor(t, d, shape)) }
	f := dtype.Float32
	a := optest.Args{"grad_x": x(f, 2, 3, 5, 1), "idx": optest.Tensor(t, dtype.Int32, []int64{2, 5, 3}), "weight": optest.Tensor(t, f, []int64{2, 5, 3}), "m": 4, "grad_y": x(f, 2, 3, 4, 1)}
	for text, set := range map[string]optest.Args{
		"4 to 4 are supported":   {"grad_x": optest.Tensor(t, f, []int64{2, 3, 5})},
		"in format NCHW":         {"grad_x": optest.Tensor(t, f, []int64{2, 3, 5, 1})},
		"[b,c,n,1]":              {"grad_y": x(f, 2, 3, 4, 2)},
		"three places":           {"idx": optest.Tensor(t, dtype.Int32, []int64{2, 5, 4})},
		"one for each place":     {"weight": optest.Tensor(t, f, []int64{2, 4, 3})},
		"m points":               {"m": 5},
		"dtypes differ":          {"weight": optest.Tensor(t, dtype.Float16, []int64{2, 5, 3})},
		"dtype that is not supp": {"grad_x": x(dtype.BFloat16, 2, 3, 5, 1)},
	} {
		optest.Refused(t, op.InvalidParam, "ThreeInterpolateBackward", a.With(set), text)
	}
	optest.Refused(t, op.NullPointer, "ThreeInterpolateBackward", a.With(optest.Args{"idx": nil}), "idx is null")
	for _, place := range []float64{4, -1} {
		require.ErrorContains(t, optest.Execute(t, "ThreeInterpolateBackward", a.With(optest.Args{"idx": optest.Tensor(t, dtype.Int32, []int64{2, 5, 3}, place)})), "there are 4 points")
	}
}
