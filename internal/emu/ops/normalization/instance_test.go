package normalization

import (
	"fmt"
	"math"
	"testing"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestInstanceNorm(t *testing.T) {
	const eps = 1e-3
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16} {
		for _, l := range kerneltest.Layouts {
			for _, s := range [][]int64{{1, 1, 1, 1}, {2, 3, 4, 5}, {3, 1, 2, 7}, {0, 2, 3, 4}} {
				for _, format := range []string{"NCHW", "NHWC"} {
					what := fmt.Sprintf("%v %v %v %s", d, l, s, format)
					order, moments := []int64{0, 1, 2, 3}, []int64{s[0], s[1], 1, 1}
					shape := s
					if format == "NHWC" {
						order, moments, shape = []int64{0, 3, 1, 2}, []int64{s[0], 1, 1, s[1]}, []int64{s[0], s[2], s[3], s[1]}
					}
					x, y, gamma, beta := optest.Filled(t, 1, d, l, shape), optest.TensorIn(t, d, l, shape), optest.Filled(t, 2, d, l, s[1:2]), optest.Filled(t, 3, d, l, s[1:2])
					mean, variance := optest.TensorIn(t, d, l, moments), optest.TensorIn(t, d, l, moments)
					optest.Run(t, "InstanceNorm", optest.Args{"x": x, "gamma": gamma, "beta": beta, "dataFormat": format, "eps": eps, "y": y, "mean": mean, "variance": variance})
					in, n := optest.Values(optest.Of(op.Permuted(x.View(), order))), int(s[2]*s[3])
					var want, means, variances []float64
					for at := 0; at < len(in); at += n {
						m, v := 0.0, 0.0
						for _, e := range in[at : at+n] {
							m += e / float64(n)
						}
						for _, e := range in[at : at+n] {
							v += (e - m) * (e - m) / float64(n)
						}
						k := at / n % int(s[1])
						for _, e := range in[at : at+n] {
							want = append(want, (e-m)/math.Sqrt(v+eps)*optest.Values(gamma)[k]+optest.Values(beta)[k])
						}
						means, variances = append(means, m), append(variances, v)
					}
					optest.CloseTo(t, what, want, optest.Values(optest.Of(op.Permuted(y.View(), order))), 4*optest.ResultLimit(d))
					optest.CloseTo(t, what, means, optest.Values(mean), 4*optest.ResultLimit(d))
					optest.CloseTo(t, what, variances, optest.Values(variance), 4*optest.ResultLimit(d))
				}
			}
		}
	}
	f := dtype.Float32
	x, v, m := optest.Tensor(t, f, []int64{1, 2, 3, 3}, 1), optest.Tensor(t, f, []int64{2}, 1), optest.Tensor(t, f, []int64{1, 2, 1, 1})
	for _, c := range []struct {
		set  optest.Args
		code int32
		text string
	}{
		{optest.Args{"dataFormat": "CHWN"}, op.InvalidParam, "NCHW or NHWC"}, {optest.Args{"dataFormat": nil}, op.NullPointer, "dataFormat"},
		{optest.Args{"gamma": optest.Tensor(t, f, []int64{3}, 1)}, op.InvalidParam, "one for each channel"}, {optest.Args{"mean": v}, op.InvalidParam, "of each image"},
		{optest.Args{"x": optest.Tensor(t, f, []int64{1, 2, 3}, 1)}, op.InvalidParam, "dimensions"}, {optest.Args{"beta": nil}, op.NullPointer, "beta is null"},
	} {
		a := optest.Args{"x": x, "gamma": v, "beta": v, "dataFormat": "NCHW", "eps": eps, "y": x, "mean": m, "variance": m}
		for k, val := range c.set {
			a[k] = val
		}
		optest.Refused(t, c.code, "InstanceNorm", a, c.text)
	}
	// The Ascend310P does nothing for any empty tensor.
	none := optest.Args{
		"y": optest.Tensor(t, f, []int64{1, 2, 0, 3}), "mean": optest.Tensor(t, f, []int64{0, 2, 1, 1}), "variance": optest.Tensor(t, f, []int64{0, 2, 1, 1}),
	}
	for name, empty := range none {
		a := optest.Args{"x": x, "gamma": v, "beta": v, "dataFormat": "NCHW", "eps": eps, "y": optest.Tensor(t, f, []int64{1, 2, 3, 3}), "mean": m, "variance": m}
		a[name] = empty
		optest.RunOn(t, acceptance.Ascend310P, "InstanceNorm", a)
	}
}
