package rowwise

import (
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
)

// channels reshapes a vector with one element per channel so that it broadcasts against
// [N, C, …] of the given rank. A view without data is returned as is.
func channels(v kernel.View, rank int) kernel.View {
	if v.Data == nil {
		return v
	}
	shape, strides := make([]int64, rank-1), make([]int64, rank-1)
	for i := range shape {
		shape[i] = 1
	}
	shape[0], strides[0] = v.Shape[0], v.Strides[0]
	return kernel.View{Data: v.Data, DType: v.DType, Shape: shape, Strides: strides}
}

// exceptChannels lists the dimensions of [N, C, …] except the second.
func exceptChannels(rank int) []int { return append([]int{0}, kernel.AxesFrom(2, rank)...) }

// inverseDeviation is out = 1/√(variance + eps).
func (c *Chain) inverseDeviation(out, variance kernel.View, eps float64) {
	c.Set(out, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(variance), elementwise.Const(elementwise.Real(eps)))
	c.Set(out, elementwise.Rsqrt, nil, elementwise.Of(out))
}

// BatchMoments writes the mean and the variance of each channel of x [N, C, …]. The variance
// divides by the number of elements minus correction.
func BatchMoments(mean, variance, x kernel.View, correction float64) error {
	if err := Reduce(ReduceMean, mean, x, exceptChannels(len(x.Shape)), 0); err != nil {
		return err
	}
	return Reduce(ReduceVar, variance, x, exceptChannels(len(x.Shape)), correction)
}

// InverseDeviation is out = 1/√(variance + eps).
func InverseDeviation(out, variance kernel.View, eps float64) error {
	c := NewChain(out, variance)
	c.inverseDeviation(out, variance, eps)
	return c.End()
}

// Blend is out = (1-weight)·out + weight·value, the update of running statistics.
func Blend(out, value kernel.View, weight float64) error {
	return elementwise.Map(elementwise.Lerp, value.DType, out, []elementwise.Input{elementwise.Of(out), elementwise.Of(value), elementwise.Const(elementwise.Real(weight))})
}

// BatchNorm is y = (x − mean)·rstd·weight + bias for x [N, C, …]. The other operands have one
// element per channel. weight and bias may have no data.
func BatchNorm(y, x, mean, rstd, weight, bias kernel.View) error {
	c := NewChain(x)
	rank := len(x.Shape)
	z := c.Temp(x.Shape)
	c.Set(z, elementwise.SubMul, nil, elementwise.Of(x), elementwise.Of(channels(mean, rank)), elementwise.Of(channels(rstd, rank)))
	c.Affine(y, z, channels(weight, rank), channels(bias, rank))
	return c.End()
}

// BatchSums writes for each channel sum = Σ dy and product = Σ dy·(x − mean), for x [N, C, …] and a mean per channel.
func BatchSums(sum, product, dy, x, mean kernel.View) error {
	c := NewChain(x, dy)
	axes, z := exceptChannels(len(x.Shape)), c.Temp(x.Shape)
	c.Set(z, elementwise.SubMul, nil, elementwise.Of(x), elementwise.Of(channels(mean, len(x.Shape))), elementwise.Of(dy))
	c.Reduce(ReduceSum, sum, dy, axes, 0)
	c.Reduce(ReduceSum, product, z, axes, 0)
	return c.End()
}

// BatchNormGrad is dx = (dy − sum/n − (x − mean)·rstd²·product/n)·rstd·weight, where sum and
// product are Σ dy and Σ dy·(x − mean) over the n elements of each channel. weight may have no
// data.
func BatchNormGrad(dx, dy, x, mean, rstd, weight, sum, product kernel.View, n float64) error {
	c := NewChain(x, dy)
	rank := len(x.Shape)
	z, slope, shift, scale := c.Temp(x.Shape), c.Temp(mean.Shape), c.Temp(mean.Shape), c.Temp(mean.Shape)
	c.Mul(slope, product, rstd)
	c.Mul(slope, slope, rstd)
	c.Set(slope, elementwise.Mul, nil, elementwise.Of(slope), elementwise.Const(elementwise.Real(1/n)))
	c.Set(shift, elementwise.Mul, nil, elementwise.Of(sum), elementwise.Const(elementwise.Real(1/n)))
	c.Affine(scale, rstd, weight, kernel.View{})
	c.Set(z, elementwise.SubMul, nil, elementwise.Of(x), elementwise.Of(channels(mean, rank)), elementwise.Of(channels(slope, rank)))
	c.Sub(z, dy, z)
	c.Set(dx, elementwise.SubMul, nil, elementwise.Of(z), elementwise.Of(channels(shift, rank)), elementwise.Of(channels(scale, rank)))
	return c.End()
}

// BatchGather combines the means and rstds [parts, C] of parts with counts [parts] elements per
// channel into a mean and a variance of all elements. The variance divides by the number of
// elements minus correction.
func BatchGather(mean, variance, means, rstds, counts kernel.View, eps, correction float64) error {
	c := NewChain(means)
	total, weight := c.Temp([]int64{}), c.Temp(means.Shape)
	c.Reduce(ReduceSum, total, counts, []int{0}, 0)
	share := kernel.Kept(counts, 2, []int{1})
	m, square := c.Temp(mean.Shape), c.Temp(means.Shape)
	c.Mul(weight, means, share)
	c.Reduce(ReduceSum, m, weight, []int{0}, 0)
	c.Set(m, elementwise.Div, nil, elementwise.Of(m), elementwise.Of(total))
	c.Sub(square, means, m)
	c.Mul(square, square, square)
	// 1/rstd² − eps is a part's own variance.
	c.Mul(weight, rstds, rstds)
	c.Set(weight, elementwise.Reciprocal, nil, elementwise.Of(weight))
	c.Set(weight, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(weight), elementwise.Const(elementwise.Real(-eps)))
	c.Set(square, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(square), elementwise.Of(weight))
	c.Mul(square, square, share)
	s := c.Temp(mean.Shape)
	c.Reduce(ReduceSum, s, square, []int{0}, 0)
	c.Set(total, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(total), elementwise.Const(elementwise.Real(-correction)))
	c.Set(variance, elementwise.Div, nil, elementwise.Of(s), elementwise.Of(total))
	c.Set(mean, elementwise.Identity, nil, elementwise.Of(m))
	return c.End()
}

// BatchTotals computes the mean and the variance of n elements per channel from the sums of the
// elements and of their squares. sums and squares have one row per part.
func BatchTotals(mean, variance, sums, squares kernel.View, n float64) error {
	c := NewChain(sums, squares)
	m, v := c.Temp(mean.Shape), c.Temp(mean.Shape)
	c.Reduce(ReduceSum, m, sums, []int{0}, 0)
	c.Reduce(ReduceSum, v, squares, []int{0}, 0)
	c.Set(m, elementwise.Div, nil, elementwise.Of(m), elementwise.Const(elementwise.Real(n)))
	c.Set(v, elementwise.Div, nil, elementwise.Of(v), elementwise.Const(elementwise.Real(n)))
	c.AddTimes(v, v, -1, m, m)
	c.Set(mean, elementwise.Identity, nil, elementwise.Of(m))
	c.Set(variance, elementwise.Identity, nil, elementwise.Of(v))
	return c.End()
}
