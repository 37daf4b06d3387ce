package activation

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestScaledMaskedSoftmax(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, maskShape := range [][]int64{{2, 3, 2, 7}, {2, 1, 2, 7}, {1, 3, 2, 7}, {1, 1, 2, 7}} {
				shape := []int64{2, 3, 2, 7}
				x, y, dx, dy := optest.Filled(t, 1, d, l, shape), optest.TensorIn(t, d, l, shape), optest.TensorIn(t, d, l, shape), optest.Filled(t, 2, d, l, shape)
				mask := optest.TensorIn(t, dtype.Bool, l, maskShape, 0, 1, 0, 0, 1)
				whole, err := mask.View().Broadcast(shape)
				assert.NoError(t, err)
				hidden := kerneltest.Values(whole)
				definition := func(x []float64) []float64 {
					z := make([]float64, len(x))
					for i, v := range x {
						if z[i] = .5 * v; hidden[i] != 0 {
							z[i] = -10000
						}
					}
					return optest.Softmax(z, 7)
				}
				what := fmt.Sprintf("%v %v mask %v", d, l, maskShape)
				optest.Run(t, "ScaledMaskedSoftmax", optest.Args{"x": x, "mask": mask, "scale": .5, "y": y})
				optest.CloseTo(t, what, definition(optest.Values(x)), optest.Values(y), optest.ResultLimit(d))
				optest.Run(t, "ScaledMaskedSoftmaxBackward", optest.Args{"gradOutput": dy, "y": y, "mask": mask, "scale": .5, "out": dx})
				optest.CloseTo(t, "gradient of "+what, optest.Gradient(definition, optest.Values(dy), optest.Values(x)), optest.Values(dx), 2*optest.ResultLimit(d))
			}
		}
	}
	f := dtype.Float32
	x, mask := optest.Tensor(t, f, []int64{1, 1, 1, 3}, 1), optest.Tensor(t, dtype.Bool, []int64{1, 1, 1, 3}, 1)
	y := optest.Tensor(t, f, []int64{1, 1, 1, 3})
	optest.Run(t, "ScaledMaskedSoftmax", optest.Args{"x": x, "mask": mask, "scale": 1.0, "y": y})
	optest.CloseTo(t, "a row that is masked altogether", []float64{1. / 3, 1. / 3, 1. / 3}, optest.Values(y), 1e-6)
	optest.Refused(t, op.InvalidParam, "ScaledMaskedSoftmax", optest.Args{"x": x, "mask": x, "y": y}, "mask float32")
	optest.Refused(t, op.InvalidParam, "ScaledMaskedSoftmax", optest.Args{"x": x, "mask": mask, "fixedTriuMask": true, "y": y}, "fixedTriuMask")
	optest.Refused(t, 561103, "ScaledMaskedSoftmax", optest.Args{"x": x, "y": y}, "mask is null")
	optest.Refused(t, op.InvalidParam, "ScaledMaskedSoftmax", optest.Args{"x": x, "mask": optest.Tensor(t, dtype.Bool, []int64{1, 1, 1, 2}, 1), "y": y}, "does not broadcast")
}

func TestBiasedSoftmax(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, shape := range [][]int64{{4, 3, 2, 5}, {2, 2, 3, 2, 5}} {
			for _, masked := range []bool{false, true} {
				x, out := optest.Filled(t, 1, d, kerneltest.Contiguous, shape), optest.Tensor(t, d, shape)
				bias, mask := optest.Filled(t, 2, d, kerneltest.Contiguous, []int64{3, 2, 5}), optest.Filled(t, 3, d, kerneltest.Contiguous, []int64{2, 1, 2, 5})
				a := optest.Args{"x": x, "relativePosBias": bias, "scaleValue": .5, "out": out}
				if masked {
					a["attenMaskOptional"] = mask
				}
				optest.Run(t, "MaskedSoftmaxWithRelPosBias", a)
				z := optest.Values(x)
				for i := range z {
					z[i] = .5*z[i] + optest.Values(bias)[i%30]
					if masked {
						z[i] += optest.Values(mask)[i/30%2*10+i%10]
					}
				}
				optest.CloseTo(t, fmt.Sprintf("%v %v masked %v", d, shape, masked), optest.Softmax(z, 5), optest.Values(out), 2*optest.ResultLimit(d))
				optest.Refused(t, op.InvalidParam, "MaskedSoftmaxWithRelPosBias", a.With(optest.Args{"relativePosBias": mask}), "a matrix for each head")
				optest.Refused(t, op.InvalidParam, "MaskedSoftmaxWithRelPosBias", a.With(optest.Args{"attenMaskOptional": bias}), "3 windows")
			}
		}
	}
}
