package rowwise

import (
	"math"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
)

// ClippedGate is a gated linear unit of rows with clamped halves: a·σ(Alpha·a)·(b + Bias) with a
// at most Limit and b within ±Limit. A Limit of +Inf disables clamping.
type ClippedGate struct {
	Alpha, Limit, Bias float64
	// After clamps a·σ(Alpha·a) instead of a.
	After       bool
	Interleaved bool // the halves are the even and the odd elements
}

// halves returns the halves a and b of rows [n, 2·width].
func (g ClippedGate) halves(v kernel.View) (a, b kernel.View) {
	n := v.Shape[1] / 2
	if g.Interleaved {
		return v.Part(1, 0, n, 2), v.Part(1, 1, n, 2)
	}
	return v.Part(1, 0, n, 1), v.Part(1, n, n, 1)
}

// clamp sets out to v clamped to [lo, Limit].
func (g ClippedGate) clamp(c *Chain, out, v kernel.View, lo float64) {
	if math.IsInf(g.Limit, 1) {
		c.Copy(out, v)
		return
	}
	c.Set(out, elementwise.Clamp, nil, elementwise.Of(v), elementwise.Const(elementwise.Real(lo)), elementwise.Const(elementwise.Real(g.Limit)))
}

// parts returns the activated half and the other half plus Bias.
func (g ClippedGate) parts(c *Chain, x kernel.View) (activated, other kernel.View) {
	a, b := g.halves(x)
	activated, other = c.Temp(a.Shape), c.Temp(a.Shape)
	if g.After {
		c.Set(activated, elementwise.Swish, []elementwise.Number{elementwise.Real(g.Alpha)}, elementwise.Of(a))
		g.clamp(c, activated, activated, math.Inf(-1))
	} else {
		g.clamp(c, activated, a, math.Inf(-1))
		c.Set(activated, elementwise.Swish, []elementwise.Number{elementwise.Real(g.Alpha)}, elementwise.Of(activated))
	}
	g.clamp(c, other, b, -g.Limit)
	c.Set(other, elementwise.Add, []elementwise.Number{elementwise.Real(g.Bias)}, elementwise.Of(other), elementwise.Const(elementwise.Real(1)))
	return activated, other
}

// Forward computes out [n, width]. weight [n, 1] multiplies the rows and may have no data.
func (g ClippedGate) Forward(out, x, weight kernel.View) error {
	c := NewChain(x)
	activated, other := g.parts(c, x)
	if weight.Data != nil {
		c.Mul(other, other, weight)
	}
	c.Mul(out, activated, other)
	return c.End()
}

// Backward computes the gradient of x for a clamp before the activation (After is not
// supported). The gradient of a clamped element is 0.
func (g ClippedGate) Backward(dx, dy, x, weight kernel.View) error {
	c := NewChain(x)
	a, b := g.halves(x)
	da, db := g.halves(dx)
	activated, other := g.parts(c, x)
	grad := c.Temp(a.Shape)
	c.Copy(grad, dy)
	if weight.Data != nil {
		c.Mul(grad, grad, weight)
	}
	c.Mul(activated, activated, grad)
	c.Mul(other, other, grad)
	// Use the clamped a instead of a: they differ only where the gradient is masked to 0.
	c.Set(other, elementwise.SwishGrad, []elementwise.Number{elementwise.Real(g.Alpha)}, elementwise.Of(other), elementwise.Of(a))
	if math.IsInf(g.Limit, 1) {
		c.Copy(da, other)
		c.Copy(db, activated)
		return c.End()
	}
	inside, limit, lowest := c.Temp(a.Shape), elementwise.Const(elementwise.Real(g.Limit)), elementwise.Const(elementwise.Real(-g.Limit))
	c.Set(inside, elementwise.LessEqual, nil, elementwise.Of(a), limit)
	c.Set(da, elementwise.Where, nil, elementwise.Of(inside), elementwise.Of(other), elementwise.Const(elementwise.Real(0)))
	c.Set(inside, elementwise.LessEqual, nil, elementwise.Of(b), limit)
	c.Set(activated, elementwise.Where, nil, elementwise.Of(inside), elementwise.Of(activated), elementwise.Const(elementwise.Real(0)))
	c.Set(inside, elementwise.GreaterEqual, nil, elementwise.Of(b), lowest)
	c.Set(db, elementwise.Where, nil, elementwise.Of(inside), elementwise.Of(activated), elementwise.Const(elementwise.Real(0)))
	return c.End()
}

// TanhBoundGate is a gated linear unit whose halves are bounded by tanh:
// Beta·tanh(a/Beta)·σ(a)·u with u = Linear·tanh(b/Linear), or u = b if Linear is not positive.
type TanhBoundGate struct {
	Beta, Linear float64
	Left         bool // a is the first half
}

// parts returns tanh(a/Beta), σ(a), tanh(b/Linear) and u.
func (g TanhBoundGate) parts(c *Chain, x kernel.View, axis int) (bound, open, tanh, u kernel.View) {
	a, b := Gate{Left: g.Left}.halves(x, axis)
	bound, open, tanh, u = c.Temp(a.Shape), c.Temp(a.Shape), c.Temp(a.Shape), c.Temp(a.Shape)
	c.Set(bound, elementwise.Div, nil, elementwise.Of(a), elementwise.Const(elementwise.Real(g.Beta)))
	c.Set(bound, elementwise.Tanh, nil, elementwise.Of(bound))
	c.Set(open, elementwise.Sigmoid, nil, elementwise.Of(a))
	if g.Linear <= 0 {
		c.Copy(u, b)
		return bound, open, tanh, u
	}
	c.Set(tanh, elementwise.Div, nil, elementwise.Of(b), elementwise.Const(elementwise.Real(g.Linear)))
	c.Set(tanh, elementwise.Tanh, nil, elementwise.Of(tanh))
	c.Set(u, elementwise.Mul, nil, elementwise.Of(tanh), elementwise.Const(elementwise.Real(g.Linear)))
	return bound, open, tanh, u
}

// Forward computes out from x.
func (g TanhBoundGate) Forward(out, x kernel.View, axis int) error {
	c := NewChain(x)
	bound, open, _, u := g.parts(c, x, axis)
	c.Mul(open, open, bound)
	c.Set(open, elementwise.Mul, nil, elementwise.Of(open), elementwise.Const(elementwise.Real(g.Beta)))
	c.Mul(out, open, u)
	return c.End()
}

// Backward computes the gradient of x.
func (g TanhBoundGate) Backward(dx, dy, x kernel.View, axis int) error {
	c := NewChain(x)
	bound, open, tanh, u := g.parts(c, x, axis)
	da, db := Gate{Left: g.Left}.halves(dx, axis)
	c.Mul(u, u, dy) // the gradient of the gate
	slope, unit := c.Temp(u.Shape), c.Temp(u.Shape)
	c.Mul(unit, bound, open)
	c.Set(unit, elementwise.Mul, nil, elementwise.Of(unit), elementwise.Const(elementwise.Real(g.Beta)))
	c.Mul(unit, unit, dy) // the gradient of u
	// d(β·t·s) = s·((1 - t²) + β·t·(1 - s))
	c.Set(slope, elementwise.SigmoidGrad, nil, elementwise.Of(bound), elementwise.Of(open))
	c.Set(slope, elementwise.Mul, nil, elementwise.Of(slope), elementwise.Const(elementwise.Real(g.Beta)))
	c.Set(open, elementwise.TanhGrad, nil, elementwise.Of(open), elementwise.Of(bound))
	c.Set(slope, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(slope), elementwise.Of(open))
	c.Mul(da, u, slope)
	if g.Linear > 0 {
		c.Set(unit, elementwise.TanhGrad, nil, elementwise.Of(unit), elementwise.Of(tanh))
	}
	c.Copy(db, unit)
	return c.End()
}
