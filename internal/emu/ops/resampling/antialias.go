package resampling

import (
	"math"

	"github.com/goascend/cann/internal/emu/kernel/convolution"
	"github.com/goascend/cann/internal/emu/op"
)

// smoothings lists the operators that resize with anti-aliasing: an image that shrinks is averaged
// over all elements that a position of the result covers.
var smoothings = op.Table{
	"UpsampleBilinear2dAA": smoothed(resized(2, antialiased(1, hat), op.FloatTypes), "input"), "UpsampleBilinear2dAABackward": smoothed(resizedBackward(2, antialiased(1, hat), op.FloatTypes), ""),
	"UpsampleBicubic2dAA": smoothed(resized(2, antialiased(2, keysHalf), op.FloatTypes), "x"), "UpsampleBicubic2dAAGrad": smoothed(resizedBackward(2, antialiased(2, keysHalf), op.FloatTypes), ""),
}

// mostShrinking is the largest ratio of an image to a result that the device has kernels for.
const mostShrinking = 50

// smoothed adds the checks of the anti-aliasing operators. image is the name of the image, which the
// backward forms lack.
func smoothed(prepare op.Prepare, image string) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		if image != "" {
			x, size := c.Tensor(image), c.Ints("outputSize")
			c.Rank(x, 4, 4)
			if x.Rank() == 4 && x.Dim(1) == 0 {
				c.Invalid("%v has no channels", x)
			}
			for i := 0; c.Err() == nil && i < 2 && i < len(size); i++ {
				ratio := float64(x.Dim(2+i)) / float64(size[i])
				if f := c.Float([]string{"scalesH", "scalesW"}[i]); f > 0 {
					ratio = 1 / f
				}
				if ratio > mostShrinking {
					c.Invalid("dimension %d of %v shrinks %g times; at most %d times is supported", 2+i, x, ratio, mostShrinking)
				}
			}
		}
		return prepare(c)
	}
}

// hat is the weight of linear interpolation at a distance.
func hat(x float64) float64 { return max(0, 1-math.Abs(x)) }

// keysHalf is Keys' cubic convolution with a = -0.5.
func keysHalf(x float64) float64 {
	const a = -0.5
	switch x = math.Abs(x); {
	case x < 1:
		return ((a+2)*x-(a+3))*x*x + 1
	case x < 2:
		return ((a*x-5*a)*x+8*a)*x - 4*a
	}
	return 0
}

// antialiased weights the elements around a centre by a filter of the given reach, which is stretched
// if the image shrinks. The weights of a position add up to 1.
func antialiased(reach float64, filter func(distance float64) float64) interpolation {
	return func(s axisSampling) (t convolution.Taps) {
		stretch := max(s.ratio, 1)
		for k := range s.m {
			centre := s.ratio * (float64(k) + 0.5)
			first := max(int64(centre-reach*stretch+0.5), 0)
			var places []int64
			var weights []float64
			sum := 0.0
			for j := first; j < min(int64(centre+reach*stretch+0.5), s.n); j++ {
				w := filter((float64(j) + 0.5 - centre) / stretch)
				places, weights, sum = append(places, j), append(weights, w), sum+w
			}
			if sum == 0 { // a scale factor may put the centre outside of the image
				places, weights, sum = []int64{min(first, s.n-1)}, []float64{0}, 1
			}
			for i := range weights {
				weights[i] /= sum
			}
			t.Index, t.Weight = append(t.Index, places), append(t.Weight, weights)
		}
		return t
	}
}
