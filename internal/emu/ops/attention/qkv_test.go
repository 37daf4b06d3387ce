package attention

import (
	"fmt"
	"math"
	"testing"

	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestTransformBiasRescaleQkv(t *testing.T) {
	for _, s := range []struct{ batch, tokens, heads, dim int64 }{{2, 3, 2, 5}, {1, 1, 1, 1}, {0, 2, 2, 2}} {
		for _, d := range op.FloatTypes {
			for _, l := range kerneltest.Layouts {
				what := fmt.Sprintf("%v %v %v", s, d, l)
				width := 3 * s.heads * s.dim
				x, bias := optest.Filled(t, 1, d, l, []int64{s.batch, s.tokens, width}), optest.Filled(t, 2, d, l, []int64{width})
				shape := []int64{s.batch, s.heads, s.tokens, s.dim}
				outs := []*op.Tensor{optest.TensorIn(t, d, l, shape), optest.TensorIn(t, d, l, shape), optest.TensorIn(t, d, l, shape)}
				a := optest.Args{"qkv": x, "qkvBias": bias, "numHeads": s.heads, "qOut": outs[0], "kOut": outs[1], "vOut": outs[2]}
				optest.Run(t, "TransformBiasRescaleQkv", a)
				for i, out := range outs {
					var want []float64
					optest.Walk(shape, func(at []int64) {
						column := (int64(i)*s.heads+at[1])*s.dim + at[3]
						v := optest.Values(x)[(at[0]*s.tokens+at[2])*width+column] + optest.Values(bias)[column]
						if i == 0 {
							v /= math.Sqrt(float64(s.dim))
						}
						want = append(want, v)
					})
					optest.CloseTo(t, what, want, optest.Values(out), optest.ResultLimit(d))
				}
				optest.Refused(t, op.InvalidParam, "TransformBiasRescaleQkv", a.With(optest.Args{"numHeads": 7}), "numHeads is 7")
				optest.Refused(t, op.InvalidParam, "TransformBiasRescaleQkv", a.With(optest.Args{"qkvBias": optest.Tensor(t, d, []int64{1}, 1)}), "one for each column")
				optest.Refused(t, op.NullPointer, "TransformBiasRescaleQkv", a.With(optest.Args{"kOut": nil}), "kOut is null")
			}
		}
	}
}
