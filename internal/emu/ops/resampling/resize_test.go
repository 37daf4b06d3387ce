package resampling

import (
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// Resize takes the ratios of the sizes, also where the factor rounds to them.
func TestResize(t *testing.T) {
	for _, s := range []struct{ in, out []int64 }{{[]int64{2, 3, 4, 5}, []int64{2, 3, 8, 5}}, {[]int64{1, 1, 5, 3}, []int64{1, 1, 3, 7}}, {[]int64{1, 2, 1, 1}, []int64{1, 2, 2, 3}}} {
		for _, mode := range []string{"nearest", "bilinear"} {
			for _, d := range op.FloatTypes {
				for _, l := range kerneltest.Layouts {
					for _, last := range []bool{false, true} {
						scales := []float32{1, 1, float32(s.out[2]) / float32(s.in[2]), float32(s.out[3]) / float32(s.in[3])}
						x, y := optest.Filled(t, 1, d, l, s.in), optest.TensorIn(t, d, l, s.out)
						want := scaledUp(s.in, s.out, mode, optest.Values(x))
						got := func() []float64 { return optest.Values(y) }
						x.Format, y.Format = dtype.NCHW, dtype.NCHW
						if last {
							shifted := func(v *op.Tensor) *op.Tensor {
								w := *v
								p := op.Permuted(v.View(), []int64{0, 2, 3, 1})
								w.Shape, w.Strides, w.Storage, w.Format = p.Shape, p.Strides, p.Shape, dtype.NHWC
								return &w
							}
							x, scales = shifted(x), []float32{1, scales[2], scales[3], 1}
							optest.Run(t, "Resize", optest.Args{"self": x, "scales": scales, "mode": mode, "out": shifted(y)})
						} else {
							optest.Run(t, "Resize", optest.Args{"self": x, "scales": scales, "mode": mode, "out": y})
						}
						optest.CloseTo(t, mode, want, got(), optest.ResultLimit(d))
					}
				}
			}
		}
	}
	nchw := func(d dtype.Type, shape ...int64) *op.Tensor { return asNCHW(optest.Tensor(t, d, shape, 1)) }
	a := optest.Args{"self": nchw(dtype.Float32, 1, 1, 2, 2), "scales": []float32{1, 1, 2, 2}, "mode": "nearest", "out": nchw(dtype.Float32, 1, 1, 4, 4)}
	optest.Refused(t, op.InvalidParam, "Resize", a.With(optest.Args{"mode": "cubic"}), `mode is "cubic"`)
	optest.Refused(t, op.NullPointer, "Resize", a.With(optest.Args{"mode": nil}), "mode is null")
	optest.Refused(t, op.InvalidParam, "Resize", a.With(optest.Args{"scales": []float32{1, 1, 2, 1}}))
	optest.Refused(t, op.InvalidParam, "Resize", a.With(optest.Args{"out": nchw(dtype.Float16, 1, 1, 4, 4)}), "dtypes differ")
}

// scaledUp resizes the last two dimensions.
func scaledUp(in, out []int64, mode string, x []float64) (y []float64) {
	if mode == "bilinear" {
		return resizeDefinition(optest.Hat, false, []float64{0, 0}, in, out, x)
	}
	optest.Walk(out, func(at []int64) {
		y = append(y, x[optest.Offset(in, []int64{at[0], at[1], at[2] * in[2] / out[2], at[3] * in[3] / out[3]})])
	})
	return y
}
