package rowwise

/*
#cgo noescape norm_rows
#cgo nocallback norm_rows
#include "rows_op.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// RMSNorm normalises over the trailing dimensions that gamma has: rstd = 1/√(mean(x²) + eps),
// y = x · rstd · gamma. rstd has x's leading dimensions and may have no data. y may be x.
func RMSNorm(y, rstd, x, gamma kernel.View, eps float64) error {
	o, rows, err := newNorm(rowNorm{out: y, rstd: rstd, x: x, gamma: gamma}, len(x.Shape)-len(gamma.Shape))
	if err != nil || rows == 0 {
		return err
	}
	o.eps = C.double(eps)
	runNorm(&o, rows)
	return nil
}

func runNorm(o *C.struct_norm, rows int64) {
	each := max(elementwise.PieceLen/int64(o.width), 1)
	if rows < 2*each {
		C.norm_rows(o, 0, C.int64_t(rows))
		return
	}
	shared := *o // by threads, in memory that outlives this function
	thread.Parallel(rows, each, func(lo, hi int64) { C.norm_rows(&shared, C.int64_t(lo), C.int64_t(hi)) })
}

// RMSNormGrad is the gradient of RMSNorm: with g = dy·gamma, dx = rstd·(g − x·rstd²·mean(g·x)),
// and dgamma = Σ dy·x·rstd over the leading dimensions.
func RMSNormGrad(dx, dgamma, dy, x, rstd, gamma kernel.View) error {
	n := rowNorm{out: dx, rstd: rstd, dy: dy, x: x, gamma: gamma}
	sums, release, err := n.grad(len(x.Shape)-len(gamma.Shape), 1, func(o *C.struct_norm, lo, hi C.int64_t, sums *C.double) { C.rms_norm_grad_rows(o, lo, hi, sums) })
	defer release()
	if err != nil {
		return err
	}
	return Reduce(ReduceSum, dgamma, sums.Select(1, 0), []int{0}, 0)
}

// rowNorm has the operands of a norm, or of its gradient, of which out is dx. Those that it lacks have no data.
type rowNorm struct{ out, mean, rstd, dy, x, gamma, beta kernel.View }

// grad calls f for parts of the rows, and returns their sums: the given number of rows of sums, or none, for each part.
func (n rowNorm) grad(outer int, each int64, f func(o *C.struct_norm, lo, hi C.int64_t, sums *C.double)) (sums kernel.View, release func(), err error) {
	o, rows, err := newNorm(n, outer)
	if err != nil {
		return kernel.View{}, func() {}, err
	}
	// The rows of a part depend on the shape only, and so does the order of additions.
	const parts = 64
	shape := n.x.Shape[outer:]
	width := kernel.View{Shape: shape}.Len()
	some := max(elementwise.PieceLen/max(width, 1), (rows+parts-1)/parts, 1)
	count := (rows + some - 1) / some
	sums, release = kernel.TemporaryOf(dtype.Float64, slices.Concat([]int64{count, each}, shape)...)
	clear(sums.Doubles())
	thread.Parallel(count, 1, func(lo, hi int64) {
		for k := lo; k < hi; k++ {
			var to *C.double
			if each > 0 {
				to = (*C.double)(unsafe.Add(sums.Data, 8*k*each*width))
			}
			f(&o, C.int64_t(k*some), C.int64_t(min((k+1)*some, rows)), to)
		}
	})
	return sums, release, nil
}

// newNorm describes a norm over the dimensions of x but for the outer ones, and counts the rows.
func newNorm(n rowNorm, outer int) (o C.struct_norm, rows int64, err error) {
	x, rank := n.x, len(n.x.Shape)
	if outer < 0 || rank > kernel.MaxRank {
		return o, 0, fmt.Errorf("kernel: %v is not normalised over %v; at most %d dimensions are supported", x.Shape, n.gamma.Shape, kernel.MaxRank)
	}
	if x.Len() == 0 {
		return o, 0, nil
	}
	for _, v := range []*kernel.View{&n.mean, &n.rstd} {
		if v.Data != nil {
			*v = kernel.Kept(v.Leading(outer), rank, kernel.AxesFrom(outer, rank))
		}
	}
	o.space, o.width = cSpace(x.Shape), C.int64_t(kernel.View{Shape: x.Shape[outer:]}.Len())
	for i, to := range [...]*C.struct_operand{&o.out, &o.mean, &o.rstd, &o.dy, &o.x, &o.gamma, &o.beta} {
		if *to, err = over([...]kernel.View{n.out, n.mean, n.rstd, n.dy, x, n.gamma, n.beta}[i], x.Shape); err != nil {
			return o, 0, err
		}
	}
	return o, x.Len() / int64(o.width), nil
}

// moments returns the mean of x over axes and 1/√(variance + eps), without the dimensions axes.
func (c *Chain) moments(x kernel.View, axes []int, eps float64) (mean, rstd kernel.View) {
	mean, rstd = c.Temp(kernel.Others(x.Shape, axes)), c.Temp(kernel.Others(x.Shape, axes))
	c.Reduce(ReduceMean, mean, x, axes, 0)
	c.Reduce(ReduceVar, rstd, x, axes, 0)
	c.inverseDeviation(rstd, rstd, eps)
	return mean, rstd
}

// normalize is out = (x − mean) · rstd. mean and rstd lack the dimensions axes.
func (c *Chain) normalize(out, x, mean, rstd kernel.View, axes []int) {
	c.Set(out, elementwise.SubMul, nil, elementwise.Of(x), elementwise.Of(kernel.Kept(mean, len(x.Shape), axes)), elementwise.Of(kernel.Kept(rstd, len(x.Shape), axes)))
}

// normalizeGrad is dx = rstd·(g − mean(g) − normed·mean(g·normed)), the means being over
// axes. It changes g.
func (c *Chain) normalizeGrad(dx, g, normed, rstd kernel.View, axes []int) {
	rank := len(g.Shape)
	product := c.Temp(g.Shape)
	m, s := c.Temp(kernel.Others(g.Shape, axes)), c.Temp(kernel.Others(g.Shape, axes))
	c.Mul(product, g, normed)
	c.Reduce(ReduceMean, m, g, axes, 0)
	c.Reduce(ReduceMean, s, product, axes, 0)
	c.Sub(g, g, kernel.Kept(m, rank, axes))
	c.AddTimes(g, g, -1, normed, kernel.Kept(s, rank, axes))
	c.Mul(dx, g, kernel.Kept(rstd, rank, axes))
}

// Affine is out = z · weight + bias; either may have no data.
func (c *Chain) Affine(out, z, weight, bias kernel.View) {
	one := []elementwise.Number{elementwise.Real(1)}
	switch {
	case weight.Data != nil && bias.Data != nil:
		c.Set(out, elementwise.Addcmul, one, elementwise.Of(bias), elementwise.Of(z), elementwise.Of(weight))
	case weight.Data != nil:
		c.Mul(out, z, weight)
	case bias.Data != nil:
		c.Set(out, elementwise.Add, one, elementwise.Of(z), elementwise.Of(bias))
	case out.Data != z.Data:
		c.Set(out, elementwise.Identity, nil, elementwise.Of(z))
	}
}

// Give copies value to out if out has data.
func (c *Chain) Give(out, value kernel.View) {
	if out.Data != nil {
		c.Set(out, elementwise.Identity, nil, elementwise.Of(value))
	}
}

// LayerNorm normalises over the trailing dimensions from axis on: y = (x − mean) · rstd ·
// weight + bias, rstd = 1/√(var + eps). mean and rstd have x's leading dimensions. weight, bias,
// mean and rstd may have no data.
func LayerNorm(y, mean, rstd, x kernel.View, axis int, weight, bias kernel.View, eps float64) error {
	if x.Len() > 0 && x.DType != dtype.Float64 && len(x.Shape) <= kernel.MaxRank {
		o, rows, err := newNorm(rowNorm{out: y, mean: mean, rstd: rstd, x: x, gamma: weight, beta: bias}, axis)
		if err != nil {
			return err
		}
		o.eps, o.centred = C.double(eps), 1
		runNorm(&o, rows)
		return nil
	}
	c := NewChain(x)
	axes := kernel.AxesFrom(axis, len(x.Shape))
	m, s := c.moments(x, axes, eps)
	normed := c.Temp(x.Shape)
	c.normalize(normed, x, m, s, axes)
	c.Affine(y, normed, weight, bias)
	c.Give(mean, m)
	c.Give(rstd, s)
	return c.End()
}

// LayerNormGrad is the gradient of LayerNorm. Outputs without data are left out.
func LayerNormGrad(dx, dweight, dbias, dy, x kernel.View, axis int, mean, rstd, weight kernel.View) error {
	if x.DType != dtype.Float64 && len(x.Shape) <= kernel.MaxRank {
		n := rowNorm{out: dx, mean: mean, rstd: rstd, dy: dy, x: x, gamma: weight}
		each := int64(2)
		if dweight.Data == nil && dbias.Data == nil {
			each = 0
		}
		sums, release, err := n.grad(axis, each, func(o *C.struct_norm, lo, hi C.int64_t, sums *C.double) { C.layer_norm_grad_rows(o, lo, hi, sums) })
		defer release()
		for i, d := range []kernel.View{dweight, dbias} {
			if err == nil && d.Data != nil {
				err = Reduce(ReduceSum, d, sums.Select(1, int64(i)), []int{0}, 0)
			}
		}
		return err
	}
	c := NewChain(x)
	axes, leading := kernel.AxesFrom(axis, len(x.Shape)), kernel.AxesFrom(0, axis)
	normed, g := c.Temp(x.Shape), c.Temp(x.Shape)
	c.normalize(normed, x, mean, rstd, axes)
	if dweight.Data != nil {
		sum := c.Temp(x.Shape[axis:])
		c.Mul(g, dy, normed)
		c.Reduce(ReduceSum, sum, g, leading, 0)
		c.Set(dweight, elementwise.Identity, nil, elementwise.Of(sum))
	}
	if dbias.Data != nil {
		sum := c.Temp(x.Shape[axis:])
		c.Reduce(ReduceSum, sum, dy, leading, 0)
		c.Set(dbias, elementwise.Identity, nil, elementwise.Of(sum))
	}
	if dx.Data != nil {
		c.Set(g, elementwise.Identity, nil, elementwise.Of(dy))
		c.Affine(g, g, weight, kernel.View{})
		c.normalizeGrad(dx, g, normed, rstd, axes)
	}
	return c.End()
}
