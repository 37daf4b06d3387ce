package kernel

// Gate is a gated linear unit: Op of one half of x along an axis, times the other half.
type Gate struct {
	Op, Grad Op // Grad takes the gradient and the argument of Op, or its result with OfResult
	Params   []Number
	OfResult bool
	Left     bool // the first half goes through Op, else the second
}

// Gates of the named units. Those with a flag take either half.
var (
	SwishGate   = Gate{Op: Swish, Grad: SwishGrad, Params: []Number{Real(1)}, Left: true}
	SigmoidGate = Gate{Op: Sigmoid, Grad: SigmoidGrad, OfResult: true}
	ErfGate     = Gate{Op: Gelu, Grad: GeluGrad}
	TanhGate    = Gate{Op: GeluTanh, Grad: GeluTanhGrad}
)

// halves returns the half of v to which Op is applied, and the other half.
func (g Gate) halves(v View, axis int) (through, other View) {
	n := v.Shape[axis] / 2
	a, b := v.Part(axis, 0, n, 1), v.Part(axis, n, n, 1)
	if g.Left {
		return a, b
	}
	return b, a
}

// Forward computes out, and writes the result of Op to activated, which may have no data.
func (g Gate) Forward(out, activated, x View, axis int) error {
	return newPieces(out.Shape, axis, []View{out, activated}, x).run(func(_ int64, of func(View) View) error {
		out, activated, x := of(out), of(activated), of(x)
		c := newChain(x)
		through, other := g.halves(x, axis)
		gate := c.temp(through.Shape)
		c.set(gate, g.Op, g.Params, Of(through))
		c.mul(out, gate, other)
		c.give(activated, gate)
		return c.end()
	})
}

// Backward computes the gradient of Forward. dx may be x or overlap dy.
func (g Gate) Backward(dx, dy, x View, axis int) error {
	return newPieces(dy.Shape, axis, []View{dx}, dy, x).run(func(_ int64, of func(View) View) error {
		dx, dy, x := of(dx), of(dy), of(x)
		c := newChain(x)
		through, other := g.halves(x, axis)
		dthrough, dother := g.halves(dx, axis)
		gate, slope := c.temp(through.Shape), c.temp(through.Shape)
		c.set(gate, g.Op, g.Params, Of(through))
		at := through
		if g.OfResult {
			at = gate
		}
		c.mul(slope, dy, other)
		c.set(slope, g.Grad, g.Params, Of(slope), Of(at))
		c.mul(dother, gate, dy)
		c.set(dthrough, Identity, nil, Of(slope))
		return c.end()
	})
}
