package kernel

// #include "rows_op.h"
import "C"

import "github.com/goascend/cann/internal/dtype"

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
	if g.isSwiGLU(x) && activated.Data == nil && !overlaps(out, x) {
		var o C.struct_swiglu
		through, other := g.halves(x, axis)
		return runSwiGLU(&o, []View{out, through, other}, []*C.struct_operand{&o.out, &o.x, &o.y}, func(lo, hi C.int64_t) { C.swiglu_run(&o, lo, hi) })
	}
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
	if g.isSwiGLU(x) && !overlaps(dx, dy) && !overlaps(dx, x) {
		var o C.struct_swiglu
		through, other := g.halves(x, axis)
		dthrough, dother := g.halves(dx, axis)
		return runSwiGLU(&o, []View{dthrough, dother, through, other, dy}, []*C.struct_operand{&o.out, &o.y_grad, &o.x, &o.y, &o.dy},
			func(lo, hi C.int64_t) { C.swiglu_grad_run(&o, lo, hi) })
	}
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

// isSwiGLU reports whether a kernel computes the unit in one pass over memory.
func (g Gate) isSwiGLU(x View) bool {
	return g.Op == Swish && g.Params[0] == Real(1) && x.DType != dtype.Float64 && len(x.Shape) <= MaxRank
}

// runSwiGLU sets the operands of o and runs it on all threads.
func runSwiGLU(o *C.struct_swiglu, views []View, operands []*C.struct_operand, run func(lo, hi C.int64_t)) (err error) {
	if o.space, err = elementwise(views, operands...); err != nil {
		return err
	}
	Parallel(views[0].Len(), pieceLen, func(lo, hi int64) { run(C.int64_t(lo), C.int64_t(hi)) })
	return nil
}
