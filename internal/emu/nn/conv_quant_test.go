package nn

import (
	"fmt"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// The convolution of numbers is tested elsewhere; this one scales the same sums.
func TestQuantConvolution(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16, dtype.Float32} {
		for _, l := range kerneltest.Layouts {
			for _, spatial := range [][]int64{{4, 5}, {3, 4, 5}} {
				n := len(spatial)
				x := tensorIn(t, dtype.Int8, l, append([]int64{2, 3}, spatial...), 5, -3, 127, 0, 2, -7, -128)
				window := append([]int64{2, 3}, []int64{3, 3, 3}[:n]...)
				w := tensorIn(t, dtype.Int8, l, window, 1, 2, -1, 0, 3)
				one := []int64{1, 1, 1}[:n]
				shape := append([]int64{2, 2}, spatial...)
				f := dtype.Float32
				sums := tensor(t, f, shape)
				run(t, "Convolution", args{"input": tensor(t, f, x.Shape, values(x)...), "weight": tensor(t, f, w.Shape, values(w)...), "stride": one, "padding": one, "dilation": one, "outputPadding": one, "groups": 1, "output": sums})
				out := tensorIn(t, d, l, shape)
				scale, bias := []float64{.5, .125}, []float64{3, -1}
				a := args{
					"input": x, "weight": w, "scale": tensor(t, f, []int64{2}, scale...), "bias": tensor(t, f, []int64{2}, bias...), "stride": one, "padding": one, "dilation": one,
					"outputPadding": one, "groups": 1, "roundMode": "rint", "output": out,
				}
				run(t, "QuantConvolution", a)
				want, cell := values(sums), int(count(spatial))
				for i := range want {
					want[i] = want[i]*scale[i/cell%2] + bias[i/cell%2]
				}
				closeTo(t, fmt.Sprintf("%v %v %v", d, l, spatial), want, values(out), resultLimit(d))
				run(t, "QuantConvolution", a.with(args{"bias": nil}))
				for i := range want {
					want[i] -= bias[i/cell%2]
				}
				closeTo(t, "without bias", want, values(out), resultLimit(d))
				for text, set := range map[string]args{
					"groups 2": {"groups": 2}, "one for each filter": {"scale": tensor(t, f, []int64{3}, 1)}, "the convolution of": {"output": tensor(t, d, append([]int64{2, 3}, spatial...))},
					"dtype": {"input": tensor(t, f, x.Shape, 1)}, "not supported": {"offset": tensor(t, f, []int64{2}, 1)},
				} {
					refused(t, invalidParam, "QuantConvolution", a.with(set), text)
				}
				refused(t, nullPointer, "QuantConvolution", a.with(args{"scale": nil}), "scale is null")
			}
		}
	}
}
