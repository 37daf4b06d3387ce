package normalization

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/kernel/minifloat"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestRmsNormGradQuant(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, c := range []struct{ shape, gamma []int64 }{{[]int64{3, 5}, []int64{5}}, {[]int64{2, 3, 4}, []int64{3, 4}}, {[]int64{2, 1}, []int64{1}}} {
				for _, to := range []dtype.Type{dtype.Int8, dtype.HiFloat8} {
					for _, divide := range []bool{false, true} {
						for _, offset := range []bool{false, true} {
							what := fmt.Sprintf("%v %v %v to %v, divide %v, offset %v", d, l, c, to, divide, offset)
							n := op.Count(c.gamma)
							rows := op.Count(c.shape) / n
							x, dy, gamma := optest.Filled(t, 1, d, l, c.shape), optest.Filled(t, 2, d, l, c.shape), optest.Filled(t, 3, d, kerneltest.Contiguous, c.gamma)
							xs, dys, gs := optest.Values(x), optest.Values(dy), optest.Values(gamma)
							rstd := make([]float64, rows)
							for i := range xs {
								rstd[int64(i)/n] += xs[i] * xs[i] / float64(n)
							}
							for r := range rstd {
								rstd[r] = float64(float32(1 / math.Sqrt(rstd[r]+1e-6)))
							}
							dx, dgamma := optest.TensorIn(t, to, l, c.shape), optest.Tensor(t, dtype.Float32, c.gamma)
							a := optest.Args{
								"dy": dy, "x": x, "rstd": optest.Tensor(t, dtype.Float32, c.shape[:len(c.shape)-len(c.gamma)], rstd...), "gamma": gamma, "scalesX": optest.Tensor(t, dtype.Float32, []int64{1}, 8),
								"quantMode": "static", "divMode": divide, "dxOut": dx, "dgammaOut": dgamma,
							}
							scale, zero := 8.0, 0.0
							if divide {
								scale = 1. / 8
							}
							if offset {
								a["offsetXOptional"], zero = optest.Tensor(t, dtype.Int32, []int64{1}, 3), 3
							}
							optest.Run(t, "RmsNormGradQuant", a)
							got, err := minifloat.Read(dx.View())
							require.NoError(t, err)
							dg := make([]float64, n)
							for r := range rows {
								mean := 0.0
								for j := range n {
									i := r*n + j
									mean += dys[i] * gs[j] * xs[i] * rstd[r] / float64(n)
									dg[j] += dys[i] * xs[i] * rstd[r]
								}
								for j := range n {
									i := r*n + j
									want := (dys[i]*gs[j]-xs[i]*rstd[r]*mean)*rstd[r]*scale + zero
									limit := 0.501
									if to == dtype.Int8 {
										want = min(max(want, -128), 127)
									} else {
										limit = math.Abs(want)*0.126 + 1e-2 // half a step of numbers from 1/128 on
									}
									require.InDelta(t, want, got[i], limit, "%s: %d", what, i)
								}
							}
							optest.CloseTo(t, what, dg, optest.Values(dgamma), 1e-5)
						}
					}
				}
			}
		}
	}
}

func TestRmsNormGradQuantRefuses(t *testing.T) {
	f := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.Float32, shape, 1) }
	a := optest.Args{"dy": f(2, 3), "x": f(2, 3), "rstd": f(2), "gamma": f(3), "scalesX": f(1), "quantMode": "static", "dxOut": optest.Tensor(t, dtype.Int8, []int64{2, 3}), "dgammaOut": f(3)}
	for name, c := range map[string]struct {
		set  optest.Args
		code int32
	}{
		"null": {optest.Args{"rstd": nil}, op.NullPointer}, "mode": {optest.Args{"quantMode": "dynamic"}, op.TilingRefused}, "dx": {optest.Args{"dxOut": f(2, 3)}, op.NoKernel}, "scale": {optest.Args{"scalesX": f(2)}, op.TilingRefused},
		"offset": {optest.Args{"offsetXOptional": f(1)}, op.NoKernel}, "dy": {optest.Args{"dy": f(3, 2)}, op.TilingRefused}, "dgamma": {optest.Args{"dgammaOut": f(2)}, op.TilingRefused},
		"gamma": {optest.Args{"gamma": f(2), "dgammaOut": f(2)}, op.InvalidParam},
	} {
		t.Run(name, func(t *testing.T) { optest.Refused(t, c.code, "RmsNormGradQuant", a.With(c.set)) })
	}
}
