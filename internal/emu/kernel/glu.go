package kernel

// halves are the two halves of an axis.
func halves(v View, axis int) (a, b View) {
	n := v.Shape[axis] / 2
	return v.Part(axis, 0, n, 1), v.Part(axis, n, n, 1)
}

// SwiGLU is out = silu(a) · b, a and b being the halves of x along an axis.
func SwiGLU(out, x View, axis int) error {
	c := newChain(x)
	a, b := halves(x, axis)
	gate := c.temp(a.Shape)
	c.set(gate, Swish, []Number{Real(1)}, Of(a))
	c.mul(out, gate, b)
	return c.end()
}

// SwiGLUGrad is the gradient of SwiGLU.
func SwiGLUGrad(dx, dy, x View, axis int) error {
	c := newChain(x)
	a, b := halves(x, axis)
	da, db := halves(dx, axis)
	gate, up := c.temp(a.Shape), c.temp(a.Shape)
	c.mul(gate, dy, b)
	c.set(gate, SwishGrad, []Number{Real(1)}, Of(gate), Of(a))
	c.set(up, Swish, []Number{Real(1)}, Of(a))
	c.mul(db, up, dy)
	c.set(da, Identity, nil, Of(gate))
	return c.end()
}
