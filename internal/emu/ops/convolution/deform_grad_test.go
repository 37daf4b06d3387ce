package convolution

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// deformedTest is a test case of a deformable convolution.
type deformedTest struct {
	batch, channels, height, width int64
	filters, groups, shared        int64
	size, stride, pad, dilation    []int64
}

func (s deformedTest) positions() (rows, columns int64) {
	return (s.height+s.pad[0]+s.pad[1]-(s.size[0]-1)*s.dilation[2]-1)/s.stride[2] + 1, (s.width+s.pad[2]+s.pad[3]-(s.size[1]-1)*s.dilation[3]-1)/s.stride[3] + 1
}

// sum returns the sum of all results, each times its number in grad, by the definition of the
// convolution.
func (s deformedTest) sum(grad, x, w, offset, bias []float64) (total float64) {
	rows, columns := s.positions()
	elements, within := s.size[0]*s.size[1], s.channels/s.groups
	optest.Walk([]int64{s.batch, s.filters, rows, columns}, func(at []int64) {
		n, filter, row, column := at[0], at[1], at[2], at[3]
		y := bias[filter]
		for c := range within {
			channel := filter/(s.filters/s.groups)*within + c
			g := channel / (s.channels / s.shared)
			for k := range elements {
				offset := func(kind int64) float64 {
					return offset[((n*3*s.shared*elements+(kind*s.shared+g)*elements+k)*rows+row)*columns+column]
				}
				px := float64(column*s.stride[3]-s.pad[2]+k%s.size[1]*s.dilation[3]) + offset(0)
				py := float64(row*s.stride[2]-s.pad[0]+k/s.size[1]*s.dilation[2]) + offset(1)
				for i := range s.height {
					for j := range s.width {
						y += w[(filter*within+c)*elements+k] * offset(2) * optest.Hat(px-float64(j)) * optest.Hat(py-float64(i)) * x[((n*s.channels+channel)*s.height+i)*s.width+j]
					}
				}
			}
		}
		total += grad[((n*s.filters+filter)*rows+row)*columns+column] * y
	})
	return total
}

// The gradients agree with the derivative of the sum along any direction.
func TestDeformableConv2dBackward(t *testing.T) {
	const step = 1e-6
	for _, s := range []deformedTest{
		{1, 6, 2, 4, 4, 2, 1, []int64{3, 2}, []int64{1, 1, 1, 1}, []int64{2, 1, 2, 0}, []int64{1, 1, 1, 1}},
		{2, 4, 5, 3, 2, 1, 2, []int64{2, 3}, []int64{1, 1, 2, 1}, []int64{1, 0, 2, 1}, []int64{1, 1, 1, 2}},
		{1, 1, 1, 1, 1, 1, 1, []int64{1, 1}, []int64{1, 1, 1, 1}, []int64{0, 0, 0, 0}, []int64{1, 1, 1, 1}},
	} {
		rows, columns := s.positions()
		shapes := [][]int64{
			{s.batch, s.channels, s.height, s.width}, {s.filters, s.channels / s.groups, s.size[0], s.size[1]}, {s.batch, 3 * s.shared * s.size[0] * s.size[1], rows, columns}, {s.filters},
		}
		for _, d := range op.FloatTypes {
			for _, l := range kerneltest.Layouts {
				what := fmt.Sprintf("%+v %v %v", s, d, l)
				var inputs, grads []*op.Tensor
				var numbers [][]float64
				for i, shape := range shapes {
					inputs, grads = append(inputs, optest.Filled(t, uint64(1+i), d, l, shape)), append(grads, optest.TensorIn(t, d, l, shape))
					numbers = append(numbers, optest.Values(inputs[i]))
				}
				grad := optest.Filled(t, 9, d, l, []int64{s.batch, s.filters, rows, columns})
				samples := optest.TensorIn(t, d, l, []int64{s.batch, s.channels, rows * s.size[0], columns * s.size[1]})
				both := optest.Args{"kernelSize": s.size, "stride": s.stride, "padding": s.pad, "dilation": s.dilation, "groups": s.groups, "deformableGroups": s.shared, "modulated": true, "weight": inputs[1], "offset": inputs[2]}
				optest.Run(t, "DeformableConv2d", both.With(optest.Args{"x": inputs[0], "out": optest.TensorIn(t, d, l, grad.Shape), "deformOutOptional": samples}))
				a := both.With(optest.Args{"input": inputs[0], "gradOutput": grad, "offsetOut": samples, "gradInput": grads[0], "gradWeight": grads[1], "gradOffset": grads[2], "gradBias": grads[3]})
				optest.Run(t, "DeformableConv2dBackward", a)
				vg := optest.Values(grad)
				for i, name := range []string{"input", "weight", "offset", "bias"} {
					got := optest.Values(grads[i])
					for direction := range uint64(3) {
						along := optest.Normal(20+direction, dtype.Float32, int64(len(got)))
						at := func(far float64) float64 {
							shifted := append([]float64{}, numbers[i]...)
							for k := range shifted {
								shifted[k] += far * along[k]
							}
							all := append([][]float64{}, numbers...)
							all[i] = shifted
							return s.sum(vg, all[0], all[1], all[2], all[3])
						}
						want, slope, size := (at(step)-at(-step))/(2*step), 0.0, 0.0
						for k, v := range got {
							slope += v * along[k]
							size += math.Abs(v * along[k])
						}
						require.InDelta(t, want, slope, math.Max(4*optest.ResultLimit(d), 1e-4)*math.Max(size, 1), "%s of %s", name, what)
					}
				}
				for text, set := range map[string]optest.Args{
					"modulated is false": {"modulated": false}, "the sample of each": {"offsetOut": inputs[0]}, "shapes differ": {"gradWeight": optest.Tensor(t, d, []int64{2})}, "one for each filter": {"gradBias": optest.Tensor(t, d, []int64{s.filters + 1})},
					"dtypes differ": {"gradOffset": optest.Tensor(t, otherFloat(d), shapes[2])},
				} {
					if text == "the sample of each" && samples.Len() == inputs[0].Len() {
						continue
					}
					optest.Refused(t, op.InvalidParam, "DeformableConv2dBackward", a.With(set), text)
				}
				optest.Refused(t, op.NullPointer, "DeformableConv2dBackward", a.With(optest.Args{"gradBias": nil}), "gradBias is null")
			}
		}
	}
}

// otherFloat returns a floating-point type that differs from d.
func otherFloat(d dtype.Type) dtype.Type {
	if d == dtype.Float32 {
		return dtype.Float16
	}
	return dtype.Float32
}
