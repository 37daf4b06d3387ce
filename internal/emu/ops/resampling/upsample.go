package resampling

import (
	"math"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/convolution"
	"github.com/goascend/cann/internal/emu/op"
)

var resizings = op.Table{
	"UpsampleNearest1d": resized(1, nearest, pixelTypes), "UpsampleNearest1dV2": resized(1, nearest, pixelTypes), "UpsampleNearest2d": resized(2, nearest, pixelTypes),
	"UpsampleNearest2dV2": resized(2, nearest, pixelTypes), "UpsampleNearest3d": resized(3, nearest, op.RealTypes),
	"UpsampleNearest1dBackward": resizedBackward(1, nearest, op.RealTypes), "UpsampleNearest2dBackward": resizedBackward(2, nearest, op.RealTypes),
	"UpsampleNearest3dBackward": resizedBackward(3, nearest, op.RealTypes),
	"UpsampleNearestExact1d":    resized(1, nearestCentre, centreTypes), "UpsampleNearestExact2d": resized(2, nearestCentre, centreTypes), "UpsampleNearestExact3d": resized(3, nearestCentre, op.FloatTypes),
	"UpsampleNearestExact1dBackward": resizedBackward(1, nearestCentre, op.FloatTypes), "UpsampleNearestExact2dBackward": resizedBackward(2, nearestCentre, op.FloatTypes),
	"UpsampleNearestExact3dBackward": resizedBackward(3, nearestCentre, op.FloatTypes),
	"UpsampleLinear1d":               resized(1, linear, op.FloatTypes), "UpsampleBilinear2d": resized(2, linear, op.RealTypes), "UpsampleTrilinear3d": resized(3, linear, op.RealTypes),
	"UpsampleLinear1dBackward": resizedBackward(1, linear, op.FloatTypes), "UpsampleBilinear2dBackward": resizedBackward(2, linear, halfTypes),
	"UpsampleBilinear2dBackwardV2": resizedBackward(2, linear, op.FloatTypes), "UpsampleTrilinear3dBackward": resizedBackward(3, linear, op.RealTypes),
	"UpsampleBicubic2d": resized(2, cubic, op.FloatTypes), "UpsampleBicubic2dBackward": resizedBackward(2, cubic, op.FloatTypes),
	"Resize": resize,
}.Selects()

// halfTypes are those of the first gradient of bilinear images.
var halfTypes = []dtype.Type{dtype.Float32, dtype.Float16}

// pixelTypes are the element types that the nearest element of an image can have on the 910B. By
// the centre of a position (Exact) it cannot be float64.
var (
	pixelTypes  = append(slices.Clone(op.RealTypes), dtype.Uint8)
	centreTypes = append(slices.Clone(op.FloatTypes), dtype.Uint8)
)

// axisSampling maps the m positions of a result to the n positions of an image along one axis.
// ratio is their distance in the image; corners aligns the first and last positions of both.
type axisSampling struct {
	m, n    int64
	ratio   float64
	corners bool
}

// centre returns the image coordinate of the centre of position k of the result.
func (s axisSampling) centre(k int64) float64 {
	if s.corners {
		return float64(k) * s.ratio
	}
	return (float64(k)+0.5)*s.ratio - 0.5
}

// interpolation computes the taps of one dimension.
type interpolation func(s axisSampling) convolution.Taps

// nearest takes the element that contains the start of a result position. It computes in
// float32, as array libraries do, so that ties resolve to the same element.
func nearest(s axisSampling) (t convolution.Taps) {
	for k := range s.m {
		at := int64(math.Floor(float64(float32(k) * float32(s.ratio))))
		t.Index = append(t.Index, []int64{min(at, s.n-1)})
	}
	return t
}

// nearestCentre takes the element that contains the centre of a result position.
func nearestCentre(s axisSampling) (t convolution.Taps) {
	for k := range s.m {
		at := int64(math.Floor(float64((float32(k) + 0.5) * float32(s.ratio))))
		t.Index = append(t.Index, []int64{min(at, s.n-1)})
	}
	return t
}

// linear weights the two elements around a centre by distance.
func linear(s axisSampling) (t convolution.Taps) {
	for k := range s.m {
		x := max(s.centre(k), 0)
		at := min(int64(x), s.n-1)
		right := x - float64(at)
		if at == s.n-1 {
			t.Index, t.Weight = append(t.Index, []int64{at}), append(t.Weight, []float64{1})
			continue
		}
		t.Index, t.Weight = append(t.Index, []int64{at, at + 1}), append(t.Weight, []float64{1 - right, right})
	}
	return t
}

// cubic weights the four elements around a centre by Keys' cubic convolution with a = -0.75.
// Positions outside repeat the border.
func cubic(s axisSampling) (t convolution.Taps) {
	const a = -0.75
	near := func(x float64) float64 { return ((a+2)*x-(a+3))*x*x + 1 }
	far := func(x float64) float64 { return ((a*x-5*a)*x+8*a)*x - 4*a }
	for k := range s.m {
		x := s.centre(k)
		at := math.Floor(x)
		r := x - at
		var places []int64
		for i := range int64(4) {
			places = append(places, min(max(int64(at)-1+i, 0), s.n-1))
		}
		t.Index, t.Weight = append(t.Index, places), append(t.Weight, []float64{far(1 + r), near(r), near(1 - r), far(2 - r)})
	}
	return t
}

// scaleNames are the declared names of the scale factors of the last one, two or three
// dimensions.
var scaleNames = [][]string{{"scalesD"}, {"scalesH"}, {"scalesW", "scales", "scaleL"}}

// samplings computes the axisSampling of the last n dimensions of a result of the given size. A
// scale factor that is not positive is derived from the sizes.
func samplings(c *op.Call, n int, image, result []int64) (s []axisSampling) {
	for i := range n {
		a := axisSampling{m: result[i], n: image[i], corners: c.Has("alignCorners") && c.Bool("alignCorners")}
		if a.m < 1 || a.n < 1 {
			c.Invalid("cannot resize %s to %s: every size must be at least 1", op.Dims(image), op.Dims(result))
			return nil
		}
		a.ratio = float64(a.n) / float64(a.m)
		for _, name := range scaleNames[3-n+i] {
			if c.Has(name) && c.Float(name) > 0 {
				a.ratio = 1 / c.Float(name)
			}
		}
		if a.corners {
			a.ratio = 0
			if a.m > 1 {
				a.ratio = float64(a.n-1) / float64(a.m-1)
			}
		}
		s = append(s, a)
	}
	return s
}

// resizing checks a result of outputSize computed from an image and returns the taps.
func resizing(c *op.Call, n int, image, result []int64, of interpolation) (taps []convolution.Taps) {
	size := c.RequiredInts("outputSize")
	if c.Err() != nil {
		return nil
	}
	if len(image) != n+2 || len(result) != n+2 {
		c.Invalid("images of shape %s and %s: %d dimensions are needed, batch and channels before the others", op.Dims(image), op.Dims(result), n+2)
		return nil
	}
	if !slices.Equal(slices.Concat(image[:2], size), result) {
		c.Invalid("outputSize %s of an image %s does not make %s", op.Dims(size), op.Dims(image), op.Dims(result))
		return nil
	}
	for _, s := range samplings(c, n, image[2:], size) {
		taps = append(taps, of(s))
	}
	return taps
}

func resized(n int, of interpolation, types []dtype.Type) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		self, out := c.Tensor(c.Either("self", "input", "x")), c.Tensor("out")
		c.DType(self, types...)
		c.SameDType(self, out)
		self, out = spatialLast(c, n, self), spatialLast(c, n, out)
		var taps []convolution.Taps
		if c.Err() == nil {
			taps = resizing(c, n, self.Shape, out.Shape, of)
		}
		if c.Err() == nil && self.Shape[1] < 1 {
			c.Invalid("%v has no channels; only its batch may be 0", self)
		}
		return c.Resample(out, self, n, func() []convolution.Taps { return taps })
	}
}

func resizedBackward(n int, of interpolation, types []dtype.Type) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		grad, out, size := c.Tensor(c.Either("gradOut", "gradOutput")), c.Tensor(c.Either("out", "gradInput")), c.RequiredInts("inputSize")
		c.DType(grad, types...)
		c.SameDType(grad, out)
		if n == 2 && grad != nil && grad.Format == dtype.NHWC && c.Op.Name == "UpsampleNearest2dBackward" && len(size) == 4 {
			// of the channels-last forms this one alone has inputSize in the order of the memory
			grad, out, size = channelsFirst(c, grad), channelsFirst(c, out), []int64{size[0], size[3], size[1], size[2]}
		}
		grad, out = spatialLast(c, n, grad), spatialLast(c, n, out)
		if c.Err() == nil {
			c.Shape(out, size, "inputSize")
		}
		var taps []convolution.Taps
		if c.Err() == nil {
			taps = resizing(c, n, size, grad.Shape, of)
		}
		return c.ResampleGrad(out, grad, n, func() []convolution.Taps { return taps })
	}
}

// resize scales the height and the width of images by factors. The kernels take the ratio of the sizes
// rather than the factors.
func resize(c *op.Call) (op.Run, error) {
	self, out, mode := c.Tensor("self"), c.Tensor("out"), c.RequiredText("mode")
	of := nearest
	if strings.HasPrefix(mode, "bilinear") {
		of = linear
	} else if !strings.HasPrefix(mode, "nearest") {
		c.Invalid("mode is %q; use nearest or bilinear", mode)
	}
	c.Rank(self, 4, 4)
	c.Rank(out, 4, 4)
	if c.Err() != nil {
		return nil, c.Err()
	}
	if self.Format == dtype.NHWC {
		self, out = channelsFirst(c, self), channelsFirst(c, out)
	}
	var taps []convolution.Taps
	for i, m := range out.Shape[2:] {
		n := self.Shape[2+i]
		if m < 1 || n < 1 {
			c.Invalid("cannot resize %v to %v: every size must be at least 1", self, out)
			return nil, c.Err()
		}
		taps = append(taps, of(axisSampling{m: m, n: n, ratio: float64(n) / float64(m)}))
	}
	return c.Resample(out, self, 2, func() []convolution.Taps { return taps })
}

// spatialLast views volumes of NDHWC as those of NCDHW. Images stay: their operators but one refuse NHWC.
func spatialLast(c *op.Call, n int, t *op.Tensor) *op.Tensor {
	if n == 3 && t != nil && t.Format == dtype.NDHWC {
		return channelsFirst(c, t)
	}
	return t
}

// channelsFirst views images or volumes whose last dimension is the channels as those of NCHW or NCDHW. Tensors of
// another rank stay, and are refused later.
func channelsFirst(c *op.Call, t *op.Tensor) *op.Tensor {
	var order []int64
	var format dtype.Format
	switch len(t.Shape) {
	case 4:
		order, format = []int64{0, 3, 1, 2}, dtype.NCHW
	case 5:
		order, format = []int64{0, 4, 1, 2, 3}, dtype.NCDHW
	default:
		return t
	}
	v, p := *t, op.Permuted(t.View(), order)
	v.Shape, v.Strides, v.Format = p.Shape, p.Strides, format
	return c.Alias(v, t)
}
