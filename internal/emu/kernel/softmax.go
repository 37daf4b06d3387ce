package kernel

/*
#cgo noescape softmax_rows
#cgo nocallback softmax_rows
#cgo noescape softmax_grad_rows
#cgo nocallback softmax_grad_rows
#include "rows_op.h"
*/
import "C"

import "github.com/goascend/cann/internal/dtype"

// Softmax is out = exp(x − max) / Σ exp(x − max) over an axis.
func Softmax(out, x View, axis int) error {
	if done, err := softmaxRows(axis, 0, out, x); done {
		return err
	}
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
	if done, err := softmaxRows(axis, 1, out, x); done {
		return err
	}
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
	if done, err := softmaxRows(axis, 0, dx, y, dy); done {
		return err
	}
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
	if done, err := softmaxRows(axis, 1, dx, y, dy); done {
		return err
	}
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

// softmaxRows computes the softmax of x in one pass over each row. With dy it computes the gradient, and x is
// the result of the softmax. It does nothing and returns false if the axis is not the last one, the elements
// are float64, or out overlaps an operand without being it.
func softmaxRows(axis int, log C.int32_t, out, x View, dy ...View) (done bool, err error) {
	rank := len(x.Shape)
	if axis != rank-1 || rank > MaxRank || x.DType == dtype.Float64 || overlaps(out, x) || len(dy) > 0 && overlaps(out, dy[0]) {
		return false, nil
	}
	if x.Len() == 0 {
		return true, nil
	}
	width := x.Shape[axis]
	o := C.struct_softmax{space: cSpace(x.Shape), width: C.int64_t(width), log: log}
	views := [...]View{out, x, {}}
	copy(views[2:], dy)
	for i, to := range []*C.struct_operand{&o.out, &o.x, &o.dy}[:2+len(dy)] {
		if *to, err = over(views[i], x.Shape); err != nil {
			return true, err
		}
	}
	rows, each := x.Len()/width, max(pieceLen/width, 1)
	if rows < 2*each {
		runSoftmax(&o, 0, rows)
		return true, nil
	}
	shared := o // by threads, in memory that outlives this function
	Parallel(rows, each, func(lo, hi int64) { runSoftmax(&shared, lo, hi) })
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
