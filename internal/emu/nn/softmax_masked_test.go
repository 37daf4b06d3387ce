package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// rowSoftmax is the softmax of rows.
func rowSoftmax(x []float64, width int) []float64 {
	y := make([]float64, len(x))
	for lo := 0; lo < len(x); lo += width {
		sum := 0.0
		for i := range width {
			y[lo+i] = math.Exp(x[lo+i])
			sum += y[lo+i]
		}
		for i := range width {
			y[lo+i] /= sum
		}
	}
	return y
}

func TestScaledMaskedSoftmax(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, maskShape := range [][]int64{{2, 3, 2, 7}, {2, 1, 2, 7}, {1, 3, 2, 7}, {1, 1, 2, 7}} {
				shape := []int64{2, 3, 2, 7}
				x, y, dx, dy := filled(t, 1, d, l, shape), tensorIn(t, d, l, shape), tensorIn(t, d, l, shape), filled(t, 2, d, l, shape)
				mask := tensorIn(t, dtype.Bool, l, maskShape, 0, 1, 0, 0, 1)
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
					return rowSoftmax(z, 7)
				}
				what := fmt.Sprintf("%v %v mask %v", d, l, maskShape)
				run(t, "ScaledMaskedSoftmax", args{"x": x, "mask": mask, "scale": .5, "y": y})
				closeTo(t, what, definition(values(x)), values(y), resultLimit(d))
				run(t, "ScaledMaskedSoftmaxBackward", args{"gradOutput": dy, "y": y, "mask": mask, "scale": .5, "out": dx})
				closeTo(t, "gradient of "+what, gradient(definition, values(dy), values(x)), values(dx), 2*resultLimit(d))
			}
		}
	}
	f := dtype.Float32
	x, mask := tensor(t, f, []int64{1, 1, 1, 3}, 1), tensor(t, dtype.Bool, []int64{1, 1, 1, 3}, 1)
	y := tensor(t, f, []int64{1, 1, 1, 3})
	run(t, "ScaledMaskedSoftmax", args{"x": x, "mask": mask, "scale": 1.0, "y": y})
	closeTo(t, "a row that is masked altogether", []float64{1. / 3, 1. / 3, 1. / 3}, values(y), 1e-6)
	refused(t, invalidParam, "ScaledMaskedSoftmax", args{"x": x, "mask": x, "y": y}, "mask float32")
	refused(t, invalidParam, "ScaledMaskedSoftmax", args{"x": x, "mask": mask, "fixedTriuMask": true, "y": y}, "fixedTriuMask")
	refused(t, nullPointer, "ScaledMaskedSoftmax", args{"x": x, "y": y}, "mask is null")
	refused(t, invalidParam, "ScaledMaskedSoftmax", args{"x": x, "mask": tensor(t, dtype.Bool, []int64{1, 1, 1, 2}, 1), "y": y}, "does not broadcast")
}

func TestBiasedSoftmax(t *testing.T) {
	for _, d := range transformerTypes {
		for _, shape := range [][]int64{{4, 3, 2, 5}, {2, 2, 3, 2, 5}} {
			for _, masked := range []bool{false, true} {
				x, out := filled(t, 1, d, kerneltest.Contiguous, shape), tensor(t, d, shape)
				bias, mask := filled(t, 2, d, kerneltest.Contiguous, []int64{3, 2, 5}), filled(t, 3, d, kerneltest.Contiguous, []int64{2, 1, 2, 5})
				a := args{"x": x, "relativePosBias": bias, "scaleValue": .5, "out": out}
				if masked {
					a["attenMaskOptional"] = mask
				}
				run(t, "MaskedSoftmaxWithRelPosBias", a)
				z := values(x)
				for i := range z {
					z[i] = .5*z[i] + values(bias)[i%30]
					if masked {
						z[i] += values(mask)[i/30%2*10+i%10]
					}
				}
				closeTo(t, fmt.Sprintf("%v %v masked %v", d, shape, masked), rowSoftmax(z, 5), values(out), 2*resultLimit(d))
				refused(t, invalidParam, "MaskedSoftmaxWithRelPosBias", a.with(args{"relativePosBias": mask}), "a matrix for each head")
				refused(t, invalidParam, "MaskedSoftmaxWithRelPosBias", a.with(args{"attenMaskOptional": bias}), "3 windows")
			}
		}
	}
}

func TestTopKTopP(t *testing.T) {
	inf := math.Inf(-1)
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			// Probabilities 1/8, 1/2, 1/4, 1/8 of the first row.
			x := tensorIn(t, d, l, []int64{2, 4}, -3, -1, -2, -3, 1, 2, 3, 4)
			for i, v := range []float64{-3, -1, -2, -3} {
				assert.Equal(t, v, values(x)[i])
			}
			out := tensorIn(t, d, l, x.Shape)
			for _, c := range []struct {
				p, k *Tensor
				want []float64
			}{
				{nil, tensor(t, dtype.Int32, []int64{2}, 2, 9), []float64{inf, -1, -2, inf, 1, 2, 3, 4}},
				{nil, tensor(t, dtype.Int32, []int64{2}, 3, 0), []float64{-3, -1, -2, -3, 1, 2, 3, 4}},
				{tensor(t, d, []int64{2}, 1, 0), nil, []float64{-3, -1, -2, -3, inf, inf, inf, 4}},
				{tensor(t, d, []int64{2}, .75, .5), tensor(t, dtype.Int32, []int64{2}, 2, 4), []float64{inf, -1, -2, inf, inf, inf, inf, 4}},
			} {
				run(t, "ApplyTopKTopP", args{"logits": x, "p": c.p, "k": c.k, "out": out})
				assert.Equal(t, c.want, values(out), "%v %v p %v k %v", d, l, c.p, c.k)
			}
			refused(t, nullPointer, "ApplyTopKTopP", args{"logits": x, "out": out}, "p and k are null")
			refused(t, invalidParam, "ApplyTopKTopP", args{"logits": x, "k": tensor(t, dtype.Int32, []int64{3}, 1), "out": out}, "k int32[3]")
		}
	}
}
