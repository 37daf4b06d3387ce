package kernel

import "github.com/goascend/cann/internal/dtype"

// channels is a vector with a number per channel as it broadcasts against [N, C, …] of the
// given rank; without data it stays so.
func channels(v View, rank int) View {
	if v.Data == nil {
		return v
	}
	shape, strides := make([]int64, rank-1), make([]int64, rank-1)
	for i := range shape {
		shape[i] = 1
	}
	shape[0], strides[0] = v.Shape[0], v.Strides[0]
	return View{Data: v.Data, DType: v.DType, Shape: shape, Strides: strides}
}

// exceptChannels lists the dimensions of [N, C, …] but for the second.
func exceptChannels(rank int) []int { return append([]int{0}, axesFrom(2, rank)...) }

// inverseDeviation is out = 1/√(variance + eps).
func (c *chain) inverseDeviation(out, variance View, eps float64) {
	c.set(out, Add, []Number{Real(1)}, Of(variance), Const(Real(eps)))
	c.set(out, Rsqrt, nil, Of(out))
}

// BatchMoments writes the mean and the variance of each channel of x [N, C, …]. The
// correction is subtracted from the number of elements that the squares are divided by.
func BatchMoments(mean, variance, x View, correction float64) error {
	if err := Reduce(ReduceMean, mean, x, exceptChannels(len(x.Shape)), 0); err != nil {
		return err
	}
	return Reduce(ReduceVar, variance, x, exceptChannels(len(x.Shape)), correction)
}

// InverseDeviation is out = 1/√(variance + eps).
func InverseDeviation(out, variance View, eps float64) error {
	c := newChain(out, variance)
	c.inverseDeviation(out, variance, eps)
	return c.end()
}

// Blend is out = (1-weight)·out + weight·value: how running statistics change.
func Blend(out, value View, weight float64) error {
	return Map(Lerp, value.DType, out, []Input{Of(out), Of(value), Const(Real(weight))})
}

// BatchNorm is y = (x − mean)·rstd·weight + bias for x [N, C, …], with a number per channel
// in the others. weight and bias may have no data.
func BatchNorm(y, x, mean, rstd, weight, bias View) error {
	c := newChain(x)
	rank := len(x.Shape)
	z := c.temp(x.Shape)
	c.sub(z, x, channels(mean, rank))
	c.mul(z, z, channels(rstd, rank))
	c.affine(z, channels(weight, rank), channels(bias, rank))
	c.set(y, Identity, nil, Of(z))
	return c.end()
}

// BatchSums writes for each channel Σ dy and Σ dy·(x − mean)·scale; scale and each of the
// outputs may have no data. mean and scale broadcast to x [N, C, …].
func BatchSums(sum, product, dy, x, mean, scale View) error {
	c := newChain(x, dy)
	axes := exceptChannels(len(x.Shape))
	result := func(out, of View) {
		if out.Data == nil {
			return
		}
		s := c.temp([]int64{x.Shape[1]})
		c.reduce(ReduceSum, s, of, axes, 0)
		c.set(out, Identity, nil, Of(s))
	}
	result(sum, dy)
	if product.Data != nil {
		z := c.temp(x.Shape)
		c.sub(z, x, mean)
		if scale.Data != nil {
			c.mul(z, z, scale)
		}
		c.mul(z, z, dy)
		result(product, z)
	}
	return c.end()
}

// BatchCentred is BatchSums with a mean and a scale per channel.
func BatchCentred(sum, product, dy, x, mean, scale View) error {
	rank := len(x.Shape)
	if scale.Data != nil {
		scale = channels(scale, rank)
	}
	return BatchSums(sum, product, dy, x, channels(mean, rank), scale)
}

// BatchNormGrad is dx = (dy − sum/n − (x − mean)·rstd²·product/n)·rstd·weight, sum and
// product being Σ dy and Σ dy·(x − mean) per channel over all n elements of it. weight may
// have no data.
func BatchNormGrad(dx, dy, x, mean, rstd, weight, sum, product View, n float64) error {
	c := newChain(x, dy)
	rank := len(x.Shape)
	z, slope, shift := c.temp(x.Shape), c.temp(mean.Shape), c.temp(mean.Shape)
	c.mul(slope, product, rstd)
	c.mul(slope, slope, rstd)
	c.set(slope, Mul, nil, Of(slope), Const(Real(1/n)))
	c.set(shift, Mul, nil, Of(sum), Const(Real(1/n)))
	c.sub(z, x, channels(mean, rank))
	c.mul(z, z, channels(slope, rank))
	c.sub(z, dy, z)
	c.sub(z, z, channels(shift, rank))
	c.mul(z, z, channels(rstd, rank))
	c.affine(z, channels(weight, rank), View{})
	c.set(dx, Identity, nil, Of(z))
	return c.end()
}

// BatchGather joins the statistics of parts [parts, C] that have counts [parts] elements
// per channel each: the mean, and the variance with the correction subtracted from the
// number of elements.
func BatchGather(mean, variance, means, rstds, counts View, eps, correction float64) error {
	c := newChain(means)
	total, weight := c.temp([]int64{}), c.temp(means.Shape)
	c.reduce(ReduceSum, total, counts, []int{0}, 0)
	share := kept(counts, 2, []int{1})
	m, square := c.temp(mean.Shape), c.temp(means.Shape)
	c.mul(weight, means, share)
	c.reduce(ReduceSum, m, weight, []int{0}, 0)
	c.set(m, Div, nil, Of(m), Of(total))
	c.sub(square, means, m)
	c.mul(square, square, square)
	// 1/rstd² − eps is a part's own variance.
	c.mul(weight, rstds, rstds)
	c.set(weight, Reciprocal, nil, Of(weight))
	c.set(weight, Add, []Number{Real(1)}, Of(weight), Const(Real(-eps)))
	c.set(square, Add, []Number{Real(1)}, Of(square), Of(weight))
	c.mul(square, square, share)
	s := c.temp(mean.Shape)
	c.reduce(ReduceSum, s, square, []int{0}, 0)
	c.set(total, Add, []Number{Real(1)}, Of(total), Const(Real(-correction)))
	c.set(variance, Div, nil, Of(s), Of(total))
	c.set(mean, Identity, nil, Of(m))
	return c.end()
}

// Temporary is a contiguous float32 view of the given shape for a caller that computes in
// steps; it is released with the function.
func Temporary(shape ...int64) (View, func()) { return temporary(dtype.Float32, shape) }

// TemporaryInt8 is Temporary of int8.
func TemporaryInt8(shape ...int64) (View, func()) { return temporary(dtype.Int8, shape) }

// TemporaryInt64 is Temporary of int64.
func TemporaryInt64(shape ...int64) (View, func()) { return temporary(dtype.Int64, shape) }

// BatchTotals computes mean and variance of n elements per channel from sums of the elements
// and of their squares, a row for each part.
func BatchTotals(mean, variance, sums, squares View, n float64) error {
	c := newChain(sums, squares)
	m, v := c.temp(mean.Shape), c.temp(mean.Shape)
	c.reduce(ReduceSum, m, sums, []int{0}, 0)
	c.reduce(ReduceSum, v, squares, []int{0}, 0)
	c.set(m, Div, nil, Of(m), Const(Real(n)))
	c.set(v, Div, nil, Of(v), Const(Real(n)))
	c.addTimes(v, v, -1, m, m)
	c.set(mean, Identity, nil, Of(m))
	c.set(variance, Identity, nil, Of(v))
	return c.end()
}
