package convolution

import (
	"fmt"
	"testing"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func formatted(x *op.Tensor, f dtype.Format) *op.Tensor {
	x.Format = f
	return x
}

// The sums of the convolution have their own test; this one tests their scaling.
func TestQuantConvolution(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		for _, l := range kerneltest.Layouts {
			for _, spatial := range [][]int64{{4, 5}, {3, 4, 5}} {
				n := len(spatial)
				x := optest.TensorIn(t, dtype.Int8, l, append([]int64{2, 3}, spatial...), 5, -3, 127, 0, 2, -7, -128)
				window := append([]int64{2, 3}, []int64{3, 3, 3}[:n]...)
				w := optest.TensorIn(t, dtype.Int8, l, window, 1, 2, -1, 0, 3)
				one := []int64{1, 1, 1}[:n]
				shape := append([]int64{2, 2}, spatial...)
				f := dtype.Float32
				sums := optest.Tensor(t, f, shape)
				optest.Run(t, "Convolution", optest.Args{"input": optest.Tensor(t, f, x.Shape, optest.Values(x)...), "weight": optest.Tensor(t, f, w.Shape, optest.Values(w)...), "stride": one, "padding": one, "dilation": one, "outputPadding": one, "groups": 1, "output": sums})
				out := optest.TensorIn(t, d, l, shape)
				scale, bias := []float64{.5, .125}, []float64{3, -1}
				a := optest.Args{
					"input": x, "weight": w, "scale": optest.Tensor(t, f, []int64{2}, scale...), "bias": optest.Tensor(t, f, []int64{2}, bias...), "stride": one, "padding": one, "dilation": one,
					"outputPadding": one, "groups": 1, "roundMode": "rint", "output": out,
				}
				for _, image := range []*op.Tensor{x, w, out} {
					image.Format = map[int]dtype.Format{2: dtype.NCHW, 3: dtype.NCDHW}[n]
				}
				optest.Run(t, "QuantConvolution", a)
				want, cell := optest.Values(sums), int(op.Count(spatial))
				for i := range want {
					want[i] = want[i]*scale[i/cell%2] + bias[i/cell%2]
				}
				optest.CloseTo(t, fmt.Sprintf("%v %v %v", d, l, spatial), want, optest.Values(out), optest.ResultLimit(d))
				optest.Refused(t, op.NullPointer, "QuantConvolution", a.With(optest.Args{"bias": nil}), "bias is null")
				optest.RunOn(t, acceptance.Ascend950, "QuantConvolution", a.With(optest.Args{"bias": nil}))
				for i := range want {
					want[i] -= bias[i/cell%2]
				}
				optest.CloseTo(t, "without bias", want, optest.Values(out), optest.ResultLimit(d))
				for text, set := range map[string]optest.Args{
					"groups 2": {"groups": 2}, "one for each filter": {"scale": optest.Tensor(t, f, []int64{3}, 1)}, "the convolution of": {"output": formatted(optest.Tensor(t, d, append([]int64{2, 3}, spatial...)), x.Format)}, "in format": {"output": optest.Tensor(t, d, shape)},
					"bias":  {"bias": optest.Tensor(t, dtype.Int32, []int64{2})},
					"dtype": {"input": optest.Tensor(t, f, x.Shape, 1)}, "not supported": {"offset": optest.Tensor(t, f, []int64{2}, 1)},
				} {
					optest.Refused(t, op.InvalidParam, "QuantConvolution", a.With(set), text)
				}
				optest.Refused(t, op.NullPointer, "QuantConvolution", a.With(optest.Args{"scale": nil}), "scale is null")
			}
		}
	}
}
