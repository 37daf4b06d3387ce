package convolution

import (
	"fmt"
	"math"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestDeformableConv2d(t *testing.T) {
	for _, s := range []struct {
		batch, channels, height, width int64
		filters, groups, shared        int64
		size, stride, pad, dilation    []int64
	}{
		{1, 6, 2, 4, 4, 2, 1, []int64{5, 5}, []int64{1, 1, 1, 1}, []int64{2, 2, 2, 2}, []int64{1, 1, 1, 1}},
		{2, 4, 5, 3, 2, 1, 2, []int64{2, 3}, []int64{1, 1, 2, 1}, []int64{1, 0, 2, 1}, []int64{1, 1, 1, 2}},
		{1, 1, 1, 1, 1, 1, 1, []int64{1, 1}, []int64{1, 1, 1, 1}, []int64{0, 0, 0, 0}, []int64{1, 1, 1, 1}},
	} {
		rows := (s.height+s.pad[0]+s.pad[1]-(s.size[0]-1)*s.dilation[2]-1)/s.stride[2] + 1
		columns := (s.width+s.pad[2]+s.pad[3]-(s.size[1]-1)*s.dilation[3]-1)/s.stride[3] + 1
		elements := s.size[0] * s.size[1]
		for _, d := range op.FloatTypes {
			for _, l := range kerneltest.Layouts {
				what := fmt.Sprintf("%+v %v %v", s, d, l)
				x, w := optest.Filled(t, 1, d, l, []int64{s.batch, s.channels, s.height, s.width}), optest.Filled(t, 2, d, l, []int64{s.filters, s.channels / s.groups, s.size[0], s.size[1]})
				offset, bias := optest.Filled(t, 3, d, l, []int64{s.batch, 3 * s.shared * elements, rows, columns}), optest.Filled(t, 4, d, l, []int64{s.filters})
				out, sampled := optest.TensorIn(t, d, l, []int64{s.batch, s.filters, rows, columns}), optest.TensorIn(t, d, l, []int64{s.batch, s.channels, rows * s.size[0], columns * s.size[1]})
				a := optest.Args{
					"x": x, "weight": w, "offset": offset, "biasOptional": bias, "kernelSize": s.size, "stride": s.stride, "padding": s.pad, "dilation": s.dilation, "groups": s.groups,
					"deformableGroups": s.shared, "modulated": true, "out": out, "deformOutOptional": sampled,
				}
				optest.Run(t, "DeformableConv2d", a)
				vx, vw, vo, vb := optest.Values(x), optest.Values(w), optest.Values(offset), optest.Values(bias)
				sample := func(n, c, row, column, i, j int64) float64 {
					g, k := c/(s.channels/s.shared), i*s.size[1]+j
					at := func(kind int64) float64 {
						return vo[((n*3*s.shared*elements+(kind*s.shared+g)*elements+k)*rows+row)*columns+column]
					}
					px := float64(column*s.stride[3]-s.pad[2]+j*s.dilation[3]) + at(0)
					py := float64(row*s.stride[2]-s.pad[0]+i*s.dilation[2]) + at(1)
					sum := 0.0
					for y := range s.height {
						for x := range s.width {
							sum += optest.Hat(px-float64(x)) * optest.Hat(py-float64(y)) * vx[((n*s.channels+c)*s.height+y)*s.width+x]
						}
					}
					return sum * at(2)
				}
				var wantSampled, want []float64
				optest.Walk(sampled.Shape, func(at []int64) {
					wantSampled = append(wantSampled, sample(at[0], at[1], at[2]/s.size[0], at[3]/s.size[1], at[2]%s.size[0], at[3]%s.size[1]))
				})
				within := s.channels / s.groups
				optest.Walk(out.Shape, func(at []int64) {
					sum := vb[at[1]]
					for c := range within {
						channel := at[1]/(s.filters/s.groups)*within + c
						for k := range elements {
							i, j := k/s.size[1], k%s.size[1]
							place := ((at[0]*s.channels+channel)*rows*s.size[0]+at[2]*s.size[0]+i)*columns*s.size[1] + at[3]*s.size[1] + j
							sum += vw[(at[1]*within+c)*elements+k] * wantSampled[place]
						}
					}
					want = append(want, sum)
				})
				optest.CloseTo(t, "places of "+what, wantSampled, optest.Values(sampled), math.Max(2*optest.ResultLimit(d), 1e-5))
				optest.CloseTo(t, what, want, optest.Values(out), math.Max(2*optest.ResultLimit(d), 1e-5))
				optest.Run(t, "DeformableConv2d", a.With(optest.Args{"deformOutOptional": nil}))
				for text, set := range map[string]optest.Args{
					"modulated is false": {"modulated": false}, "stride": {"stride": []int64{2, 1, 1, 1}}, "padding": {"padding": []int64{-1, 0, 0, 0}}, "kernelSize": {"kernelSize": []int64{3}},
					"deformableGroups 0": {"deformableGroups": 0}, "two offsets and a factor": {"offset": out}, "dtype": {"biasOptional": optest.Tensor(t, dtype.Float64, []int64{s.filters}, 1)},
				} {
					optest.Refused(t, op.InvalidParam, "DeformableConv2d", a.With(set), text)
				}
				optest.Refused(t, op.NullPointer, "DeformableConv2d", a.With(optest.Args{"weight": nil}), "weight is null")
			}
		}
	}
}
