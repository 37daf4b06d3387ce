package resampling

import (
	"fmt"
	"math"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// smoothDefinition weights every element of the image by the distance to the position of the result
// in units of the coarser grid.
func smoothDefinition(kind func(float64) float64, corners bool, factors []float64, image, result []int64, x []float64) (y []float64) {
	along := func(i int, at int64) (weights []float64) {
		m, n := float64(result[i]), float64(image[i])
		ratio := n / m
		switch {
		case corners && m > 1:
			ratio = (n - 1) / (m - 1)
		case corners:
			ratio = 0
		case factors[i-2] > 0:
			ratio = 1 / factors[i-2]
		}
		sum := 0.0
		for j := range image[i] {
			w := kind((float64(j) + 0.5 - ratio*(float64(at)+0.5)) / max(ratio, 1))
			weights, sum = append(weights, w), sum+w
		}
		for j := range weights {
			weights[j] /= sum
		}
		return weights
	}
	optest.Walk(result, func(at []int64) {
		rows, columns := along(2, at[2]), along(3, at[3])
		sum := 0.0
		for i, r := range rows {
			for j, c := range columns {
				sum += r * c * x[optest.Offset(image, []int64{at[0], at[1], int64(i), int64(j)})]
			}
		}
		y = append(y, sum)
	})
	return y
}

// cubicHalf is the cubic convolution with a = -1/2 in its expanded form.
func cubicHalf(x float64) float64 {
	x = math.Abs(x)
	switch {
	case x <= 1:
		return 1.5*x*x*x - 2.5*x*x + 1
	case x < 2:
		return -0.5*x*x*x + 2.5*x*x - 4*x + 2
	}
	return 0
}

func TestAntialiasedResizing(t *testing.T) {
	for name, c := range map[string]struct {
		backward, image string
		kind            func(float64) float64
	}{
		"UpsampleBilinear2dAA": {"UpsampleBilinear2dAABackward", "input", optest.Hat},
		"UpsampleBicubic2dAA":  {"UpsampleBicubic2dAAGrad", "x", cubicHalf},
	} {
		for _, d := range op.FloatTypes {
			for _, s := range []struct {
				image, size []int64
				factors     []float64
				corners     bool
			}{
				{[]int64{1, 1, 5, 7}, []int64{5, 7}, []float64{0, 0}, false}, {[]int64{2, 3, 9, 8}, []int64{4, 3}, []float64{0, 0}, false},
				{[]int64{1, 2, 3, 4}, []int64{7, 5}, []float64{0, 0}, false}, {[]int64{1, 2, 12, 3}, []int64{1, 8}, []float64{0, 0}, true},
				{[]int64{1, 1, 9, 10}, []int64{4, 5}, []float64{0, 0}, true}, {[]int64{1, 1, 10, 6}, []int64{5, 12}, []float64{.5, 2.1}, false},
			} {
				what := fmt.Sprintf("%s %v %v to %v", name, d, s.image, s.size)
				result := []int64{s.image[0], s.image[1], s.size[0], s.size[1]}
				for _, l := range kerneltest.Layouts {
					x, y := optest.Filled(t, 1, d, l, s.image), optest.TensorIn(t, d, l, result)
					a := optest.Args{"outputSize": s.size, "alignCorners": s.corners, "scalesH": s.factors[0], "scalesW": s.factors[1]}
					optest.Run(t, name, a.With(optest.Args{c.image: x, "out": y}))
					f := func(x []float64) []float64 {
						return smoothDefinition(c.kind, s.corners, s.factors, s.image, result, x)
					}
					optest.CloseTo(t, what, f(optest.Values(x)), optest.Values(y), 2*optest.ResultLimit(d))
					dy, dx := optest.Filled(t, 2, d, l, result), optest.TensorIn(t, d, l, s.image)
					optest.Run(t, c.backward, a.With(optest.Args{"gradOutput": dy, "inputSize": s.image, "out": dx}))
					want := optest.Linearised(f, optest.Elements(s.image)).Gradient(optest.Values(dy))
					optest.CloseTo(t, "gradient of "+what, want, optest.Values(dx), 2*optest.ResultLimit(d))
				}
			}
		}
	}
	f := dtype.Float32
	x, y := optest.Tensor(t, f, []int64{1, 1, 51, 4}, 1), optest.Tensor(t, f, []int64{1, 1, 1, 4})
	a := optest.Args{"input": x, "outputSize": []int64{1, 4}, "out": y}
	optest.Refused(t, op.InvalidParam, "UpsampleBilinear2dAA", a, "51 times", "50")
	optest.Refused(t, op.InvalidParam, "UpsampleBilinear2dAA", a.With(optest.Args{"input": optest.Tensor(t, f, []int64{1, 4, 4}, 1)}), "dimensions")
	optest.Refused(t, op.InvalidParam, "UpsampleBilinear2dAA", a.With(optest.Args{"input": optest.Tensor(t, f, []int64{1, 0, 4, 4})}), "no channels")
	optest.Refused(t, op.NullPointer, "UpsampleBicubic2dAA", optest.Args{"outputSize": []int64{1, 4}, "out": y}, "x is null")
	double := optest.Tensor(t, dtype.Float64, []int64{1, 1, 4, 4}, 1)
	optest.Refused(t, op.InvalidParam, "UpsampleBicubic2dAA", optest.Args{"x": double, "outputSize": []int64{4, 4}, "out": double}, "dtype")
	optest.Refused(t, op.InvalidParam, "UpsampleBicubic2dAAGrad", optest.Args{"gradOutput": y, "outputSize": []int64{2, 4}, "inputSize": []int64{1, 1, 8, 8}, "out": optest.Tensor(t, f, []int64{1, 1, 8, 8})}, "outputSize")
}
