package kernel

import "math"

// ClippedGate is a gated linear unit of rows with clamped halves: a·σ(Alpha·a)·(b + Bias) with a
// at most Limit and b within ±Limit. A Limit of +Inf disables clamping.
type ClippedGate struct {
	Alpha, Limit, Bias float64
	// After clamps a·σ(Alpha·a) instead of a.
	After       bool
	Interleaved bool // the halves are the even and the odd elements
}

// halves returns the halves a and b of rows [n, 2·width].
func (g ClippedGate) halves(v View) (a, b View) {
	n := v.Shape[1] / 2
	if g.Interleaved {
		return v.Part(1, 0, n, 2), v.Part(1, 1, n, 2)
	}
	return v.Part(1, 0, n, 1), v.Part(1, n, n, 1)
}

// clamp sets out to v clamped to [lo, Limit].
func (g ClippedGate) clamp(c *chain, out, v View, lo float64) {
	if math.IsInf(g.Limit, 1) {
		c.copy(out, v)
		return
	}
	c.set(out, Clamp, nil, Of(v), Const(Real(lo)), Const(Real(g.Limit)))
}

// parts returns the activated half and the other half plus Bias.
func (g ClippedGate) parts(c *chain, x View) (activated, other View) {
	a, b := g.halves(x)
	activated, other = c.temp(a.Shape), c.temp(a.Shape)
	if g.After {
		c.set(activated, Swish, []Number{Real(g.Alpha)}, Of(a))
		g.clamp(c, activated, activated, math.Inf(-1))
	} else {
		g.clamp(c, activated, a, math.Inf(-1))
		c.set(activated, Swish, []Number{Real(g.Alpha)}, Of(activated))
	}
	g.clamp(c, other, b, -g.Limit)
	c.set(other, Add, []Number{Real(g.Bias)}, Of(other), Const(Real(1)))
	return activated, other
}

// Forward computes out [n, width]. weight [n, 1] multiplies the rows and may have no data.
func (g ClippedGate) Forward(out, x, weight View) error {
	c := newChain(x)
	activated, other := g.parts(c, x)
	if weight.Data != nil {
		c.mul(other, other, weight)
	}
	c.mul(out, activated, other)
	return c.end()
}

// Backward computes the gradient of x for a clamp before the activation (After is not
// supported). The gradient of a clamped element is 0.
func (g ClippedGate) Backward(dx, dy, x, weight View) error {
	c := newChain(x)
	a, b := g.halves(x)
	da, db := g.halves(dx)
	activated, other := g.parts(c, x)
	grad := c.temp(a.Shape)
	c.copy(grad, dy)
	if weight.Data != nil {
		c.mul(grad, grad, weight)
	}
	c.mul(activated, activated, grad)
	c.mul(other, other, grad)
	// Use the clamped a instead of a: they differ only where the gradient is masked to 0.
	c.set(other, SwishGrad, []Number{Real(g.Alpha)}, Of(other), Of(a))
	if math.IsInf(g.Limit, 1) {
		c.copy(da, other)
		c.copy(db, activated)
		return c.end()
	}
	inside, limit, lowest := c.temp(a.Shape), Const(Real(g.Limit)), Const(Real(-g.Limit))
	c.set(inside, LessEqual, nil, Of(a), limit)
	c.set(da, Where, nil, Of(inside), Of(other), Const(Real(0)))
	c.set(inside, LessEqual, nil, Of(b), limit)
	c.set(activated, Where, nil, Of(inside), Of(activated), Const(Real(0)))
	c.set(inside, GreaterEqual, nil, Of(b), lowest)
	c.set(db, Where, nil, Of(inside), Of(activated), Const(Real(0)))
	return c.end()
}

// TanhBoundGate is a gated linear unit whose halves are bounded by tanh:
// Beta·tanh(a/Beta)·σ(a)·u with u = Linear·tanh(b/Linear), or u = b if Linear is not positive.
type TanhBoundGate struct {
	Beta, Linear float64
	Left         bool // a is the first half
}

// parts returns tanh(a/Beta), σ(a), tanh(b/Linear) and u.
func (g TanhBoundGate) parts(c *chain, x View, axis int) (bound, open, tanh, u View) {
	a, b := Gate{Left: g.Left}.halves(x, axis)
	bound, open, tanh, u = c.temp(a.Shape), c.temp(a.Shape), c.temp(a.Shape), c.temp(a.Shape)
	c.set(bound, Div, nil, Of(a), Const(Real(g.Beta)))
	c.set(bound, Tanh, nil, Of(bound))
	c.set(open, Sigmoid, nil, Of(a))
	if g.Linear <= 0 {
		c.copy(u, b)
		return bound, open, tanh, u
	}
	c.set(tanh, Div, nil, Of(b), Const(Real(g.Linear)))
	c.set(tanh, Tanh, nil, Of(tanh))
	c.set(u, Mul, nil, Of(tanh), Const(Real(g.Linear)))
	return bound, open, tanh, u
}

// Forward computes out from x.
func (g TanhBoundGate) Forward(out, x View, axis int) error {
	c := newChain(x)
	bound, open, _, u := g.parts(c, x, axis)
	c.mul(open, open, bound)
	c.set(open, Mul, nil, Of(open), Const(Real(g.Beta)))
	c.mul(out, open, u)
	return c.end()
}

// Backward computes the gradient of x.
func (g TanhBoundGate) Backward(dx, dy, x View, axis int) error {
	c := newChain(x)
	bound, open, tanh, u := g.parts(c, x, axis)
	da, db := Gate{Left: g.Left}.halves(dx, axis)
	c.mul(u, u, dy) // the gradient of the gate
	slope, unit := c.temp(u.Shape), c.temp(u.Shape)
	c.mul(unit, bound, open)
	c.set(unit, Mul, nil, Of(unit), Const(Real(g.Beta)))
	c.mul(unit, unit, dy) // the gradient of u
	// d(β·t·s) = s·((1 - t²) + β·t·(1 - s))
	c.set(slope, SigmoidGrad, nil, Of(bound), Of(open))
	c.set(slope, Mul, nil, Of(slope), Const(Real(g.Beta)))
	c.set(open, TanhGrad, nil, Of(open), Of(bound))
	c.set(slope, Add, []Number{Real(1)}, Of(slope), Of(open))
	c.mul(da, u, slope)
	if g.Linear > 0 {
		c.set(unit, TanhGrad, nil, Of(unit), Of(tanh))
	}
	c.copy(db, unit)
	return c.end()
}
