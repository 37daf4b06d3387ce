package nn

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestRRelu(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{1}, {3, 5}, {2, 17, 3}, {0, 2}} {
				for _, inPlace := range []bool{false, true} {
					for _, training := range []bool{false, true} {
						what := fmt.Sprintf("%v %v %v in place %v training %v", d, l, shape, inPlace, training)
						x, noise, y := filled(t, 1, d, l, shape), tensorIn(t, d, l, shape, 7), tensorIn(t, d, l, shape)
						set, name := args{"self": x, "noise": noise, "lower": scalar(0.125), "upper": scalar(0.25), "training": training, "seed": 3, "offset": 4, "out": y}, "RReluWithNoise"
						before := values(x)
						if inPlace {
							delete(set, "out")
							name, y = "InplaceRReluWithNoise", x
						}
						run(t, name, set)
						var want []float64
						for i, v := range before {
							slope := 0.1875
							if training {
								slope = values(noise)[i]
							} else {
								assert.Equal(t, 7.0, values(noise)[i], what)
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
						closeTo(t, what, want, values(y), 2*resultLimit(d))
					}
				}
			}
		}
	}
	f := dtype.Float32
	draw := func(seed int) []float64 {
		noise := tensor(t, f, []int64{20}, 0)
		x := tensor(t, f, []int64{4, 5}, -1)
		run(t, "InplaceRReluWithNoise", args{"self": x, "noise": noise, "lower": scalar(0.0), "upper": scalar(1.0), "training": true, "seed": seed})
		for i, v := range values(noise) {
			assert.Equal(t, -v, values(x)[i])
		}
		return values(noise)
	}
	assert.Equal(t, draw(1), draw(1), "a seed fixes the numbers")
	assert.NotEqual(t, draw(1), draw(2))
	x := tensor(t, f, []int64{3}, 1)
	refused(t, invalidParam, "RReluWithNoise", args{"self": x, "noise": tensor(t, f, []int64{2}, 1), "lower": scalar(0.1), "upper": scalar(0.2), "out": x}, "fewer elements")
	refused(t, invalidParam, "RReluWithNoise", args{"self": x, "noise": x, "lower": scalar(0.3), "upper": scalar(0.2), "out": x}, "above upper")
	refused(t, nullPointer, "RReluWithNoise", args{"self": x, "lower": scalar(0.1), "upper": scalar(0.2), "out": x}, "noise is null")
}
