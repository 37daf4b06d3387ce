package rowwise

// #include "rows_op.h"
import "C"

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// Gate is a gated linear unit: Op of one half of x along an axis, times the other half.
type Gate struct {
	Op, Grad elementwise.Op // Grad takes the gradient and the argument of Op, or its result with OfResult
	Params   []elementwise.Number
	OfResult bool
	Left     bool // the first half goes through Op, else the second
}

// Gates of the named units. Those with a flag take either half.
var (
	SwishGate   = Gate{Op: elementwise.Swish, Grad: elementwise.SwishGrad, Params: []elementwise.Number{elementwise.Real(1)}, Left: true}
	SigmoidGate = Gate{Op: elementwise.Sigmoid, Grad: elementwise.SigmoidGrad, OfResult: true}
	ErfGate     = Gate{Op: elementwise.Gelu, Grad: elementwise.GeluGrad}
	TanhGate    = Gate{Op: elementwise.GeluTanh, Grad: elementwise.GeluTanhGrad}
)

// halves returns the half of v to which Op is applied, and the other half.
func (g Gate) halves(v kernel.View, axis int) (through, other kernel.View) {
	n := v.Shape[axis] / 2
	a, b := v.Part(axis, 0, n, 1), v.Part(axis, n, n, 1)
	if g.Left {
		return a, b
	}
	return b, a
}

// Forward computes out, and writes the result of Op to activated, which may have no data.
func (g Gate) Forward(out, activated, x kernel.View, axis int) error {
	if g.isSwiGLU(x) && activated.Data == nil && !kernel.Overlaps(out, x) {
		var o C.struct_swiglu
		through, other := g.halves(x, axis)
		return runSwiGLU(&o, []kernel.View{out, through, other}, []*C.struct_operand{&o.out, &o.x, &o.y}, func(lo, hi C.int64_t) { C.swiglu_run(&o, lo, hi) })
	}
	return elementwise.NewPieces(out.Shape, axis, []kernel.View{out, activated}, x).Run(func(_ int64, of func(kernel.View) kernel.View) error {
		out, activated, x := of(out), of(activated), of(x)
		c := NewChain(x)
		through, other := g.halves(x, axis)
		gate := c.Temp(through.Shape)
		c.Set(gate, g.Op, g.Params, elementwise.Of(through))
		c.Mul(out, gate, other)
		c.Give(activated, gate)
		return c.End()
	})
}

// Backward computes the gradient of Forward. dx may be x or overlap dy.
func (g Gate) Backward(dx, dy, x kernel.View, axis int) error {
	if g.isSwiGLU(x) && !kernel.Overlaps(dx, dy) && !kernel.Overlaps(dx, x) {
		var o C.struct_swiglu
		through, other := g.halves(x, axis)
		dthrough, dother := g.halves(dx, axis)
		return runSwiGLU(&o, []kernel.View{dthrough, dother, through, other, dy}, []*C.struct_operand{&o.out, &o.y_grad, &o.x, &o.y, &o.dy},
			func(lo, hi C.int64_t) { C.swiglu_grad_run(&o, lo, hi) })
	}
	return elementwise.NewPieces(dy.Shape, axis, []kernel.View{dx}, dy, x).Run(func(_ int64, of func(kernel.View) kernel.View) error {
		dx, dy, x := of(dx), of(dy), of(x)
		c := NewChain(x)
		through, other := g.halves(x, axis)
		dthrough, dother := g.halves(dx, axis)
		gate, slope := c.Temp(through.Shape), c.Temp(through.Shape)
		c.Set(gate, g.Op, g.Params, elementwise.Of(through))
		at := through
		if g.OfResult {
			at = gate
		}
		c.Mul(slope, dy, other)
		c.Set(slope, g.Grad, g.Params, elementwise.Of(slope), elementwise.Of(at))
		c.Mul(dother, gate, dy)
		c.Set(dthrough, elementwise.Identity, nil, elementwise.Of(slope))
		return c.End()
	})
}

// isSwiGLU reports whether a kernel computes the unit in one pass over memory.
func (g Gate) isSwiGLU(x kernel.View) bool {
	return g.Op == elementwise.Swish && g.Params[0] == elementwise.Real(1) && x.DType != dtype.Float64 && len(x.Shape) <= kernel.MaxRank
}

// runSwiGLU sets the operands of o and runs it on all threads.
func runSwiGLU(o *C.struct_swiglu, views []kernel.View, operands []*C.struct_operand, run func(lo, hi C.int64_t)) (err error) {
	if o.space, err = elementwiseSpace(views, operands...); err != nil {
		return err
	}
	thread.Parallel(views[0].Len(), elementwise.PieceLen, func(lo, hi int64) { run(C.int64_t(lo), C.int64_t(hi)) })
	return nil
}
