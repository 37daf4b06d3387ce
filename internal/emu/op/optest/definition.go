package optest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
)

// Gradient returns the gradient of Σ dy · f(x) with respect to x. It uses difference quotients of
// f, which is evaluated in float64.
func Gradient(f func(x []float64) []float64, dy, x []float64) []float64 {
	x = slices.Clone(x)
	dx := make([]float64, len(x))
	for i, at := range x {
		const step = 1e-5
		x[i] = at + step
		above := f(x)
		x[i] = at - step
		below := f(x)
		x[i] = at
		for j, g := range dy {
			dx[i] += g * (above[j] - below[j]) / (2 * step)
		}
	}
	return dx
}

// LinearMap is a linear function given by the images of the unit vectors.
type LinearMap [][]float64

// Linearised returns f, a linear function of n numbers, as a LinearMap.
func Linearised(f func(x []float64) []float64, n int64) LinearMap {
	columns, x := make(LinearMap, n), make([]float64, n)
	for i := range x {
		x[i] = 1
		columns[i] = f(x)
		x[i] = 0
	}
	return columns
}

// Of returns the image of x.
func (l LinearMap) Of(x []float64) []float64 {
	y := make([]float64, len(l[0]))
	for i, column := range l {
		for j, v := range column {
			y[j] += v * x[i]
		}
	}
	return y
}

// Gradient returns the gradient of Σ dy · f(x) with respect to x.
func (l LinearMap) Gradient(dy []float64) []float64 {
	dx := make([]float64, len(l))
	for i, column := range l {
		for j, v := range column {
			dx[i] += v * dy[j]
		}
	}
	return dx
}

// Normal returns n normally distributed values, rounded to type d.
func Normal(seed uint64, d dtype.Type, n int64) []float64 {
	r := rand.New(rand.NewPCG(seed, 1))
	v := make([]float64, n)
	for i := range v {
		v[i] = kerneltest.Round(d, r.NormFloat64())
	}
	return v
}

// Filled returns a tensor of normally distributed values.
func Filled(t testing.TB, seed uint64, d dtype.Type, l kerneltest.Layout, shape []int64) *op.Tensor {
	v := Normal(seed, d, Elements(shape))
	if len(v) == 0 {
		v = []float64{0}
	}
	return TensorIn(t, d, l, shape, v...)
}

// Elements returns the number of elements of a shape.
func Elements(shape []int64) int64 { return kernel.View{Shape: shape}.Len() }

// Sigmoid returns 1/(1+exp(-x)).
func Sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// Hat returns the weight of a point at distance x in linear interpolation.
func Hat(x float64) float64 { return max(0, 1-math.Abs(x)) }

// Softmax returns the softmax of each row.
func Softmax(x []float64, width int) []float64 {
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

// Gated applies f to one half of each row (the left half if left is set) and multiplies it with the
// other half.
func Gated(x []float64, width int, left bool, f func(float64) float64) (y, activated []float64) {
	for lo := 0; lo < len(x); lo += width {
		for i := range width / 2 {
			through, other := x[lo+width/2+i], x[lo+i]
			if left {
				through, other = other, through
			}
			activated = append(activated, f(through))
			y = append(y, f(through)*other)
		}
	}
	return y, activated
}

// RMSNorm returns the RMS norm of rows of the length of gamma, with an epsilon of 1e-5, and the
// reciprocal root mean squares.
func RMSNorm(x, gamma []float64) (y, rstd []float64) {
	y = make([]float64, len(x))
	for lo := 0; lo < len(x); lo += len(gamma) {
		squares := 0.0
		for j := range gamma {
			squares += x[lo+j] * x[lo+j]
		}
		r := 1 / math.Sqrt(squares/float64(len(gamma))+1e-5)
		for j, g := range gamma {
			y[lo+j] = x[lo+j] * r * g
		}
		rstd = append(rstd, r)
	}
	return y, rstd
}

// PNorm returns the p-norm of v.
func PNorm(v []float64, p float64) float64 {
	sum := 0.0
	for _, x := range v {
		switch x = math.Abs(x); {
		case p == 0 && x != 0:
			sum++
		case p == 0:
		case math.IsInf(p, 1):
			sum = max(sum, x)
		default:
			sum += math.Pow(x, p)
		}
	}
	if p == 0 || math.IsInf(p, 1) {
		return sum
	}
	return math.Pow(sum, 1/p)
}

// Moments returns the mean and the standard deviation.
func Moments(v []float64) (mean, std float64) {
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		std += (x - mean) * (x - mean) / float64(len(v))
	}
	return mean, math.Sqrt(std)
}
