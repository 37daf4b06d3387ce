package rowwise

/*
#cgo noescape softmax_rows
#cgo nocallback softmax_rows
#cgo noescape softmax_grad_rows
#cgo nocallback softmax_grad_rows
#include "rows_op.h"
*/
import "C"

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// Softmax is out = exp(x − max) / Σ exp(x − max) over an axis.
func Softmax(out, x kernel.View, axis int) error {
	if done, err := softmaxRows(axis, 0, out, x); done {
		return err
	}
	return elementwise.NewPieces(x.Shape, axis, []kernel.View{out}, x).Run(func(_ int64, of func(kernel.View) kernel.View) error {
		x, out, axes := of(x), of(out), [...]int{axis}
		c := NewChain(x)
		most, sum, e := c.along(x.Shape, axes[:]), c.along(x.Shape, axes[:]), c.Temp(x.Shape)
		c.Reduce(ReduceMax, most, x, axes[:], 0)
		c.Sub(e, x, most)
		c.Set(e, elementwise.Exp, nil, elementwise.Of(e))
		c.Reduce(ReduceSum, sum, e, axes[:], 0)
		c.Set(out, elementwise.Div, nil, elementwise.Of(e), elementwise.Of(sum))
		return c.End()
	})
}

// LogSoftmax is out = x − max − ln Σ exp(x − max) over an axis.
func LogSoftmax(out, x kernel.View, axis int) error {
	if done, err := softmaxRows(axis, 1, out, x); done {
		return err
	}
	return elementwise.NewPieces(x.Shape, axis, []kernel.View{out}, x).Run(func(_ int64, of func(kernel.View) kernel.View) error {
		x, out, axes := of(x), of(out), [...]int{axis}
		c := NewChain(x)
		most, lse := c.along(x.Shape, axes[:]), c.along(x.Shape, axes[:])
		shifted, e := c.Temp(x.Shape), c.Temp(x.Shape)
		// Subtract the maximum first: added to a large maximum, the logarithm would lose precision.
		c.Reduce(ReduceMax, most, x, axes[:], 0)
		c.Sub(shifted, x, most)
		c.Set(e, elementwise.Exp, nil, elementwise.Of(shifted))
		c.Reduce(ReduceSum, lse, e, axes[:], 0)
		c.Set(lse, elementwise.Log, nil, elementwise.Of(lse))
		c.Sub(out, shifted, lse)
		return c.End()
	})
}

// SoftmaxGrad is dx = (dy − Σ dy·y) · y over an axis, where y is the result of Softmax.
func SoftmaxGrad(dx, dy, y kernel.View, axis int) error {
	if done, err := softmaxRows(axis, 0, dx, y, dy); done {
		return err
	}
	return elementwise.NewPieces(y.Shape, axis, []kernel.View{dx}, dy, y).Run(func(_ int64, of func(kernel.View) kernel.View) error {
		dx, dy, y, axes := of(dx), of(dy), of(y), [...]int{axis}
		c := NewChain(y)
		product, sum := c.Temp(y.Shape), c.along(y.Shape, axes[:])
		c.Mul(product, dy, y)
		c.Reduce(ReduceSum, sum, product, axes[:], 0)
		c.Sub(product, dy, sum)
		c.Mul(dx, product, y)
		return c.End()
	})
}

// LogSoftmaxGrad is dx = dy − exp(y) · Σ dy over an axis, where y is the result of LogSoftmax.
func LogSoftmaxGrad(dx, dy, y kernel.View, axis int) error {
	if done, err := softmaxRows(axis, 1, dx, y, dy); done {
		return err
	}
	return elementwise.NewPieces(y.Shape, axis, []kernel.View{dx}, dy, y).Run(func(_ int64, of func(kernel.View) kernel.View) error {
		dx, dy, y, axes := of(dx), of(dy), of(y), [...]int{axis}
		c := NewChain(y)
		p, sum := c.Temp(y.Shape), c.along(y.Shape, axes[:])
		c.Set(p, elementwise.Exp, nil, elementwise.Of(y))
		c.Reduce(ReduceSum, sum, dy, axes[:], 0)
		c.AddTimes(p, dy, -1, p, sum)
		c.Set(dx, elementwise.Identity, nil, elementwise.Of(p))
		return c.End()
	})
}

// softmaxRows computes the softmax of x in one pass over each row. With dy it computes the gradient, and x is
// the result of the softmax. It does nothing and returns false if the axis is not the last one, the elements
// are float64, or out overlaps an operand without being it.
func softmaxRows(axis int, log C.int32_t, out, x kernel.View, dy ...kernel.View) (done bool, err error) {
	rank := len(x.Shape)
	if axis != rank-1 || rank > kernel.MaxRank || x.DType == dtype.Float64 || kernel.Overlaps(out, x) || len(dy) > 0 && kernel.Overlaps(out, dy[0]) {
		return false, nil
	}
	if x.Len() == 0 {
		return true, nil
	}
	width := x.Shape[axis]
	o := C.struct_softmax{space: cSpace(x.Shape), width: C.int64_t(width), log: log}
	views := [...]kernel.View{out, x, {}}
	copy(views[2:], dy)
	for i, to := range []*C.struct_operand{&o.out, &o.x, &o.dy}[:2+len(dy)] {
		if *to, err = over(views[i], x.Shape); err != nil {
			return true, err
		}
	}
	rows, each := x.Len()/width, max(elementwise.PieceLen/width, 1)
	if rows < 2*each {
		runSoftmax(&o, 0, rows)
		return true, nil
	}
	shared := o // by threads, in memory that outlives this function
	thread.Parallel(rows, each, func(lo, hi int64) { runSoftmax(&shared, lo, hi) })
	return true, nil
}

// runSoftmax computes rows [lo, hi) of o.
func runSoftmax(o *C.struct_softmax, lo, hi int64) {
	if o.dy.data == nil {
		C.softmax_rows(o, C.int64_t(lo), C.int64_t(hi))
	} else {
		C.softmax_grad_rows(o, C.int64_t(lo), C.int64_t(hi))
	}
}
