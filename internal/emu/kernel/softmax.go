package kernel

// Softmax is out = exp(x − max) / Σ exp(x − max) over an axis.
func Softmax(out, x View, axis int) error {
	c, e, sum := exponentials(x, axis)
	c.set(out, Div, nil, Of(e), Of(kept(sum, len(x.Shape), []int{axis})))
	return c.end()
}

// LogSoftmax is out = x − max − ln Σ exp(x − max) over an axis.
func LogSoftmax(out, x View, axis int) error {
	c := newChain(x)
	axes := []int{axis}
	most, lse := c.temp(others(x.Shape, axes)), c.temp(others(x.Shape, axes))
	shifted, e := c.temp(x.Shape), c.temp(x.Shape)
	// Subtract the maximum first: added to a large maximum, the logarithm would lose precision.
	c.reduce(ReduceMax, most, x, axes, 0)
	c.sub(shifted, x, kept(most, len(x.Shape), axes))
	c.set(e, Exp, nil, Of(shifted))
	c.reduce(ReduceSum, lse, e, axes, 0)
	c.set(lse, Log, nil, Of(lse))
	c.sub(out, shifted, kept(lse, len(x.Shape), axes))
	return c.end()
}

// exponentials returns exp(x − max) and its sums over axis.
func exponentials(x View, axis int) (c *chain, e, sum View) {
	c = newChain(x)
	axes := []int{axis}
	most := c.temp(others(x.Shape, axes))
	e, sum = c.temp(x.Shape), c.temp(others(x.Shape, axes))
	c.reduce(ReduceMax, most, x, axes, 0)
	c.sub(e, x, kept(most, len(x.Shape), axes))
	c.set(e, Exp, nil, Of(e))
	c.reduce(ReduceSum, sum, e, axes, 0)
	return c, e, sum
}

// SoftmaxGrad is dx = (dy − Σ dy·y) · y over an axis, where y is the result of Softmax.
func SoftmaxGrad(dx, dy, y View, axis int) error {
	c := newChain(y)
	axes := []int{axis}
	product, sum := c.temp(y.Shape), c.temp(others(y.Shape, axes))
	c.mul(product, dy, y)
	c.reduce(ReduceSum, sum, product, axes, 0)
	c.sub(product, dy, kept(sum, len(y.Shape), axes))
	c.mul(dx, product, y)
	return c.end()
}

// LogSoftmaxGrad is dx = dy − exp(y) · Σ dy over an axis, where y is the result of LogSoftmax.
func LogSoftmaxGrad(dx, dy, y View, axis int) error {
	c := newChain(y)
	axes := []int{axis}
	p, sum := c.temp(y.Shape), c.temp(others(y.Shape, axes))
	c.set(p, Exp, nil, Of(y))
	c.reduce(ReduceSum, sum, dy, axes, 0)
	c.addTimes(p, dy, -1, p, kept(sum, len(y.Shape), axes))
	c.set(dx, Identity, nil, Of(p))
	return c.end()
}
