package activation

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestRRelu(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{1}, {3, 5}, {2, 17, 3}, {0, 2}, {1, 2, 1, 1, 3, 1, 1, 2, 1, 2}} {
				if len(shape) > kernel.MaxRank && l != kerneltest.Contiguous {
					continue
				}
				for _, inPlace := range []bool{false, true} {
					for _, training := range []bool{false, true} {
						what := fmt.Sprintf("%v %v %v in place %v training %v", d, l, shape, inPlace, training)
						x, noise, y := optest.Filled(t, 1, d, l, shape), optest.TensorIn(t, d, l, shape, 7), optest.TensorIn(t, d, l, shape)
						set, name := optest.Args{"self": x, "noise": noise, "lower": optest.Scalar(0.125), "upper": optest.Scalar(0.25), "training": training, "seed": 3, "offset": 4, "out": y}, "RReluWithNoise"
						before := optest.Values(x)
						if inPlace {
							delete(set, "out")
							name, y = "InplaceRReluWithNoise", x
						}
						optest.Run(t, name, set)
						var want []float64
						for i, v := range before {
							slope := 0.1875
							if training {
								slope = optest.Values(noise)[i]
							} else {
								assert.Equal(t, 7.0, optest.Values(noise)[i], what)
							}
							switch {
							case v > 0:
								if training {
									assert.Equal(t, 1.0, slope, what)
								}
								want = append(want, v)
							default:
								assert.True(t, slope >= 0.125 && slope <= 0.25, "%s: slope %g", what, slope)
								want = append(want, slope*v)
							}
						}
						optest.CloseTo(t, what, want, optest.Values(y), 2*optest.ResultLimit(d))
					}
				}
			}
		}
	}
	small := optest.Tensor(t, dtype.Float32, []int64{2, 3}, 7) // CANN looks at the size of noise in training only
	wide, result := optest.Tensor(t, dtype.Float32, []int64{5, 7}, -4, 8), optest.Tensor(t, dtype.Float32, []int64{5, 7})
	untrained := optest.Args{"self": wide, "noise": small, "lower": optest.Scalar(0.125), "upper": optest.Scalar(0.25), "training": false, "seed": 0, "offset": 0, "out": result}
	optest.Run(t, "RReluWithNoise", untrained)
	assert.Equal(t, []float64{-.75, 8}, optest.Values(result)[:2])
	optest.Refused(t, op.InvalidParam, "RReluWithNoise", untrained.With(optest.Args{"training": true}), "fewer elements")
	f := dtype.Float32
	draw := func(seed int) []float64 {
		noise := optest.Tensor(t, f, []int64{20}, 0)
		x := optest.Tensor(t, f, []int64{4, 5}, -1)
		optest.Run(t, "InplaceRReluWithNoise", optest.Args{"self": x, "noise": noise, "lower": optest.Scalar(0.0), "upper": optest.Scalar(1.0), "training": true, "seed": seed})
		for i, v := range optest.Values(noise) {
			assert.Equal(t, -v, optest.Values(x)[i])
		}
		return optest.Values(noise)
	}
	assert.Equal(t, draw(1), draw(1), "a seed fixes the numbers")
	assert.NotEqual(t, draw(1), draw(2))
	x := optest.Tensor(t, f, []int64{3}, 1)
	optest.Refused(t, op.InvalidParam, "RReluWithNoise", optest.Args{"self": x, "noise": optest.Tensor(t, f, []int64{2}, 1), "lower": optest.Scalar(0.1), "upper": optest.Scalar(0.2), "training": true, "out": x}, "fewer elements")
	optest.Refused(t, op.InvalidParam, "RReluWithNoise", optest.Args{"self": x, "noise": x, "lower": optest.Scalar(0.3), "upper": optest.Scalar(0.2), "out": x}, "above upper")
	optest.Refused(t, op.NullPointer, "RReluWithNoise", optest.Args{"self": x, "lower": optest.Scalar(0.1), "upper": optest.Scalar(0.2), "out": x}, "noise is null")
}
