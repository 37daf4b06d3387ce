package kernel

import "github.com/goascend/cann/internal/dtype"

// channels reshapes a vector with one element per channel so that it broadcasts against
// [N, C, …] of the given rank. A view without data is returned as is.
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

// exceptChannels lists the dimensions of [N, C, …] except the second.
func exceptChannels(rank int) []int { return append([]int{0}, axesFrom(2, rank)...) }

// inverseDeviation is out = 1/√(variance + eps).
func (c *chain) inverseDeviation(out, variance View, eps float64) {
	c.set(out, Add, []Number{Real(1)}, Of(variance), Const(Real(eps)))
	c.set(out, Rsqrt, nil, Of(out))
}

// BatchMoments writes the mean and the variance of each channel of x [N, C, …]. The variance
// divides by the number of elements minus correction.
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

// Blend is out = (1-weight)·out + weight·value, the update of running statistics.
func Blend(out, value View, weight float64) error {
	return Map(Lerp, value.DType, out, []Input{Of(out), Of(value), Const(Real(weight))})
}

// BatchNorm is y = (x − mean)·rstd·weight + bias for x [N, C, …]. The other operands have one
// element per channel. weight and bias may have no data.
func BatchNorm(y, x, mean, rstd, weight, bias View) error {
	c := newChain(x)
	rank := len(x.Shape)
	z := c.temp(x.Shape)
	c.set(z, SubMul, nil, Of(x), Of(channels(mean, rank)), Of(channels(rstd, rank)))
	c.affine(y, z, channels(weight, rank), channels(bias, rank))
	return c.end()
}

// BatchSums writes for each channel sum = Σ dy and product = Σ dy·(x − mean), for x [N, C, …] and a mean per channel.
func BatchSums(sum, product, dy, x, mean View) error {
	c := newChain(x, dy)
	axes, z := exceptChannels(len(x.Shape)), c.temp(x.Shape)
	c.set(z, SubMul, nil, Of(x), Of(channels(mean, len(x.Shape))), Of(dy))
	c.reduce(ReduceSum, sum, dy, axes, 0)
	c.reduce(ReduceSum, product, z, axes, 0)
	return c.end()
}

// BatchNormGrad is dx = (dy − sum/n − (x − mean)·rstd²·product/n)·rstd·weight, where sum and
// product are Σ dy and Σ dy·(x − mean) over the n elements of each channel. weight may have no
// data.
func BatchNormGrad(dx, dy, x, mean, rstd, weight, sum, product View, n float64) error {
	c := newChain(x, dy)
	rank := len(x.Shape)
	z, slope, shift, scale := c.temp(x.Shape), c.temp(mean.Shape), c.temp(mean.Shape), c.temp(mean.Shape)
	c.mul(slope, product, rstd)
	c.mul(slope, slope, rstd)
	c.set(slope, Mul, nil, Of(slope), Const(Real(1/n)))
	c.set(shift, Mul, nil, Of(sum), Const(Real(1/n)))
	c.affine(scale, rstd, weight, View{})
	c.set(z, SubMul, nil, Of(x), Of(channels(mean, rank)), Of(channels(slope, rank)))
	c.sub(z, dy, z)
	c.set(dx, SubMul, nil, Of(z), Of(channels(shift, rank)), Of(channels(scale, rank)))
	return c.end()
}

// BatchGather combines the means and rstds [parts, C] of parts with counts [parts] elements per
// channel into a mean and a variance of all elements. The variance divides by the number of
// elements minus correction.
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

// Temporary allocates a contiguous float32 view of the given shape for intermediate results.
// The caller frees it with the returned function.
func Temporary(shape ...int64) (View, func()) { return temporary(dtype.Float32, shape) }

// TemporaryOf is like Temporary for elements of type d.
func TemporaryOf(d dtype.Type, shape ...int64) (View, func()) { return temporary(d, shape) }

// TemporaryInt8 is like Temporary for int8.
func TemporaryInt8(shape ...int64) (View, func()) { return temporary(dtype.Int8, shape) }

// TemporaryInt64 is like Temporary for int64.
func TemporaryInt64(shape ...int64) (View, func()) { return temporary(dtype.Int64, shape) }

// BatchTotals computes the mean and the variance of n elements per channel from the sums of the
// elements and of their squares. sums and squares have one row per part.
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
