package kernel

// Softmax is out = exp(x − max) / Σ exp(x − max) over an axis.
func Softmax(out, x View, axis int) error {
	return newPieces(x.Shape, axis, []View{out}, x).run(func(_ int64, of func(View) View) error {
		x, out, axes := of(x), of(out), [...]int{axis}
		c := newChain(x)
		most, sum, e := c.along(x.Shape, axes[:]), c.along(x.Shape, axes[:]), c.temp(x.Shape)
		c.reduce(ReduceMax, most, x, axes[:], 0)
		c.sub(e, x, most)
		c.set(e, Exp, nil, Of(e))
		c.reduce(ReduceSum, sum, e, axes[:], 0)
		c.set(out, Div, nil, Of(e), Of(sum))
		return c.end()
	})
}

// LogSoftmax is out = x − max − ln Σ exp(x − max) over an axis.
func LogSoftmax(out, x View, axis int) error {
	return newPieces(x.Shape, axis, []View{out}, x).run(func(_ int64, of func(View) View) error {
		x, out, axes := of(x), of(out), [...]int{axis}
		c := newChain(x)
		most, lse := c.along(x.Shape, axes[:]), c.along(x.Shape, axes[:])
		shifted, e := c.temp(x.Shape), c.temp(x.Shape)
		// Subtract the maximum first: added to a large maximum, the logarithm would lose precision.
		c.reduce(ReduceMax, most, x, axes[:], 0)
		c.sub(shifted, x, most)
		c.set(e, Exp, nil, Of(shifted))
		c.reduce(ReduceSum, lse, e, axes[:], 0)
		c.set(lse, Log, nil, Of(lse))
		c.sub(out, shifted, lse)
		return c.end()
	})
}

// SoftmaxGrad is dx = (dy − Σ dy·y) · y over an axis, where y is the result of Softmax.
func SoftmaxGrad(dx, dy, y View, axis int) error {
	return newPieces(y.Shape, axis, []View{dx}, dy, y).run(func(_ int64, of func(View) View) error {
		dx, dy, y, axes := of(dx), of(dy), of(y), [...]int{axis}
		c := newChain(y)
		product, sum := c.temp(y.Shape), c.along(y.Shape, axes[:])
		c.mul(product, dy, y)
		c.reduce(ReduceSum, sum, product, axes[:], 0)
		c.sub(product, dy, sum)
		c.mul(dx, product, y)
		return c.end()
	})
}

// LogSoftmaxGrad is dx = dy − exp(y) · Σ dy over an axis, where y is the result of LogSoftmax.
func LogSoftmaxGrad(dx, dy, y View, axis int) error {
	return newPieces(y.Shape, axis, []View{dx}, dy, y).run(func(_ int64, of func(View) View) error {
		dx, dy, y, axes := of(dx), of(dy), of(y), [...]int{axis}
		c := newChain(y)
		p, sum := c.temp(y.Shape), c.along(y.Shape, axes[:])
		c.set(p, Exp, nil, Of(y))
		c.reduce(ReduceSum, sum, dy, axes[:], 0)
		c.addTimes(p, dy, -1, p, sum)
		c.set(dx, Identity, nil, Of(p))
		return c.end()
	})
}
