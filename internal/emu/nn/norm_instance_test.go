package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
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
					x, y, gamma, beta := filled(t, 1, d, l, shape), tensorIn(t, d, l, shape), filled(t, 2, d, l, s[1:2]), filled(t, 3, d, l, s[1:2])
					mean, variance := tensorIn(t, d, l, moments), tensorIn(t, d, l, moments)
					run(t, "InstanceNorm", args{"x": x, "gamma": gamma, "beta": beta, "dataFormat": format, "eps": eps, "y": y, "mean": mean, "variance": variance})
					in, n := values(of(permuted(x.View(), order))), int(s[2]*s[3])
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
							want = append(want, (e-m)/math.Sqrt(v+eps)*values(gamma)[k]+values(beta)[k])
						}
						means, variances = append(means, m), append(variances, v)
					}
					closeTo(t, what, want, values(of(permuted(y.View(), order))), 4*resultLimit(d))
					closeTo(t, what, means, values(mean), 4*resultLimit(d))
					closeTo(t, what, variances, values(variance), 4*resultLimit(d))
				}
			}
		}
	}
	f := dtype.Float32
	x, v, m := tensor(t, f, []int64{1, 2, 3, 3}, 1), tensor(t, f, []int64{2}, 1), tensor(t, f, []int64{1, 2, 1, 1})
	for _, c := range []struct {
		set  args
		code int32
		text string
	}{
		{args{"dataFormat": "CHWN"}, invalidParam, "NCHW or NHWC"}, {args{"dataFormat": nil}, nullPointer, "dataFormat"},
		{args{"gamma": tensor(t, f, []int64{3}, 1)}, invalidParam, "one for each channel"}, {args{"mean": v}, invalidParam, "of each image"},
		{args{"x": tensor(t, f, []int64{1, 2, 3}, 1)}, invalidParam, "dimensions"}, {args{"beta": nil}, nullPointer, "beta is null"},
	} {
		a := args{"x": x, "gamma": v, "beta": v, "dataFormat": "NCHW", "eps": eps, "y": x, "mean": m, "variance": m}
		for k, val := range c.set {
			a[k] = val
		}
		refused(t, c.code, "InstanceNorm", a, c.text)
	}
}
